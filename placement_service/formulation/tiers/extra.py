"""Extras: units beyond the minimum of gangs whose minimum is met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from placement_service.entities.solution import TierName
from placement_service.formulation.plan import Plan, Units, is_placed
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V


def extras_in(gang: Gang, units: Units) -> int:
    """Units that a gang gets beyond its minimum."""
    return sum(
        max(0, sum(c for d, _, c in units if d in r.demands) - r.missing) for r in gang.requirements
    )


@dataclass(frozen=True, slots=True, eq=False)
class Extra:
    """The extras of all gangs."""

    tier: ClassVar[TierName] = TierName.EXTRA
    unit: ClassVar[int] = 1

    problem: Problem

    def value(self, plan: Plan) -> int:
        return sum(extras_in(self.problem.gangs[i], units) for i, units in plan.items())

    def trivial_bound(self) -> int:
        return sum(g.extras for g in self.problem.gangs if g.placeable)

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        return model.extra_units()

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        return [
            g
            for g in self.problem.gangs
            if g.extras and is_placed(g, plan) and extras_in(g, plan.get(g.index, ())) < g.extras
        ]


def goals(problem: Problem) -> tuple[Extra, ...]:
    return (Extra(problem),)
