"""Which gangs give way to which: bounds and plans where running gangs may be disturbed. The victim
model bounds one goal after another, first as a linear program and then, where the plan does not
reach that bound, in whole numbers. Each solution in whole numbers is a target: what it keeps stays,
waiting gangs go where it puts them, and then gangs that left go home again where they can.

Where the simple model does not settle a goal in its time, the sharp one goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement_service.cp_sat.linear_model import Floats, Solved
from placement_service.cp_sat.victim_model import VictimModel
from placement_service.cp_sat.victim_target import Target, target_of
from placement_service.entities.solution import TierName
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang
from placement_service.formulation.tiers.admitted import Admitted
from placement_service.formulation.tiers.goal import Terms
from placement_service.heuristic.orders import orders
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.victims import spare_victims
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep


def settle_victims(state: State) -> None:
    """Better plans and better bounds, where many running gangs may give way."""
    open_gangs = sum(bool(g.home) for g in state.problem.gangs)
    if open_gangs >= state.parameters.victim_gangs and not state.proven and state.left > 0:
        state.phase = "victims"
        if not any(g.keeps for g in state.problem.gangs):
            _accept(state, spare_victims(state.builder, state.plan, until=state.deadline))
        descent = _Descent(state, large_only=True)
        descent.run()
        if descent.model.leaves_out and not state.proven and state.left > 0:
            _Descent(state).run()
        if not state.proven and state.left > 0:
            _Descent(state, sharp=True).run()


class _Descent:
    """The descent from goal to goal: `held` of them are settled, and are rows in the model."""

    def __init__(self, state: State, *, large_only: bool = False, sharp: bool = False) -> None:
        self.state = state
        self.goals = state.goals
        self.sharp = sharp
        self.model = VictimModel(
            state.problem,
            frozenset(_settled(state)),
            state.parameters.model,
            large_only=large_only,
            sharp=sharp,
        )
        #: The terms of each goal. They are made once, because some add variables, which solutions
        #: must know.
        self._terms = [g.terms(self.model) if g.tier.provable else None for g in self.goals]
        self.held = 0
        #: What these are held at.
        self._held_at: list[int] = []
        #: Bounds of the goals, each with those before it at their bounds.
        self.bounds: list[int] = []
        #: The last solution in whole numbers.
        self._last: Floats | None = None
        #: Whether all is held at its bound, so that what follows are bounds of the problem.
        self._learns = True

    def run(self) -> None:
        while self.state.left > 0:
            if self.held == len(self.bounds):
                self._relax()
            if self.held == len(self.bounds):
                return
            if self._is_reached(self.held):
                self._keep(self.bounds[self.held])
            elif not self._solve() or not (self._learns or self.sharp):
                return

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

    # --- bounds -----------------------------------------------------------------

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
                tier, maximize = goal.tier, not goal.tier.minimize
                if self.model.size > state.parameters.victim_variables:
                    found = self.model.relaxed(terms, maximize=maximize, seconds=state.left).bound
                    if found is None:
                        break
                    bound = min(found, bound) if maximize else max(found, bound)
            self.bounds.append(bound)
            keep(goal, self.model, bound)
        self.model.undo(mark)
        if self._learns:
            state.learn_all(self.bounds)

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

    def _solve(self) -> bool:
        """Settles goals in whole numbers; returns false when that finds nothing.

        The goals of a tier may well be at their bounds together, and then one solution says
        so: the last is tried first, with those before at their bounds, then the one before.
        """
        state, at = self.state, self.held
        tier = self.goals[at].tier
        last = max(i for i in range(at, len(self.bounds)) if self.goals[i].tier is tier)
        for k in range(last, at - 1, -1):
            terms = self._terms[k]
            if not terms or (k > at and self._says_the_same(k, terms)):
                continue
            mark = self.model.mark()
            for i in range(at, k):
                keep(self.goals[i], self.model, self.bounds[i])
            if self._plan_reaches(k):
                # Only what is as good as the plan is looked for.
                keep(self.goals[k], self.model, state.worth.enough[k])
            seconds = state.left / (2 if k == at else 4)
            found = self.model.whole(
                terms,
                maximize=not self.goals[k].tier.minimize,
                seconds=max(state.parameters.least_seconds, state.at_most(seconds)),
            )
            self.model.undo(mark)
            if found.values is not None:
                self._take(k, terms, found)
                return True
            if state.left <= 0:
                break
        return False

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
        tightened = False
        if found.bound is not None and found.bound != self.bounds[k]:
            self.bounds[k] = found.bound
            if self._learns:
                self.state.learn(k, found.bound)
            tightened = True
        if not (self._learns and self.state.first_open > k):
            # The plan does not reach the solution.
            self._aim(target_of(self.model, found.values))
        self._keep(reached)
        if tightened:
            self._relax()

    # --- plans ------------------------------------------------------------------

    def _aim(self, target: Target) -> None:
        """Makes the plan that a target describes, and takes it if it is better."""
        state = self.state
        problem, builder = state.problem, state.builder
        plan: dict[GangIdx, Units] = {g: units for g, units in target.staying.items() if units}
        residual = ResidualCapacity(problem)
        residual.take_plan(plan)
        for gang in sorted((problem.gangs[g] for g in target.places), key=self._hardest):
            if gang.index in plan:
                # Only extras of it move.
                builder.move(residual, plan, gang)
                continue
            nodes = target.places[gang.index]
            units = builder.place(residual, gang, within=nodes)
            if units is None:
                units = builder.place(residual, gang)
            if units is not None:
                plan[gang.index] = units
                residual.queues.charge(gang, units)
        left = [g for g in problem.gangs if g.home and plan.get(g.index, ()) != g.home]
        left.sort(key=lambda g: (-g.priority, -g.value, g.index))
        builder.put_back_home(residual, plan, [g.index for g in left])
        if self.model.moves:
            left.sort(key=self._hardest)
            for gang in (g for g in left if plan.get(g.index, ()) != g.home):
                builder.move(residual, plan, gang)
        _accept(state, plan)

    def _hardest(self, gang: Gang) -> tuple[int, int, int]:
        """Gangs with the narrowest domains first, then the largest."""
        levels = self.state.problem.levels
        narrowest = max(
            (levels[s.required].count for s in gang.scopes if s.required >= 0), default=0
        )
        gpus = self.state.problem.gpus
        size = sum(int(gpus[d.pod_class]) * d.count for d in gang.demands)
        return -narrowest, -size, gang.index


def _accept(state: State, plan: Plan) -> None:
    state.accept(state.builder.build(orders(state.problem)[0], start=plan))


def _settled(state: State) -> Iterator[GangIdx]:
    """Running gangs without which no plan is as good: this one leaves out less than they count."""
    gangs = state.problem.gangs
    if any(floor is not None for floor in state.worth.floors) or any(g.keeps for g in gangs):
        return
    for goal, value in list(zip(state.goals, state.worth.values, strict=True))[
        : state.first_open + 1
    ]:
        if isinstance(goal, Admitted):
            left_out = goal.trivial_bound() - value
            yield from (g for g in goal.gangs if gangs[g].home and gangs[g].value > left_out)


def _value(terms: Terms[int], values: Floats) -> int:
    return round(float(sum(w * values[v] for v, w in terms)))
