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

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property, partial

import numpy as np

from placement_service.entities.naming.natural_order import natural_key, natural_ranks
from placement_service.entities.naming.reservation_users import use_reservations
from placement_service.entities.nodes import Ints, KindColumn
from placement_service.entities.request import HOSTNAME, Binding, PodGang, Snapshot
from placement_service.entities.selectors import Labels
from placement_service.entities.solution import Assignment

#: Rows of a plan up to which only the nodes in it are looked at.
_FEW = 500


def name_pods(snapshot: Snapshot, assignments: Iterable[Assignment]) -> tuple[Binding, ...]:
    """As `Naming.bindings`, once."""
    return Naming(snapshot).bindings(assignments)


class Naming:
    """Names the pods in solutions of one snapshot; what these have in common is read once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._nodes = snapshot.columns
        groups = [(g, group) for g, gang in enumerate(snapshot.gangs) for group in gang.groups]
        sets = [(r, s) for r, (_, group) in enumerate(groups) for s in group.pod_sets]
        self._gang_of_group = np.array([g for g, _ in groups], dtype=np.int64)
        self._group_names = [group.name for _, group in groups]
        self._group_of_set = np.array([r for r, _ in sets], dtype=np.int64)
        self._first_group = _firsts([len(gang.groups) for gang in snapshot.gangs])
        self._first_set = _firsts([len(group.pod_sets) for _, group in groups])
        self._first_pod = _firsts([len(s.pods) for _, s in sets])
        self._pods = [pod for _, s in sets for pod in s.pods]
        self._level_ranks: dict[str, Ints] = {}
        self._levels: dict[int, tuple[str, ...]] = {}

    def bindings(self, assignments: Iterable[Assignment]) -> tuple[Binding, ...]:
        """The bindings of a solution, in order of gang and pod name.

        Raises ValueError when a set is given more pods than it has, IndexError when
        an index is outside the snapshot: both are defects of the engine.
        """
        rows = tuple(assignments)
        if not rows:
            return ()
        gang, group, pod_set, node, count = np.array(rows, dtype=np.int64).T
        number = self._sets(gang, group, pod_set)
        _check(node, len(self._nodes), "node")
        if (count < 0).any():
            raise IndexError("a negative count")
        total = np.bincount(number, count, minlength=len(self._group_of_set)).astype(np.int64)
        over = np.flatnonzero(total > self._first_pod[1:] - self._first_pod[:-1])
        if len(over):
            raise ValueError(self._too_many(int(over[0]), total))
        order = self._order(gang, number, node)
        number, node, count = number[order], node[order], count[order]
        # The slots of a set are adjacent; its pods take them in their own order.
        slot_set, slot_node = np.repeat(number, count), np.repeat(node, count)
        slot = np.arange(len(slot_set)) - (np.cumsum(total) - total)[slot_set]
        pod = self._pods_in_order[self._first_pod[slot_set] + slot]
        slot_group = self._group_of_set[slot_set]
        in_order = np.lexsort(
            (self._pod_ranks[pod], self._gang_ranks[self._gang_of_group[slot_group]])
        )
        return use_reservations(
            self._snapshot, self._named(pod[in_order], slot_node[in_order], slot_group[in_order])
        )

    def _named(self, pods: Ints, nodes: Ints, groups: Ints) -> tuple[Binding, ...]:
        names, gangs = self._nodes.names, self._snapshot.gangs
        found = []
        for p, n, r, g in zip(
            pods.tolist(),
            nodes.tolist(),
            groups.tolist(),
            self._gang_of_group[groups].tolist(),
            strict=True,
        ):
            pod = self._pods[p]
            found.append(Binding(pod.name, names[n], gangs[g].name, self._group_names[r], pod.uid))
        return tuple(found)

    def _sets(self, gang: Ints, group: Ints, pod_set: Ints) -> Ints:
        """Pod sets numbered over all gangs; raises IndexError for what is not there."""
        _check(gang, len(self._snapshot.gangs), "gang")
        row = self._first_group[gang] + group
        _check(group, self._first_group[gang + 1] - self._first_group[gang], "group")
        _check(pod_set, self._first_set[row + 1] - self._first_set[row], "pod set")
        number: Ints = self._first_set[row] + pod_set
        return number

    def _too_many(self, number: int, total: Ints) -> str:
        group = int(self._group_of_set[number])
        gang = self._snapshot.gangs[int(self._gang_of_group[group])]
        pods = int(self._first_pod[number + 1] - self._first_pod[number])
        name = self._group_names[group]
        return f"{gang.name}, group {name}: {total[number]} pods assigned of {pods}"

    def _order(self, gang: Ints, number: Ints, node: Ints) -> Ints:
        """By set, then by the domains of the gang's levels, from broad to narrow, then by node."""
        levels = {g: self._levels_of(g) for g in np.unique(gang).tolist()}
        deepest = max(map(len, levels.values()))
        ranks_at = self._ranks_at
        if len(node) <= _FEW:
            # A rank among these is enough, whatever other nodes there are.
            used, place = np.unique(node, return_inverse=True)
            names = [self._nodes.names[n] for n in used.tolist()]
            keys = [natural_ranks(names)[place]]
            node, ranks_at = place, partial(_ranks_at, self._nodes.labels.taken(used))
        else:
            keys = [self._node_ranks[node]]
        for depth in reversed(range(deepest)):
            key = np.zeros(len(node), dtype=np.int64)
            by_level: dict[str, list[int]] = {}
            for g, own in levels.items():
                if depth < len(own):
                    by_level.setdefault(own[depth], []).append(g)
            for level, gangs in by_level.items():
                mine = np.isin(gang, gangs)
                key[mine] = ranks_at(level)[node[mine]]
            keys.append(key)
        order: Ints = np.lexsort((*keys, number))
        return order

    def _levels_of(self, gang: int) -> tuple[str, ...]:
        if gang not in self._levels:
            self._levels[gang] = self._breadth.sorted_levels(self._snapshot.gangs[gang])
        return self._levels[gang]

    def _ranks_at(self, level: str) -> Ints:
        """As the function, once for each level."""
        if level not in self._level_ranks:
            self._level_ranks[level] = _ranks_at(self._nodes.labels, level)
        return self._level_ranks[level]

    @cached_property
    def _breadth(self) -> _Breadth:
        return _Breadth(self._snapshot)

    @cached_property
    def _node_ranks(self) -> Ints:
        return natural_ranks(self._nodes.names)

    @cached_property
    def _pod_ranks(self) -> Ints:
        return natural_ranks([pod.name for pod in self._pods])

    @cached_property
    def _gang_ranks(self) -> Ints:
        return natural_ranks([gang.name for gang in self._snapshot.gangs])

    @cached_property
    def _pods_in_order(self) -> Ints:
        """The pods of each set by their rank, where they have one, and by name."""
        count = self._first_pod[1:] - self._first_pod[:-1]
        of_set = np.repeat(np.arange(len(count)), count)
        unranked = np.array([pod.rank is None for pod in self._pods], dtype=bool)
        rank = np.array([pod.rank or 0 for pod in self._pods], dtype=np.int64)
        order: Ints = np.lexsort((self._pod_ranks, rank, unranked, of_set))
        return order


def _ranks_at(of_nodes: KindColumn[Labels], level: str) -> Ints:
    """The place of each node's domain at a level among all, in natural order."""
    values = {k: labels.get(level, "") for k, labels in of_nodes.in_use()}
    place = {v: i for i, v in enumerate(sorted(set(values.values()), key=natural_key))}
    of_kind = np.zeros(len(of_nodes.kinds), dtype=np.int64)
    of_kind[list(values)] = [place[v] for v in values.values()]
    ranks: Ints = of_kind[of_nodes.number]
    return ranks


def _firsts(sizes: Sequence[int]) -> Ints:
    """Where each of some parts begins, and where the last one ends."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def _check(indices: Ints, count: Ints | int, what: str) -> None:
    bad = np.flatnonzero((indices < 0) | (indices >= count))
    if len(bad):
        raise IndexError(f"no {what} {indices[bad[0]]}")


def count_pods(snapshot: Snapshot, bindings: Sequence[Binding]) -> tuple[Assignment, ...]:
    """The assignments behind bindings, sorted: the inverse of `name_pods`.

    Bindings whose pod is not pending, or whose node does not exist, are left out: an earlier answer
    may name pods that run by now and nodes that are gone.
    """
    if not bindings:
        return ()
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
            column = self._snapshot.columns.labels
            self._domains[level] = column.derived(
                ("breadth", level),
                lambda: len({labels.get(level) for labels, _ in column.counts()}),
            )
        return self._domains[level]
