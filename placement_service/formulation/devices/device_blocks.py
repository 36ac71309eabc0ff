"""Blocks of devices that nest: what nodes offer and pods take of devices, in closed form.

A partition of four holds two of two, a GPU of 1000 thousandths two shares of 500. Let F_s be
how often a block of size s is wholly free on a node. Where sizes divide each other a set of
pods fits exactly when

    sum over pods of size t >= s of  (t / s)  <=  F_s        for every size s

because large before small wastes nothing. So each size is a column: nodes offer F_s, pods
take t / s.

Where a node only prefers its partitions, that holds of the pods that insist on one: the others
take whatever GPUs are left. Where such a pod may get some of the partitions of its size only,
these are a column of their own, and larger pods count as if they broke all of those that they
might.

Sizes that do not divide each other are rounded up to halves, quarters, eighths of a GPU, and
of partitions that overlap only some are used. Then a pod may wait that would fit. Pods that
want network devices get none here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from placement_service.entities.devices import DevicePartition, PartitionPolicy
from placement_service.entities.request import Node
from placement_service.formulation.devices.boards import left_of
from placement_service.formulation.devices.wants import WHOLE, Want, graded

#: What a node offers of a column that does not limit it.
PLENTY = 1 << 40

#: The column of GPUs of which nothing is in use.
FREE = "a whole GPU"
#: The column that holds back pods which blocks cannot describe.
NETWORK = "a network device beside GPUs"
#: What a node has that has no partition as a pod insists on.
_NO_PARTITION: list[Cell] = []

#: The partitions of a node, as sorted sets of devices.
Table = tuple[tuple[int, ...], ...]


class Cell(NamedTuple):
    """Where blocks of one size lie: a partition, or a GPU that holds several of them.

    `size` is in thousandths of each of the devices.
    """

    devices: tuple[int, ...]
    size: int

    def blocks(self, left: Mapping[int, int]) -> int:
        """How many there are when so much is left of each device, in thousandths."""
        return min([left.get(d, 0) // self.size for d in self.devices], default=0)


class _Device(NamedTuple):
    """A device of a node, whether in use or not."""

    number: int
    memory: int


class _Layout(NamedTuple):
    """What distinguishes the devices of nodes, whatever is in use."""

    devices: tuple[_Device, ...]
    partitions: tuple[DevicePartition, ...]
    honours: bool


class DeviceBlocks:
    """The columns of a question: pods with these wants come, beside some that may stay."""

    def __init__(
        self, nodes: Sequence[Node], wants: Sequence[Want], staying: Iterable[Want] = ()
    ) -> None:
        shares = [want for want in wants if not want.whole]
        self._wholes = sorted({want.number for want in wants if want.whole})
        memories = {d.memory_bytes for n in nodes for d in n.devices}
        self._sizes = {m: _sizes([_milli(s, m) for s in shares]) for m in sorted(memories)}
        self._insisting = [want for want in wants if want.in_partition]
        honoured = dict.fromkeys(n.partitions for n in nodes if honours(n))
        tables = list(dict.fromkeys(map(_table, honoured)))
        insists = bool(self._insisting)
        read = {n.partitions for n in nodes if partitions_count(n, required=insists)}
        self._tables = [nested(table) for table in tables]
        self._table_of = {table: i for i, table in enumerate(tables)}
        self._networked = any(want.nics for want in wants)
        self._known: dict[_Layout, Sequence[tuple[str, list[Cell]]]] = {}
        self.names = self._all_names()
        #: Whether the columns describe exactly what fits.
        self.exact = (
            all(s.exact for s in self._sizes.values())
            and _in_one_amount(shares, nodes, staying)
            and all(map(_nests, {_table(partitions) for partitions in read}))
            and not any(_serves_in_part(p, want) for p in read for want in self._insisting)
            and not self._networked
            # Shares count in the columns of every memory, though devices of any one would do.
            and not (shares and any(len({d.memory_bytes for d in n.devices}) > 1 for n in nodes))
        )

    def _all_names(self) -> list[str]:
        shares = [
            _share_column(memory, size)
            for memory, sizes in self._sizes.items()
            for size in sizes.distinct
        ]
        partitions = [
            _partition_column(i, size)
            for i, table in enumerate(self._tables)
            for size in self._sizes_of(table)
        ]
        required = [
            column
            for want in self._insisting
            for column in (
                _there_column(want),
                *(_required_column(want, insists=insists) for insists in (True, False)),
            )
        ]
        return [FREE, *shares, *partitions, *dict.fromkeys(required)]

    def cells(self, node: Node) -> Sequence[tuple[str, list[Cell]]]:
        """The columns that say something about a node, with the places of their blocks."""
        layout = _Layout(
            tuple(_Device(d.index, d.memory_bytes) for d in node.devices),
            node.partitions,
            honours(node),
        )
        if layout not in self._known:
            self._known[layout] = tuple(self._cells(layout))
        return self._known[layout]

    def _cells(self, layout: _Layout) -> Iterator[tuple[str, list[Cell]]]:
        if not layout.devices:
            return
        yield FREE, [Cell((d,), WHOLE) for d, _ in layout.devices]
        for memory, sizes in self._sizes.items():
            mine = [d for d, of_it in layout.devices if of_it == memory]
            for size in sizes.distinct if mine else ():
                # Devices of another memory count in columns of their own.
                yield _share_column(memory, size), [Cell((d,), size) for d in mine]
        own = self._table_of.get(_table(layout.partitions)) if layout.honours else None
        if own is not None:
            table = self._tables[own]
            for size in self._sizes_of(table):
                parts = [Cell(part, WHOLE) for part in table if len(part) == size]
                yield _partition_column(own, size), parts
        for want in self._insisting:
            serving = _serving(layout.partitions, want)
            if not serving:
                yield _there_column(want), _NO_PARTITION
            elif not layout.honours or _serves_in_part(layout.partitions, want):
                column = _required_column(want, insists=layout.honours)
                yield column, [Cell(part, WHOLE) for part in serving]

    def offers(self, node: Node, busy: Iterable[int] = ()) -> dict[str, int]:
        """What a node offers when some further devices are taken."""
        taken = frozenset(busy)
        left = {d.index: 0 if d.index in taken else min(left_of(d)) for d in node.devices}
        offers = dict.fromkeys(self.names, PLENTY)
        if self._networked:
            offers[NETWORK] = 0
        free = {d for d, milli in left.items() if milli >= WHOLE}
        for column, cells in self.cells(node):
            # Most cells are of whole devices, where no arithmetic is needed.
            offers[column] = sum(
                [
                    free.issuperset(cell.devices) if cell.size == WHOLE else cell.blocks(left)
                    for cell in cells
                ]
            )
        return offers

    def takes(self, want: Want) -> dict[str, int]:
        """What a pod takes of each column."""
        takes = self._whole_takes(want) if want.whole else self._share_takes(want)
        return {NETWORK: 1} | takes if want.nics else takes

    def _share_takes(self, want: Want) -> dict[str, int]:
        takes: dict[str, int] = {}
        for memory, sizes in self._sizes.items():
            # Different devices each: only wholly free ones are sure to be.
            block = sizes.rounded.get(_milli(want, memory), PLENTY)
            if want.number > 1:
                block = want.number * WHOLE
            for size in sizes.distinct:
                takes[_share_column(memory, size)] = block // size
        if want.number > 1:
            takes[FREE] = want.number
        return takes

    def _whole_takes(self, want: Want) -> dict[str, int]:
        takes = {FREE: want.number}
        for memory, sizes in self._sizes.items():
            for size in sizes.distinct:
                takes[_share_column(memory, size)] = want.number * (WHOLE // size)
        for i, table in enumerate(self._tables):
            there = {len(p) for p in table}
            for size in self._sizes_of(table):
                # A size that is not in the table limits only pods of this size.
                blocks = want.number // size if size in there else int(size == want.number)
                takes[_partition_column(i, size)] = blocks
        if want in self._insisting:
            takes[_there_column(want)] = 1
        for other in self._insisting:
            for insists in (True, False):
                if want.number > other.number:
                    # Where partitions are only preferred, pods that need none take what is left.
                    blocks = want.number // other.number * (insists or want.in_partition)
                else:
                    blocks = int(want.number == other.number and want.in_partition)
                takes[_required_column(other, insists=insists)] = blocks
        return takes

    def _sizes_of(self, table: Table) -> list[int]:
        return sorted({len(p) for p in table} | set(self._wholes) - {0})


def honours(node: Node) -> bool:
    """Whether a node gives whole devices as partitions only."""
    return node.partition_policy is PartitionPolicy.HONOR and bool(node.partitions)


def partitions_count(node: Node, *, required: bool) -> bool:
    """Whether it matters which GPUs a pod of whole ones has; `required` when some pod insists
    on a partition.
    """
    return bool(node.partitions) and (required or honours(node))


def gpus_differ(node: Node, *, required: bool, networked: bool) -> bool:
    """The same where some pod may be `networked`: want network devices beside its GPUs."""
    return (
        partitions_count(node, required=required)
        or len({d.memory_bytes for d in node.devices}) > 1
        or (networked and any(d.nics for d in node.devices))
    )


def could_come(node: Node, want: Want, devices: Collection[int]) -> bool:
    """Whether a node would give a pod these devices, if all were free."""
    if not {d.index for d in node.devices if d.healthy}.issuperset(devices):
        return False
    if not want.whole or not (want.in_partition or honours(node)):
        return True
    grade = graded(node.partitions).get(tuple(sorted(devices)))
    return grade is not None and (not want.in_partition or grade.serves(want))


@lru_cache(maxsize=4096)
def nested(table: Table) -> Table:
    """The partitions that nest with those before them, the largest first."""
    kept: list[frozenset[int]] = []
    for part in sorted(table, key=lambda p: (-len(p), p)):
        mine = frozenset(part)
        if all(
            not (mine & other) or (mine <= other and len(other) % len(mine) == 0) for other in kept
        ):
            kept.append(mine)
    return tuple(sorted(tuple(sorted(part)) for part in kept))


def _serves_in_part(partitions: Sequence[DevicePartition], want: Want) -> bool:
    """Whether some partitions of the size of a pod serve it and others do not."""
    of_size = [part for part in nested(_table(partitions)) if len(part) == want.number]
    return 0 < len(_serving(partitions, want)) < len(of_size)


def _serving(partitions: Sequence[DevicePartition], want: Want) -> list[tuple[int, ...]]:
    """The partitions that serve a pod that insists on one."""
    grades = graded(partitions)
    table = nested(tuple(grades))
    return [part for part in table if len(part) == want.number and grades[part].serves(want)]


def _there_column(want: Want) -> str:
    return f"{_required(want)} at all"


def _required_column(want: Want, *, insists: bool) -> str:
    return f"{_required(want)}{' beside others' if insists else ''}"


def _required(want: Want) -> str:
    best = " of the best score" if want.best_score else ""
    least = f" of {want.ring_bandwidth} bytes per second" if want.ring_bandwidth else ""
    return f"a required partition of {want.number} GPU{'s' * (want.number > 1)}{best}{least}"


def _partition_column(table: int, size: int) -> str:
    more = f" ({table + 1})" if table else ""
    return f"a partition of {size} GPUs{more}" if size > 1 else f"a partition of 1 GPU{more}"


# --- sizes of shares ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sizes:
    """`rounded` maps what shares take to what they count as; `exact` where that is the same."""

    rounded: Mapping[int, int]
    exact: bool

    @property
    def distinct(self) -> list[int]:
        return sorted(set(self.rounded.values()))


def _sizes(asked: Iterable[int]) -> _Sizes:
    # The blocks of a whole device keep out what no device can hold.
    found = sorted({min(milli, WHOLE) for milli in asked})
    if all(large % small == 0 for small, large in pairwise(found)):
        return _Sizes({milli: milli for milli in found}, exact=True)
    rounded = {}
    for milli in found:
        part = WHOLE
        while part % 2 == 0 and part // 2 >= milli:
            part //= 2
        rounded[milli] = part
    return _Sizes(rounded, exact=False)


def _in_one_amount(shares: Iterable[Want], nodes: Iterable[Node], staying: Iterable[Want]) -> bool:
    """Whether one number says what shares take of one device, and what is left of each device.

    If compute and memory are always taken alike they are one amount, and what is left is the lesser
    of both.
    """
    taken: set[tuple[bool, bool]] = set()
    for share in shares:
        memory = share.memory or share.memory_bytes
        if share.number > 1 or (share.compute and memory and share.compute != memory):
            return False
        taken.add(_takes_of(share))
    if taken <= {(True, True)}:
        return True
    left = [left_of(d) for node in nodes for d in node.devices]
    return (
        len(taken) == 1
        and all(each.compute == each.memory for each in left)
        and all(_takes_alike(want) or _takes_of(want) in taken for want in staying)
    )


def _takes_of(want: Want) -> tuple[bool, bool]:
    """Whether it takes compute, and memory."""
    return bool(want.compute), bool(want.memory or want.memory_bytes)


def _takes_alike(want: Want) -> bool:
    return want.compute == want.memory and not want.memory_bytes


def _milli(share: Want, memory_bytes: int) -> int:
    """The larger of compute and memory; more than a whole where a device cannot serve it."""
    load = share.load(memory_bytes)
    return WHOLE + 1 if load is None else max(*load, 1)


def _share_column(memory_bytes: int, size: int) -> str:
    of = f" of {memory_bytes >> 30} GiB GPUs" if memory_bytes else ""
    return f"a share of {size / 10:g} %{of}"


# --- partitions -----------------------------------------------------------------


def _table(partitions: Iterable[DevicePartition]) -> Table:
    return tuple(sorted({tuple(sorted(p.devices)) for p in partitions}))


def _nests(table: Table) -> bool:
    """Whether partitions lie inside each other or apart, and sizes divide each other.

    And whether each is full of those of every smaller size: else a large one breaks fewer.
    """
    sets = [frozenset(p) for p in table]
    sizes = sorted({len(s) for s in sets})
    return (
        all(b % a == 0 for a, b in pairwise(sizes))
        and all(not (a & b) or a <= b or b <= a for a in sets for b in sets)
        and all(
            sum(len(a) == size and a <= b for a in sets) == len(b) // size
            for b in sets
            for size in sizes
            if size < len(b)
        )
    )
