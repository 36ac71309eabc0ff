"""What the victim model counts of running gangs that move: which of their units need a place, and
the parts of them that each lie in one domain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.victims.waiting_parts import parts_of
from placement_service.formulation.arrays import fit
from placement_service.formulation.gangs.scope_tree import tree_of
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.problem import Gang, Problem


class MovedKind(NamedTuple):
    """Parts of gangs that need the same in one domain of a level, if their gang moves."""

    level: int
    #: Units by pod class.
    units: tuple[tuple[int, int], ...]
    #: The gang of each part: one may have several such parts.
    gangs: tuple[GangIdx, ...]


class Homebound(NamedTuple):
    """Units of a pod class that stay or come again in a domain if any of their gang stays."""

    gang: GangIdx
    level: int
    domain: int
    pod_class: ClassIdx
    units: int
    #: Levels of larger parts around, which count these units too.
    within: frozenset[int]


def new_demands(gang: Gang) -> frozenset[int]:
    """The demands of a gang whose units do not run now."""
    return frozenset(range(len(gang.demands))) - {h.demand for h in gang.home} - gang.instead


def new_classes(gangs: Iterable[Gang]) -> frozenset[ClassIdx]:
    """The pod classes of units that do not run now."""
    return frozenset(g.demands[d].pod_class for g in gangs for d in new_demands(g))


def units_at_home(gang: Gang, pod_class: ClassIdx) -> int:
    """Units of a pod class that run now."""
    return sum(h.units for h in gang.home if gang.demands[h.demand].pod_class == pod_class)


def placed_again(
    problem: Problem, running: Sequence[Gang], asked: Collection[ClassIdx], most: int
) -> frozenset[ClassIdx]:
    """Pod classes of running gangs whose units are given places: those that waiting gangs ask for
    too, and those of which no node holds two, while all of these need `most` variables at most.

    Smaller pods find room between others, so for them it is only counted in all.
    """
    units: Counter[ClassIdx] = Counter()
    for gang in running:
        # Where others come instead, those at home are nowhere else.
        come = {
            d for q in gang.requirements if gang.instead.isdisjoint(q.demands) for d in q.demands
        }
        for home in gang.home:
            if home.demand in come:
                units[gang.demands[home.demand].pod_class] += home.units
    found = {s for s in units if s in asked}
    for s, _ in sorted(units.items(), key=lambda item: (-item[1], item[0])):
        variables = int(np.count_nonzero(problem.eligible[s]))
        if s not in found and variables <= most and is_large(problem, s):
            found.add(s)
            most -= variables
    return frozenset(found)


def is_large(problem: Problem, pod_class: ClassIdx) -> bool:
    """Whether no node has room for two units of a pod class, even when all that moves has gone."""
    fits = fit(problem.free, problem.request[pod_class])
    return not bool((problem.eligible[pod_class] & (fits > 1)).any())


def moved_kinds(
    problem: Problem, running: Sequence[Gang], counted: Collection[ClassIdx]
) -> list[MovedKind]:
    """The outermost parts of running gangs with pod classes that are `counted`."""
    kinds: defaultdict[tuple[int, tuple[tuple[int, int], ...]], list[GangIdx]] = defaultdict(list)
    for gang in running:
        for part in parts_of(problem, gang, counted):
            if not part.within:
                kinds[part.level, tuple(sorted(part.units.items()))].append(gang.index)
    return [MovedKind(level, units, tuple(gangs)) for (level, units), gangs in kinds.items()]


def homebound(
    problem: Problem, running: Sequence[Gang], counted: Collection[ClassIdx]
) -> Iterator[Homebound]:
    """Units that cannot leave a domain while their gang stays: some unit of their part stays."""
    for gang in running:
        bound = {
            d
            for q, least in zip(gang.requirements, gang.keeps, strict=True)
            if least
            for d in q.demands
        }
        extras = sum(home.units for home in gang.home) > sum(gang.keeps)
        if not extras or tree_of(problem, gang) is None:
            continue
        scopes = [scope for scope in gang.scopes if scope.required >= 0]
        for i, scope in enumerate(scopes):
            mine = set(scope.demands)
            domain = problem.levels[scope.required].domain
            there = {int(domain[h.node]) for h in gang.home if h.demand in mine}
            if not bound & mine or len(there) != 1 or -1 in there:
                continue
            within = frozenset(
                other.required
                for k, other in enumerate(scopes)
                if mine < set(other.demands) or (mine == set(other.demands) and k < i)
            )
            outside = {d.pod_class for k, d in enumerate(gang.demands) if k not in mine}
            units: Counter[ClassIdx] = Counter()
            for home in gang.home:
                units[gang.demands[home.demand].pod_class] += home.units
            for s, count in sorted(units.items()):
                if s in counted and s not in outside:
                    yield Homebound(gang.index, scope.required, min(there), s, count, within)
