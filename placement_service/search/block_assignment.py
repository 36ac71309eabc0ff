"""Tabu search for blocks in which gangs lie whole: which gang lies in which.

It knows of blocks only the rows of `block_rows`, so it tries thousands of assignments in the
time of one model, and all blocks at once: what is scarce in one is not used up before another one
is considered. What obeys all rows nearly always fits.

Gangs that find no block are nowhere for now, which costs more the larger they are. In each step
one gang moves to another block, or two of unlike blocks change places, whichever leaves least
above the rows; the way back is closed for some steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from placement_service.formulation.arrays import Bools, Ints

#: For how many steps a gang does not go back: the least, and the most.
CLOSED = (5, 15)

#: How often a gang without a block is moved while blocks hold too much.
FROM_NOWHERE = 0.2

#: More than any change costs.
NEVER = 1 << 50


class BlockAssignment:
    """Gangs of classes in blocks; `count` [C, B + 1] are how many, the last column is nowhere.

    `takes` [C, R] and `room` [B, R] are rows, `nowhere` [C] what a gang costs that has no block.
    `load` [R, B + 1] is what blocks hold, and `cost` what is above the rows and gangs nowhere cost.
    `steps` were made so far.
    """

    def __init__(self, takes: Ints, room: Ints, nowhere: Ints, *, seed: int) -> None:
        # Rows come first: sums over them are then several times as fast.
        self._takes: Ints = np.ascontiguousarray(takes.T)
        endless = np.full((room.shape[1], 1), NEVER, dtype=np.int64)
        self._room: Ints = np.concatenate([room.T, endless], axis=1)
        self._blocks = len(room)
        self._apart: Ints = np.zeros((len(takes), self._blocks + 1), dtype=np.int64)
        self._apart[:, -1] = nowhere
        self.count: Ints = np.zeros_like(self._apart)
        self.load: Ints = np.zeros_like(self._room)
        self._random = random.Random(seed)
        self._closed = np.zeros_like(self._apart)
        self.steps = 0
        self._measure()

    def begin(self, count: Ints) -> None:
        """Start from what lies where."""
        self.count = count
        self.load = self._takes @ count
        self._measure()

    @property
    def over(self) -> int:
        """What is above the rows of blocks."""
        return int(self._over.sum())

    def is_over(self, block: int) -> bool:
        """Whether a block holds more than its rows allow."""
        return bool(self._over[block])

    def _measure(self) -> None:
        self._over: Ints = _above(self.load - self._room)
        self.cost = int(self._over.sum() + (self.count * self._apart).sum())

    def add(self, gang: int) -> None:
        """Put a gang of a class where it costs least; of such blocks into the fullest."""
        beyond = self.load + self._takes[:, gang, None] - self._room
        left = -beyond.sum(axis=0)
        more = _above(beyond) - self._over + self._apart[gang]
        self._change(gang, int(np.lexsort((left, more))[0]), 1)

    def _change(self, gang: int, block: int, times: int) -> None:
        """Measures only what changes: one block."""
        self.count[gang, block] += times
        self.load[:, block] += times * self._takes[:, gang]
        over = int(np.maximum(self.load[:, block] - self._room[:, block], 0).sum())
        self.cost += over - int(self._over[block]) + times * int(self._apart[gang, block])
        self._over[block] = over

    def learn(self, takes: Ints, room: Ints) -> None:
        """Obey more rows: what gangs take [C, R] and what blocks have [B, R]."""
        endless = np.full((room.shape[1], 1), NEVER, dtype=np.int64)
        self._takes = np.concatenate([self._takes, takes.T])
        self._room = np.concatenate([self._room, np.concatenate([room.T, endless], axis=1)])
        self.load = self._takes @ self.count
        self._measure()

    def forbid(self, block: int, row: int) -> None:
        """Lowers the room of a block in a row below what it holds now."""
        mine = self._takes[row, self.count[:, block] > 0]
        self._room[row, block] = self.load[row, block] - mine[mine > 0].min()
        self._measure()

    def relieve(self, able: Bools) -> None:
        """Take gangs of some classes out of blocks that hold too much, as long as that helps."""
        for block in np.flatnonzero(self._over).tolist():
            while self._over[block]:
                mine = np.flatnonzero((self.count[:, block] > 0) & able)
                beyond = (self.load[:, block] - self._room[:, block])[:, None]
                over = _above(beyond - self._takes[:, mine])
                if not len(mine) or over.min() >= self._over[block]:
                    break
                gang = int(mine[np.lexsort((self._apart[mine, -1], over))[0]])
                self._change(gang, block, -1)
                self._change(gang, self._blocks, 1)

    def run(self, steps: int, *, until: Callable[[], bool] = lambda: False) -> None:
        """Make so many steps at most, and keep the best; it ends when that costs nothing, or when
        `until` says so.
        """
        best, kept = self.cost, self.count.copy()
        for _ in range(steps):
            if not best or until():
                break
            self._step(best)
            if self.cost < best:
                best, kept = self.cost, self.count.copy()
        self.begin(kept)

    def _step(self, best: int) -> None:
        """Make the best change of a block with too much, or of gangs nowhere."""
        self.steps += 1
        full = np.flatnonzero(self._over).tolist()
        if self.count[:, -1].any() and (not full or self._random.random() < FROM_NOWHERE):
            full = [self._blocks]
        block = self._random.choice(full)
        mine = np.flatnonzero(self.count[:, block])
        beyond = self.load - self._room
        here = beyond[:, block, None] - self._takes[:, mine]
        moves = self._moves(block, mine, here, beyond)
        others, at = np.nonzero(self.count)
        elsewhere = at != block
        others, at = others[elsewhere], at[elsewhere]
        swaps = self._swaps(block, mine, here, beyond, others, at)
        closed = self._closed > self.steps
        limit = best - self.cost
        moves[closed[mine] & (moves >= limit)] = NEVER
        swaps[(closed[mine][:, at] | closed[others, block]) & (swaps >= limit)] = NEVER
        move, swap = self._least(moves), self._least(swaps)
        least = min(moves.flat[move], swaps.flat[swap] if swaps.size else NEVER)
        if least >= NEVER // 2:
            return
        if moves.flat[move] == least:
            i, there = divmod(move, self._blocks + 1)
            self._leave(int(mine[i]), block, there)
        else:
            i, j = divmod(swap, len(others))
            self._leave(int(mine[i]), block, int(at[j]))
            self._leave(int(others[j]), int(at[j]), block)

    def _moves(self, block: int, mine: Ints, here: Ints, beyond: Ints) -> Ints:
        """By how much the cost changes when gangs [M] of a block go to another one [B + 1].

        `here` [R, M] is what the block holds above its room without each of them, `beyond`
        [R, B + 1] what each block does.
        """
        more = _above(beyond[:, None] + self._takes[:, mine, None]) - self._over
        less = _above(here) - self._over[block]
        apart = self._apart[mine] - self._apart[mine, block][:, None]
        change: Ints = more + less[:, None] + apart
        change[:, block] = NEVER
        return change

    def _swaps(
        self, block: int, mine: Ints, here: Ints, beyond: Ints, others: Ints, at: Ints
    ) -> Ints:
        """The same when gangs [M] change places with others [O] of blocks `at`."""
        come = self._takes[:, others]
        inside = _pairs_above(here, come)
        outside = _pairs_above(self._takes[:, mine], beyond[:, at] - come)
        apart = self._apart[mine][:, at] - self._apart[mine, block][:, None]
        apart = apart + self._apart[others, block] - self._apart[others, at]
        change: Ints = inside + outside + apart - self._over[block] - self._over[at]
        change[mine[:, None] == others] = NEVER
        return change

    def _least(self, changes: Ints) -> int:
        """One of the least, at random."""
        if not changes.size:
            return 0
        flat = changes.ravel()
        return self._random.choice(np.flatnonzero(flat == flat.min()).tolist())

    def _leave(self, gang: int, block: int, there: int) -> None:
        self._change(gang, block, -1)
        self._change(gang, there, 1)
        self._closed[gang, block] = self.steps + self._random.randint(*CLOSED)


def _above(beyond: Ints) -> Ints:
    """What is above zero, summed up over rows, which come first."""
    result: Ints = np.maximum(beyond, 0).sum(axis=0)
    return result


def _pairs_above(some: Ints, others: Ints) -> Ints:
    """The same of the sum of each pair [R, M] and [R, O]."""
    # Most rows are far from full: no pair is above zero there.
    able = np.flatnonzero(some.max(axis=1, initial=-NEVER) + others.max(axis=1, initial=-NEVER) > 0)
    return _above(some[able, :, None] + others[able, None])
