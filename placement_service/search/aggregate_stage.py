"""The descent of the aggregate model over the whole problem.

Gangs that part types cannot describe (`part_types.is_plain`) stay as the plan has them,
and then nothing is proven. Otherwise no plan is worse in the model than it is,
so its bounds are bounds of the problem.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from placement_service.cp_sat.aggregate.model import AggregateModel, aggregate_size
from placement_service.cp_sat.aggregate.part_types import is_plain
from placement_service.cp_sat.aggregate.variables import TooManyVariables
from placement_service.cp_sat.solving import Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import worth
from placement_service.formulation.tiers.goal import Terms
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend, keep


def settle_aggregate(state: State, *, most: int | None = None) -> None:
    """Better plans and better bounds of all goals, where the problem is small enough.

    `most` is another limit of variables.
    """
    if state.proven or state.left <= 0:
        return
    most = state.parameters.aggregate_variables if most is None else most
    plain = {g.index for g in state.problem.gangs if is_plain(state.counting, state.forest, g)}
    gangs = [state.problem.gangs[i] for i in plain]
    if not gangs:
        return
    if aggregate_size(state.problem, state.forest, gangs) > most:
        return
    with suppress(TooManyVariables, OutOfTime):
        descent = _Descent(state, plain, most)
        state.phase = "exact"
        descend(state.goals, descent.model, descent.settle)


class _Descent:
    """Raises TooManyVariables where the model has more than `most`, OutOfTime at the deadline."""

    def __init__(self, state: State, plain: set[GangIdx], most: int) -> None:
        self.state = state
        self.most = most
        self.problem = state.problem
        self.plain = plain
        self.fixed = {i: units for i, units in state.plan.items() if i not in plain}
        self.outside = worth(self.problem, self.fixed).values
        self.model = self._build()
        others = (g for g in self.problem.gangs if g.index not in plain and g.placeable)
        self.proves = self.model.kinds.exact and not any(g.pending or g.extras for g in others)

    def _build(self) -> AggregateModel:
        residual = ResidualCapacity(self.problem)
        residual.take_plan(self.fixed)
        return AggregateModel(
            self.state.counting,
            self.state.forest,
            Subproblem(
                [self.problem.gangs[i] for i in sorted(self.plain)],
                np.arange(self.problem.node_count),
                residual.free,
                self.fixed,
            ),
            self.state.parameters.model,
            self.most,
            self.state.deadline,
        )

    @property
    def seconds(self) -> float:
        """The seconds for one step."""
        return self.state.at_most(self.state.left / 4)

    def settle(self, i: int, terms: Terms[Var]) -> int | None:
        state = self.state
        if not state.goals[i].tier.minimize and not state.reaches(i):
            self._reach(i)
        if not state.reaches(i):
            bound = self._best(i, terms)
            if bound is not None:
                state.learn(i, bound + self.outside[i])
        return state.worth.enough[i] - self.outside[i] if state.reaches(i) else None

    def _reach(self, i: int) -> None:
        """Look only for a plan that is as good as the bound.

        Where little room may be left over, this is far easier than improving step by step.
        """
        state = self.state
        if state.left <= 0:
            return
        model = self._build()
        for k, goal in enumerate(state.goals[: i + 1]):
            keep(goal, model, state.bounds[k] - self.outside[k])
        answer = model.solve(
            [],
            maximize=True,
            hint=None,
            seconds=self.seconds,
            effort=state.parameters.aggregate_effort,
            linear=1,
        )
        if answer.plan is not None:
            state.accept({**self.fixed, **answer.plan})

    def _best(self, i: int, terms: Terms[Var]) -> int | None:
        """Settles one goal: takes a better plan, and returns the bound if it proves anything."""
        state, p = self.state, self.state.parameters
        if state.left <= 0:
            return None
        maximize = not state.goals[i].tier.minimize
        answer = self.model.solve(
            terms,
            maximize=maximize,
            hint=state.plan,
            seconds=self.seconds,
            effort=p.aggregate_effort,
        )
        if answer.plan is not None:
            state.accept({**self.fixed, **answer.plan})
        return answer.bound if self.proves else None
