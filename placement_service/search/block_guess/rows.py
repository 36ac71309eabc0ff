"""What gangs take of blocks and what blocks have, counted in several ways at once.

A way to count whole nodes is a number t and some pools: a part of `size` nodes that needs one of
these pools takes floor(size / t), and a rack of them has floor(capacity / t), as in
`bounds.counting`. Small pods take what the ways of `Blocks.ways` count. What a plan has whole in
a block obeys all these rows; what obeys them may still not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.blocks.parts import Kind
from placement_service.cp_sat.blocks.rack_columns import Prices, RackColumns
from placement_service.cp_sat.blocks.shapes import Blocks, Class
from placement_service.formulation.arrays import Bools, Ints

#: Units of a row for each whole node at least, so that rows can be made alike.
FINE = 16

#: Sets of pools that are counted over at most.
MOST_POOL_SETS = 16


class SmallRows(NamedTuple):
    """Rows of small pods: what a gang of each class takes [C, R], a part of each kind [K, R] at
    least, and what each block has [B, R].
    """

    takes: Ints
    parts: Ints
    room: Ints


class RackRow(NamedTuple):
    """One row: what a part of each kind takes [K], and what each block has [B]."""

    parts: Ints
    room: Ints


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """What one gang of each class takes [C, R] and what each block has [B, R], row by row.

    All rows are scaled so that about as many units make a block, `unit` of them a whole node.
    `parts` is what one part of each of the `kinds` takes [K, R], `times` [C, K] are the parts of a
    gang; `tightest` is the row of each kind that counts just parts of its size in its pools.
    `small` are all rows of small pods, whether they are among the others or not.
    """

    unit: int

    takes: Ints
    room: Ints
    kinds: Sequence[Kind]
    parts: Ints
    times: Ints
    tightest: Mapping[Kind, int]
    small: SmallRows

    def with_racks(self, row: RackRow) -> BlockRows:
        """These rows and one more."""
        takes = self.times @ row.parts
        return self._with(takes[:, None], row.room[:, None], row.parts[:, None])

    def with_small(self, some: Ints) -> BlockRows:
        """These rows and some of small pods."""
        small = self.small
        return self._with(small.takes[:, some], small.room[:, some], small.parts[:, some])

    def _with(self, takes: Ints, room: Ints, parts: Ints) -> BlockRows:
        return replace(
            self,
            takes=np.concatenate([self.takes, takes], axis=1),
            room=np.concatenate([self.room, room], axis=1),
            parts=np.concatenate([self.parts, parts], axis=1),
        )


class _Way(NamedTuple):
    pools: frozenset[int]
    size: int


def block_rows(blocks: Blocks, classes: Sequence[Class]) -> BlockRows:
    """The rows of some classes; blocks in the order of `Blocks.order`."""
    kinds = sorted({kind for c in classes for kind, _ in c.shape.kinds if kind.size})
    nodes = sum(blocks.room.values())
    small = _small(blocks, classes, kinds)
    unit = max(FINE, round(int(small.room.sum(axis=0).max(initial=0)) / max(1, nodes)))
    ways = _ways(kinds)
    parts, room = _whole(blocks, kinds, ways)
    times = np.zeros((len(classes), len(kinds)), dtype=np.int64)
    for c, mine in enumerate(classes):
        for kind, n in mine.shape.kinds:
            if kind.size:
                times[c, kinds.index(kind)] += n
    # Only those that can be broken, and of whole nodes those of single kinds.
    gangs = np.array([len(c.gangs) for c in classes], dtype=np.int64)
    tightest = [ways.index(_Way(frozenset(kind.pools), kind.size)) for kind in kinds]
    kept: Bools = np.any(gangs @ (times @ parts) > room, axis=0)
    kept[tightest] = True
    at = np.cumsum(kept) - 1
    scale = np.round(unit * nodes / np.maximum(1, small.room.sum(axis=0)))
    factor = np.maximum(1, scale).astype(np.int64)
    breakable = (gangs @ small.takes > small.room).any(axis=0)
    return BlockRows(
        unit,
        unit * (times @ parts[:, kept]),
        unit * room[:, kept],
        kinds,
        unit * parts[:, kept],
        times,
        {kind: int(at[row]) for kind, row in zip(kinds, tightest, strict=True)},
        SmallRows(*((factor * some)[:, breakable] for some in small)),
    )


def rack_row(columns: RackColumns, prices: Prices, unit: int) -> RackRow:
    """A row that prices of parts make. A part takes the most that other parts are worth which fit
    into its nodes, whichever of its pools these are of.

    Whatever the prices are, what blocks hold obeys the row: the parts of a rack may be replaced by
    those that they count as. These fit into the rack, so they take no more than it holds at most.
    """
    priced = {kind: round(unit * price) for kind, price in prices.items() if price > 0}
    largest = max(kind.size for kind in columns.kinds)
    worth: dict[frozenset[int], list[int]] = {}

    def of(kind: Kind) -> int:
        # In some rack it takes nodes of the pools there, perhaps of each of them.
        taken = {pools.intersection(kind.pools) for pools in columns.pools} - {frozenset()}
        for pools in taken - worth.keys():
            worth[pools] = _worth(pools, priced, largest)
        return min((worth[pools][kind.size] for pools in taken), default=0)

    room = [round(most) for most in columns.worths(priced).values()]
    parts = [of(kind) for kind in columns.kinds]
    return RackRow(np.array(parts, dtype=np.int64), np.array(room, dtype=np.int64))


def _worth(pools: frozenset[int], priced: Mapping[Kind, int], largest: int) -> list[int]:
    """The most that parts are worth that fit into 0 to `largest` nodes of any of some pools."""
    able = [(kind.size, price) for kind, price in priced.items() if pools.issubset(kind.pools)]
    found = [0]
    for c in range(1, largest + 1):
        found.append(max(found[-1], *(found[c - t] + price for t, price in able if t <= c), 0))
    return found


def _ways(kinds: Sequence[Kind]) -> list[_Way]:
    """Ways to count whole nodes, those of most pools first."""
    found = []
    for pools in pool_sets(kinds):
        sizes = {1, *(kind.size for kind in kinds if pools.issuperset(kind.pools))}
        found += [_Way(pools, size) for size in sorted(sizes)]
    return found


class _Whole(NamedTuple):
    parts: Ints
    room: Ints


def _whole(blocks: Blocks, kinds: Sequence[Kind], ways: Sequence[_Way]) -> _Whole:
    """Rows of whole nodes, by kind and by block."""
    parts = np.zeros((len(kinds), len(ways)), dtype=np.int64)
    room = np.zeros((len(blocks.order), len(ways)), dtype=np.int64)
    for w, (pools, t) in enumerate(ways):
        for i, kind in enumerate(kinds):
            if pools.issuperset(kind.pools):
                parts[i, w] = t * (kind.size // t)
        for sort, racks in blocks.racks.items():
            at = blocks.order.index(sort.block)
            room[at, w] += t * (sort.within(pools) // t) * len(racks)
    return _Whole(parts, room)


def pool_sets(kinds: Iterable[Kind]) -> list[frozenset[int]]:
    """Pools that kinds name, closed under union as far as that goes; the most pools first."""
    found = list(dict.fromkeys(frozenset(kind.pools) for kind in kinds))
    for one in found:
        for other in tuple(found):
            if one | other not in found and len(found) < MOST_POOL_SETS:
                found.append(one | other)
    return sorted(found, key=len, reverse=True)


def _small(blocks: Blocks, classes: Sequence[Class], kinds: Sequence[Kind]) -> SmallRows:
    """Rows of small pods, by class, kind and block."""
    known = [dict(zip(*map(np.ndarray.tolist, blocks.ways(b)), strict=True)) for b in blocks.order]
    ways = sorted({k for mine in known for k in mine})
    takes = np.array([c.units for c in classes], dtype=np.int64).reshape(len(classes), -1)[:, ways]
    # Where another way is stricter, this one has room for everything.
    asked = takes.T @ np.array([len(c.gangs) for c in classes], dtype=np.int64)
    room = [[mine.get(k, int(all_)) for k, all_ in zip(ways, asked, strict=True)] for mine in known]
    by_block = np.array(room, dtype=np.int64).reshape(len(known), len(ways))
    parts = [blocks.least_of(kind)[ways] for kind in kinds]
    return SmallRows(
        takes, np.array(parts, dtype=np.int64).reshape(len(kinds), len(ways)), by_block
    )
