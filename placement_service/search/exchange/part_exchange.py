"""Simulated annealing of where parts lie: fewer owners in several blocks.

A step moves one part of a rack to another rack, and parts of that one back where there is no
room. Steps that use more blocks are accepted now and then, worse ones more rarely. Where a model of
a few blocks only proves that these blocks alone cannot be improved, this passes from one plan to
the next through many that are worse.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from placement_service.bounds.node_matching import give_nodes
from placement_service.formulation.arrays import Bools
from placement_service.search.exchange.movable_parts import MovablePart, Rack, Vector, unpacked

#: Steps after which the owners in several blocks are determined again.
REVIEW_EVERY = 256

#: The most parts that may make room for one.
MOST_GIVE_WAY = 8

#: The usual share of steps that move a part of a split owner to another of its blocks.
GUIDED = 0.8

#: The share of steps in which parts may make more room than is needed.
GENEROUS = 0.3

#: A block beyond the first costs so many times as much where a gang must lie in one: else plans
#: that break this are soon the only ones that are met.
FIRM = 3


class Exchangeable(Protocol):
    """Parts and racks; see `MovableParts`."""

    @property
    def parts(self) -> Sequence[MovablePart]: ...

    @property
    def racks(self) -> Mapping[int, Rack]: ...

    @property
    def anchors(self) -> Mapping[int, set[int]]: ...

    @property
    def together(self) -> Collection[int]: ...

    @property
    def open(self) -> Bools:
        """The shapes that types of nodes accept [T, S]."""


class PartExchange:
    """Moves parts between racks; `cost` is how many blocks owners use beyond their first, each of
    them several times where parts must be in one.

    `best` is the least cost so far, and `found` are the racks of all parts there. The higher the
    `temperature`, the more readily a step is taken that uses more blocks. The `guided` share of the
    steps moves a part of a split owner to another of its blocks; else any part.
    """

    def __init__(
        self, movable: Exchangeable, *, seed: int, temperature: float, guided: float = GUIDED
    ) -> None:
        self.movable = movable
        self._guided = guided
        self._luck = random.Random(seed).random
        self.temperature = temperature
        racks = movable.racks
        self._block = {at: rack.block for at, rack in racks.items()}
        self._inside: dict[int, list[MovablePart]] = {at: [] for at in racks}
        #: What lies in each rack, packed, and how many more units it has room for.
        self._units = dict.fromkeys(racks, 0)
        self._room = {at: rack.capacity for at, rack in racks.items()}
        #: Which units fit, by what they are packed; racks of one signature share it.
        alike: dict[Vector, dict[int, bool]] = {}
        self._fits = {at: alike.setdefault(rack.signature, {}) for at, rack in racks.items()}
        #: How many parts of each owner lie in each block.
        self._used: dict[int, dict[int, int]] = {}
        self._owned: dict[int, list[MovablePart]] = {}
        for owner, blocks in movable.anchors.items():
            self._used[owner] = dict.fromkeys(blocks, 1)
        for part in movable.parts:
            self._inside[part.rack].append(part)
            self._units[part.rack] += part.packed
            self._room[part.rack] -= part.size
            if part.owner >= 0:
                self._owned.setdefault(part.owner, []).append(part)
                used = self._used.setdefault(part.owner, {})
                block = self._block[part.rack]
                used[block] = used.get(block, 0) + 1
        self._racks_in: dict[int, list[int]] = {}
        for at, rack in racks.items():
            self._racks_in.setdefault(rack.block, []).append(at)
        firm = {part.owner for part in movable.parts if part.gang in movable.together}
        self._each = {owner: FIRM if owner in firm else 1 for owner in self._owned}
        self.cost = sum(n * (len(self._used[owner]) - 1) for owner, n in self._each.items())
        self.best = self.cost
        self.found = [part.rack for part in movable.parts]

    def run(self, steps: int) -> bool:
        """Makes some steps; returns whether they found something better."""
        before = self.best
        torn: list[int] = []
        for step in range(steps):
            if not step % REVIEW_EVERY:
                torn = [owner for owner in self._owned if len(self._used[owner]) > 1]
            if self._step(torn) and self.cost < self.best and self._keeps_together():
                self.best = self.cost
                self.found = [part.rack for part in self.movable.parts]
                if not self.best:
                    return True
        return self.best < before

    def _keeps_together(self) -> bool:
        """Whether every gang that must lie in one block does."""
        blocks: dict[int, int] = {}
        for part in self.movable.parts:
            if part.gang in self.movable.together:
                block = self._block[part.rack]
                if blocks.setdefault(part.gang, block) != block:
                    return False
        return True

    # Millions of steps: what is drawn is `int(luck() * n)`, and vectors are packed into numbers.

    def _step(self, torn: list[int]) -> bool:
        """Tries one move; returns whether it was made."""
        luck = self._luck
        if torn and luck() < self._guided:
            owner = torn[int(luck() * len(torn))]
            owned = self._owned[owner]
            part = owned[int(luck() * len(owned))]
            block = self._block[part.rack]
            others = [b for b in self._used[owner] if b != block]
            if not others:
                # Meanwhile it lies in one.
                return False
            racks = self._racks_in.get(others[int(luck() * len(others))])
            if racks is None:
                return False
        else:
            parts = self.movable.parts
            part = parts[int(luck() * len(parts))]
            racks = self._racks_in[self._block[parts[int(luck() * len(parts))].rack]]
        there = racks[int(luck() * len(racks))]
        here = part.rack
        if there == here:
            return False
        back = self._giving_way(part, there)
        if back is None:
            return False
        coming = [part]
        returning = sum([p.size for p in back]) - part.size
        need = returning - self._room[here]
        if need > 0:
            # Another one goes along, to make room for what comes back.
            spare = self._room[there] + returning
            able = [p for p in self._inside[here] if p is not part and need <= p.size <= spare]
            if not able:
                return False
            coming.append(able[int(luck() * len(able))])
        return self._move(coming, back, here, there)

    def _giving_way(self, part: MovablePart, rack: int) -> list[MovablePart] | None:
        """Parts that make room for another one; None if they do not."""
        short = part.size - self._room[rack]
        found: list[MovablePart] = []
        if short <= 0:
            return found
        inside = self._inside[rack]
        # Some parts in a row: which ones lie next to each other is a matter of luck.
        last = int(self._luck() * len(inside))
        for i in range(min(len(inside), MOST_GIVE_WAY)):
            other = inside[last - i]
            if other.size <= short + 1 or self._luck() < GENEROUS:
                found.append(other)
                short -= other.size
                if short <= 0:
                    return found
        return None

    def _move(
        self, coming: list[MovablePart], back: list[MovablePart], here: int, there: int
    ) -> bool:
        """Moves parts from here to there and others back, where they fit and luck has it."""
        more = sum([p.packed for p in coming]) - sum([p.packed for p in back])
        at_here, at_there = self._units[here] - more, self._units[there] + more
        if not (self._holds(there, at_there) and self._holds(here, at_here)):
            return False
        one, other = self._block[here], self._block[there]
        change = self._count(coming, one, other) + self._count(back, other, one)
        if change > 0 and self._luck() >= math.exp(-change / self.temperature):
            self._count(coming, other, one)
            self._count(back, one, other)
            return False
        self.cost += change
        self._units[here], self._units[there] = at_here, at_there
        for part in coming:
            self._change_rack(part, there)
        for part in back:
            self._change_rack(part, here)
        return True

    def _change_rack(self, part: MovablePart, rack: int) -> None:
        self._inside[part.rack].remove(part)
        self._inside[rack].append(part)
        self._room[part.rack] += part.size
        self._room[rack] -= part.size
        part.rack = rack

    def _count(self, parts: list[MovablePart], one: int, other: int) -> int:
        """Counts parts in another block; returns by how much the cost changes."""
        change = 0
        if one == other:
            return change
        for part in parts:
            if part.owner >= 0:
                used = self._used[part.owner]
                if used[one] == 1:
                    del used[one]
                    change -= self._each[part.owner]
                else:
                    used[one] -= 1
                if other in used:
                    used[other] += 1
                else:
                    used[other] = 1
                    change += self._each[part.owner]
        return change

    def _holds(self, rack: int, units: int) -> bool:
        """Whether packed units can be given nodes of their own in a rack."""
        known = self._fits[rack].get(units)
        if known is None:
            nodes = self.movable.racks[rack].signature
            each = unpacked(units, len(self.movable.parts[0].units))
            able = sum(each) <= sum(nodes)
            given = give_nodes(np.array(each), nodes, self.movable.open) if able else None
            known = self._fits[rack][units] = given is not None
        return known
