"""Counts to names and back: which pod of a set goes to which node.

The engine only counts the pods of a set, because they are interchangeable to
every rule. People are not: a training job runs its collectives fastest when
neighbours in rank are neighbours in the topology. So pods go by rank, where
they have one, and by name (numbers inside names count as numbers: ``w-2`` before
``w-10``) to nodes sorted by the domains of the gang's packing levels, from broad
to narrow, and then by name.
When fewer pods are bound than a set has, the first ones are.

Each pod set is named by itself; the result does not depend on the order of
nodes, gangs, groups or pods in the request.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from placement_service.entities.request import HOSTNAME, Binding, Pod, PodGang, Snapshot
from placement_service.entities.reservation_users import use_reservations
from placement_service.entities.solution import Assignment

_NUMBER = re.compile(r"([0-9]+)")


def name_pods(snapshot: Snapshot, assignments: Iterable[Assignment]) -> tuple[Binding, ...]:
    """The bindings of a solution, in order of gang and pod name.

    Raises ValueError when a set is given more pods than it has, IndexError when
    an index is outside the snapshot: both are defects of the engine.
    """
    nodes = snapshot.columns
    by_set: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for a in assignments:
        if min(a.gang, a.group, a.pod_set, a.node, a.count) < 0:
            raise IndexError(f"negative index or count in {a}")
        by_set.setdefault((a.gang, a.group, a.pod_set), []).append((a.node, a.count))
    breadth = _Breadth(snapshot)
    levels = {g: breadth.sorted_levels(snapshot.gangs[g]) for g, _, _ in by_set}

    bindings = []
    for (g, r, s), counts in by_set.items():
        gang = snapshot.gangs[g]
        group = gang.groups[r]
        pods = sorted(group.pod_sets[s].pods, key=_rank)
        total = sum(count for _, count in counts)
        if total > len(pods):
            raise ValueError(
                f"{gang.name}, group {group.name}: {total} pods assigned of {len(pods)}"
            )
        places = sorted(
            (
                tuple(natural_key(nodes.labels[n].get(level, "")) for level in levels[g]),
                natural_key(nodes.names[n]),
                nodes.names[n],
                count,
            )
            for n, count in counts
        )
        free = iter(pods)
        for _, _, node, count in places:
            for pod in (next(free) for _ in range(count)):
                bindings.append(Binding(pod.name, node, gang.name, group.name, pod.uid))
    bindings = list(use_reservations(snapshot, bindings))
    order = {name: natural_key(name) for b in bindings for name in (b.gang, b.pod)}
    return tuple(sorted(bindings, key=lambda b: (order[b.gang], order[b.pod])))


def _rank(pod: Pod) -> tuple[object, ...]:
    return pod.rank is None, pod.rank or 0, natural_key(pod.name)


def count_pods(snapshot: Snapshot, bindings: Sequence[Binding]) -> tuple[Assignment, ...]:
    """The assignments behind bindings, sorted: the inverse of `name_pods`.

    Bindings whose pod is not pending, or whose node is not there, are left out:
    an earlier answer names pods that run by now and nodes that are gone.
    """
    node_index = snapshot.columns.row_of
    wanted = {b.pod: node_index[b.node] for b in bindings if b.node in node_index}
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for g, gang in enumerate(snapshot.gangs):
        for r, group in enumerate(gang.groups):
            for s, pod_set in enumerate(group.pod_sets):
                for pod in pod_set.pods:
                    node = wanted.get(pod.name)
                    if node is not None:
                        counts[g, r, s, node] += 1
    return tuple(Assignment(*key, count) for key, count in sorted(counts.items()))


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key by which people sort names: numbers inside count as numbers."""
    return tuple(
        (0, int(part[:18]), part) if part[:1].isdecimal() and part.isascii() else (1, 0, part)
        for part in _NUMBER.split(name)
        if part
    )


class _Breadth:
    """How many domains each level has in a snapshot, counted when asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._domains: dict[str, int] = {}

    def sorted_levels(self, gang: PodGang) -> tuple[str, ...]:
        """The levels of the gang's packing scopes, from broad to narrow."""
        levels = {
            level
            for scope in gang.packing_scopes
            for level in (scope.required_level, scope.preferred_level)
            if level and level != HOSTNAME
        }
        return tuple(sorted(levels, key=lambda level: (self._count(level), level)))

    def _count(self, level: str) -> int:
        if level not in self._domains:
            kinds = self._snapshot.columns.labels.counts()
            self._domains[level] = len({labels.get(level) for labels, _ in kinds})
        return self._domains[level]
