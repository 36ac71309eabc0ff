"""Waiting: of equal value, the gangs that waited longest.

The sum of their waiting times in whole minutes, each at least one: more gangs are better
than fewer, older than newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from placement_service.entities.request import ExtrasPolicy
from placement_service.entities.solution import TierName
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.admitted import priorities
from placement_service.formulation.tiers.goal import Admission, Fewest, GoalModel, Terms, V, oldest


def minutes(gang: Gang) -> int:
    """What a gang counts for when it is admitted."""
    return max(1, gang.waited // 60)


@dataclass(frozen=True, eq=False)
class Waiting:
    """Minutes that admitted gangs waited: all, or those of one priority."""

    tier: ClassVar[TierName] = TierName.WAITING
    unit: ClassVar[int] = 1
    reported: ClassVar[bool] = True

    problem: Problem
    priority: int | None

    def value(self, plan: Plan) -> int:
        placed = (self.problem.gangs[i] for i, units in plan.items() if units)
        return sum(minutes(g) for g in placed if g.pending and self._has(g))

    def trivial_bound(self) -> int:
        return self._most

    @cached_property
    def _most(self) -> int:
        every = (g for g in self.problem.pending if not g.begins_anew)
        return sum(minutes(g) for g in every if self._has(g))

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        """Of gangs alike the oldest count first.

        Their sum is concave in how many are admitted: for each age the step down to the
        next, times how many are at least so old and admitted.
        """
        terms: Terms[V] = []
        for admission in model.admissions():
            if self._has(self.problem.gangs[admission.gangs[0]]):
                terms += self._oldest_first(model, admission)
        return terms

    def _oldest_first(self, model: GoalModel[V], admission: Admission[V]) -> Terms[V]:
        ages: Sequence[int] = [minutes(self.problem.gangs[i]) for i in admission.gangs]
        following = [*ages[1:], 0]
        return [
            (oldest(model, admission, n), age - younger)
            for n, (age, younger) in enumerate(zip(ages, following, strict=True), 1)
            if age > younger
        ]

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        return [g for g in self.problem.pending if self._has(g) and g.index not in plan]

    def _has(self, gang: Gang) -> bool:
        return gang.waits and self.priority in (None, gang.priority)


def goals(problem: Problem) -> tuple[Waiting, ...]:
    if problem.policy.extras is ExtrasPolicy.WITH_PRIORITY:
        return tuple(Waiting(problem, priority) for priority in priorities(problem))
    return (Waiting(problem, None),)
