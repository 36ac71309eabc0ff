"""What domains of a signature are worth at most, by max-plus convolution (see `configurations`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.formulation.arrays import Bools, Ints

#: Sums of prices stay below this, so that they are exact and take half the memory.
SMALL = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """`nodes[T]` is how many nodes of each type a domain has.

    `open_type` accepts what `open_nodes` of them take; `ways[E, S]` are all ways to give the
    rest to shapes. Where these would be too many some nodes count as open, and a set that was
    priced may not fit: then `fits` is false.
    """

    nodes: tuple[int, ...]
    domains: tuple[int, ...]
    open_type: int
    open_nodes: int
    ways: tuple[tuple[int, ...], ...]
    fits: bool


class SignatureWays:
    """All ways of all signatures, each once for each open type, as arrays."""

    def __init__(self, signatures: Sequence[Signature], accepts: Bools, shapes: int) -> None:
        self.shapes = shapes
        self.most = max((s.open_nodes for s in signatures), default=0)
        self._groups: list[tuple[Bools, Ints, int, Ints, Ints, Ints]] = []
        for t in sorted({s.open_type for s in signatures}):
            mine = [g for g, s in enumerate(signatures) if s.open_type == t]
            index: dict[tuple[int, ...], int] = {}
            pairs: list[int] = []
            starts: list[int] = []
            for g in mine:
                starts.append(len(pairs))
                pairs += [index.setdefault(way, len(index)) for way in signatures[g].ways]
            self._groups.append(
                (
                    accepts[t],
                    np.array(list(index), dtype=np.int64).reshape(len(index), shapes),
                    max(signatures[g].open_nodes for g in mine),
                    np.array(mine, dtype=np.int64),
                    np.array(pairs, dtype=np.int64),
                    np.array(starts, dtype=np.int64),
                )
            )

    def best(self, worth: Ints, signatures: Sequence[Signature]) -> tuple[Ints, Ints]:
        """The most that each signature is worth [G], and the units of each shape there [G, S]."""
        small = int(worth.max(axis=1, initial=0).sum()) < SMALL
        # Ways of one domain are tried with the open nodes of another; these values are not read.
        worth = np.pad(worth.astype(np.int32) if small else worth, ((0, 0), (0, self.most)), "edge")
        best = np.zeros(len(signatures), dtype=np.int64)
        units = np.zeros((len(signatures), self.shapes), dtype=np.int64)
        for open_shapes, ways, most, mine, pairs, starts in self._groups:
            steps = _convolve(worth, open_shapes, ways, most)
            open_nodes = np.array([signatures[g].open_nodes for g in mine], dtype=np.int64)
            lengths = np.diff([*starts, len(pairs)])
            values = steps[-1][1][np.repeat(open_nodes, lengths), pairs]
            top = np.maximum.reduceat(values, starts)
            best[mine] = top
            reach = np.flatnonzero(values == np.repeat(top, lengths))
            first = reach[np.searchsorted(reach, starts)]
            way = pairs[first]
            units[mine] = ways[way]
            self._walk_back(worth, ways[way], way, steps, open_nodes, units, mine)
        return best, units

    @staticmethod
    def _walk_back(
        worth: Ints,
        chosen: Ints,
        way: Ints,
        steps: list[tuple[int, Ints]],
        open_nodes: Ints,
        units: Ints,
        mine: Ints,
    ) -> None:
        """Which shapes the open nodes went to, from the last shape to the first."""
        left = open_nodes.copy()
        given = np.arange(int(left.max(initial=0)) + 1)
        for (shape, after), (_, before) in zip(steps[:0:-1], steps[-2::-1], strict=True):
            target = after[left, way]
            rest = left[:, None] - given
            value = before[np.maximum(rest, 0), way[:, None]]
            value = value + worth[shape, chosen[:, shape, None] + given]
            # As few nodes as reach the target.
            taken = np.argmax((value == target[:, None]) & (rest >= 0), axis=1)
            left -= taken
            units[mine, shape] += taken


def _convolve(worth: Ints, open_shapes: Bools, ways: Ints, most: int) -> list[tuple[int, Ints]]:
    """For each open shape in turn, what ways are worth with u open nodes [u, E]."""
    base = np.zeros(len(ways), dtype=worth.dtype)
    for shape in np.flatnonzero(~open_shapes).tolist():
        base += worth[shape, ways[:, shape]]
    steps: list[tuple[int, Ints]] = [(-1, np.repeat(base[None, :], most + 1, axis=0))]
    for shape in np.flatnonzero(open_shapes).tolist():
        before = steps[-1][1]
        row, given = worth[shape], ways[:, shape]
        # The rest of the nodes stays empty, so values never fall with more nodes.
        after = before + row[given]
        rises = np.concatenate(([0], np.cumsum(row[1:] > row[:-1])))
        top = int(given.max(initial=0))
        for j in range(1, most + 1):
            # Where a further unit is worth nothing, one node less is as good.
            if rises[min(top + j, len(rises) - 1)] > rises[j - 1]:
                with_more = before[: most + 1 - j] + row[given + j]
                np.maximum(after[j:], with_more, out=after[j:])
        steps.append((shape, after))
    return steps
