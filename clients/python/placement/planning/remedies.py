"""Ways to let a gang in that waits: for each kind the least that is enough.

A remedy is enough when, with it, the gang is placed and every gang that the plan placed
still is (without those that it evicts). It is proven when all lesser ones of its kind are
known not to be enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Final, Literal

from placement.planning import changes
from placement.planning.levels import HOSTNAME, coarser
from placement.planning.planner import Fit, Planner
from placement.v1 import ComputePlacementRequest, Node, PodGang, PodGroup

Kind = Literal["EVICT", "UNCORDON", "RELAX", "REDUCE", "ADD_NODES"]

#: Most sets of nodes that are tried one by one.
_MOST_SETS: Final = 2000


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


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A gang that waits, and all that has to be placed with it. `levels`: coarse ones first."""

    request: ComputePlacementRequest
    gang: PodGang
    wanted: frozenset[str]
    levels: Sequence[str]
    planner: Planner


def relax(case: Case) -> Relax | None:
    """The fewest steps up the levels, for one scope."""
    ladders = [
        (index, scope.name, scope.required_level)
        for index, scope in enumerate(case.gang.packing_scopes)
        if scope.required_level
    ]
    whole = {i for i, s in enumerate(case.gang.packing_scopes) if not s.groups}
    proven = True
    steps = {index: [*coarser(case.request, level, case.levels), ""] for index, _, level in ladders}
    for step in range(max(map(len, steps.values()), default=0)):
        for index, name, level in ladders:
            if step >= len(steps[index]):
                continue
            to = steps[index][step]
            fit = case.planner.holds(
                changes.relaxed(case.request, case.gang.name, index, to), case.wanted
            )
            if fit is Fit.YES:
                return Relax("gang" if index in whole else name, level, to, proven)
            proven = proven and fit is Fit.NO
    return None


def reduce(case: Case) -> Reduce | None:
    """The fewest replicas given up, in one group."""

    def fit(group: PodGroup, less: int) -> Fit:
        to = group.min_replicas - less
        request = changes.reduced(case.request, case.gang.name, group.name, to)
        return case.planner.holds(request, case.wanted)

    best: Reduce | None = None
    proven = True
    for group in case.gang.groups:
        if group.min_replicas < 2:
            continue
        # More than the best so far is of no use.
        most = group.min_replicas - 1
        if best is not None:
            most = min(most, best.minimum - best.to - 1)
        less, sure = least(most, partial(fit, group))
        proven = proven and sure
        if less is not None:
            best = Reduce(group.name, group.min_replicas, group.min_replicas - less, proven)
    return best and Reduce(best.group, best.minimum, best.to, proven)


def add_nodes(case: Case) -> AddNodes | None:
    """The fewest further nodes, all like one that is there."""
    models = _models(case.request)
    most = sum(group.min_replicas for group in case.gang.groups)

    def fit_of_all(count: int) -> Fit:
        """Whether so many of each kind of node are enough; if not, so many of one are not."""
        counts = dict.fromkeys((node.name for node in models), count)
        return case.planner.fit(changes.with_nodes(case.request, counts), case.wanted)

    lowest, proven = least(most, fit_of_all)
    if lowest is None:
        return None
    for count in range(lowest, most + 1):
        for node in models:
            request = changes.with_nodes(case.request, {node.name: count})
            fit = case.planner.holds(request, case.wanted)
            if fit is Fit.YES:
                return AddNodes(node.name, count, proven)
            proven = proven and fit is Fit.NO
    return None


def uncordon(case: Case) -> Uncordon | None:
    """The fewest closed nodes that would have to be open."""
    closed = [
        node.name
        for node in case.request.snapshot.nodes
        if node.unschedulable and not node.not_ready
    ]

    def fit(nodes: Sequence[str]) -> Fit:
        request = changes.uncordoned(case.request, nodes)
        return case.planner.holds(request, case.wanted)

    if not closed or fit(closed) is not Fit.YES:
        return None
    enough = irreducible(closed, lambda nodes: fit(nodes) is Fit.YES)
    alike = {name: _likeness(node) for node in case.request.snapshot.nodes for name in [node.name]}
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
            if tried > _MOST_SETS or case.planner.left <= 0:
                return Uncordon(tuple(enough), False)
            answer = fit(nodes)
            if answer is Fit.YES:
                return Uncordon(nodes, proven)
            proven = proven and answer is Fit.NO
    return Uncordon(tuple(enough), proven)


def least(most: int, fit: Callable[[int], Fit]) -> tuple[int | None, bool]:
    """The least number from 1 to `most` that is enough, where more is never worse.

    And whether it is known that less is not enough; None with True when even `most` is
    known not to be.
    """
    if most < 1:
        return None, True
    answer = fit(most)
    if answer is not Fit.YES:
        return None, answer is Fit.NO
    low, high, proven = 0, most, True
    # Small numbers are likely, so the steps grow from below.
    step = 1
    while low + 1 < high:
        middle = min(low + step, (low + high) // 2) if step else (low + high) // 2
        answer = fit(middle)
        if answer is Fit.YES:
            high, step = middle, 0
        else:
            # What is not known counts as too little; then the proof is lost.
            low, step = middle, step * 2
            proven = answer is Fit.NO
    return high, proven


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
