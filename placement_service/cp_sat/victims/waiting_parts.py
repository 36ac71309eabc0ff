"""The parts of waiting gangs that each lie in one domain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from placement_service.formulation.gangs.scope_tree import Part, tree_of
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.problem import Gang, Problem


@dataclass(frozen=True, slots=True)
class WaitingPart:
    """A part of a waiting gang that lies in one domain of a level: units by pod class.

    It lies inside larger parts of its gang at the levels `within`, which count its units too. `own`
    are the units of which no part inside it has a domain of its own. `demands` are all inside it.
    """

    gang: GangIdx
    level: int
    pin: int
    units: Mapping[int, int]
    own: Mapping[int, int]
    within: frozenset[int] = frozenset()
    demands: frozenset[int] = frozenset()


def parts_of(problem: Problem, gang: Gang, counted: Collection[int]) -> Iterator[WaitingPart]:
    """The parts of a gang that require a domain, with the pod classes of their minimum that are
    counted; none where scopes overlap.
    """
    bound = any([scope.required >= 0 for scope in gang.scopes])
    if not bound or not any([d.pod_class in counted for d in gang.demands]):
        return
    tree = tree_of(problem, gang)
    if tree is None:
        return
    stack: list[tuple[Part, frozenset[int]]] = [(tree, frozenset())]
    while stack:
        part, within = stack.pop()
        mine = within if part.required < 0 else within | {part.required}
        stack += [(child, mine) for child in part.children]
        if part.required < 0 or part.scope is None:
            continue
        inside = set(part.demands)
        narrower = [set(p.demands) for p in _all_inside(part) if p.required >= 0]
        units: Counter[int] = Counter()
        own: Counter[int] = Counter()
        for q in gang.requirements:
            classes = {gang.demands[d].pod_class for d in q.demands}
            if q.missing and inside.issuperset(q.demands) and len(classes) == 1:
                pod_class = classes.pop()
                if pod_class not in counted:
                    continue
                units[pod_class] += q.missing
                if not any(n.intersection(q.demands) for n in narrower):
                    own[pod_class] += q.missing
        if units:
            at = part.required, part.scope.pin
            yield WaitingPart(gang.index, *at, dict(units), dict(own), within, frozenset(inside))


def _all_inside(part: Part) -> Iterator[Part]:
    for child in part.children:
        yield child
        yield from _all_inside(child)
