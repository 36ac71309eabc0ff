"""What racks of one block hold while parts are placed there one after another.

Parts may choose among pools, and the choice of one must not take what others need. For a set S of
pools let

    spare(S)  =  free whole nodes of S  -  nodes of expected parts that may use pools of S alone

A part goes to a pool only where no spare falls below zero by it. Then single nodes always find
room (Hall's condition), so they come last and need no search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from placement_service.cp_sat.blocks.contents import Sizes
from placement_service.cp_sat.blocks.parts import MIXED, Kind, RackSort
from placement_service.cp_sat.blocks.rack_packing import PackedRacks
from placement_service.formulation.arrays import MANY


@dataclass(slots=True)
class Rack:
    """A rack, its whole nodes that are left by pool, and the slots for parts in it."""

    sort: RackSort
    left: dict[int, int]
    slots: list[Kind] = field(default_factory=list)

    @property
    def content(self) -> Sizes:
        """Its parts as `Filled` counts them."""
        return tuple(sorted(Counter(self.slots).items(), reverse=True))


class _Place(NamedTuple):
    """A rack for a part, and the nodes that it takes there by pool; the least is the best."""

    fitting: int
    others: int
    at: int
    taken: tuple[tuple[int, int], ...]


class RackContent:
    """Racks of one block; `spare` by the sets of pools that are counted, `used` parts by kind and
    pool.

    Expect parts before they are placed, so that others leave them room.
    """

    def __init__(
        self,
        racks: Iterable[RackSort],
        pool_sets: Iterable[frozenset[int]],
        choosiness: Mapping[int, int],
    ) -> None:
        self.racks = [Rack(sort, dict(sort.nodes)) for sort in racks]
        self._choosiness = choosiness
        self.free: Counter[int] = Counter()
        for rack in self.racks:
            self.free.update(rack.left)
        self.spare = {
            pools: sum(n for q, n in self.free.items() if q in pools) for pools in pool_sets
        }
        self.used: Counter[tuple[Kind, int]] = Counter()
        self._narrower: dict[tuple[int, ...], list[frozenset[int]]] = {}
        #: Racks of one pool by the nodes that are left, and racks of several.
        self._by_left: dict[int, list[list[int]]] = {}
        self._mixed: list[int] = []
        most = max((rack.sort.capacity for rack in self.racks), default=0)
        for at, rack in enumerate(self.racks):
            pool = rack.sort.pool
            if pool == MIXED:
                self._mixed.append(at)
            else:
                by_left = self._by_left.setdefault(pool, [[] for _ in range(most + 1)])
                by_left[rack.sort.capacity].append(at)

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
        for sort, kinds in packed:
            at = next(i for i, r in enumerate(self.racks) if r.sort == sort and not r.slots)
            for kind in sorted(kinds, key=lambda kind: len(kind.pools)):
                self._put(at, kind, self._nodes(self.racks[at], kind))

    def place(self, kind: Kind) -> bool:
        """Give an expected part the fullest rack that holds it; false where none does."""
        pools, size = kind
        narrow = self._narrow(pools)
        found: _Place | None = None
        for at in self._able(pools, size):
            rack = self.racks[at]
            fitting = sum([n for q, n in rack.left.items() if q in pools])
            if fitting < size or (found is not None and fitting > found.fitting):
                continue
            taken = self._nodes(rack, kind)
            others = self._others(narrow, taken)
            if others >= 0:
                mine = _Place(fitting, -others, at, taken)
                if found is None or mine < found:
                    found = mine
        if found is None:
            return False
        self._put(found.at, kind, found.taken)
        return True

    def _able(self, pools: tuple[int, ...], size: int) -> Iterator[int]:
        """Racks that may have room: the fullest of each pool, and all mixed ones."""
        for q in pools:
            by_left = self._by_left.get(q, [])
            yield from next((racks[:1] for racks in by_left[size:] if racks), [])
        yield from self._mixed

    def _narrow(self, pools: tuple[int, ...]) -> Sequence[frozenset[int]]:
        """Sets of pools whose room parts of these pools may take from others."""
        if pools not in self._narrower:
            self._narrower[pools] = [
                s for s in self.spare if not s.issuperset(pools) and not s.isdisjoint(pools)
            ]
        return self._narrower[pools]

    def _nodes(self, rack: Rack, kind: Kind) -> tuple[tuple[int, int], ...]:
        """Nodes for a part by pool: those first that fewest others can use."""
        if len(rack.left) == 1:
            return ((rack.sort.pool, kind.size),)
        taken = []
        size = kind.size
        for q in sorted(kind.pools, key=self._choosiness.__getitem__):
            n = min(size, rack.left.get(q, 0))
            if n:
                taken.append((q, n))
                size -= n
        return tuple(taken)

    def _others(self, narrow: Sequence[frozenset[int]], taken: Sequence[tuple[int, int]]) -> int:
        """The least that parts with other choices find beside, below zero if that is too little."""
        least = MANY
        for pools in narrow:
            n = sum(n for q, n in taken if q in pools)
            if n:
                least = min(least, self.spare[pools] - n)
        return least

    def _put(self, at: int, kind: Kind, taken: Sequence[tuple[int, int]]) -> None:
        rack = self.racks[at]
        pool = rack.sort.pool
        for q, n in taken:
            if pool != MIXED:
                self._by_left[q][rack.left[q]].remove(at)
                self._by_left[q][rack.left[q] - n].append(at)
            rack.left[q] -= n
            self._take(kind, q, n)
        self.used[kind, pool] += 1
        rack.slots.append(kind if pool == MIXED else Kind((pool,), kind.size))

    def place_singles(self, kind: Kind, times: int) -> int:
        """Give nodes to expected parts of one node each; how many found none."""
        for q in sorted(kind.pools, key=lambda q: -self._beside(kind, q)):
            n = min(times, self.free.get(q, 0), self._beside(kind, q))
            if n > 0:
                self._take(kind, q, n)
                self.used[kind, q] += n
                times -= n
        return times

    def _beside(self, kind: Kind, pool: int) -> int:
        """Nodes of a pool that parts with other choices do not need."""
        some = [
            n
            for pools, n in self.spare.items()
            if pool in pools and not pools.issuperset(kind.pools)
        ]
        return min(some, default=self.free.get(pool, 0))

    def _take(self, kind: Kind, pool: int, nodes: int) -> None:
        self.free[pool] -= nodes
        for pools in self.spare:
            if pool in pools and not pools.issuperset(kind.pools):
                self.spare[pools] -= nodes
