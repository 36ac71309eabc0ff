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

from placement_service.cp_sat.block_shapes import Blocks, Class, Kind
from placement_service.cp_sat.rack_prices import Prices
from placement_service.formulation.arrays import Bools, Ints

#: Units of a row for each whole node at least, so that rows can be made alike.
FINE = 16

#: Sets of pools that are counted over at most.
MOST_POOL_SETS = 16


class SmallRows(NamedTuple):
    """Rows of small pods: what a gang of each class takes [C, R], and each block has [B, R]."""

    takes: Ints
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
        none = np.zeros((len(self.kinds), len(some)), dtype=np.int64)
        return self._with(self.small.takes[:, some], self.small.room[:, some], none)

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
    small = _small(blocks, classes)
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
        SmallRows((factor * small.takes)[:, breakable], (factor * small.room)[:, breakable]),
    )


def rack_row(blocks: Blocks, kinds: Sequence[Kind], prices: Prices, unit: int) -> RackRow:
    """A row that prices of parts make. With f(c) what a rack of c nodes holds at most at the
    prices of its pool, a part of c nodes takes the least f(c) of its pools.

    Whatever the prices are, what blocks hold obeys the row: parts of a, b, ... nodes in a rack of c
    take f(a) + f(b) + ... at most, which the rack holds together, so it is at most f(c).
    """
    largest = max(blocks.largest_rack, *(kind.size for kind in kinds))
    dearest: dict[int, float] = {}
    for by_size in prices.values():
        for t, price in by_size.items():
            dearest[t] = max(price, dearest.get(t, 0.0))
    # Of pools without a price nothing is known: the dearest takes nothing from the others.
    worth = {
        q: _worth(prices.get(q, dearest), largest, unit)
        for q in {sort.pool for sort in blocks.racks}
    }
    parts = [
        min((worth[q][kind.size] for q in kind.pools if q in worth), default=0) for kind in kinds
    ]
    room = np.zeros(len(blocks.order), dtype=np.int64)
    for sort, racks in blocks.racks.items():
        room[blocks.order.index(sort.block)] += worth[sort.pool][sort.capacity] * len(racks)
    return RackRow(np.array(parts, dtype=np.int64), room)


def _worth(prices: Mapping[int, float], largest: int, unit: int) -> list[int]:
    """The most that racks of 0 to `largest` nodes hold at some prices."""
    priced = [(t, round(unit * price)) for t, price in prices.items() if price > 0]
    found = [0]
    for c in range(1, largest + 1):
        found.append(max(found[-1], *(found[c - t] + price for t, price in priced if t <= c), 0))
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
            if sort.pool in pools:
                at = blocks.order.index(sort.block)
                room[at, w] += t * (sort.capacity // t) * len(racks)
    return _Whole(parts, room)


def pool_sets(kinds: Iterable[Kind]) -> list[frozenset[int]]:
    """Pools that kinds name, closed under union as far as that goes; the most pools first."""
    found = list(dict.fromkeys(frozenset(kind.pools) for kind in kinds))
    for one in found:
        for other in tuple(found):
            if one | other not in found and len(found) < MOST_POOL_SETS:
                found.append(one | other)
    return sorted(found, key=len, reverse=True)


def _small(blocks: Blocks, classes: Sequence[Class]) -> SmallRows:
    """Rows of small pods, by class and by block."""
    known = [dict(zip(*map(np.ndarray.tolist, blocks.ways(b)), strict=True)) for b in blocks.order]
    ways = sorted({k for mine in known for k in mine})
    takes = np.array([c.units for c in classes], dtype=np.int64).reshape(len(classes), -1)[:, ways]
    # Where another way is stricter, this one has room for everything.
    asked = takes.T @ np.array([len(c.gangs) for c in classes], dtype=np.int64)
    room = [[mine.get(k, int(all_)) for k, all_ in zip(ways, asked, strict=True)] for mine in known]
    by_block = np.array(room, dtype=np.int64).reshape(len(known), len(ways))
    return SmallRows(takes, by_block)
