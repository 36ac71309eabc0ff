"""What domains hold in a plan, as columns of a master with configurations.

With them there is a solution from the start, also where goals are held that the plan just reaches:
a linear program without any column that fits these takes long to find some.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.configurations.lp import Column, PartsOfKind
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang

#: Parts of gangs that wait, by domain and kind.
Parts = Counter[tuple[int, int]]


def plan_columns(found: Configurations, plan: Plan) -> dict[int, Column]:
    """A column for each domain that holds parts of gangs that wait."""
    held: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for parts in plan_parts(found, plan).values():
        for (domain, kind), count in parts.items():
            held[domain][kind] += count
    return {
        domain: Column(g, tuple(PartsOfKind(k, n) for k, n in sorted(held[domain].items())))
        for g, signature in enumerate(found.signatures)
        for domain in signature.domains
        if domain in held
    }


def plan_parts(found: Configurations, plan: Plan) -> dict[GangIdx, Parts]:
    """The parts of each gang that has any."""
    problem = found.counting.problem
    place_of = problem.levels[found.level].place_of.tolist()
    every = {i: Counter(_parts(found, problem.gangs[i], u, place_of)) for i, u in plan.items()}
    return {index: parts for index, parts in every.items() if parts}


def _parts(
    found: Configurations, gang: Gang, units: Units, place_of: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The domain and the kind of each part of a gang, as far as there are such kinds."""
    tree = found.counting.topology.tree(gang)
    if tree is None or gang.home:
        return
    bound = tree.bound_by(lambda level: found.counting.within(level, found.level))
    part_of = {d: p for p, one in enumerate(bound) for d in one.demands}
    requirement_of = {d: q for q, one in enumerate(gang.requirements) for d in one.demands}
    #: Units by domain, part (-1: none) and shape, and of these by requirement.
    there: defaultdict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    for demand, node, count in units:
        q = requirement_of[demand]
        classes = tuple(gang.demands[d].pod_class for d in gang.requirements[q].demands)
        shape = found.shape_of.get(classes, -1)
        if shape >= 0:
            there[place_of[node], part_of.get(demand, -1), shape][q] += count
    for (domain, part, shape), counts in there.items():
        one, every = found.kind_of(shape, 1), counts.total()
        if part >= 0:
            whole = sum(min(n, gang.requirements[q].missing) for q, n in counts.items())
            kind = found.kind_of(shape, whole)
            if kind >= 0:
                yield domain, kind
            every -= whole
        if one >= 0:
            yield from ((domain, one) for _ in range(every))
