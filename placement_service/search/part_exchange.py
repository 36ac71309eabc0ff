"""Simulated annealing of where parts lie: fewer owners in several blocks.

A step moves one part of a rack to another rack, and parts of that one back where there is no
room. Steps that use more blocks are accepted now and then, worse ones more rarely. Where a model of
a few blocks only proves that these blocks alone cannot be improved, this passes from one plan to
the next through many that are worse.
"""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np

from placement_service.bounds.configurations import give_nodes
from placement_service.search.movable_parts import MovablePart, MovableParts, Vector

#: Steps after which the owners in several blocks are determined again.
REVIEW_EVERY = 256

#: The most parts that may make room for one.
MOST_GIVE_WAY = 8

#: The share of steps that move a part of a split owner to another of its blocks; else any part.
GUIDED = 0.8

#: The share of steps in which parts may make more room than is needed.
GENEROUS = 0.3


class PartExchange:
    """Moves parts between racks; `cost` is how many blocks owners use beyond their first.

    `best` is the least cost so far, and `found` are the racks of all parts there.
    """

    def __init__(self, movable: MovableParts, *, seed: int, temperature: float) -> None:
        self.movable = movable
        self._random = random.Random(seed)
        self._temperature = temperature
        self._racks = movable.racks
        self._block = {at: rack.block for at, rack in movable.racks.items()}
        self._inside: dict[int, list[MovablePart]] = {at: [] for at in movable.racks}
        self._units: dict[int, Vector] = {}
        self._fits: dict[tuple[Vector, Vector], bool] = {}
        #: How many parts of each owner lie in each block.
        self._used: dict[int, Counter[int]] = {}
        self._owned: dict[int, list[MovablePart]] = {}
        for owner, blocks in movable.anchors.items():
            self._used[owner] = Counter(dict.fromkeys(blocks, 1))
        nothing = movable.parts[0].units if movable.parts else ()
        self._units = dict.fromkeys(movable.racks, tuple(0 for _ in nothing))
        for part in movable.parts:
            self._inside[part.rack].append(part)
            self._units[part.rack] = _plus(self._units[part.rack], part.units)
            if part.owner >= 0:
                self._owned.setdefault(part.owner, []).append(part)
                self._used.setdefault(part.owner, Counter())[self._block[part.rack]] += 1
        self._racks_in: dict[int, list[int]] = {}
        for at, rack in movable.racks.items():
            self._racks_in.setdefault(rack.block, []).append(at)
        self.cost = sum(len(self._used[owner]) - 1 for owner in self._owned)
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

    def _step(self, torn: list[int]) -> bool:
        """Tries one move; returns whether it was made."""
        rng = self._random
        if torn and rng.random() < GUIDED:
            owner = rng.choice(torn)
            part = rng.choice(self._owned[owner])
            others = [b for b in self._used[owner] if b != self._block[part.rack]]
            if not others:
                # Meanwhile it lies in one.
                return False
            racks = self._racks_in.get(rng.choice(others))
            if racks is None:
                return False
        else:
            part = rng.choice(self.movable.parts)
            racks = self._racks_in[self._block[rng.choice(self.movable.parts).rack]]
        there = rng.choice(racks)
        here = part.rack
        if there == here:
            return False
        back = self._giving_way(part, there)
        if back is None:
            return False
        coming = [part]
        need = sum(p.size for p in back) - part.size - self._room(here)
        if need > 0:
            # Another part moves along, to make room for those that come back.
            spare = self._room(there) + sum(p.size for p in back) - part.size
            able = [p for p in self._inside[here] if p is not part and need <= p.size <= spare]
            if not able:
                return False
            coming.append(rng.choice(able))
        return self._move(coming, back, here, there)

    def _room(self, rack: int) -> int:
        return self._racks[rack].capacity - sum(self._units[rack])

    def _giving_way(self, part: MovablePart, rack: int) -> list[MovablePart] | None:
        """Parts that make room for another one; None if there are none."""
        short = part.size - self._room(rack)
        inside = self._inside[rack]
        found: list[MovablePart] = []
        if short > 0:
            for other in self._random.sample(inside, min(len(inside), MOST_GIVE_WAY)):
                if other.size <= short + 1 or self._random.random() < GENEROUS:
                    found.append(other)
                    short -= other.size
                    if short <= 0:
                        break
        return found if short <= 0 else None

    def _move(
        self, coming: list[MovablePart], back: list[MovablePart], here: int, there: int
    ) -> bool:
        """Moves parts from here to there and others back, if they fit and the random choice accepts
        it.
        """
        at_here, at_there = self._units[here], self._units[there]
        for part in coming:
            at_here, at_there = _minus(at_here, part.units), _plus(at_there, part.units)
        for part in back:
            at_here, at_there = _plus(at_here, part.units), _minus(at_there, part.units)
        if not (self._holds(there, at_there) and self._holds(here, at_here)):
            return False
        one, other = self._block[here], self._block[there]
        change = self._count(coming, one, other) + self._count(back, other, one)
        if change > 0 and self._random.random() >= math.exp(-change / self._temperature):
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
        part.rack = rack

    def _count(self, parts: list[MovablePart], one: int, other: int) -> int:
        """Counts parts in another block; returns by how much the cost changes."""
        change = 0
        for part in parts:
            if part.owner >= 0:
                used = self._used[part.owner]
                used[one] -= 1
                if not used[one]:
                    del used[one]
                    change -= 1
                if other not in used:
                    change += 1
                used[other] += 1
        return change

    def _holds(self, rack: int, units: Vector) -> bool:
        """Whether units can be given nodes of their own in a rack."""
        nodes = self._racks[rack].signature
        key = (nodes, units)
        if key not in self._fits:
            able = sum(units) <= sum(nodes)
            given = give_nodes(np.array(units), nodes, self.movable.open) if able else None
            self._fits[key] = given is not None
        return self._fits[key]


def _plus(one: Vector, other: Vector) -> Vector:
    return tuple([a + b for a, b in zip(one, other, strict=True)])


def _minus(one: Vector, other: Vector) -> Vector:
    return tuple([a - b for a, b in zip(one, other, strict=True)])
