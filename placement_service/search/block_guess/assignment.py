"""Local search for blocks in which gangs lie whole: which gang lies in which.

It knows of blocks only the rows of `rows`, so it tries thousands of assignments in the
time of one model, and all blocks at once: what is scarce in one is not used up before another one
is considered. What obeys all rows nearly always fits.

Gangs that find no block are nowhere for now, which costs more the larger they are. In each step
one gang moves to another block, two of unlike blocks change places, or parts of a torn gang move
from one of its pieces to another one, whichever leaves least above the rows; the way back is closed
for some steps. Where that does not help for some steps, what is above a row of a block counts more
from then on: so the search leaves what is best nearby and not good enough.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Bools, Floats, Ints

#: For how many steps a gang does not go back: the least, and the most.
CLOSED = (8, 20)

#: After so many steps without success rows that are broken count more.
PATIENCE = 4

#: How often a gang without a block is moved while blocks hold too much.
FROM_NOWHERE = 0.2

#: More steps than any search makes.
NO_END = 1 << 50

#: More than any change costs.
NEVER = float(1 << 50)


class Pieces(NamedTuple):
    """Classes of one gang each that are pieces of torn gangs: `gang` [C] says of which, -1 for all
    other classes. `content` [C, K] are the parts of one of each class by kind, `each` [K, R] is
    what one part takes.
    """

    gang: Ints
    content: Ints
    each: Ints


class _Transfer(NamedTuple):
    """So many parts of a kind go from one piece to another; `change` is what that costs."""

    change: float
    piece: int
    other: int
    kind: int
    times: int


class Crowded(NamedTuple):
    """A gang of a class in a block that holds too much, which leaves most room if it goes, and the
    block with most room for it.
    """

    gang: int
    block: int
    roomiest: int


class BlockAssignment:
    """Gangs of classes in blocks; `count` [C, B + 1] are how many, the last column is nowhere.

    `takes` [C, R] and `room` [B, R] are rows, `nowhere` [C] what a gang costs that has no block.
    `load` [R, B + 1] is what blocks hold, and `cost` what is above the rows and gangs nowhere cost.
    `content` [C, K] are the parts of a gang of each class. `steps` were made so far.

    All numbers are whole, and floats only because sums of products of floats are faster.
    """

    def __init__(
        self, takes: Ints, room: Ints, nowhere: Ints, *, seed: int, pieces: Pieces | None = None
    ) -> None:
        # Rows come first: sums over them are then several times as fast.
        self._takes: Floats = np.ascontiguousarray(takes.T, dtype=np.float64)
        self._room = _with_nowhere(room)
        self._blocks = len(room)
        self._apart: Floats = np.zeros((len(takes), self._blocks + 1))
        self._apart[:, -1] = nowhere
        self.count: Ints = np.zeros(self._apart.shape, dtype=np.int64)
        self.load: Floats = np.zeros(self._room.shape)
        self._random = random.Random(seed)
        self._closed = np.zeros_like(self.count)
        none = np.zeros((len(takes), 0), dtype=np.int64)
        every = pieces or Pieces(none.sum(axis=1) - 1, none, np.zeros((0, takes.shape[1]), int))
        self._gang, self.content, self._each = every
        #: Until when a piece gets no parts back.
        self._shut = np.zeros(len(takes), dtype=np.int64)
        self.steps = 0
        self._measure()

    @property
    def pieces(self) -> Bools:
        """Classes whose parts may change."""
        found: Bools = self._gang >= 0
        return found

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

    @property
    def cost(self) -> int:
        """What is above the rows, and what gangs nowhere cost."""
        return self.over + int((self.count[:, -1] * self._apart[:, -1]).sum())

    def _measure(self) -> None:
        """Rows count alike again."""
        above = np.maximum(self.load - self._room, 0)
        self._weight: Floats = np.ones_like(self._room)
        #: What is above the rows of each block, as it is and as it counts now.
        self._over: Floats = above.sum(axis=0)
        self._felt: Floats = self._over.copy()
        fits: Bools = self._takes[:, :, None] <= self._room[:, None]
        self._able = np.all(fits, axis=0) | (self._gang >= 0)[:, None]

    def add(self, gang: int) -> None:
        """Put a gang of a class where it costs least; of such blocks into the fullest."""
        beyond = self.load + self._takes[:, gang, None] - self._room
        left = -beyond.sum(axis=0)
        more = np.maximum(beyond, 0).sum(axis=0) - self._over + self._apart[gang]
        self._change(gang, int(np.lexsort((left, more))[0]), 1)

    def _change(self, gang: int, block: int, times: int) -> None:
        """Measures only what changes: one block."""
        self.count[gang, block] += times
        self.load[:, block] += times * self._takes[:, gang]
        above = np.maximum(self.load[:, block] - self._room[:, block], 0)
        self._over[block] = above.sum()
        self._felt[block] = self._weight[:, block] @ above

    def learn(self, takes: Ints, room: Ints, each: Ints) -> None:
        """Obey more rows: what gangs take [C, R], what blocks have [B, R], and what parts of pieces
        take [K, R].
        """
        self._takes = np.concatenate([self._takes, takes.T])
        self._room = np.concatenate([self._room, _with_nowhere(room)])
        self._each = np.concatenate([self._each, each], axis=1)
        self.begin(self.count)

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
                over = np.maximum(beyond - self._takes[:, mine], 0).sum(axis=0)
                if not len(mine) or over.min() >= self._over[block]:
                    break
                gang = int(mine[np.lexsort((self._apart[mine, -1], over))[0]])
                self._change(gang, block, -1)
                self._change(gang, self._blocks, 1)

    def roomiest(self, row: int) -> int:
        """The block with most room in a row."""
        return int((self._room - self.load)[row, :-1].argmax())

    def crowded(self, able: Bools) -> list[Crowded]:
        """For each block that holds too much, the largest of the gangs of some classes that leave
        most room, or a piece where none leaves any.
        """
        found: list[Crowded] = []
        beyond = self.load - self._room
        for block in np.flatnonzero(self._over).tolist():
            roomiest = int(beyond[beyond[:, block] > 0, :-1].sum(axis=0).argmin())
            for some in (able, self.pieces):
                mine = np.flatnonzero((self.count[:, block] > 0) & some)
                over = np.maximum(beyond[:, block, None] - self._takes[:, mine], 0).sum(axis=0)
                if len(mine) and over.min() < self._over[block]:
                    best = np.lexsort((-self._apart[mine, -1], over))[0]
                    found.append(Crowded(int(mine[best]), block, roomiest))
                    break
        return found

    def run(
        self, steps: int, *, in_vain: int = NO_END, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Make so many steps at most, so many of them `in_vain` in a row, and keep the best; it
        ends when that costs nothing, or when `until` says so.
        """
        best, kept, content = self.cost, self.count.copy(), self.content.copy()
        since = 0
        for _ in range(steps):
            if not best or since >= in_vain or until():
                break
            self._step()
            since += 1
            cost = self.cost
            if cost < best:
                best, kept, content, since = cost, self.count.copy(), self.content.copy(), 0
            elif since % PATIENCE == 0:
                above = np.maximum(self.load - self._room, 0)
                self._weight += above > 0
                self._felt = (self._weight * above).sum(axis=0)
        self.content = content
        pieces = self._gang >= 0
        self._takes[:, pieces] = (content[pieces] @ self._each).T
        self.begin(kept)

    def _step(self) -> None:
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
        # Those that could never be here are no use.
        others, at = np.nonzero(self.count * self._able[:, block, None])
        elsewhere = at != block
        others, at = others[elsewhere], at[elsewhere]
        swaps = self._swaps(block, mine, here, beyond, others, at)
        # A closed way is open where nothing is left to do behind it.
        nothing = -self._felt.sum() - (self.count[:, -1] * self._apart[:, -1]).sum()
        closed = self._closed > self.steps
        moves[closed[mine] & (moves > nothing)] = NEVER
        swaps[(closed[mine][:, at] | closed[others, block]) & (swaps > nothing)] = NEVER
        move, swap = self._least(moves), self._least(swaps)
        least = min(moves.flat[move], swaps.flat[swap] if swaps.size else NEVER)
        transfer = self._best_transfer(block, beyond)
        if transfer is not None and transfer.change <= least:
            self._transfer(transfer, block)
        elif least >= NEVER / 2:
            return
        elif moves.flat[move] == least:
            i, there = divmod(move, self._blocks + 1)
            self._leave(int(mine[i]), block, there)
        else:
            i, j = divmod(swap, len(others))
            self._leave(int(mine[i]), block, int(at[j]))
            self._leave(int(others[j]), int(at[j]), block)

    def _moves(self, block: int, mine: Ints, here: Floats, beyond: Floats) -> Floats:
        """By how much the cost changes when gangs [M] of a block go to another one [B + 1].

        `here` [R, M] is what the block holds above its room without each of them, `beyond`
        [R, B + 1] what each block does.
        """
        above = np.maximum(beyond[:, None] + self._takes[:, mine, None], 0)
        more = np.einsum("rb,rmb->mb", self._weight, above) - self._felt
        less = self._weight[:, block] @ np.maximum(here, 0) - self._felt[block]
        apart = self._apart[mine] - self._apart[mine, block][:, None]
        change: Floats = more + less[:, None] + apart
        change[:, block] = NEVER
        return change

    def _swaps(
        self, block: int, mine: Ints, here: Floats, beyond: Floats, others: Ints, at: Ints
    ) -> Floats:
        """The same when gangs [M] change places with others [O] of blocks `at`."""
        come = self._takes[:, others]
        weight = np.broadcast_to(self._weight[:, block, None], come.shape)
        inside = _pairs_above(here, come, weight)
        outside = _pairs_above(self._takes[:, mine], beyond[:, at] - come, self._weight[:, at])
        apart = self._apart[mine][:, at] - self._apart[mine, block][:, None]
        apart = apart + self._apart[others, block] - self._apart[others, at]
        change: Floats = inside + outside + apart - self._felt[block] - self._felt[at]
        change[mine[:, None] == others] = NEVER
        return change

    def _best_transfer(self, block: int, beyond: Floats) -> _Transfer | None:
        """The best way to move parts from a piece in a block to another piece of its gang."""
        best, found = 0.0, list[_Transfer]()
        here = self.count[:, block] > 0
        for i in np.flatnonzero(here & (self._gang >= 0) & self.content.any(axis=1)).tolist():
            others = (self._gang == self._gang[i]) & ~here & (self._shut <= self.steps)
            kinds = np.repeat(np.arange(len(self._each)), self.content[i])
            times = np.concatenate([np.arange(1, n + 1) for n in self.content[i].tolist()])
            parts = self._each[kinds].T * times
            left = np.maximum(beyond[:, block, None] - parts, 0)
            less = self._weight[:, block] @ left - self._felt[block]
            for j in np.flatnonzero(others).tolist():
                there = int(np.argmax(self.count[j]))
                come = np.maximum(beyond[:, there, None] + parts, 0)
                change = less + self._weight[:, there] @ come - self._felt[there]
                at = self._least(change)
                least = float(change[at])
                if not found or least < best:
                    best, found = least, []
                if least == best:
                    found.append(_Transfer(least, i, j, int(kinds[at]), int(times[at])))
        return self._random.choice(found) if found else None

    def _transfer(self, transfer: _Transfer, block: int) -> None:
        _, i, j, k, times = transfer
        there = int(np.argmax(self.count[j]))
        for piece, at, more in ((i, block, -times), (j, there, times)):
            self._change(piece, at, -1)
            self.content[piece, k] += more
            self._takes[:, piece] += more * self._each[k]
            self._change(piece, at, 1)
        self._shut[i] = self.steps + self._random.randint(*CLOSED)

    def _least(self, changes: Floats) -> int:
        """One of the least, at random."""
        if not changes.size:
            return 0
        flat = changes.ravel()
        return self._random.choice(np.flatnonzero(flat == flat.min()).tolist())

    def _leave(self, gang: int, block: int, there: int) -> None:
        self._change(gang, block, -1)
        self._change(gang, there, 1)
        self._closed[gang, block] = self.steps + self._random.randint(*CLOSED)


def _with_nowhere(room: Ints) -> Floats:
    """Rows of blocks by row, and of nowhere, which has room for everything."""
    endless = np.full((room.shape[1], 1), NEVER)
    return np.concatenate([room.T, endless], axis=1)


def _pairs_above(some: Floats, others: Floats, weight: Floats) -> Floats:
    """What the sum of each pair [R, M] and [R, O] has above zero, by the weight [R, O] of rows."""
    # Most rows are far from full: no pair is above zero there.
    able = np.flatnonzero(some.max(axis=1, initial=-NEVER) + others.max(axis=1, initial=-NEVER) > 0)
    above = np.maximum(some[able, :, None] + others[able, None], 0)
    total: Floats = np.einsum("ro,rmo->mo", weight[able], above)
    return total
