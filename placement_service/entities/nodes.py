"""All nodes of a cluster as columns: no object for each node.

Machines come in few kinds. Values that are alike on many nodes (labels, allocatable amounts,
taints, devices) are kept once, as a row of a table, and each node has the number of its row. Values
that differ on every node of a busy cluster (requested amounts) are a column of numbers. `Nodes` is
still a sequence of `Node`, for code that wants a few nodes as values and for rules that are rarely
used.

It never changes. `updated` gives another version, which copies the numbers and shares the
rest, so that a cluster of which ten nodes changed costs little more than those ten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from operator import lt
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from placement_service.entities.devices import Device, DevicePartition, PartitionPolicy
from placement_service.entities.node import (
    EPHEMERAL_STORAGE,
    HOSTNAME,
    HostPort,
    Node,
    Resources,
    Taint,
)
from placement_service.entities.selectors import Labels

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What is free of a resource that is not limited.
NO_LIMIT = 2**62

_PREFIX = "nodes/"

#: How many kinds may be left over from earlier versions.
_FEW_KINDS = 64

_K = TypeVar("_K")
_T = TypeVar("_T")


class Parts(NamedTuple):
    """Values that only few nodes have; see `Node`."""

    host_ports: tuple[HostPort, ...] = ()
    devices: tuple[Device, ...] = ()
    partitions: tuple[DevicePartition, ...] = ()
    partition_policy: PartitionPolicy = PartitionPolicy.PREFER
    compute_domain: str = ""
    compute_domain_pods: int = 0
    closed_because: str = ""


class KindColumn(Generic[_K]):
    """A value for each of N things, few of them different: `kinds[number[i]]`."""

    __slots__ = ("_derived", "_number_of", "kinds", "number")

    def __init__(
        self,
        kinds: tuple[_K, ...],
        number: Ints,
        number_of: Mapping[Hashable, int] | None = None,
    ) -> None:
        number.flags.writeable = False
        self.kinds = kinds
        self.number = number
        self._number_of = number_of
        self._derived: dict[Hashable, Any] = {}

    def derived(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """A value that follows from this column alone, computed once for all versions that share
        it.
        """
        if key not in self._derived:
            self._derived[key] = make()
        found: _T = self._derived[key]
        return found

    def __getitem__(self, i: int) -> _K:
        return self.kinds[int(self.number[i])]

    def __iter__(self) -> Iterator[_K]:
        return map(self.kinds.__getitem__, self.number.tolist())

    def numbers(self, measure: Callable[[_K], int]) -> Ints:
        """A number for each thing [N], measured once for each kind."""
        return np.array([measure(kind) for kind in self.kinds], dtype=np.int64)[self.number]

    def where(self, holds: Callable[[_K], object]) -> Bools:
        """For which things something is true [N], asked once for each kind."""
        return np.array([bool(holds(kind)) for kind in self.kinds], dtype=bool)[self.number]

    def counts(self) -> Iterator[tuple[_K, int]]:
        """Each kind that some thing has, and how many have it."""
        count = np.bincount(self.number, minlength=len(self.kinds)).tolist()
        return ((kind, n) for kind, n in zip(self.kinds, count, strict=True) if n)

    def in_use(self) -> Iterator[tuple[int, _K]]:
        """Each kind that some thing has, with its number."""
        return ((k, self.kinds[k]) for k in np.unique(self.number).tolist())

    def taken(self, rows: Ints) -> KindColumn[_K]:
        """The column of some things, in this order."""
        return KindColumn(self.kinds, self.number[rows], self._number_of)

    def updated(
        self, size: int, at: Ints, values: Sequence[_K], content: Callable[[_K], Hashable]
    ) -> KindColumn[_K]:
        """The column of `size` things with other values in the rows `at`; equal ones are one
        kind."""
        number_of = self._number_of
        if number_of is None:
            number_of = {content(kind): k for k, kind in enumerate(self.kinds)}
        kinds = list(self.kinds)
        fresh: dict[Hashable, int] = {}
        numbers = []
        for value in values:
            key = content(value)
            found = number_of.get(key, fresh.get(key))
            if found is None:
                found = fresh[key] = len(kinds)
                kinds.append(value)
            numbers.append(found)
        if size == len(self.number) and self.number[at].tolist() == numbers:
            self._number_of = number_of
            return self
        # The versions before keep theirs.
        known = {**number_of, **fresh} if fresh else number_of
        number = _set(self.number, size, at, numbers)
        used = np.bincount(number, minlength=len(kinds)) > 0
        if len(kinds) <= _FEW_KINDS + 2 * np.count_nonzero(used):
            return KindColumn(tuple(kinds), number, known)
        # Kinds that no thing has any longer must not pile up.
        left = np.cumsum(used) - 1
        return KindColumn(
            tuple(kind for kind, in_use in zip(kinds, used.tolist(), strict=True) if in_use),
            left[number],
        )


def of_labels(labels: Labels) -> Hashable:
    """What makes labels equal."""
    return frozenset(labels.items())


def of_resources(resources: Resources) -> Hashable:
    """What makes amounts equal."""
    return frozenset(resources.items())


def _itself(kind: Hashable) -> Hashable:
    return kind


@dataclass(frozen=True, eq=False)  # no slots: cached_property keeps its value in the instance
class Nodes(Sequence[Node]):
    """N nodes; the rows of all columns are in one order.

    `labels` are without the hostname label where that is the node's own name. `requested`
    has a column [N] for each resource that some pod of some node asks for. Arrays are not to
    be changed.
    """

    names: tuple[str, ...]
    labels: KindColumn[Labels]
    allocatable: KindColumn[Resources]
    requested: Mapping[str, Ints]
    taints: KindColumn[tuple[Taint, ...]]
    unschedulable: Bools
    ready: Bools
    parts: KindColumn[Parts]

    @staticmethod
    def of(nodes: Iterable[Node]) -> Nodes:
        """Columns of nodes one by one."""
        values = tuple(nodes)
        rows = np.arange(len(values), dtype=np.int64)
        return _with_rows(NO_NODES, tuple(node.name for node in values), rows, values)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, i: int) -> Node: ...

    @overload
    def __getitem__(self, i: slice) -> tuple[Node, ...]: ...

    def __getitem__(self, i: int | slice) -> Node | tuple[Node, ...]:
        if isinstance(i, slice):
            return tuple(self[k] for k in range(*i.indices(len(self))))
        name = self.names[i]
        labels = self.labels[i]
        return Node(
            name,
            labels if HOSTNAME in labels else {**labels, HOSTNAME: name.removeprefix(_PREFIX)},
            self.allocatable[i],
            {r: amount for r, column in self.requested.items() if (amount := int(column[i]))},
            self.taints[i],
            bool(self.unschedulable[i]),
            bool(self.ready[i]),
            *self.parts[i],
        )

    def __iter__(self) -> Iterator[Node]:
        return map(self.__getitem__, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Nodes({', '.join(map(repr, self))})"

    @cached_property
    def row_of(self) -> Mapping[str, int]:
        """The place of each node by its name."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def open(self) -> Bools:
        """Nodes that take new pods [N]."""
        return self.ready & ~self.unschedulable

    def short_names(self) -> list[str]:
        """As `Node.short_name`, of each node."""
        return [name.removeprefix(_PREFIX) for name in self.names]

    def label(self, key: str) -> list[str | None]:
        """The value of a label on each node, None without it."""
        values = [labels.get(key) for labels in self.labels.kinds]
        found = [values[k] for k in self.labels.number.tolist()]
        if key == HOSTNAME:
            own = zip(found, self.short_names(), strict=True)
            return [name if value is None else value for value, name in own]
        return found

    def free(self, resource: str) -> Ints:
        """As `Node.free`, of each node."""
        total = self.allocatable.numbers(lambda resources: resources.get(resource, 0))
        used = self.requested.get(resource)
        free = total if used is None else total - used
        if resource == EPHEMERAL_STORAGE:
            free = np.where(total == 0, NO_LIMIT, free)
        return free

    def total_requested(self, resources: Iterable[str]) -> Ints:
        """What pods on each node ask for of some resources together [N]."""
        columns = [self.requested[r] for r in resources if r in self.requested]
        return np.sum(columns, axis=0, dtype=np.int64) if columns else np.zeros(len(self), np.int64)

    def updated(self, changed: Iterable[Node], gone: Collection[str] = ()) -> Nodes:
        """The same cluster with some nodes changed, new ones at the end, and others gone."""
        old = self._without(gone) if gone else self
        latest = {node.name: node for node in changed}
        place = old.row_of
        fresh = tuple(name for name in latest if name not in place)
        rows = {**place, **{name: len(old) + k for k, name in enumerate(fresh)}} if fresh else place
        at = np.array([rows[name] for name in latest], dtype=np.int64)
        names = (*old.names, *fresh) if fresh else old.names
        new = _with_rows(old, names, at, tuple(latest.values()))
        # What is known of names need not be found again.
        new.__dict__["row_of"] = rows
        return new

    def in_order(self) -> Nodes:
        """The same nodes in ascending order of their names."""
        if all(map(lt, self.names, islice(self.names, 1, None))):
            return self
        return self.few(sorted(range(len(self)), key=self.names.__getitem__))

    def _without(self, gone: Collection[str]) -> Nodes:
        names = set(gone)
        return self.few([i for i, name in enumerate(self.names) if name not in names])

    def few(self, rows: Sequence[int]) -> Nodes:
        """Some nodes, in this order."""
        at = np.array(rows, dtype=np.int64)
        return Nodes(
            tuple(self.names[i] for i in rows),
            self.labels.taken(at),
            self.allocatable.taken(at),
            {r: column[at] for r, column in self.requested.items()},
            self.taints.taken(at),
            self.unschedulable[at],
            self.ready[at],
            self.parts.taken(at),
        )


def _with_rows(old: Nodes, names: tuple[str, ...], at: Ints, values: Sequence[Node]) -> Nodes:
    """Nodes of these names, with some rows set."""
    size = len(names)
    requested = {
        r: _set(column, size, at, [node.requested.get(r, 0) for node in values])
        for r, column in old.requested.items()
    }
    for r in dict.fromkeys(r for node in values for r, n in node.requested.items() if n):
        if r not in requested:
            requested[r] = _set(_NONE, size, at, [n.requested.get(r, 0) for n in values])
    labels = [_without_own_name(node) for node in values]
    return Nodes(
        names,
        old.labels.updated(size, at, labels, of_labels),
        old.allocatable.updated(size, at, [n.allocatable for n in values], of_resources),
        requested,
        old.taints.updated(size, at, [n.taints for n in values], _itself),
        _set(old.unschedulable, size, at, [n.unschedulable for n in values]),
        _set(old.ready, size, at, [n.ready for n in values]),
        old.parts.updated(size, at, [parts_of(n) for n in values], _itself),
    )


def parts_of(node: Node) -> Parts:
    return Parts(
        node.host_ports,
        node.devices,
        node.partitions,
        node.partition_policy,
        node.compute_domain,
        node.compute_domain_pods,
        node.closed_because,
    )


def _without_own_name(node: Node) -> Labels:
    """The labels without the hostname label, where that is the node's own name."""
    if node.labels.get(HOSTNAME) != node.short_name:
        return node.labels
    return {key: value for key, value in node.labels.items() if key != HOSTNAME}


def _set(column: NDArray[Any], size: int, at: Ints, values: Sequence[object]) -> NDArray[Any]:
    """The column made longer, with other values in some rows."""
    result = np.zeros(size, dtype=column.dtype)
    result[: len(column)] = column
    result[at] = np.array(values, dtype=column.dtype)
    result.flags.writeable = False
    return result


_NONE = np.zeros(0, dtype=np.int64)
_NO = np.zeros(0, dtype=bool)

NO_NODES = Nodes(
    (),
    KindColumn[Labels]((), _NONE),
    KindColumn[Resources]((), _NONE),
    {},
    KindColumn[tuple[Taint, ...]]((), _NONE),
    _NO,
    _NO,
    KindColumn[Parts]((), _NONE),
)
