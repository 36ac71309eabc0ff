"""Extras: units beyond the minimum of gangs whose minimum is met."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from placement_service.entities.request import ExtrasPolicy
from placement_service.entities.solution import TierName
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units, is_placed
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V


def extras_in(gang: Gang, units: Units) -> int:
    """Units that a gang gets beyond its minimum."""
    return sum(
        max(0, sum(c for d, _, c in units if d in r.demands) - r.missing) for r in gang.requirements
    )


@dataclass(frozen=True, eq=False)
class Extra:
    """The extras of some gangs: of all, or of those of one priority."""

    tier: ClassVar[TierName] = TierName.EXTRA
    unit: ClassVar[int] = 1
    reported: ClassVar[bool] = True

    problem: Problem
    priority: int | None

    def value(self, plan: Plan) -> int:
        found = 0
        for gang in self._able:
            units = plan.get(gang.index)
            if units is not None:
                at_home = units is gang.home and gang.index in self._at_home
                extras = self._at_home[gang.index] if at_home else extras_in(gang, units)
                found += extras + gang.surplus
        return found

    def trivial_bound(self) -> int:
        return self._most

    @cached_property
    def _able(self) -> list[Gang]:
        return [g for g in self.problem.gangs if (g.extras or g.surplus) and self._has(g)]

    @cached_property
    def _at_home(self) -> dict[GangIdx, int]:
        """The extras of each gang that runs, where nothing moves: most gangs stay as they are."""
        return {g.index: extras_in(g, g.home) for g in self._able if g.home}

    @cached_property
    def _most(self) -> int:
        every = (g for g in self.problem.gangs if g.placeable and not g.begins_anew)
        return sum(g.extras + g.surplus for g in every if self._has(g))

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        return model.extra_units(self.priority)

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        able = (g for g in self.problem.gangs if g.extras and self._has(g) and is_placed(g, plan))
        return [g for g in able if extras_in(g, plan.get(g.index, ())) < g.extras]

    def _has(self, gang: Gang) -> bool:
        return self.priority in (None, gang.priority)


def goals(problem: Problem) -> tuple[Extra, ...]:
    if problem.policy.extras is ExtrasPolicy.WITH_PRIORITY:
        able = {g.priority for g in problem.gangs if g.placeable and (g.extras or g.surplus)}
        return tuple(Extra(problem, priority) for priority in sorted(able, reverse=True))
    return (Extra(problem, None),)
