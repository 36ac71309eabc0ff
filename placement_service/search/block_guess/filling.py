"""The content of all blocks as a guess says, without a model.

Racks hold the parts of gangs as they were tried. Parts that name no block go where there is room
beside them, single nodes come last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from placement_service.cp_sat.blocks.contents import Filled, LargePart, Sizes
from placement_service.cp_sat.blocks.parts import Kind, RackSort
from placement_service.cp_sat.blocks.shapes import Ways
from placement_service.formulation.arrays import MANY, Ints
from placement_service.search.block_guess.guess import Guess
from placement_service.search.block_guess.rack_content import RackContent
from placement_service.search.block_guess.rack_fitting import RackFitting
from placement_service.search.blocks.problem import BlockProblem


class _Rest(NamedTuple):
    """Gangs of a class that name no block."""

    cls: int
    gangs: int


class GuessFilling:
    """Writes one guess; blocks are places in `Blocks.order`."""

    def __init__(
        self,
        mine: BlockProblem,
        guess: Guess,
        fitting: RackFitting,
        *,
        beside_small: bool = True,
    ) -> None:
        """With `beside_small` what names no block leaves small pods of a block their room."""
        self.mine, self.guess, self._fitting = mine, guess, fitting
        self._limited = beside_small
        self._parts = [self._parts_in(b) for b in range(len(mine.blocks.order))]
        self._small = [self._small_room(b) for b in range(len(mine.blocks.order))]
        self._contents: list[RackContent] = []
        self._loose = Counter(guess.picky)
        #: Whether all that the guess names found room, and then nothing was left for the rest.
        self.lacks_room = False

    def filled(self) -> Filled | None:
        """The content, None where something finds no room."""
        for block, parts in zip(self.mine.blocks.order, self._parts, strict=True):
            content = self._fitting.content(block, parts)
            if content is None:
                return None
            self._contents.append(content)
        rest = list(self._rest())
        demand: Counter[Kind] = Counter()
        for c, gangs in rest:
            for kind, times in self.mine.classes[c].shape.kinds:
                demand[kind] += times * gangs
        for (kind, _), n in self.guess.picky.items():
            demand[kind] -= n
        # What may use fewer pools comes first.
        order = sorted(+demand, key=lambda kind: (-kind.size, len(kind.pools), kind))
        self.lacks_room = not all(self._place(kind, demand[kind]) for kind in order)
        if self.lacks_room:
            return None
        for content, parts in zip(self._contents, self._parts, strict=True):
            singles = [kind for kind in parts if kind.size == 1]
            for kind in sorted(singles, key=lambda kind: (len(kind.pools), kind)):
                if content.place_singles(kind, parts[kind]):
                    return None
        return self._written(rest)

    def _parts_in(self, b: int) -> Counter[Kind]:
        """The parts in a block of which the guess says so."""
        found: Counter[Kind] = Counter()
        for (bundle, at), n in self.guess.whole.items():
            for c, times in bundle.members if at == b else ():
                for kind, count in self.mine.classes[c].shape.kinds:
                    if kind.size:
                        found[kind] += count * times * n
        for _, parts in self.guess.torn:
            for (kind, at), n in parts.items():
                found[kind] += n * (at == b)
        for (kind, at), n in self.guess.picky.items():
            found[kind] += n * (at == b)
        return +found

    def _rest(self) -> Iterator[_Rest]:
        """Gangs of the target that the guess does not name."""
        named: Counter[int] = Counter(c for c, _ in self.guess.torn)
        for (bundle, _), n in self.guess.whole.items():
            for c, times in bundle.members:
                named[c] += times * n
        for c, wanted in enumerate(self.mine.wanted):
            if wanted > named[c] and self.mine.classes[c].shape.splits == 0:
                yield _Rest(c, wanted - named[c])

    def _place(self, kind: Kind, times: int) -> bool:
        """Find blocks for parts of gangs that name none, roomy ones first; whether all have one."""
        if not kind.size:
            return True
        contents = self._contents
        for b in sorted(range(len(contents)), key=lambda b: -contents[b].room_for(kind)):
            n = min(times, contents[b].room_for(kind) // kind.size)
            if self._limited:
                n = min(n, self._beside_small(kind, b))
            if kind.size > 1:
                n = self._in_racks(contents[b], kind, n)
            elif n > 0:
                contents[b].expect(kind, n)
            if n > 0:
                self._loose[kind, b] += n
                self._parts[b][kind] += n
                self._small[b] -= n * self._least(kind, b)
                times -= n
        return not times

    def _small_room(self, b: int) -> Ints:
        """What a block has left beside what the guess says, in each way to count small pods."""
        ways = self._ways(b)
        room = ways.room.copy()
        for (bundle, at), n in self.guess.whole.items():
            for c, times in bundle.members if at == b else ():
                room -= n * times * self.mine.classes[c].units[ways.rows]
        parts = Counter(self.guess.picky)
        for _, placed in self.guess.torn:
            parts.update(placed)
        for (kind, at), n in parts.items():
            if at == b:
                room -= n * self._least(kind, b)
        return room

    def _beside_small(self, kind: Kind, b: int) -> int:
        """How many parts of a kind leave small pods of a block their room."""
        least = self._least(kind, b)
        takes = least > 0
        return max(0, int((self._small[b][takes] // least[takes]).min(initial=MANY)))

    def _least(self, kind: Kind, b: int) -> Ints:
        return self.mine.blocks.least_of(kind)[self._ways(b).rows]

    def _ways(self, b: int) -> Ways:
        return self.mine.blocks.ways(self.mine.blocks.order[b])

    @staticmethod
    def _in_racks(content: RackContent, kind: Kind, times: int) -> int:
        """How many parts of several nodes find a rack of a block."""
        for n in range(times):
            content.expect(kind, 1)
            if not content.place(kind):
                content.expect(kind, -1)
                return n
        return max(0, times)

    def _written(self, rest: list[_Rest]) -> Filled:
        order, blocks = self.mine.blocks.order, self.mine.blocks
        whole: Counter[tuple[int, int]] = Counter()
        away: Counter[tuple[int, int]] = Counter()
        for (bundle, b), n in self.guess.whole.items():
            based = self.mine.classes[bundle.first].base >= 0
            for c, times in bundle.members:
                (away if based else whole)[c, order[b]] += times * n
        split: Counter[int] = Counter(dict(rest))
        large: list[LargePart] = []
        loose = Counter({(kind, order[b]): n for (kind, b), n in self._loose.items()})
        for c, parts in sorted(self.guess.torn, key=lambda mine: mine[0]):
            placed = {(kind, order[b]): n for (kind, b), n in parts.items()}
            if blocks.is_large(self.mine.classes[c]):
                large.append(LargePart(c, placed, {}))
            else:
                split[c] += 1
                loose.update(placed)
        used: Counter[tuple[Kind, int, int]] = Counter()
        racks: Counter[tuple[RackSort, Sizes]] = Counter()
        for block, content in zip(order, self._contents, strict=True):
            used.update({(kind, block, q): n for (kind, q), n in content.used.items()})
            racks.update((rack.sort, rack.content) for rack in content.racks if rack.slots)
        return Filled(whole, away, split, loose, tuple(large), {}, used, racks)
