"""Assigns the counts of a model of blocks to gangs and nodes.

First the parts that need a rack, each in a slot of its size; then single whole nodes, in
the racks with least left; then the pods that are smaller than a node, best fit. A gang is left out
if one of its small pods finds no room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.blocks.contents import Filled
from placement_service.cp_sat.blocks.parts import MIXED, Kind, Piece
from placement_service.cp_sat.blocks.shapes import Blocks, Class, ExtraUnits
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import Plan, Units, is_placed
from placement_service.heuristic.one_gang.placer import GangPlacer
from placement_service.heuristic.one_gang.regions import Region
from placement_service.heuristic.one_gang.units import NodeUnits
from placement_service.heuristic.residual_capacity import ResidualCapacity


@dataclass(slots=True, eq=False)
class _Seat:
    """A gang and where its pieces are; `block` is -1 for several blocks."""

    gang: GangIdx
    block: int
    work: GangPlacer
    pieces: list[tuple[Piece, int]] = field(default_factory=list)
    racks: dict[int, int] = field(default_factory=dict)
    extras: Counter[tuple[int, int]] = field(default_factory=Counter)


class _PlacedExtras(NamedTuple):
    """Extras of a gang in a block."""

    extra: ExtraUnits
    block: int
    units: int


class BlockDecoding:
    """Turns the counts of a `Filled` into units of gangs on nodes."""

    def __init__(self, blocks: Blocks, classes: Sequence[Class], filled: Filled) -> None:
        self.blocks, self.classes, self.filled = blocks, classes, filled
        self.problem = blocks.problem
        self.residual = ResidualCapacity(self.problem)
        self.residual.take_plan(blocks.fixed)
        self._used = dict(filled.used)
        self._extras_left = dict(filled.extras)
        #: Free whole nodes by rack and pool.
        self._free: dict[int, dict[int, list[int]]] = {}
        for rack, nodes in blocks.nodes_of.items():
            for n in nodes:
                self._free.setdefault(rack, {}).setdefault(int(blocks.pool[n]), []).append(n)
        self._slots: dict[tuple[int, Kind], list[int]] = {}
        #: Whole nodes that were given away, by the pod class of their units.
        self._given: dict[ClassIdx, list[int]] = {}
        self._nodes_in: dict[tuple[int, ...], Ints] = {}

    def plan(self) -> Plan:
        """All gangs that found room, with those that stay where they are."""
        self._make_slots()
        seats = list(self._seats())
        for seat in seats:
            for piece, block in seat.pieces:
                if piece.kind.size > 1:
                    self._in_slot(seat, piece, block)
        order = self._racks_by_room()
        for seat in seats:
            for piece, block in seat.pieces:
                if piece.kind.size == 1:
                    self._on_nodes(seat, piece, block, order)
        for seat in seats:
            # Small pods may go to any node, so pods that take a whole one come first.
            self._whole_extras(seat, order)
        for pod_class, nodes in self._given.items():
            self.residual.take(pod_class, np.array(nodes), np.ones(len(nodes), dtype=np.int64))
        plan: dict[GangIdx, Units] = dict(self.blocks.fixed)
        for seat in self._scarcest_first(seats):
            if self._small(seat):
                self._small_extras(seat)
                plan[seat.gang] = seat.work.units()
        gangs = self.problem.gangs
        for seat in seats:
            base = gangs[seat.gang].base
            if base >= 0 and not is_placed(gangs[base], plan):
                plan.pop(seat.gang, None)
        return plan

    def _make_slots(self) -> None:
        free = {sort: list(racks) for sort, racks in self.blocks.racks.items()}
        for (sort, pattern), times in self.filled.racks.items():
            for _ in range(times):
                rack = free[sort].pop()
                for slot, count in pattern:
                    self._slots.setdefault((sort.block, slot), []).extend([rack] * count)

    # --- who goes where -------------------------------------------------------------------

    def _seats(self) -> Iterator[_Seat]:
        block_of: dict[GangIdx, int] = {}
        split: list[_Seat] = []
        large = list(self.filled.large)
        loose = Counter(self.filled.loose)
        whole: dict[int, list[tuple[int, int]]] = {}
        for (c, b), n in sorted(self.filled.whole.items()):
            whole.setdefault(c, []).append((b, n))
        for c, mine in enumerate(self.classes):
            for gang, block in self._members(c, mine, whole.get(c, ()), block_of):
                block_of[gang] = block
                seat = self._seat(gang, block)
                self._give_extras(seat, c, block)
                if block >= 0:
                    seat.pieces = [(p, block) for p in self._pieces(gang)]
                    yield seat
                else:
                    part = next((p for p in large if p.cls == c), None)
                    if part is None:
                        split.append(seat)
                    else:
                        large.remove(part)
                        seat.extras = Counter({(i, b): n for (i, b), n in part.extras.items()})
                        self._spread(seat, Counter(part.parts))
                        yield seat
        # Large before small: the remaining parts of a gang come from as few blocks as possible.
        split.sort(key=lambda seat: -sum(p.kind.size * p.times for p in self._pieces(seat.gang)))
        for seat in split:
            self._spread(seat, loose)
            yield seat

    def _members(
        self,
        c: int,
        mine: Class,
        whole: Sequence[tuple[int, int]],
        block_of: dict[GangIdx, int],
    ) -> Iterator[tuple[GangIdx, int]]:
        """Gangs of a class that are placed, and their blocks; `whole` says how many lie where."""
        if mine.base < 0:
            large = sum(p.cls == c for p in self.filled.large)
            where = [b for b, n in whole for _ in range(n)]
            where += [-1] * (large + self.filled.split.get(c, 0))
            yield from zip(mine.gangs, where, strict=False)
            return
        gangs = self.problem.gangs
        left = [i for i in mine.gangs if gangs[i].base in block_of]
        for b, n in whole:
            near = [i for i in left if block_of[gangs[i].base] == b][:n]
            left = [i for i in left if i not in near]
            yield from ((i, b) for i in near)
        away = [b for (k, b), n in sorted(self.filled.away.items()) if k == c for _ in range(n)]
        yield from zip(left, away, strict=False)

    def _pieces(self, gang: GangIdx) -> tuple[Piece, ...]:
        return self.blocks.pieces(self.problem.gangs[gang]) or ()

    def _seat(self, gang: GangIdx, block: int) -> _Seat:
        mine = self.problem.gangs[gang]
        return _Seat(gang, block, GangPlacer(self.blocks.counting.topology, self.residual, mine))

    def _give_extras(self, seat: _Seat, c: int, block: int) -> None:
        for i, extra in enumerate(self.classes[c].shape.extras):
            n = min(extra.count, self._extras_left.get((c, i, block), 0))
            if n:
                self._extras_left[c, i, block] -= n
                seat.extras[i, block] += n

    def _spread(self, seat: _Seat, supply: Counter[tuple[Kind, int]]) -> None:
        """Give a gang its parts of those in some blocks, most from one block first."""
        left = {i: p for i, p in enumerate(self._pieces(seat.gang)) if p.kind.size and p.times}
        small = [p for p in self._pieces(seat.gang) if not p.kind.size]
        want: Counter[Kind] = Counter()
        for p in left.values():
            want[p.kind] += p.times
        kinds_of: dict[int, list[Kind]] = {}
        for (kind, b), there in supply.items():
            if there and kind in want:
                kinds_of.setdefault(b, []).append(kind)

        def gain(b: int) -> int:
            return sum(kind.size * min(want[kind], supply[kind, b]) for kind in kinds_of[b])

        # What a block gives only becomes less, so the first that still gives as much gives most.
        blocks = [(-gain(b), b) for b in kinds_of]
        heapify(blocks)
        while left and blocks:
            known, b = heappop(blocks)
            now = gain(b)
            if now < -known:
                if now:
                    heappush(blocks, (-now, b))
                continue
            for i, p in list(left.items()):
                n = min(p.times, supply[p.kind, b])
                if n:
                    supply[p.kind, b] -= n
                    want[p.kind] -= n
                    seat.pieces.append((p._replace(times=n), b))
                    left[i] = p._replace(times=p.times - n)
                    if n == p.times:
                        del left[i]
        # Of what is left the model gave less than the gang needs: it finds no room.
        seat.pieces += [(p, -1) for p in (left.values() if left else small)]

    # --- nodes ------------------------------------------------------------------------------

    def _pool(self, kind: Kind, block: int) -> int:
        for q in (*kind.pools, MIXED):
            if self._used.get((kind, block, q), 0):
                self._used[kind, block, q] -= 1
                return q
        return MIXED

    def _in_slot(self, seat: _Seat, piece: Piece, block: int) -> None:
        for _ in range(piece.times):
            q = self._pool(piece.kind, block)
            kind = piece.kind if q == MIXED else Kind((q,), piece.kind.size)
            slots = self._slots.get((block, kind))
            if not slots:
                return
            rack = slots.pop()
            nodes = self._free_nodes(rack, kind)
            if len(nodes) < kind.size:
                return
            demands, want = self.problem.gangs[seat.gang].demands, seat.work.want
            for d in piece.demands:
                seat.racks[d] = rack
                if self.blocks.units[demands[d].pod_class]:
                    self._take(seat, d, [nodes.pop() for _ in range(want[d])])

    def _free_nodes(self, rack: int, kind: Kind) -> list[int]:
        """Nodes of a rack for a part: those first that fewest others can use."""
        found: list[int] = []
        free = self._free[rack]
        if len(free) == 1:
            (mine,) = free.values()
            return [mine.pop() for _ in range(min(kind.size, len(mine)))]
        for q in sorted(kind.pools, key=self.blocks.choosiness.__getitem__):
            mine = free.get(q, [])
            while mine and len(found) < kind.size:
                found.append(mine.pop())
        return found

    def _racks_by_room(self) -> dict[tuple[int, int], list[int]]:
        """Racks by block and pool, those with least left last."""
        found: dict[tuple[int, int], list[int]] = {}
        for sort, racks in self.blocks.racks.items():
            for q, _ in sort.nodes:
                found.setdefault((sort.block, q), []).extend(racks)
        for (_, q), racks in found.items():
            racks.sort(key=lambda rack: (-len(self._free[rack][q]), rack))
        return found

    def _on_nodes(
        self, seat: _Seat, piece: Piece, block: int, order: dict[tuple[int, int], list[int]]
    ) -> int:
        """Single whole nodes; returns how many were found."""
        chosen: list[int] = []
        for _ in range(piece.times):
            q = self._pool(piece.kind, block)
            racks = order.get((block, q), [])
            while racks and not self._free[racks[-1]][q]:
                racks.pop()
            if not racks:
                break
            chosen.append(self._free[racks[-1]][q].pop())
            if piece.rack:
                seat.racks.update(dict.fromkeys(piece.demands, racks[-1]))
        if chosen:
            demands, want = self.problem.gangs[seat.gang].demands, seat.work.want
            mine = [d for d in piece.demands if self.blocks.units[demands[d].pod_class]]
            single = [d for d in mine if want[d] or not piece.rack]
            self._take(seat, single[0], chosen)
        return len(chosen)

    def _take(self, seat: _Seat, demand: int, nodes: list[int]) -> None:
        """Give away whole nodes, which no other gang gets. Room for small pods is looked for later,
        so that they are taken all at once.
        """
        seat.work.note(demand, [NodeUnits(node, 1) for node in nodes])
        pod_class = self.problem.gangs[seat.gang].demands[demand].pod_class
        self._given.setdefault(pod_class, []).extend(nodes)

    def _scarcest_first(self, seats: Sequence[_Seat]) -> list[_Seat]:
        """Seats in the order in which their small pods find room: those with least room for one of
        them in their blocks first, as other pods may use this room too.
        """
        units, gangs = self.blocks.units, self.problem.gangs
        inside = self.blocks.block >= 0
        rooms: dict[ClassIdx, Ints] = {}

        def room(seat: _Seat) -> int:
            gang, least = gangs[seat.gang], self.problem.node_count << 20
            mine = [seat.block] if seat.block >= 0 else sorted({b for _, b in seat.pieces} - {-1})
            for demand, want in zip(gang.demands, seat.work.want, strict=True):
                s = demand.pod_class
                if not want or units[s]:
                    continue
                if s not in rooms:
                    rooms[s] = np.bincount(self.blocks.block[inside], self.residual.row(s)[inside])
                least = min(least, int(rooms[s][mine].sum() if mine else rooms[s].sum()))
            return least

        return sorted(seats, key=room)

    def _small(self, seat: _Seat) -> bool:
        """Place what is smaller than a node; false, and nothing placed, if the gang lacks any."""
        want = seat.work.want
        have: Counter[int] = Counter()
        for (d, _), count in seat.work.taken.items():
            have[d] += count
        for d, least in enumerate(want):
            if have[d] < least:
                for nodes in self._places(seat, d):
                    have[d] += seat.work.loose(d, least - have[d], Region(nodes))
                    if have[d] >= least:
                        break
        if all(have[d] >= least for d, least in enumerate(want)):
            return True
        seat.work.give_up()
        return False

    def _places(self, seat: _Seat, demand: int) -> Iterator[Ints | None]:
        """Nodes where a small pod may go, the best first."""
        if self.blocks.units[self.problem.gangs[seat.gang].demands[demand].pod_class]:
            # A whole node that the model did not assign cannot be found here.
            return
        if demand in seat.racks:
            yield np.flatnonzero(self.blocks.rack == seat.racks[demand])
            return
        used = {b for _, b in seat.pieces if b >= 0}
        if used:
            yield self._nodes(tuple(sorted(used)))
        if seat.block < 0:
            yield None

    def _nodes(self, blocks: tuple[int, ...]) -> Ints:
        """The nodes of some blocks."""
        if blocks not in self._nodes_in:
            self._nodes_in[blocks] = np.flatnonzero(np.isin(self.blocks.block, blocks))
        return self._nodes_in[blocks]

    def _whole_extras(self, seat: _Seat, order: dict[tuple[int, int], list[int]]) -> None:
        for extra, block, count in self._extras_of(seat):
            if extra.kind is not None:
                piece = Piece(extra.kind, (extra.demand,), count, rack=False)
                self._on_nodes(seat, piece, block, order)

    def _small_extras(self, seat: _Seat) -> None:
        for extra, block, count in self._extras_of(seat):
            if extra.kind is None:
                seat.work.loose(extra.demand, count, Region(self._nodes((block,))))

    def _extras_of(self, seat: _Seat) -> Iterator[_PlacedExtras]:
        shape = self.blocks.shape(self.problem.gangs[seat.gang])
        assert shape is not None
        for (i, block), count in sorted(seat.extras.items()):
            yield _PlacedExtras(shape.extras[i], block, count)
