"""What gangs take of blocks and what blocks have, counted in several ways at once.

A way to count whole nodes is a number t and some pools: a part of `size` nodes that needs one of
these pools takes floor(size / t), and a rack of them has floor(capacity / t), as in
`bounds.counting`. Small pods take what the ways of `Blocks.ways` count. What a plan has whole in
a block obeys all these rows; what obeys them may still not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.block_shapes import Blocks, Class, Kind
from placement_service.formulation.arrays import Ints

#: Units of a row for each whole node at least, so that rows can be made alike.
FINE = 16

#: Sets of pools that are counted over at most.
MOST_POOL_SETS = 16


@dataclass(frozen=True, slots=True, eq=False)
class BlockRows:
    """What one gang of each class takes [C, R] and what each block has [B, R], row by row.

    All rows are scaled so that about as many units make a block, `unit` of them a whole node.
    `parts` is what one part of each of the `kinds` takes [K, R]; `tightest` is the row of each kind
    that counts just parts of its size in its pools.
    """

    unit: int

    takes: Ints
    room: Ints
    kinds: Sequence[Kind]
    parts: Ints
    tightest: Mapping[Kind, int]


class _Rows(NamedTuple):
    takes: Ints
    room: Ints


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
    whole = _whole(blocks, kinds, ways)
    times = np.zeros((len(classes), len(kinds)), dtype=np.int64)
    for c, mine in enumerate(classes):
        for kind, n in mine.shape.kinds:
            if kind.size:
                times[c, kinds.index(kind)] += n
    scale = np.round(unit * nodes / np.maximum(1, small.room.sum(axis=0)))
    factor = np.maximum(1, scale).astype(np.int64)
    takes = np.concatenate([unit * (times @ whole.takes), factor * small.takes], axis=1)
    room = np.concatenate([unit * whole.room, factor * small.room], axis=1)
    parts = np.pad(unit * whole.takes, ((0, 0), (0, len(factor))))
    tightest = [ways.index(_Way(frozenset(kind.pools), kind.size)) for kind in kinds]
    # Of the other rows only those that can be broken.
    asked = np.array([len(c.gangs) for c in classes], dtype=np.int64) @ takes
    kept = (asked > room).any(axis=0)
    kept[tightest] = True
    at = np.cumsum(kept) - 1
    return BlockRows(
        unit,
        takes[:, kept],
        room[:, kept],
        kinds,
        parts[:, kept],
        {kind: int(at[row]) for kind, row in zip(kinds, tightest, strict=True)},
    )


def _ways(kinds: Sequence[Kind]) -> list[_Way]:
    """Ways to count whole nodes, those of most pools first."""
    found = []
    for pools in _pool_sets(kinds):
        sizes = {1, *(kind.size for kind in kinds if pools.issuperset(kind.pools))}
        found += [_Way(pools, size) for size in sorted(sizes)]
    return found


def _whole(blocks: Blocks, kinds: Sequence[Kind], ways: Sequence[_Way]) -> _Rows:
    """Rows of whole nodes, by kind and by block."""
    takes = np.zeros((len(kinds), len(ways)), dtype=np.int64)
    room = np.zeros((len(blocks.order), len(ways)), dtype=np.int64)
    for w, (pools, t) in enumerate(ways):
        for i, kind in enumerate(kinds):
            if pools.issuperset(kind.pools):
                takes[i, w] = t * (kind.size // t)
        for sort, racks in blocks.racks.items():
            if sort.pool in pools:
                at = blocks.order.index(sort.block)
                room[at, w] += t * (sort.capacity // t) * len(racks)
    return _Rows(takes, room)


def _pool_sets(kinds: Iterable[Kind]) -> list[frozenset[int]]:
    """Pools that kinds name, closed under union as far as that goes; the most pools first."""
    found = list(dict.fromkeys(frozenset(kind.pools) for kind in kinds))
    for one in found:
        for other in tuple(found):
            if one | other not in found and len(found) < MOST_POOL_SETS:
                found.append(one | other)
    return sorted(found, key=len, reverse=True)


def _small(blocks: Blocks, classes: Sequence[Class]) -> _Rows:
    """Rows of small pods, by class and by block."""
    known = [dict(zip(*map(np.ndarray.tolist, blocks.ways(b)), strict=True)) for b in blocks.order]
    ways = sorted({k for mine in known for k in mine})
    takes = np.array([c.units for c in classes], dtype=np.int64).reshape(len(classes), -1)[:, ways]
    # Where another way is stricter, this one has room for everything.
    asked = takes.T @ np.array([len(c.gangs) for c in classes], dtype=np.int64)
    room = [[mine.get(k, int(all_)) for k, all_ in zip(ways, asked, strict=True)] for mine in known]
    by_block = np.array(room, dtype=np.int64).reshape(len(known), len(ways))
    return _Rows(takes, by_block)
