"""Whether racks of a block hold some parts: best fit, the largest part first, in a few orders."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections.abc import Sequence

from placement_service.cp_sat.block_shapes import Blocks, Kind

#: Orders that are tried: by size alone, then with so much randomness.
ORDERS = 12
LUCK = 3.0


class RackFitting:
    """Racks of blocks by pool. It may miss room that exists."""

    def __init__(self, blocks: Blocks, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._racks: dict[int, dict[int, list[int]]] = {b: {} for b in blocks.order}
        for sort, racks in blocks.racks.items():
            mine = self._racks[sort.block].setdefault(sort.pool, [])
            mine += [sort.capacity] * len(racks)
        self._known: dict[tuple[int, tuple[Kind, ...]], Kind | None] = {}

    def misfit(self, block: int, parts: Sequence[Kind]) -> Kind | None:
        """A part that finds no rack beside the others, None if all do."""
        mine = tuple(sorted(kind for kind in parts if kind.size > 1))
        key = (block, mine)
        if key not in self._known:
            self._known[key] = self._try(block, mine)
        return self._known[key]

    def _try(self, block: int, parts: Sequence[Kind]) -> Kind | None:
        luck = 0.0
        first = None
        for _ in range(ORDERS):
            order = sorted(parts, key=lambda k: (-k.size + luck * self._random.random(), k.pools))
            misfit = self._place(block, order)
            if misfit is None:
                return None
            first = first or misfit
            luck = LUCK
        return first

    def _place(self, block: int, order: Sequence[Kind]) -> Kind | None:
        room = {pool: sorted(racks) for pool, racks in self._racks[block].items()}
        for kind in order:
            able = []
            for pool in kind.pools:
                racks = room.get(pool, [])
                at = bisect_left(racks, kind.size)
                if at < len(racks):
                    able.append((racks[at], pool, at))
            if not able:
                return kind
            left, pool, at = min(able)
            del room[pool][at]
            insort(room[pool], left - kind.size)
        return None
