"""The first tier: by priority from high to low, the most value of gangs whose minimum is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from placement_service.entities.solution import TierName
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V


def priorities(problem: Problem) -> tuple[int, ...]:
    """The priorities of all pending gangs, from high to low."""
    return tuple(sorted({g.priority for g in problem.pending}, reverse=True))


@dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """The value of the pending gangs of one priority."""

    tier: ClassVar[TierName] = TierName.ADMITTED
    unit: ClassVar[int] = UNITS_PER_GPU

    problem: Problem
    priority: int

    def value(self, plan: Plan) -> int:
        placed = (self.problem.gangs[i] for i, units in plan.items() if units)
        return sum(g.value for g in placed if g.pending and g.priority == self.priority)

    def trivial_bound(self) -> int:
        return sum(g.value for g in self.problem.pending if g.priority == self.priority)

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        gangs = self.problem.gangs
        return [
            (a.placed, gangs[a.gangs[0]].value)
            for a in model.admissions()
            if gangs[a.gangs[0]].priority == self.priority
        ]

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        pending = self.problem.pending
        return [g for g in pending if g.priority == self.priority and g.index not in plan]


def goals(problem: Problem) -> tuple[Admitted, ...]:
    return tuple(Admitted(problem, priority) for priority in priorities(problem))
