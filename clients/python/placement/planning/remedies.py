"""Ways to let a gang in that waits: for each kind the least that is enough.

A remedy is enough when, with it, the gang is placed and every gang that the plan placed
still is (without those that it evicts). It is proven when all lesser ones of its kind are
known not to be enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Final, Literal

from placement.planning import changes
from placement.planning.case import Case, Change, least
from placement.planning.levels import HOSTNAME, coarser
from placement.planning.planner import Fit
from placement.planning.room import Room
from placement.v1 import ComputePlacementRequest, Node, PodGroup

Kind = Literal["EVICT", "UNCORDON", "RELAX", "REDUCE", "ADD_NODES"]

#: Most sets of nodes that are tried one by one.
_MOST_SETS: Final = 2000
#: Most kinds of nodes that are tried for a first answer.
_MOST_TRIED: Final = 8


@dataclass(frozen=True, slots=True)
class Evict:
    """Running gangs that would have to go, whole or some of their extras: `pods` pods."""

    gangs: tuple[str, ...]
    pods: int
    proven: bool
    kind: Kind = "EVICT"


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Closed nodes that would have to be open."""

    nodes: tuple[str, ...]
    proven: bool
    kind: Kind = "UNCORDON"


@dataclass(frozen=True, slots=True)
class Relax:
    """A scope that would have to be content with a coarser level; `to` "" drops the rule."""

    scope: str
    level: str
    to: str
    proven: bool
    kind: Kind = "RELAX"


@dataclass(frozen=True, slots=True)
class Reduce:
    """A group that would have to be content with `to` pods instead of its minimum."""

    group: str
    minimum: int
    to: int
    proven: bool
    kind: Kind = "REDUCE"


@dataclass(frozen=True, slots=True)
class AddNodes:
    """So many further nodes like one that is there."""

    like: str
    count: int
    proven: bool
    kind: Kind = "ADD_NODES"


Remedy = Evict | Uncordon | Relax | Reduce | AddNodes


#: Finds ever better remedies of one kind; the last one counts. May end with `OutOfTime`.
Finder = Callable[[Case], Iterator[Remedy]]


def relax(case: Case) -> Iterator[Relax]:
    """The fewest steps up the levels, for one scope."""
    scopes = [
        (index, scope, [*coarser(case.request, scope.required_level, case.levels), ""])
        for index, scope in enumerate(case.gang.packing_scopes)
        if scope.required_level
    ]
    proven = True
    for step in range(max((len(ladder) for _, _, ladder in scopes), default=0)):
        for index, scope, ladder in scopes:
            if step >= len(ladder):
                continue
            to = ladder[step]
            fit = case.holds(partial(changes.relaxed, gang=case.gang.name, scope=index, to=to))
            if fit is Fit.YES:
                name = scope.name if scope.groups else "gang"
                yield Relax(name, scope.required_level, to, proven)
                return
            proven = proven and fit is Fit.NO


def reduce(case: Case) -> Iterator[Reduce]:
    """The fewest replicas given up, in one group."""
    best: Reduce | None = None
    all_proven = True
    for group in case.gang.groups:

        def change(less: int, group: PodGroup = group) -> Change:
            to = group.min_replicas - less
            return partial(changes.reduced, gang=case.gang.name, group=group.name, to=to)

        # More than the best so far is of no use.
        most = group.min_replicas - 1
        if best is not None:
            most = min(most, best.minimum - best.to - 1)
        less, proven = least(most, lambda n: case.quick(change(n)), lambda n: case.holds(change(n)))
        all_proven = all_proven and proven
        if less is not None:
            best = Reduce(group.name, group.min_replicas, group.min_replicas - less, False)
            yield best
    if best is not None and all_proven:
        yield replace(best, proven=True)


def add_nodes(case: Case) -> Iterator[AddNodes]:
    """The fewest further nodes, all like one that is there."""
    models = [node.name for node in _models(case.request)]
    most = sum(group.min_replicas for group in case.gang.groups)

    def change(names: Sequence[str], count: int) -> Change:
        return partial(changes.with_nodes, counts=dict.fromkeys(names, count))

    # So many of each kind are more than so many of one: what is too few here is too few.
    lowest, proven = least(
        most, lambda n: case.quick(change(models, n)), lambda n: case.fit(change(models, n))
    )
    if lowest is None:
        return
    ranked = _by_use(case, models, most)
    known = next((c, name) for c, name in ranked) if ranked else None
    if known is not None and known[0] > lowest:
        # A first answer, in case that time does not suffice for a proof.
        for count, name in ranked[:_MOST_TRIED]:
            if case.quick(change([name], count)) and case.holds(change([name], count)) is Fit.YES:
                yield AddNodes(name, count, False)
                most = count
                break
    for count in range(lowest, most + 1):
        holds = partial(_holds, case, partial(change, count=count))
        name, sure = _first_enough(models, holds)
        proven = proven and sure
        if name:
            yield AddNodes(name, count, proven)
            return


def _holds(case: Case, change: Callable[[Sequence[str]], Change], names: Sequence[str]) -> Fit:
    return case.holds(change(names))


def _first_enough(names: Sequence[str], fit: Callable[[Sequence[str]], Fit]) -> tuple[str, bool]:
    """The first name that is enough alone, "" for none, and whether all before are known
    not to be. Where several together are not enough, none of them is."""
    answer = fit(names)
    if answer is Fit.NO:
        return "", True
    if len(names) == 1:
        return (names[0], True) if answer is Fit.YES else ("", False)
    half = len(names) // 2
    name, proven = _first_enough(names[:half], fit)
    if name:
        return name, proven
    name, sure = _first_enough(names[half:], fit)
    return name, proven and sure


def _by_use(case: Case, models: Sequence[str], most: int) -> list[tuple[int, str]]:
    """For each kind of node the least number that counting lets suffice, fewest first."""
    room = Room(case.settled, case.gang)
    nodes = {node.name: node for node in case.request.snapshot.nodes}
    found = [(room.least_added(nodes[name], most), name) for name in models]
    return sorted((count, name) for count, name in found if count is not None)


def uncordon(case: Case) -> Iterator[Uncordon]:
    """The fewest closed nodes that would have to be open."""
    closed = [
        node.name
        for node in case.request.snapshot.nodes
        if node.unschedulable and not node.not_ready
    ]

    def change(nodes: Sequence[str]) -> Change:
        return partial(changes.uncordoned, nodes=nodes)

    if not closed or case.holds(change(closed)) is not Fit.YES:
        return
    quick = case.quick(change(closed))
    enough = irreducible(
        closed,
        lambda nodes: case.quick(change(nodes)) if quick else case.holds(change(nodes)) is Fit.YES,
    )
    if case.holds(change(enough)) is not Fit.YES:
        enough = closed
    yield Uncordon(tuple(enough), False)
    alike = {node.name: _likeness(node) for node in case.request.snapshot.nodes}
    proven = True
    tried = 0
    for size in range(1, len(enough)):
        seen: set[tuple[object, ...]] = set()
        for nodes in combinations(closed, size):
            # Of nodes that are alike it does not matter which.
            signature = tuple(sorted(map(repr, (alike[n] for n in nodes))))
            if signature in seen:
                continue
            seen.add(signature)
            tried += 1
            if tried > _MOST_SETS:
                return
            answer = case.holds(change(nodes))
            if answer is Fit.YES:
                yield Uncordon(nodes, proven)
                return
            proven = proven and answer is Fit.NO
    if proven:
        yield Uncordon(tuple(enough), True)


def irreducible(items: Sequence[str], enough: Callable[[Sequence[str]], bool]) -> list[str]:
    """A part of the items that is enough and of which none can be left out."""
    kept = list(items)
    size = max(1, len(kept) // 2)
    while True:
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if rest and enough(rest):
                kept = rest
                break
        else:
            if size == 1:
                return kept
            size //= 2
        size = min(size, max(1, len(kept) - 1))


def _models(request: ComputePlacementRequest) -> list[Node]:
    """One node of each kind, in order of name: what is alike need be tried once."""
    models: dict[str, Node] = {}
    for node in sorted(request.snapshot.nodes, key=lambda node: node.name):
        models.setdefault(repr(_kind(node)), node)
    return list(models.values())


def _kind(node: Node) -> tuple[object, ...]:
    """What an empty, healthy node like this one is, its name aside."""
    allocatable = node.allocatable
    return (
        sorted((k, v) for k, v in node.labels.items() if k != HOSTNAME),
        allocatable.cpu_millis,
        allocatable.memory_bytes,
        allocatable.ephemeral_storage_bytes,
        allocatable.pod_count,
        sorted(allocatable.extended.items()),
        [(t.key, t.value, t.effect) for t in node.taints],
        [(d.index, d.numa_node, d.pcie_switch, d.memory_bytes, d.nics) for d in node.devices],
        [tuple(p.devices) for p in node.partitions],
        node.partition_policy,
    )


def _likeness(node: Node) -> tuple[object, ...]:
    """What a closed node is once it is open, its name aside."""
    return (
        _kind(node),
        node.requested.SerializeToString(deterministic=True),
        [p.SerializeToString() for p in node.host_ports],
        [d.SerializeToString() for d in node.devices],
        node.compute_domain,
    )
