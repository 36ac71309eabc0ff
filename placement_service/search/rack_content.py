"""What racks of one block hold while parts are placed there one after another.

Parts may choose among pools, and the choice of one must not take what others need. For a set S of
pools let

    spare(S)  =  free whole nodes of S  -  nodes of expected parts that may use pools of S alone

A part goes to a pool only where no spare falls below zero by it. Then single nodes always find
room (Hall's condition), so they come last and need no search.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from placement_service.cp_sat.block_contents import Sizes
from placement_service.cp_sat.block_shapes import Kind
from placement_service.cp_sat.rack_packing import PackedRacks


class Rack(NamedTuple):
    """Whole nodes that are left of a rack, all that it has, and the sizes of parts in it."""

    left: int
    capacity: int
    sizes: tuple[int, ...] = ()

    @property
    def content(self) -> Sizes:
        """Its parts as `Filled` counts them."""
        return tuple(sorted(Counter(self.sizes).items(), reverse=True))


class RackContent:
    """Racks by pool; `spare` by the sets of pools that are counted, `used` parts by kind and pool.

    Expect parts before they are placed, so that others leave them room.
    """

    def __init__(
        self, racks: Mapping[int, Sequence[int]], pool_sets: Iterable[frozenset[int]]
    ) -> None:
        self.racks = {q: sorted(Rack(n, n) for n in some) for q, some in racks.items()}
        self.free = {q: sum(some) for q, some in racks.items()}
        self.spare = {
            pools: sum(n for q, n in self.free.items() if q in pools) for pools in pool_sets
        }
        self.used: Counter[tuple[Kind, int]] = Counter()

    @property
    def short(self) -> frozenset[int] | None:
        """Pools with fewer nodes than are expected of them, None for none."""
        return next((pools for pools, n in self.spare.items() if n < 0), None)

    def expect(self, kind: Kind, times: int) -> None:
        """Keep room for parts, or give it back for less than none."""
        for pools in self.spare:
            if pools.issuperset(kind.pools):
                self.spare[pools] -= kind.size * times

    def room_for(self, kind: Kind) -> int:
        """Nodes for parts of a kind beside all that is placed or expected."""
        mine = [n for pools, n in self.spare.items() if pools.issuperset(kind.pools)]
        return min(mine, default=0)

    def hold(self, packed: PackedRacks) -> None:
        """Give expected parts of several nodes the racks that they were packed into."""
        for pool, capacity, sizes in packed.racks:
            racks = self.racks[pool]
            racks.remove(Rack(capacity, capacity))
            insort(racks, Rack(capacity - sum(sizes), capacity, sizes))
        for (kind, pool), n in packed.used.items():
            if kind.size > 1:
                self._take(kind, pool, n)

    def place(self, kind: Kind) -> bool:
        """Give an expected part the fullest rack that holds it; false where none does."""
        found: tuple[int, int, int, int] | None = None
        for q in kind.pools:
            racks = self.racks.get(q, [])
            at = bisect_left(racks, (kind.size,))
            if at < len(racks):
                others = self._others(kind, q)
                mine = (racks[at].left, -others, q, at)
                if others >= kind.size and (found is None or mine < found):
                    found = mine
        if found is None:
            return False
        *_, q, at = found
        rack = self.racks[q].pop(at)
        sizes = (*rack.sizes, kind.size)
        insort(self.racks[q], Rack(rack.left - kind.size, rack.capacity, sizes))
        self._take(kind, q, 1)
        return True

    def place_singles(self, kind: Kind, times: int) -> int:
        """Give nodes to expected parts of one node each; how many found none."""
        for q in sorted(kind.pools, key=lambda q: -self._others(kind, q)):
            n = min(times, self.free.get(q, 0), self._others(kind, q))
            if n > 0:
                self._take(kind, q, n)
                times -= n
        return times

    def _others(self, kind: Kind, pool: int) -> int:
        """Nodes of a pool that parts with other choices do not need."""
        some = [
            n
            for pools, n in self.spare.items()
            if pool in pools and not pools.issuperset(kind.pools)
        ]
        return min(some, default=self.free.get(pool, 0))

    def _take(self, kind: Kind, pool: int, times: int) -> None:
        taken = kind.size * times
        self.free[pool] -= taken
        self.used[kind, pool] += times
        for pools in self.spare:
            if pool in pools and not pools.issuperset(kind.pools):
                self.spare[pools] -= taken
