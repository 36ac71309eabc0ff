"""Devices inside nodes as ordinary resources of the nodes (rule 16).

Whole GPUs and shares of them are blocks that nest: a partition of four holds two of two,
a GPU of 1000 thousandths two shares of 500. Let F_s be how often a block of size s is
wholly free on a node. Where sizes divide each other a set of pods fits exactly when

    sum over pods of size t >= s of  (t / s)  <=  F_s        for every size s

because large before small wastes nothing. So each size is a column: nodes offer F_s, pods
take t / s. Which devices a pod gets is settled at the end (see `device_names`).

Sizes that do not divide each other are rounded up to halves, quarters, eighths of a GPU;
then a share may wait that would fit, and no bound is claimed (`Devices.exact`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from placement_service.entities.devices import Device, DeviceShare, PartitionPolicy
from placement_service.entities.request import Node, PodSet, PodTemplate, Policy, Snapshot

#: A whole GPU, in thousandths.
WHOLE = 1000

#: What a node offers of a column that says nothing about it.
PLENTY = 1 << 40

#: The column that keeps shares off nodes that do not list their GPUs.
LISTED = "listed GPUs"
#: The column of GPUs of which nothing is in use.
FREE = "whole GPUs"


@dataclass(frozen=True, slots=True)
class Devices:
    """A snapshot with devices as resources; `exact` when they say all there is to say."""

    snapshot: Snapshot
    exact: bool = True


class _Share(NamedTuple):
    """A share on devices of one size of memory: what it takes, in thousandths."""

    memory_bytes: int
    milli: int


def with_devices(snapshot: Snapshot, policy: Policy) -> Devices:
    """The snapshot with a column for each size of block; itself where no device matters."""
    templates = [s.template for s in _pod_sets(snapshot)]
    shares = [t.device_share for t in templates if t.device_share is not None]
    if not shares and not any(parts.devices for parts, _ in snapshot.columns.parts.counts()):
        return Devices(snapshot)
    wholes = {policy.whole_gpus(t.requests) for t in templates if t.device_share is None} - {0}
    memories = {d.memory_bytes for n in snapshot.nodes for d in n.devices}
    sizes = {m: _sizes([milli_of(s, m) for s in shares]) for m in memories}
    tables = dict.fromkeys(_table(n) for n in snapshot.nodes if _honours(n))
    columns = _Columns(policy, sorted(wholes), sizes, list(tables))
    exact = all(s.exact for s in sizes.values()) and all(_is_simple(s) for s in shares)
    return Devices(
        replace(
            snapshot,
            nodes=tuple(columns.of_node(n) for n in snapshot.nodes),
            gangs=tuple(
                replace(
                    gang,
                    groups=tuple(
                        replace(
                            group,
                            pod_sets=tuple(
                                replace(s, template=columns.of_pod(s.template))
                                for s in group.pod_sets
                            ),
                        )
                        for group in gang.groups
                    ),
                )
                for gang in snapshot.gangs
            ),
        ),
        exact and all(_nests(table) for table in tables),
    )


def milli_of(share: DeviceShare, memory_bytes: int) -> int:
    """What a share takes of a device with so much memory, in thousandths of it.

    More than a whole where the device is too small, or its memory is not known.
    """
    memory = share.memory_milli
    if share.memory_bytes:
        if not memory_bytes:
            return WHOLE + 1
        memory = -(-share.memory_bytes * WHOLE // memory_bytes)
    return max(share.compute_milli, memory, 1)


def left_of(device: Device) -> int:
    """What is left of a device, in thousandths; nothing of one that is not healthy."""
    used = max(device.used_milli, device.used_memory_milli)
    return max(0, WHOLE - used) if device.healthy else 0


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
    # What no device holds is kept out by the blocks of a whole one.
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


def _is_simple(share: DeviceShare) -> bool:
    """Whether one number says what the share takes, of one device."""
    same = share.compute_milli == share.memory_milli
    return share.count == 1 and (same or not share.compute_milli or not share.memory_milli)


# --- partitions -----------------------------------------------------------------

#: The partitions of a node, as sorted sets of devices.
_Table = tuple[tuple[int, ...], ...]


def _honours(node: Node) -> bool:
    return node.partition_policy is PartitionPolicy.HONOR and bool(node.partitions)


def _table(node: Node) -> _Table:
    return tuple(sorted({tuple(sorted(p.devices)) for p in node.partitions}))


def _nests(table: _Table) -> bool:
    """Whether partitions lie inside each other or apart, and sizes divide each other."""
    sets = [frozenset(p) for p in table]
    sizes = sorted({len(s) for s in sets})
    return all(b % a == 0 for a, b in pairwise(sizes)) and all(
        not (a & b) or a <= b or b <= a for a in sets for b in sets
    )


def nested(table: _Table) -> _Table:
    """The largest partitions first, as far as each nests with those before."""
    kept: list[frozenset[int]] = []
    for part in sorted(table, key=lambda p: (-len(p), p)):
        mine = frozenset(part)
        if all(
            not (mine & other) or (mine <= other and len(other) % len(mine) == 0) for other in kept
        ):
            kept.append(mine)
    return tuple(sorted(tuple(sorted(part)) for part in kept))


# --- columns --------------------------------------------------------------------


class _Columns:
    """What nodes offer and pods take of each size of block."""

    def __init__(
        self,
        policy: Policy,
        wholes: Sequence[int],
        sizes: Mapping[int, _Sizes],
        tables: Sequence[_Table],
    ) -> None:
        self._policy = policy
        self._wholes = wholes
        self._sizes = sizes
        self._tables = [nested(table) for table in tables]
        self._table_of = {table: i for i, table in enumerate(tables)}

    def of_node(self, node: Node) -> Node:
        left = {d.index: left_of(d) for d in node.devices}
        offers: dict[str, int] = {LISTED: PLENTY if left else 0}
        offers[FREE] = sum(free == WHOLE for free in left.values()) if left else PLENTY
        for memory, sizes in self._sizes.items():
            mine = [left[d.index] for d in node.devices if d.memory_bytes == memory]
            for size in sizes.distinct:
                # Devices of another memory count in columns of their own.
                here = sum(free // size for free in mine) if mine else PLENTY
                offers[_share_column(memory, size)] = here
        own = self._table_of.get(_table(node)) if _honours(node) else None
        for i, table in enumerate(self._tables):
            for size in self._sizes_of(table):
                offers[_partition_column(i, size)] = (
                    _free_partitions(table, left, size) if i == own else PLENTY
                )
        return replace(node, allocatable={**node.allocatable, **offers})

    def of_pod(self, template: PodTemplate) -> PodTemplate:
        share = template.device_share
        takes: Counter[str] = Counter()
        if share is not None:
            takes[LISTED] = 1
            for memory, sizes in self._sizes.items():
                milli = milli_of(share, memory)
                for size in sizes.distinct:
                    block = sizes.rounded.get(milli, PLENTY)
                    takes[_share_column(memory, size)] = self._blocks(share, block, size)
            if share.count > 1:
                # Different devices each: only wholly free ones are sure to be.
                takes[FREE] = share.count
        elif whole := self._policy.whole_gpus(template.requests):
            takes[FREE] = whole
            for memory, sizes in self._sizes.items():
                for size in sizes.distinct:
                    takes[_share_column(memory, size)] = whole * (WHOLE // size)
            for i, table in enumerate(self._tables):
                for size in self._sizes_of(table):
                    blocks = whole // size
                    if size not in {len(p) for p in table}:
                        # Not a size of the table: it holds back only pods of this size.
                        blocks = int(size == whole)
                    takes[_partition_column(i, size)] = blocks
        if not takes:
            return template
        return replace(template, requests={**template.requests, **+takes})

    def _blocks(self, share: DeviceShare, block: int, size: int) -> int:
        if share.count > 1:
            return share.count * (WHOLE // size)
        return block // size

    def _sizes_of(self, table: _Table) -> list[int]:
        return sorted({len(p) for p in table} | set(self._wholes))


def _free_partitions(table: _Table, left: Mapping[int, int], size: int) -> int:
    return sum(len(part) == size and all(left.get(d, 0) == WHOLE for d in part) for part in table)


def _share_column(memory_bytes: int, size: int) -> str:
    of = f" of {memory_bytes >> 30} GiB GPUs" if memory_bytes else ""
    return f"shares of {size / 10:g} %{of}"


def _partition_column(table: int, size: int) -> str:
    more = f" ({table + 1})" if table else ""
    return f"partitions of {size} GPUs{more}" if size > 1 else f"partitions of 1 GPU{more}"


def _pod_sets(snapshot: Snapshot) -> Iterable[PodSet]:
    return (s for gang in snapshot.gangs for group in gang.groups for s in group.pod_sets)
