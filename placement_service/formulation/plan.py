"""A plan in indices, and its way to counts of pods and back."""

from __future__ import annotations

from collections.abc import Mapping

from placement_service.entities.solution import Assignment, Solution
from placement_service.formulation.problem import Gang, Problem

#: Units of a demand on a node: (demand, node, count), count > 0.
Units = tuple[tuple[int, int, int], ...]
#: New units by gang. A gang that is absent gets nothing.
Plan = Mapping[int, Units]


def is_placed(gang: Gang, plan: Plan) -> bool:
    """Whether the gang's minimum is met after the plan."""
    return not gang.pending or bool(plan.get(gang.index))


def pods_of(gang: Gang, demand: int) -> int:
    """Pods in one unit of a demand."""
    return sum(k for _, _, k in gang.demands[demand].members)


def assignments(problem: Problem, plan: Plan) -> tuple[Assignment, ...]:
    """The plan as sorted counts of pods on nodes."""
    counts: dict[tuple[int, int, int, int], int] = {}
    for index, units in plan.items():
        for d, n, count in units:
            for group, pod_set, pods in problem.gangs[index].demands[d].members:
                key = (index, group, pod_set, n)
                counts[key] = counts.get(key, 0) + count * pods
    return tuple(Assignment(*key, count) for key, count in sorted(counts.items()))


def from_solution(problem: Problem, solution: Solution) -> Plan:
    """The inverse of `assignments`."""
    where: dict[tuple[int, int, int], dict[int, int]] = {}
    for a in solution.assignments:
        where.setdefault((a.gang, a.group, a.pod_set), {})[a.node] = a.count
    plan: dict[int, Units] = {}
    for gang in problem.gangs:
        units = []
        for d, demand in enumerate(gang.demands):
            group, pod_set, pods = demand.members[0]
            for node, count in where.get((gang.index, group, pod_set), {}).items():
                units.append((d, node, count // pods))
        if units:
            plan[gang.index] = tuple(sorted(units))
    return plan
