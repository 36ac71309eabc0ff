"""The best plan so far, and what is proven about it.

Better plans and better bounds are reported at once; the listener may stop
listening at any time. Values come from plans alone and bounds from relaxations
alone, so neither can undo the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from placement_service.bounds.configurations import Configurations
from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.entities.solution import Assignment, Limit, Solution, TierName
from placement_service.formulation.eviction.disruption_budgets import budgets_hold
from placement_service.formulation.eviction.looser_bounds import (
    looser_bounds,
    looser_floors,
    paired,
)
from placement_service.formulation.eviction.winners import rights_hold
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import (
    Bounds,
    Floors,
    Worth,
    report_plan,
    trivial_bounds,
    worth,
    worth_at_home,
)
from placement_service.formulation.plan import Plan, assignments, from_solution, may_lie_so
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import bound_beside
from placement_service.heuristic.queue_ledger import queues_hold
from placement_service.heuristic.slot_layout import Layout
from placement_service.search.groundwork import Ahead, Groundwork
from placement_service.search.parameters import DEFAULTS, SearchParameters

Report = Callable[[Solution], None]


def never() -> bool:
    """Somebody wants the answer as long as there is time."""
    return False


class State:
    """The best plan and the best bounds so far; `target` are the gangs that plans should place.

    `layout` says how their parts may fill the domains, None when nothing does. The bound of a goal
    holds for plans that reach the bounds of all goals before it.

    Without `report` nobody is told; when `until` says so, no time is left.
    """

    def __init__(
        self,
        problem: Problem,
        start: Solution,
        deadline: float,
        report: Report | None,
        parameters: SearchParameters = DEFAULTS,
        ground: Groundwork | None = None,
        *,
        until: Callable[[], bool] = never,
    ) -> None:
        self.problem = problem
        self.parameters = parameters
        self.deadline = deadline
        self.ground = ground or Groundwork(problem, parameters)
        self.builder = self.ground.builder
        self.plan: Plan = from_solution(problem, start)
        self.worth: Worth = worth(problem, self.plan)
        self.goals = self.worth.goals
        self._home = worth_at_home(problem, self.goals)
        self.bounds = trivial_bounds(self.goals)
        #: Whether they hold for gangs that the problem refuses (`Problem.mends`), too.
        self._mended = False
        #: Bounds of goals of which later ones may spend some, by their place.
        self._best: dict[int, int] = {}
        #: How much each tier can be in sum over priorities, in any plan that is as good as this one
        #: up to the first open goal.
        self.most: dict[TierName, int] = {}
        self.target: tuple[GangIdx, ...] = ()
        self.layout: Layout | None = None
        #: Gangs of the target that have blocks, where not all have one. It may be worth less than
        #: other plans, and is easier to complete.
        self.begun: Plan = {}
        self.fewest: dict[GangIdx, int] = {}
        #: So many goals have bounds that hold: those behind a tier of which some may still be
        #: spent are bounded for plans that spend nothing.
        self.known_goals = len(self.goals)
        #: The share of the last of them that later goals may spend.
        self.spends = 0.0
        #: The tiers of which later ones are still to spend some.
        self.to_spend: frozenset[TierName] = frozenset()
        #: The bounds for which it was counted, place by place, which gangs can lie whole where.
        self.counted_places: Bounds | None = None
        #: The plan whose parts were exchanged last.
        self.exchanged: Plan | None = None
        #: Whether domains were filled anew, all at once.
        self.refilled = False
        #: The floors for which whole gangs were sought for blocks of unlike racks.
        self.filled: Floors = ()
        self.phase = "bound"
        #: The plan that was reported last, and its counts of pods on nodes.
        self._assigned: tuple[Plan, tuple[Assignment, ...]] | None = None
        self._report = report
        self._until = until

    @property
    def counting(self) -> Counting:
        """Rows of the problem, counted when first asked for."""
        return self.ground.counting

    @property
    def configurations(self) -> Configurations | None:
        """What domains with most parts hold, found out when first asked for."""
        return self.ground.configurations

    @property
    def forest(self) -> Forest:
        """The domains of the problem as a forest, grown when first asked for."""
        return self.ground.forest

    @property
    def left(self) -> float:
        """Seconds to the deadline."""
        return 0.0 if self._until() else self.deadline - time.monotonic()

    def at_most(self, seconds: float) -> float:
        """Seconds for one step that may take so many. Where the answer must be repeatable only the
        deadline ends a step, because then the answer says that it was cut short.
        """
        return self.left if self.problem.policy.deterministic else min(self.left, seconds)

    @property
    def topology(self) -> int:
        """Which goal counts domains."""
        return next(i for i, goal in enumerate(self.goals) if goal.tier is TierName.TOPOLOGY)

    # --- what is proven -------------------------------------------------------------

    @property
    def first_open(self) -> int:
        """The first goal that could be proven and is not; the number of goals if none. Goals behind
        a tier of which some may still be spent are not looked at, nor is that goal once hardly any
        of what may be spent could be gained.
        """
        at = self.worth.first_open(self.bounds)
        return at if at < self.known_goals and not self._is_near(at) else len(self.goals)

    def _is_near(self, at: int) -> bool:
        """Whether a goal of which some may be spent lacks hardly anything."""
        value = self.worth.enough[at]
        most = self.parameters.near_enough * self.spends * abs(value - self._home[at])
        return at == self.known_goals - 1 and abs(self.bounds[at] - value) <= most

    @property
    def open_tier(self) -> TierName | None:
        """The tier of the first open goal."""
        at = self.first_open
        return self.goals[at].tier if at < len(self.goals) else None

    @property
    def proven(self) -> bool:
        """Whether every goal that can be proven is."""
        return self.open_tier is None

    def spends_before(self, tier: TierName) -> bool:
        """Whether some of a tier before this one is still to be spent for later ones."""
        later = self.goals[self.known_goals :]
        return any(goal.tier is tier for goal in later)

    @property
    def packs(self) -> bool:
        """Whether it is settled which gangs get room, so that only their places are open."""
        return self.open_tier is None or self.open_tier.minimize

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is proven yet, and nothing may be spent."""
        nothing_spent = all(floor is None for floor in self.worth.floors)
        return nothing_spent and self.bounds == self._after()

    def reaches(self, i: int) -> bool:
        """Whether the plan reaches the bound of the i-th goal."""
        return self.worth.enough[i] == self.bounds[i]

    def learn(self, i: int, bound: int) -> None:
        """Takes a bound of the i-th goal if it is tighter than the present one."""
        self.learn_all((*self.bounds[:i], bound))

    def learn_all(self, bounds: Sequence[int]) -> None:
        """Take bounds of the first goals, each of which holds for plans that reach those before."""
        if self._tighten(bounds):
            self.tell()

    def _tighten(self, bounds: Sequence[int]) -> bool:
        known: list[int] = []
        #: The bounds of the goals so far from the last tighter one on, of which nothing is known.
        chain: list[int] | None = None
        for i, bound in enumerate(bounds):
            old = beside = self.bounds[i]
            if chain is not None:
                # All that was proven about later goals assumed the old bound: less of one goal may
                # leave room for more of those below.
                beside = bound_beside(self.goals[i], self.goals, chain)
                floor = self.worth.floors[i]
                old = beside if floor is None else floor
            if self._may_learn(i) and (bound > old if self._minimizes(i) else bound < old):
                known.append(bound)
                chain = [*known]
            else:
                known.append(old)
                if chain is not None:
                    chain.append(beside)
        if chain is not None:
            self.bounds = (*known, *self._after(*chain)[len(known) :])
        return chain is not None

    def _may_learn(self, i: int) -> bool:
        """Whether a bound of a goal of the problem is one of the request."""
        topology = self.goals[i].tier is TierName.TOPOLOGY
        return self.problem.exact and (self.problem.bounds_topology or not topology)

    def _minimizes(self, i: int) -> bool:
        return self.goals[i].tier.minimize

    def _after(self, *known: int) -> Bounds:
        """Bounds of all goals when only those of the first ones are known."""
        later = trivial_bounds(self.goals, known)[len(known) :]
        floors = self.worth.floors[len(known) :]
        return (*known, *(b if f is None else f for b, f in zip(later, floors, strict=True)))

    def trust(self, bounds: Sequence[int], *, mended: bool = False) -> None:
        """Take bounds of all goals that were proven of a looser problem; they are `mended` where
        that one refuses nothing that may come.
        """
        self.bounds, self._mended = tuple(bounds), mended
        self.tell()

    def learn_most(self, most: Mapping[TierName, int]) -> None:
        """Takes what tiers can be in sum over priorities."""
        if self.problem.exact:
            self._learn_most(most)

    def _learn_most(self, most: Mapping[TierName, int]) -> None:
        known = self.most
        self.most |= {tier: min(value, known.get(tier, value)) for tier, value in most.items()}
        self.tell()

    def follow_floors(self, strict: State) -> None:
        """Look at the same goals as the search for another problem, of which this is a looser one,
        with the same floors.
        """
        floors, known = strict.worth.floors, strict.known_goals
        if self.problem.apart:
            floors = looser_floors(strict.problem, floors, self.problem)
            known = 1 + max(
                pair.loose for pair in paired(strict.problem, self.problem) if pair.mine < known
            )
        self.worth = replace(self.worth, floors=floors)
        self.bounds, self.known_goals = self._after(), known

    def trust_looser(self, loose: State) -> None:
        """Take bounds that were proven of a looser problem with other gangs."""
        found = looser_bounds(self.problem, self.bounds, loose.problem, loose.bounds)
        self.bounds, self._mended = self._after(*found), len(found) == len(self.goals)
        self.tell()

    def trust_most(self, loose: State) -> None:
        """Takes what tiers can be in sum over priorities from a looser problem: as much more than
        when nothing moves.
        """
        found = loose.most.items()
        self._learn_most({t: n - loose._at_home(t) + self._at_home(t) for t, n in found})

    def _at_home(self, tier: TierName) -> int:
        """What a tier is when nothing moves, in sum over priorities."""
        both = zip(self.goals, self._home, strict=True)
        return sum(value for goal, value in both if goal.tier is tier and goal.reported)

    def tolerate(self, tier: TierName, share: float, *, bounded: bool = False) -> None:
        """From now on later tiers may spend this share of what the tier has reached; of its bound
        if it is `bounded`, which leaves less to spend.

        Bounds of goals before the tier stay. All that was proven of later ones took the
        best of the tier for granted.
        """
        best = self.bounds if bounded else self.worth.values
        floors = self.worth.spending(tier, share, best, self._home)
        known = len(self.goals) if bounded else self.first_open + 1
        valid = self._after(*self.bounds[:known])
        fresh = [i for i, floor in enumerate(floors) if floor != self.worth.floors[i]]
        self._best |= {i: valid[i] for i in fresh}
        self.worth = replace(self.worth, floors=floors)
        before = min(fresh, default=len(floors))
        self.bounds = self._after(*self.bounds[:before])

    @property
    def _said(self) -> int:
        """So many goals have bounds that hold for the answer. Where extras come with their priority
        goals of other tiers stand in the midst of those that may still be spent, and gain by that.
        """
        tiers = [goal.tier for goal in self.goals[: self.known_goals]]
        return next(
            (i for i, tier in enumerate(tiers) if (self.to_spend - {tier}).intersection(tiers[:i])),
            self.known_goals,
        )

    # --- plans ----------------------------------------------------------------------

    def solution(self, *, final: bool = False) -> Solution:
        """The plan and its bounds as a `Solution`."""
        if self._assigned is None or self._assigned[0] is not self.plan:
            self._assigned = self.plan, assignments(self.problem, self.plan)
        result = report_plan(
            self.problem,
            self.worth,
            self._after(*self.bounds[: self._said]),
            home=self._home,
            phase=self.phase,
            fewest=self.fewest,
            best=self._best,
            assigned=self._assigned[1],
            mends=self.problem.mends and not (self._mended and self.proven),
            most=self.most,
        )
        if final and not result.proven:
            # With hardly any time left the last steps are not begun: that counts as out of time.
            out_of_time = self.left < self.parameters.least_seconds
            result = replace(result, limit=Limit.TIME if out_of_time else Limit.EFFORT)
        return result

    def accept(self, plan: Plan) -> bool:
        """Take a plan if it is better than the one we have."""
        return self._accept(plan, worth(self.problem, plan, self.worth.floors, self.goals))

    def _accept(self, plan: Plan, mine: Worth) -> bool:
        if mine.rank <= self.worth.rank:
            return False
        if not (budgets_hold(self.problem, plan) and rights_hold(self.problem, plan)):
            return False
        if not all(may_lie_so(g, plan.get(g.index, ())) for g in self.problem.gangs):
            return False
        if not queues_hold(self.problem, plan):
            return False
        assert not mine.beats(self.bounds), "a plan beats a proven bound"
        self.plan, self.worth = plan, mine
        self.tell()
        return True

    def follow(self, ahead: Ahead) -> None:
        """Take what a search found that began before there was a first answer, of which nothing
        may be spent.
        """
        self.target, self.layout, self.begun = ahead.target, ahead.layout, ahead.begun
        self.refilled = ahead.refilled
        self._tighten(ahead.bounds)
        if not self._accept(ahead.plan, ahead.worth):
            self.tell()

    def tell(self) -> None:
        """Reports the plan and its bounds."""
        if self._report is not None:
            self._report(self.solution())
