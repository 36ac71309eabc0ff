"""A block for every gang of the target at once, by counted rows and best fit in racks.

Gangs for which no block has room beside the others are torn: cut into pieces that get blocks like
gangs of their own, while all others get theirs anew. Where racks do not hold what the rows allow,
the room of the block is lowered, and gangs move to other blocks.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.search.block_assignment import BlockAssignment
from placement_service.search.block_problem import BlockProblem, names_blocks
from placement_service.search.block_rows import block_rows
from placement_service.search.gang_pieces import Parts, PieceCutter, parts_of
from placement_service.search.rack_fitting import RackFitting

#: What a gang without a block costs: so many whole nodes, and this share of its own.
TORN, TORN_SHARE = 3.0, 0.1

#: How much more that is where only what costs nothing counts: then blocks may be too full for a
#: while. With less it shows which gangs are split at best.
STRICT = 10

#: A gang that must not be torn, or a piece of one that is, costs so many times as much.
FIRM = 20


@dataclass(frozen=True, slots=True, eq=False)
class _Guess:
    """How many gangs of each class lie where [C, B + 1], and what those nowhere cost."""

    count: Ints
    cost: int

    @property
    def nowhere(self) -> list[int]:
        """The classes of gangs that have no block."""
        return _each(self.count[:, -1].tolist())


class BlockGuess:
    """Guesses repeatedly; what is tried is random."""

    def __init__(self, mine: BlockProblem) -> None:
        self.mine, self.parameters = mine, mine.parameters
        self.rows = block_rows(mine.blocks, mine.classes)
        seed = self.parameters.seed
        self._random = random.Random(seed)
        self._fitting = RackFitting(mine.blocks, seed=seed)
        self._cutter = PieceCutter(self.rows, seed=seed)
        self._parts = [parts_of(c) for c in mine.classes]
        self._gangs = [n * names_blocks(c) for c, n in zip(mine.classes, mine.wanted, strict=True)]
        self._tearable: Bools = np.array([c.shape.splits is not None for c in mine.classes])
        sizes = np.array([c.shape.size for c in mine.classes])
        cost = np.round(self.rows.unit * (TORN + TORN_SHARE * sizes)).astype(np.int64)
        self._firm = FIRM * int(cost.max())
        self._apart: Ints = np.where(self._tearable, cost, self._firm)
        #: How many gangs the last answer tears.
        self.torn = 0

    def whole(self) -> Ints | None:
        """How many gangs of each class lie whole in which block [C, B], with few gangs torn. None
        where no place is found for all of them.
        """
        able: Bools = np.any((self.rows.takes[:, None] <= self.rows.room).all(axis=2), axis=1)
        torn = _each(np.where(self._tearable & ~able, self._gangs, 0).tolist())
        best = self._best(torn)
        while best is not None and best.cost:
            torn += best.nowhere
            if len(torn) > self.parameters.assign_torn:
                return None
            best = self._best(torn)
        self.torn = len(torn)
        return None if best is None else best.count[:, :-1]

    def _best(self, torn: Sequence[int]) -> _Guess | None:
        """The best of some guesses, up to one that costs nothing."""
        p = self.parameters
        rounds = p.assign_torn_rounds if torn else p.assign_rounds
        # Where no gang is torn yet, a result that comes twice is likely to be the least.
        enough = rounds if torn else 2
        best: _Guess | None = None
        times = 0
        for i in range(rounds):
            if self._is_over():
                break
            found = self._guess(torn, strict=not i % 2)
            if found is None:
                continue
            times += best is not None and found.cost == best.cost
            if best is None or found.cost < best.cost:
                best, times = found, 1
            if not best.cost or times >= enough or len(best.nowhere) > p.assign_torn:
                break
        return best

    def _is_over(self) -> bool:
        return self.mine.state.left <= self.parameters.least_seconds

    def _guess(self, torn: Sequence[int], *, strict: bool) -> _Guess | None:
        """Blocks for all gangs and for pieces of torn ones; None where they do not fit.

        A strict one places all gangs.
        """
        rows, classes = self.rows, len(self._gangs)
        pieces = self._cutter.cut([self._parts[c] for c in torn])
        gangs = [*self._gangs, *(1 for _ in pieces)]
        for c in torn:
            gangs[c] -= 1
        takes = np.concatenate([rows.takes, *([self._cutter.takes(piece)] for piece in pieces)])
        apart = np.pad(self._apart, (0, len(pieces)), constant_values=self._firm)
        tearable = np.pad(self._tearable, (0, len(pieces)))
        seed = self._random.getrandbits(32)
        search = BlockAssignment(takes, rows.room, apart * (STRICT if strict else 1), seed=seed)
        # Gangs that take most of anything scarce choose first, with some randomness.
        hard = (takes / np.maximum(1, rows.room.sum(axis=0))).max(axis=1, initial=0)
        luck = [1 + self.parameters.assign_luck * self._random.random() for _ in gangs]
        for c in np.argsort(-hard * luck, kind="stable").tolist():
            for _ in range(gangs[c]):
                search.add(c)
        if not self._settle(search, [*self._parts, *pieces], tearable, strict=strict):
            return None
        count = search.count
        if count[~tearable, -1].any():
            return None
        return _Guess(count[:classes], int(count[:classes, -1] @ self._apart))

    def _settle(
        self,
        search: BlockAssignment,
        parts: Sequence[Parts],
        tearable: Bools,
        *,
        strict: bool,
    ) -> bool:
        """Run until racks hold what blocks hold; whether they do."""
        for _ in range(self.parameters.assign_corrections):
            search.run(self.parameters.assign_steps, until=self._is_over)
            if self._is_over():
                return False
            if not strict:
                search.relieve(tearable)
            if search.cost if strict else search.over:
                return False
            fits = True
            for b, block in enumerate(self.mine.blocks.order):
                inside = [kind for c in _each(search.count[:, b].tolist()) for kind in parts[c]]
                misfit = self._fitting.misfit(block, inside)
                if misfit is not None:
                    search.forbid(b, self.rows.tightest[misfit])
                    fits = False
            if fits:
                return True
        return False


def _each(times: Sequence[int]) -> list[int]:
    """Every place as often as it says."""
    return [i for i, n in enumerate(times) for _ in range(n)]
