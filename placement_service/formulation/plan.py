"""A plan in indices, and how it becomes counts of pods and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

from placement_service.entities.solution import Assignment, Solution
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.problem import Gang, Problem, UnitsOnNode

#: What a gang gets.
Units = tuple[UnitsOnNode, ...]
#: Units by gang, new ones and those of running gangs that are open to decision. A gang that
#: is absent gets nothing, and does not stay.
Plan = Mapping[GangIdx, Units]

#: A demand on a node.
_Spot = TypeVar("_Spot", bound=tuple[int, int])


def home_plan(problem: Problem) -> Plan:
    """The plan in which nothing moves: open gangs are at home, nobody else gets anything."""
    return {g.index: tuple(g.home) for g in problem.gangs if g.home}


def is_placed(gang: Gang, plan: Plan) -> bool:
    """Whether the gang's minimum is met after the plan; one that has none needs no pods."""
    return not gang.pending or bool(plan.get(gang.index)) or bool(gang.home and not gang.missing)


def has_minimum(gang: Gang, units: Units) -> bool:
    """Whether these units are enough of every requirement."""
    return all(
        sum(c for d, _, c in units if d in q.demands) >= q.missing for q in gang.requirements
    )


def may_be_placed(problem: Problem, gang: Gang, plan: Plan) -> bool:
    """Whether all gangs are placed without which it gets no pods, and none that excludes it."""
    return all(is_placed(problem.gangs[i], plan) for i in gang.rests_on) and not (
        gang.not_with >= 0 and is_placed(problem.gangs[gang.not_with], plan)
    )


def oldest_first(gang: Gang) -> tuple[int, int]:
    """Sorts gangs that nothing else tells apart: the same in every stage."""
    return -gang.waited, gang.index


def units_of(counts: Mapping[_Spot, int]) -> Units:
    """The units in counts by (demand, node), sorted; zeros are left out."""
    return tuple(
        [UnitsOnNode._make((d, n, count)) for (d, n), count in sorted(counts.items()) if count]
    )


def pods_of(gang: Gang, demand: int) -> int:
    """Pods in one unit of a demand."""
    members = gang.demands[demand].members
    # A unit is one pod mostly.
    return members[0].pods if len(members) == 1 else sum(k for _, _, k in members)


def assignments(problem: Problem, plan: Plan) -> tuple[Assignment, ...]:
    """The plan as sorted counts of pods on nodes."""
    found: list[Assignment] = []
    for index in sorted(plan):
        demands = problem.gangs[index].demands
        counts: dict[tuple[int, int, int], int] = {}
        for d, n, count in plan[index]:
            for group, pod_set, pods in demands[d].members:
                spot = (group, pod_set, n)
                counts[spot] = counts.get(spot, 0) + count * pods
        found += [Assignment._make((index, *spot, count)) for spot, count in sorted(counts.items())]
    return tuple(found)


def from_solution(problem: Problem, solution: Solution) -> Plan:
    """The inverse of `assignments`."""
    counts: dict[GangIdx, dict[tuple[int, int], int]] = {}
    for index, mine in groupby(solution.assignments, key=attrgetter("gang")):
        gang = problem.gangs[index]
        # The other members of a bundle come with its first.
        first = {d.members[0][:2]: (i, d.members[0].pods) for i, d in enumerate(gang.demands)}
        for _, group, pod_set, node, count in mine:
            if (group, pod_set) in first:
                demand, pods = first[group, pod_set]
                counts.setdefault(gang.index, {})[demand, node] = count // pods
    return {index: units_of(units) for index, units in sorted(counts.items())}


def pods_at_home(gang: Gang) -> int:
    """All running pods of an open gang."""
    pods = [pods_of(gang, d) for d in range(len(gang.demands))]
    return sum([count * pods[d] for d, _, count in gang.home])


def _at_home(gang: Gang) -> dict[int, int]:
    """All running pods of an open gang, by demand."""
    pods: dict[int, int] = {}
    for d, _, count in gang.home:
        pods[d] = pods.get(d, 0) + count * pods_of(gang, d)
    return pods


def kept_by_demand(gang: Gang, units: Units) -> dict[int, int]:
    """The running pods of an open gang that stay at home, by demand.

    None of a gang that may be moved and keeps less than its minimum: it moves whole.
    """
    if units == gang.home:
        return _at_home(gang)
    there = Counter({(d, n): count for d, n, count in units})
    kept: Counter[int] = Counter()
    for home in gang.home:
        kept[home.demand] += min(home.units, there[home.demand, home.node])
    for requirement, least in zip(gang.requirements, gang.keeps, strict=False):
        if sum(kept[d] for d in requirement.demands) < least:
            return {}
    return {d: count * pods_of(gang, d) for d, count in kept.items()}


def may_lie_so(gang: Gang, units: Units) -> bool:
    """Whether the plan keeps to `only_extras` and `only_stays`: a gang of which only extras may
    move does not move whole, and no unit of one that does is where it could only stay.
    """
    if not (gang.only_extras or gang.only_stays) or kept_by_demand(gang, units):
        return True
    if gang.only_extras:
        return False
    there = {(d, n) for d, n, _ in units}
    return not any(h.demand in gang.only_stays and (h.demand, h.node) in there for h in gang.home)
