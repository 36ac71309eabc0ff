"""Disruption: fewest running pods evicted or moved. Plans evict nobody so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from placement_service.entities.solution import TierName
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V


@dataclass(frozen=True, slots=True, eq=False)
class Disruption:
    """Running pods that the plan evicts or moves."""

    tier: ClassVar[TierName] = TierName.DISRUPTION
    unit: ClassVar[int] = 1

    def value(self, plan: Plan) -> int:
        return 0

    def trivial_bound(self) -> int:
        return 0

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        return []

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        return []


def goals(problem: Problem) -> tuple[Disruption, ...]:
    return (Disruption(),)
