"""The content of each block in a plan, as counts: the inverse of `decoding`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from placement_service.cp_sat.blocks.contents import Filled, LargePart
from placement_service.cp_sat.blocks.parts import MIXED, Kind, Piece
from placement_service.cp_sat.blocks.shapes import Blocks, Class
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang
from placement_service.heuristic.one_gang.domain_choice import mandatory

#: Parts by kind, block and pool.
_Used = Counter[tuple[Kind, int, int]]


@dataclass(slots=True, eq=False)
class _Place:
    """Where one gang lies: its parts, the racks and sizes of those that need one, extras."""

    blocks: frozenset[int]
    used: _Used = field(default_factory=Counter)
    racks: list[tuple[int, Kind]] = field(default_factory=list)
    extras: Counter[tuple[int, int]] = field(default_factory=Counter)
    used_by_extras: _Used = field(default_factory=Counter)

    @property
    def block(self) -> int:
        """The only block, -1 for several."""
        return min(self.blocks) if len(self.blocks) == 1 else -1

    def parts(self) -> Counter[tuple[Kind, int]]:
        """Parts of the minimum by kind and block."""
        found: Counter[tuple[Kind, int]] = Counter()
        for (kind, block, _), count in self.used.items():
            found[kind, block] += count
        return found


class BlockEncoding:
    """Turns units of gangs on nodes into the counts of a `Filled`.

    Gangs that blocks cannot describe as they lie are left out.
    """

    def __init__(self, blocks: Blocks, classes: Sequence[Class]) -> None:
        self.blocks, self.classes = blocks, classes
        self.gangs = blocks.problem.gangs

    def filled(self, plan: Plan) -> Filled:
        """What a plan has where."""
        whole: Counter[tuple[int, int]] = Counter()
        away: Counter[tuple[int, int]] = Counter()
        split: Counter[int] = Counter()
        loose: Counter[tuple[Kind, int]] = Counter()
        large: list[LargePart] = []
        extras: Counter[tuple[int, int, int]] = Counter()
        used: _Used = Counter()
        racks: dict[int, list[Kind]] = {}
        block_of: dict[int, int] = {}
        for c, mine in enumerate(self.classes):
            for index in mine.gangs:
                place = self._place(index, plan[index]) if plan.get(index) else None
                if place is None:
                    continue
                block, base = place.block, self.gangs[index].base
                keeps_extras = True
                if mine.base >= 0:
                    if block < 0 or base not in block_of:
                        continue
                    keeps_extras = block_of[base] == block
                if block >= 0:
                    (whole if keeps_extras else away)[c, block] += 1
                    if keeps_extras:
                        extras.update({(c, i, b): n for (i, b), n in place.extras.items()})
                elif mine.shape.splits is None:
                    continue
                elif self.blocks.is_large(mine):
                    large.append(LargePart(c, place.parts(), place.extras))
                else:
                    keeps_extras = False
                    split[c] += 1
                    loose.update(place.parts())
                block_of[index] = block
                used.update(place.used)
                if keeps_extras:
                    used.update(place.used_by_extras)
                for rack, slot in place.racks:
                    racks.setdefault(rack, []).append(slot)
        contents = Counter(
            (sort, tuple(sorted(Counter(racks[rack]).items(), reverse=True)))
            for sort, some in self.blocks.racks.items()
            for rack in some
            if rack in racks
        )
        return Filled(whole, away, split, loose, tuple(large), extras, used, contents)

    def _place(self, index: int, units: Units) -> _Place | None:
        """Where a gang lies; None where blocks cannot describe it."""
        blocks, gang = self.blocks, self.gangs[index]
        nodes: dict[int, list[int]] = {}
        for d, n, count in units:
            nodes.setdefault(d, []).extend([n] * count)
        place = _Place(frozenset(int(blocks.block[n]) for _, n, _ in units))
        shape, pieces = blocks.shape(gang), blocks.pieces(gang)
        if shape is None or pieces is None or -1 in place.blocks:
            return None
        for piece in pieces:
            fits = self._rack if piece.rack else self._loose
            if not fits(place, gang, piece, nodes):
                return None
        want = mandatory(gang)
        for i, extra in enumerate(shape.extras):
            for node in nodes.get(extra.demand, ())[want[extra.demand] :]:
                place.extras[i, int(blocks.block[node])] += 1
                if extra.kind is not None:
                    place.used_by_extras[self._at(extra.kind, node)] += 1
        return place

    def _at(self, kind: Kind, node: int) -> tuple[Kind, int, int]:
        return kind, int(self.blocks.block[node]), int(self.blocks.pool[node])

    def _rack(
        self, place: _Place, gang: Gang, piece: Piece, nodes: Mapping[int, Sequence[int]]
    ) -> bool:
        """Whether a part that needs a rack has one, and nothing more."""
        want, rack = mandatory(gang), self.blocks.rack
        there = [n for d in piece.demands for n in nodes.get(d, ())]
        if len({int(rack[n]) for n in there}) > 1:
            return False
        if len(there) != sum(want[d] for d in piece.demands):
            return False
        if piece.kind.size:
            units = self.blocks.units
            whole = next(
                n
                for d in piece.demands
                if units[gang.demands[d].pod_class]
                for n in nodes.get(d, ())
            )
            kind, block, pool = self._at(piece.kind, whole)
            at, slot = int(rack[whole]), Kind((pool,), kind.size)
            if kind.size > 1 and at in self.blocks.mixed:
                pool, slot = MIXED, kind
            place.used[kind, block, pool] += 1
            if kind.size > 1:
                place.racks.append((at, slot))
        return True

    def _loose(
        self, place: _Place, gang: Gang, piece: Piece, nodes: Mapping[int, Sequence[int]]
    ) -> bool:
        """Whether single units have nodes of pools, where they need whole ones."""
        (d,) = piece.demands
        there = nodes.get(d, ())
        if piece.kind.size:
            if any(self.blocks.pool[n] < 0 for n in there):
                return False
            for n in there[: mandatory(gang)[d]]:
                place.used[self._at(piece.kind, n)] += 1
        return True
