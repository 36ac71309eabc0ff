"""Topology: fewest domains at preferred levels, sets together, previous nodes again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from placement_service.entities.solution import TierName
from placement_service.formulation.plan import Plan, Units, is_placed, pods_of
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V

#: The tier counts in thousandths of a domain.
UNITS_PER_DOMAIN = 1000


@dataclass(frozen=True, slots=True, eq=False)
class TopologyCost:
    """Domains beyond the first of scopes and sets, and new pods away from previous nodes."""

    tier: ClassVar[TierName] = TierName.TOPOLOGY
    unit: ClassVar[int] = UNITS_PER_DOMAIN
    reported: ClassVar[bool] = True
    priority: ClassVar[int | None] = None

    problem: Problem

    def value(self, plan: Plan) -> int:
        domains = misses = 0
        for index, units in plan.items():
            gang = self.problem.gangs[index]
            # Where pods run already costs nothing by itself.
            if not (gang.scopes or gang.previous) or not (new := _new(gang, units)):
                continue
            domains += gang_domains(self.problem, gang, units) - scopes_in_use(gang, units)
            if gang.previous:
                misses += sum(
                    count * pods_of(gang, d) for d, n, count in new if n not in gang.previous
                )
        for gangs in sets(self.problem).values():
            domains += set_domains(self.problem, gangs, plan)
        return domains * UNITS_PER_DOMAIN + misses

    def trivial_bound(self) -> int:
        return 0

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        return model.topology_cost()

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        problem = self.problem
        placed = [(problem.gangs[i], units) for i, units in plan.items() if units]
        beyond = [
            (g, gang_domains(problem, g, units), scopes_in_use(g, units)) for g, units in placed
        ]
        gain = [g for g, domains, least in beyond if domains > max(fewest(g), least)]
        for members in sets(problem).values():
            if set_domains(problem, members, plan):
                gain += [g for g in members[1:] if g.index in plan]
        # Where no gang could improve by itself, exchanging it for others of the same value may
        # help.
        return gain or [g for g, domains, least in beyond if domains > least]


def _new(gang: Gang, units: Units) -> Units:
    """The units that do not run before the plan; a demand waits as a whole or runs as a whole."""
    if not gang.home:
        return units
    running = {home.demand for home in gang.home} | gang.instead
    return tuple(one for one in units if one.demand not in running)


def goals(problem: Problem) -> tuple[TopologyCost, ...]:
    return (TopologyCost(problem),)


def gang_domains(problem: Problem, gang: Gang, units: Units) -> int:
    """Places used over all preferred scopes of a gang, running pods included."""
    nodes: dict[int, list[int]] = {}
    for d, n, _ in units:
        nodes.setdefault(d, []).append(n)
    total = 0
    for scope in gang.scopes:
        if scope.preferred >= 0:
            place = problem.levels[scope.preferred].place_of
            mine = [n for d in scope.demands for n in nodes.get(d, ())]
            # All at once: this is asked of every plan.
            total += len({*scope.running, *place[mine].tolist()})
    return total


def scopes_in_use(gang: Gang, units: Units) -> int:
    """How many preferred scopes hold any pod."""
    demands = {d for d, _, _ in units}
    return sum(
        s.preferred >= 0 and (bool(s.running) or not demands.isdisjoint(s.demands))
        for s in gang.scopes
    )


def sets(problem: Problem) -> dict[int, tuple[Gang, ...]]:
    """Base gang to the whole set, base first, for sets that have a level."""
    found: dict[int, list[Gang]] = {}
    for gang in problem.gangs:
        if gang.set_base >= 0 and gang.set_level >= 0:
            found.setdefault(gang.set_base, [problem.gangs[gang.set_base]]).append(gang)
    return {base: tuple(gangs) for base, gangs in found.items()}


def _counts(problem: Problem, gang: Gang, plan: Plan) -> bool:
    """Whether a gang of a set is placed, and what runs of it has not gone."""
    return is_placed(gang, plan) and (gang.part < 0 or is_placed(problem.gangs[gang.part], plan))


def set_domains(problem: Problem, gangs: Sequence[Gang], plan: Plan) -> int:
    """Places beyond the first that a set uses at its level."""
    base, scaled = gangs[0], gangs[1:]
    here = [g for g in gangs if _counts(problem, g, plan)]
    if not is_placed(base, plan) or not any(g in here for g in scaled):
        return 0
    if not any(_new(g, plan.get(g.index, ())) for g in here):
        return 0
    place = problem.levels[base.set_level].place_of
    used: set[int] = set()
    for g in here:
        used.update(g.set_running)
        used.update(place[[n for _, n, _ in plan.get(g.index, ())]].tolist())
    return max(0, len(used) - 1)
