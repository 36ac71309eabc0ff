"""A plan in indices, what it is worth, and its way back to counts of pods.

The worth is recomputed from the plan alone, never taken from a solver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.entities.request import HOSTNAME
from placement_service.entities.solution import Assignment, Limit, Solution, Tier, TierName
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.problem import Gang, Problem

#: Units of a demand on a node: (demand, node, count), count > 0.
Units = tuple[tuple[int, int, int], ...]
#: New units by gang. A gang that is absent gets nothing.
Plan = Mapping[int, Units]

#: The topology tier counts in thousandths of a domain.
UNITS_PER_DOMAIN = 1000


@dataclass(frozen=True, slots=True)
class Worth:
    """The four tiers of a plan, in integers.

    `admitted` is by priority from high to low, in thousandths of a GPU;
    `topology` in thousandths of a domain.
    """

    admitted: tuple[int, ...]
    extra: int
    topology: int
    fragmentation: int

    @property
    def rank(self) -> tuple[object, ...]:
        """Larger is better."""
        return (self.admitted, self.extra, -self.topology, -self.fragmentation)


def priorities(problem: Problem) -> tuple[int, ...]:
    """The priorities of all pending gangs, from high to low."""
    return tuple(sorted({g.priority for g in problem.pending}, reverse=True))


def is_placed(gang: Gang, plan: Plan) -> bool:
    """Whether the gang's minimum is met after the plan."""
    return not gang.pending or bool(plan.get(gang.index))


def gang_domains(problem: Problem, gang: Gang, units: Units) -> int:
    """Places used over all preferred scopes of a gang, running pods included."""
    nodes: dict[int, list[int]] = {}
    for d, n, _ in units:
        nodes.setdefault(d, []).append(n)
    total = 0
    for scope in gang.scopes:
        if scope.preferred >= 0:
            place = problem.levels[scope.preferred].place_of
            used = set(scope.running)
            used.update(int(place[n]) for d in scope.demands for n in nodes.get(d, ()))
            total += len(used)
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
        if gang.base >= 0 and gang.set_level >= 0:
            found.setdefault(gang.base, [problem.gangs[gang.base]]).append(gang)
    return {base: tuple(gangs) for base, gangs in found.items()}


def set_domains(problem: Problem, gangs: Sequence[Gang], plan: Plan) -> int:
    """Places beyond the first that a set uses at its level."""
    base, scaled = gangs[0], gangs[1:]
    here = [g for g in gangs if is_placed(g, plan)]
    if not is_placed(base, plan) or not any(is_placed(g, plan) for g in scaled):
        return 0
    if not any(plan.get(g.index) for g in here):
        return 0
    place = problem.levels[base.set_level].place_of
    used: set[int] = set()
    for g in here:
        used.update(g.set_running)
        used.update(int(place[n]) for _, n, _ in plan.get(g.index, ()))
    return max(0, len(used) - 1)


def topology_cost(problem: Problem, plan: Plan) -> int:
    """Thousandths of a domain, see `Worth`."""
    domains = misses = 0
    for index, units in plan.items():
        gang = problem.gangs[index]
        domains += gang_domains(problem, gang, units) - scopes_in_use(gang, units)
        if gang.previous:
            misses += sum(
                count * pods_of(gang, d) for d, n, count in units if n not in gang.previous
            )
    domains += sum(set_domains(problem, gangs, plan) for gangs in sets(problem).values())
    return domains * UNITS_PER_DOMAIN + misses


def pods_of(gang: Gang, demand: int) -> int:
    """Pods in one unit of a demand."""
    return sum(k for _, _, k in gang.demands[demand].members)


def fragmentation_cost(problem: Problem, plan: Plan) -> int:
    """Nodes that lie in domains which lost their wholeness, plus misplaced pods."""
    touched = np.zeros(problem.node_count, dtype=bool)
    misplaced = 0
    for index, units in plan.items():
        gang = problem.gangs[index]
        for d, n, count in units:
            pod_class = gang.demands[d].pod_class
            touched[n] |= problem.gpus[pod_class] > 0
            if problem.node_gpus[n]:
                misplaced += count * int(problem.pods_without_gpus[pod_class])
    has_gpus = problem.node_gpus > 0
    total = int((touched & problem.whole_free).sum())
    for level in (problem.levels[i] for i in problem.scope_levels):
        if level.key == HOSTNAME:
            continue
        inside = level.domain >= 0
        at = level.domain[inside]
        size = np.bincount(at, has_gpus[inside], level.count)
        whole = np.bincount(at, (problem.whole_free & has_gpus)[inside], level.count)
        hit = np.bincount(at, touched[inside], level.count)
        total += int(size[(size > 0) & (whole == size) & (hit > 0)].sum())
    return total + misplaced


def worth(problem: Problem, plan: Plan) -> Worth:
    """All tiers of a plan."""
    order = priorities(problem)
    admitted = dict.fromkeys(order, 0)
    extra = 0
    for index, units in plan.items():
        gang = problem.gangs[index]
        if gang.pending and units:
            admitted[gang.priority] += gang.value
        for requirement in gang.requirements:
            mine = set(requirement.demands)
            extra += max(0, sum(c for d, _, c in units if d in mine) - requirement.missing)
    return Worth(
        tuple(admitted[p] for p in order),
        extra,
        topology_cost(problem, plan),
        fragmentation_cost(problem, plan),
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Proven bounds, in the units of `Worth`.

    `admitted[i]` bounds the i-th priority given that all higher ones are at
    their bound. `extra` and `topology` hold for plans whose higher tiers are
    as good as those of the plan they were proven for.
    """

    admitted: tuple[int, ...]
    extra: int
    topology: int


def trivial_bounds(problem: Problem) -> Bounds:
    """What holds before anything is counted: everybody, with all extras, side by side."""
    most = dict.fromkeys(priorities(problem), 0)
    for gang in problem.pending:
        most[gang.priority] += gang.value
    return Bounds(tuple(most.values()), sum(g.extras for g in problem.gangs if g.placeable), 0)


def tiers(problem: Problem, mine: Worth, bounds: Bounds) -> tuple[Tier, ...]:
    """The tiers as they are reported."""
    value = sum(mine.admitted) / UNITS_PER_GPU
    admitted = _admitted_bound(problem, mine, bounds) / UNITS_PER_GPU
    extra = float(max(bounds.extra, mine.extra))
    topology = min(bounds.topology, mine.topology) / UNITS_PER_DOMAIN
    return (
        Tier(TierName.ADMITTED, value, admitted),
        Tier(TierName.EXTRA, float(mine.extra), extra),
        Tier(TierName.TOPOLOGY, mine.topology / UNITS_PER_DOMAIN, topology),
        Tier(TierName.FRAGMENTATION, float(mine.fragmentation), None),
    )


def _admitted_bound(problem: Problem, mine: Worth, bounds: Bounds) -> int:
    """Bound of the plain sum over lexicographically best plans.

    While priorities are at their bound the sum is exact. From the first that
    is not, a better plan may gain there and change everything below.
    """
    total = 0
    for i, (have, bound) in enumerate(zip(mine.admitted, bounds.admitted, strict=True)):
        total += max(have, bound)
        if have < bound:
            lower = priorities(problem)[i + 1 :]
            total += sum(g.value for g in problem.pending if g.priority in lower)
            break
    return total


def to_solution(
    problem: Problem,
    plan: Plan,
    bounds: Bounds | None = None,
    *,
    phase: str = "greedy",
    fewest: Mapping[int, int] | None = None,
    limit: Limit = Limit.NONE,
) -> Solution:
    """Counts of pods on nodes, tiers and bounds; without `bounds` the trivial ones."""
    counts: dict[tuple[int, int, int, int], int] = {}
    for index, units in plan.items():
        for d, n, count in units:
            for group, pod_set, pods in problem.gangs[index].demands[d].members:
                key = (index, group, pod_set, n)
                counts[key] = counts.get(key, 0) + count * pods
    return Solution(
        assignments=tuple(Assignment(*key, count) for key, count in sorted(counts.items())),
        tiers=tiers(problem, worth(problem, plan), bounds or trivial_bounds(problem)),
        fewest_domains=tuple(sorted((fewest or {}).items())),
        limit=limit,
        phase=phase,
    )


def from_solution(problem: Problem, solution: Solution) -> Plan:
    """The inverse of `to_solution`, for the plan alone."""
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
