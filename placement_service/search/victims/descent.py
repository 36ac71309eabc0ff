"""The descent from goal to goal with one victim model: each is bounded as a linear program, then
settled in whole numbers where the plan does not reach that bound.

Each solution in whole numbers is a target: what it keeps stays, waiting gangs go where it puts
them, and then gangs that left go home again where they can.
"""

from __future__ import annotations

import random
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.regions import Regions
from placement_service.entities.solution import TierName
from placement_service.formulation.arrays import Floats
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import hold, keep
from placement_service.search.victims.aim import aim
from placement_service.search.victims.bounds import bound_goals
from placement_service.search.victims.neighbourhoods import Neighbourhoods, improve
from placement_service.search.victims.regions import Shortfalls, settle_regions
from placement_service.search.victims.solver_threads import SolverThreads
from placement_service.search.victims.sums import bound_sum
from placement_service.search.victims.whole_numbers import WholeNumbers, begin_whole, is_far


class _Begun(NamedTuple):
    """The linear program of a goal that is being solved, with those before it at these bounds."""

    goal: int
    bounds: tuple[int, ...]
    solving: Future[Solved]


class Descent:
    """The descent from goal to goal: `held` of them are settled, and are rows in the model."""

    def __init__(
        self,
        state: State,
        threads: SolverThreads,
        rng: random.Random,
        model: VictimModel,
        *,
        sharp: bool = False,
        beside: Descent | None = None,
    ) -> None:
        """Neighbourhoods of the descent `beside` are settled in turn with its own."""
        self.state, self._threads = state, threads
        self.goals = state.goals
        self.sharp = sharp
        self.model = model
        #: The terms of each goal. They are made once, because some add variables, which solutions
        #: must know.
        self._terms = [g.terms(self.model) if g.tier.provable else None for g in self.goals]
        self.held = 0
        self._regions = Regions(self.model)
        self._neighbourhoods = Neighbourhoods(
            state,
            self.model,
            self._regions,
            self._terms,
            rng,
            partial(aim, state, self.model),
            leads=sharp,
        )
        self._beside = beside
        #: What these are held at.
        self._held_at: list[int] = []
        #: Bounds of the goals, each with those before it at their bounds.
        self.bounds: list[int] = []
        #: The last solution in whole numbers.
        self._last: Floats | None = None
        #: Solutions of linear programs, by goal.
        self._relaxed: dict[int, Floats | None] = {}
        #: By how much regions of plans have less of a goal than they could, by goal.
        self._shortfalls: dict[int, Shortfalls] = {}
        #: The linear program that was begun before it is needed.
        self.begun: _Begun | None = None
        #: The goal that is being settled in whole numbers beside all else.
        self._whole: WholeNumbers | None = None
        #: Whether it is small or has settled a goal as a whole. Then the next ones mostly take less
        #: time than their neighbourhoods.
        self._solves = self.model.size <= state.parameters.victim_variables
        #: Whether it bounds the goals that come next by more than what was known.
        self.says_more = False
        #: The first open goal when all priorities were bounded together.
        self._summed = -1
        #: Whether all is held at its bound, so that what follows are bounds of the problem.
        self._learns = True

    def begin(self) -> None:
        """Begins to solve the linear program of the first open goal. Where the plan is far from
        its bound all else hardly settles it, so whole numbers begin at once as well.
        """
        state, i = self.state, self.state.first_open
        terms = self._terms[i] if i < len(self.goals) else None
        if not terms or any(floor is not None for floor in state.worth.floors):
            return
        bounds, mark = tuple(state.bounds[:i]), self.model.mark()
        for goal, mine, bound in zip(self.goals, self._terms, bounds, strict=False):
            hold(goal, mine, self.model, bound)
        question = self.model.ask_relaxed(
            terms,
            maximize=not self.goals[i].tier.minimize,
            # At the very end it is of no use, and the search would wait for it.
            seconds=state.at_most(state.left * state.parameters.victim_solve_share),
        )
        self.begun = _Begun(i, bounds, self._threads.begin(question))
        if is_far(self.state, i):
            self._whole = self._begin_whole(i, far=True)
        self.model.undo(mark)

    def _begin_whole(self, i: int, *, far: bool = False) -> WholeNumbers:
        """Begins to settle a goal in whole numbers; those before it are held."""
        terms = self._terms[i] or []
        return begin_whole(self.state, self._threads, self.model, terms, i, far=far)

    def run(
        self, share: float, *, patient: bool = False, until: Future[Solved] | None = None
    ) -> None:
        """Goes on as far as it can. One goal may take this share of the time in whole numbers. If
        it is `patient`, a large model ends where its linear program says nothing and neighbourhoods
        still help: whole numbers take long there, and the sharp model says more. With `until` it
        ends when that is solved, and asks for no whole numbers until then.
        """
        # Other models may have learned more meanwhile.
        del self.bounds[self.held :]
        while self.state.left > 0:
            if self.held == len(self.bounds):
                known = self.state.bounds
                self._relax()
                self.says_more = self.state.bounds != known
            if self.held == len(self.bounds):
                return
            if not self._is_reached(self.held):
                if self.sharp and self._learns and not self.says_more:
                    # The other model, which is much smaller, says as much.
                    if self._relaxed.get(self.held) is None:
                        return
                    if not (self._beside and self._solves_beside(self._beside)):
                        self._improve_at_length()
                    return
                if until:
                    self._improve(1.0, until)
                    if self._is_reached(self.held):
                        continue
                    return
                if patient and not (self._solves or self.says_more):
                    self._improve(self.state.parameters.victim_patient_share)
                    if self._is_reached(self.held):
                        continue
                    if not self._neighbourhoods.ended_in_vain(self.held):
                        return
                if not self._settle_next(share):
                    return
            else:
                self._keep(self.bounds[self.held])

    def _settle_next(self, share: float) -> bool:
        """Settles the next goal, or improves the plan; returns false where it does not get on."""
        brief = self.state.parameters.victim_first_share
        # Of a small model, or where the goal before was settled as a whole, that mostly takes less
        # time than neighbourhoods. Pods that move have none.
        near = self.model.moves
        if not ((near or self._solves) and self._solve(brief, near=near)):
            if not self._solves_beside(self):
                self._improve_at_length()
            if self._is_reached(self.held):
                return True
            if not self._solve(share):
                return False
        self._solves = True
        return self._learns or self.sharp

    def _is_reached(self, i: int) -> bool:
        """Whether the plan or the last solution has all that a goal can be."""
        if self._learns and self.state.first_open > i:
            return True
        terms = self._terms[i]
        return not terms or (self._last is not None and _value(terms, self._last) == self.bounds[i])

    def _keep(self, reached: int) -> None:
        keep(self.goals[self.held], self.model, reached)
        self._learns = self._learns and reached == self.state.bounds[self.held]
        self._held_at.append(reached)
        self.held += 1

    def neighbourhoods_of(self, i: int, shortfalls: Shortfalls | None) -> Neighbourhoods:
        """Those for a goal of which regions of plans have so much less than they could."""
        self._neighbourhoods.turn_to(i, self._relaxed.get(i), shortfalls)
        return self._neighbourhoods

    @property
    def level(self) -> int:
        """The level whose domains are the regions of its model."""
        return self._regions.level

    def _improve(self, share: float, until: Future[Solved] | None = None) -> None:
        """A better plan for the next goal, from one neighbourhood after another, in this share of
        the time, or until something else is solved.
        """
        if not self._improves():
            return
        models = [self] if self._beside is None else [self, self._beside]
        kinds = [
            one.neighbourhoods_of(
                self.held,
                # Those of another level have other regions.
                self._shortfalls.get(self.held) if one.level == self.level else None,
            )
            for one in models
        ]
        improve(self.state, self.held, kinds, self._threads, share, until)

    def _improve_at_length(self) -> None:
        """The same in so much of the time that whole numbers have theirs, where that is enough."""
        self._improve(self.state.parameters.victim_share if self._ends_in_time() else 1.0)

    def _improves(self) -> bool:
        """Whether neighbourhoods are of use: the plan has all that earlier goals have to be."""
        return not self.model.moves and self._plan_reaches(self.held)

    # --- bounds -----------------------------------------------------------------

    def bound_goals(self) -> None:
        """Bounds all goals by linear programs before anything else is done."""
        bound_goals(self.state, self.model, self._terms)

    def bound_sum(self) -> None:
        """Bounds all priorities together, where more is settled than the last time."""
        settled = self.state.first_open
        if self._learns and settled != self._summed:
            self._summed = settled
            bound_sum(self.state, self.model, self._terms)

    def _relax(self) -> None:
        """Bounds of the goals that come next, up to the end of a tier, as linear programs.

        What later tiers can reach at most depends on what this one does.
        """
        state, mark = self.state, self.model.mark()
        del self.bounds[self.held :]
        tier: TierName | None = None
        for i, goal in enumerate(self.goals[self.held :], self.held):
            terms = self._terms[i]
            if terms is None or state.left <= 0 or tier not in (None, goal.tier):
                break
            if self._learns:
                state.learn_all(self.bounds)
            bound = state.bounds[i] if self._learns else goal.trivial_bound()
            again = self._says_the_same(i, terms)
            if again:
                bound = self.bounds[i - 1]
            floor = state.worth.floors[i]
            if floor is not None:
                bound = floor
            elif terms and not again and not (self._learns and state.first_open > i):
                large = self.model.size > state.parameters.victim_variables
                if self.sharp and tier and large:
                    # That takes seconds, and is of use only when the goal before is settled.
                    break
                tier = goal.tier
                tighter = self._tighter(i, terms, bound) if large else bound
                if tighter is None:
                    break
                bound = tighter
            self.bounds.append(bound)
            if self.sharp and tier and self._learns and bound == state.bounds[i]:
                # It says no more of the next goal, so it is not asked about others.
                break
            keep(goal, self.model, bound)
        self.model.undo(mark)
        if self._learns:
            state.learn_all(self.bounds)

    def _tighter(self, i: int, terms: Terms[int], bound: int) -> int | None:
        """The bound of a goal from its linear program, and where the model is sharp from its
        regions; None where the program is not solved.
        """
        better = max if self.goals[i].tier.minimize else min
        found = self._relaxation(i, terms)
        self._relaxed[i] = found.values
        if found.bound is None:
            return None
        bound = better(found.bound, bound)
        if self.sharp and bound != self.state.worth.enough[i]:
            if self._learns:
                # The regions may take the rest of the time.
                self.state.learn_all([*self.bounds, bound])
            by_region = settle_regions(self.state, self._regions, found, self._threads)
            if by_region:
                self._shortfalls[i] = by_region.shortfalls
                bound = bound if by_region.bound is None else better(by_region.bound, bound)
        return bound

    def _relaxation(self, i: int, terms: Terms[int]) -> Solved:
        """The linear program of a goal, with those before it at their bounds."""
        begun, self.begun = self.begun, None
        if begun and (begun.goal, begun.bounds) == (i, tuple(self.bounds)):
            return begun.solving.result()
        maximize = not self.goals[i].tier.minimize
        return self.model.relaxed(terms, maximize=maximize, seconds=self.state.left)

    def _says_the_same(self, i: int, terms: Terms[int]) -> bool:
        """Whether a goal counts the same as the goal before it, of which nothing may be spent."""
        goals = self.goals
        return (
            i > 0
            and bool(terms)
            and goals[i].tier is goals[i - 1].tier
            and self.state.worth.floors[i - 1] is None
            and terms == self._terms[i - 1]
        )

    def _solve(self, share: float, *, near: bool = False) -> bool:
        """Settles goals in whole numbers; returns false when that finds nothing.

        The goals of a tier may well be at their bounds together, and then one solution says
        so: the last is tried first, with those before at their bounds, then the one before. Where
        neighbourhoods did not bring the next one to its bound, hardly any plan has it.

        With `near` only what is close to the bound of the next goal is looked for: that leaves
        hardly any choice, and the best is often there.
        """
        state, at = self.state, self.held
        tier = self.goals[at].tier
        last = max(i for i in range(at, len(self.bounds)) if self.goals[i].tier is tier)
        if near or self._improves():
            last = at
        for k in range(last, at - 1, -1):
            terms = self._terms[k]
            if not terms or (k > at and self._says_the_same(k, terms)):
                continue
            # Only what is better than the plan is looked for.
            beyond = reached = state.worth.enough[k] if self._plan_reaches(k) else None
            if near:
                part = ((reached or 0) - self.bounds[k]) * state.parameters.victim_near
                if reached is None or not int(part):
                    return False
                beyond = self.bounds[k] + int(part)
            if not self._ends_in_time():
                return False
            mark = self.model.mark()
            for i in range(at, k):
                keep(self.goals[i], self.model, self.bounds[i])
            seconds = state.left * (share if k == at else share / 4)
            found = self.model.whole(
                terms,
                maximize=not self.goals[k].tier.minimize,
                seconds=max(state.parameters.least_seconds, state.at_most(seconds)),
                beyond=beyond,
            )
            self.model.undo(mark)
            if found.values is not None:
                self._take(k, terms, found)
                return True
            if reached is not None and found.bound == reached:
                self._settle(k, reached)
                return True
            if found.bound is not None:
                self._learn(k, found.bound)
            if state.left <= 0:
                break
        return False

    def _solves_beside(self, other: Descent) -> bool:
        """Settles the next goal by the model of this or the other descent in whole numbers, and
        improves the plan until that is done; false where it does not: mostly it ends in time where
        the linear program was solved soon.
        """
        state, k, whole = self.state, self.held, self._whole
        if whole is None or whole.goal != k:
            if other.held == k and (busy := self._threads.owed):
                self._improve(1.0, busy)
            least = state.parameters.victim_beside * other.model.relaxing_seconds
            able = self.sharp and other.held == k and self._threads.idle > 1 and self._improves()
            if not able or state.problem.policy.deterministic or state.left < least:
                return False
            whole = other._begin_whole(k)
        self._whole = None
        self._improve(1.0, whole.solving)
        found = whole.solving.result()
        if found.values is not None and not self._is_reached(k):
            aim(state, whole.model, found.values)
        if found.bound is not None:
            # Where nothing is better than the plan was, none was found since.
            self._learn(k, found.bound)
        return True

    def _ends_in_time(self) -> bool:
        """Whether there is time for whole numbers: a large model takes some however little it may.
        No clock decides where the same request must take the same path.
        """
        least = self.state.parameters.victim_root * self.model.relaxing_seconds
        return self.state.problem.policy.deterministic or self.state.left >= least

    def _plan_reaches(self, k: int) -> bool:
        """Whether the plan has all that goals before the k-th have to be."""
        least = [*self._held_at, *self.bounds[self.held : k]]
        reached = zip(self.goals, self.state.worth.enough, least, strict=False)
        return all(v <= m if goal.tier.minimize else v >= m for goal, v, m in reached)

    def _take(self, k: int, terms: Terms[int], found: Solved) -> None:
        """Holds the goals that a solution settles, the last one at its value in the solution."""
        assert found.values is not None
        self._last = found.values
        while self.held < k:
            self._keep(self.bounds[self.held])
        reached = _value(terms, found.values)
        if found.bound is not None:
            self._learn(k, found.bound)
        if not (self._learns and self.state.first_open > k):
            # The plan does not reach the solution.
            aim(self.state, self.model, found.values)
        self._keep(reached)

    def _settle(self, k: int, reached: int) -> None:
        """Holds the goals that the plan settles: no other has more of the last one."""
        self._learn(k, reached)
        while self.held < k:
            self._keep(self.bounds[self.held])
        self._keep(reached)

    def _learn(self, k: int, bound: int) -> None:
        """Takes a bound of a goal, with those before it at their bounds, if it says more than what
        is known. Those after it are then bounded anew.
        """
        worse = max if self.goals[k].tier.minimize else min
        if worse(bound, self.bounds[k]) != self.bounds[k]:
            self.bounds[k:] = [bound]
            if self._learns:
                self.state.learn(k, bound)


def _value(terms: Terms[int], values: Floats) -> int:
    return round(float(sum(w * values[v] for v, w in terms)))
