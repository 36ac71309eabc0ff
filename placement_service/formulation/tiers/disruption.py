"""Disruption: fewest running pods evicted or moved, where the policy allows any.

Counted is what stays: the pods of open gangs that are at home, with the sign that makes
more of them better. What is reported is the difference to the plan in which nothing moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from placement_service.entities.solution import TierName
from placement_service.formulation.plan import Plan, Units, kept_by_demand, pods_at_home
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V


@dataclass(frozen=True, eq=False)
class Disruption:
    """Minus the running pods of open gangs that stay at home."""

    tier: ClassVar[TierName] = TierName.DISRUPTION
    unit: ClassVar[int] = 1
    reported: ClassVar[bool] = True
    priority: ClassVar[int | None] = None

    problem: Problem

    def value(self, plan: Plan) -> int:
        lost = 0
        for gang in self._open:
            units = plan.get(gang.index, ())
            # Most gangs are as they were.
            if units is not gang.home:
                lost += pods_at_home(gang) - _pods(gang, units)
        return lost - self._at_home

    def trivial_bound(self) -> int:
        return -self._at_home

    def terms(self, model: GoalModel[V]) -> Terms[V] | None:
        kept = model.kept_pods()
        return None if kept is None else [(v, -weight) for v, weight in kept]

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        return [g for g in self._open if _pods(g, plan.get(g.index, ())) < pods_at_home(g)]

    @cached_property
    def _open(self) -> list[Gang]:
        return [g for g in self.problem.gangs if g.home]

    @cached_property
    def _at_home(self) -> int:
        """All running pods of open gangs."""
        return sum(map(pods_at_home, self._open))


def goals(problem: Problem) -> tuple[Disruption, ...]:
    return (Disruption(problem),)


def _pods(gang: Gang, units: Units) -> int:
    return pods_at_home(gang) if units == gang.home else sum(kept_by_demand(gang, units).values())
