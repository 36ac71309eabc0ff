"""The parts of waiting gangs that each lie in one domain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from placement_service.formulation.indices import GangIdx
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.scope_tree import Part, tree_of


@dataclass(frozen=True, slots=True)
class WaitingPart:
    """A part of a waiting gang that lies in one domain of a level: units by pod class.

    `own` are the units of which no part inside it has a domain of its own.
    """

    gang: GangIdx
    level: int
    pin: int
    units: Mapping[int, int]
    own: Mapping[int, int]


def parts_of(problem: Problem, gang: Gang) -> Iterator[WaitingPart]:
    """The parts of a gang that require a domain, with their minimum; none where scopes overlap."""
    tree = tree_of(problem, gang)
    if tree is None:
        return
    stack: list[Part] = [tree]
    while stack:
        part = stack.pop()
        stack += part.children
        if part.required < 0 or part.scope is None:
            continue
        inside = set(part.demands)
        narrower = [set(p.demands) for p in _all_inside(part) if p.required >= 0]
        units: defaultdict[int, int] = defaultdict(int)
        own: defaultdict[int, int] = defaultdict(int)
        for q in gang.requirements:
            classes = {gang.demands[d].pod_class for d in q.demands}
            if q.missing and inside.issuperset(q.demands) and len(classes) == 1:
                pod_class = classes.pop()
                units[pod_class] += q.missing
                if not any(n.intersection(q.demands) for n in narrower):
                    own[pod_class] += q.missing
        if units:
            yield WaitingPart(gang.index, part.required, part.scope.pin, dict(units), dict(own))


def _all_inside(part: Part) -> Iterator[Part]:
    for child in part.children:
        yield child
        yield from _all_inside(child)
