"""A block for every gang of the target at once, by counted rows and best fit in racks.

Gangs that belong together get one block. Gangs of which counting says so (`place_stage`), or for
which no block has room beside the others, are torn: of a set one gang gets a block of its own,
others are cut into pieces that get blocks like gangs, while all others get theirs anew. Where racks
do not hold what the rows allow, prices of their nodes make another row (`cp_sat.rack_prices`), and
gangs move to other blocks. Rows of small pods are obeyed from the first time that they are broken.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from placement_service.cp_sat.admission_master import Torn
from placement_service.cp_sat.block_parts import Kind
from placement_service.cp_sat.rack_columns import RackColumns
from placement_service.formulation.arrays import Ints
from placement_service.search.block_assignment import BlockAssignment, Pieces
from placement_service.search.block_problem import BlockProblem
from placement_service.search.block_rows import block_rows, rack_row
from placement_service.search.gang_bundles import (
    Bundle,
    bundles,
    loose_parts,
    may_be_apart,
    picky_parts,
    without_one,
)
from placement_service.search.gang_pieces import Parts, PieceCutter, parts_of
from placement_service.search.guesses import Begun, Guess, Item, Settled, Try
from placement_service.search.rack_fitting import RackFitting

T = TypeVar("T")

#: What a gang without a block costs: so many whole nodes, and this share of its own.
TORN, TORN_SHARE = 3.0, 0.1

#: How much more that is where only what costs nothing counts: then blocks may be too full for a
#: while. With less it shows which gangs are split at best.
STRICT = 10

#: Parts that name no block up to which blocks are sought for them, too.
MOST_LOOSE = 200

#: A gang that must not be torn, or a piece of one that is, costs so many times as much.
FIRM = 20


class BlockGuess:
    """Guesses repeatedly; what is tried is random. It takes most of the time where it is `again`
    the turn of guesses.
    """

    def __init__(self, mine: BlockProblem, *, again: bool = False) -> None:
        self.mine, self.parameters, self.again = mine, mine.parameters, again
        self.rows = block_rows(mine.blocks, mine.classes)
        seed = self.parameters.seed
        self._random = random.Random(seed)
        self._columns = RackColumns(mine.blocks, self.rows.kinds)
        self.fitting = RackFitting(mine.blocks, self._columns, self.parameters)
        self._cutter = PieceCutter(self.rows, seed=seed)
        #: All bundles that were ever asked for, and their places.
        self._bundles: list[Bundle] = []
        self._at: dict[Bundle, int] = {}
        self._picky: Counter[Kind] = Counter()
        #: Whether all parts that name no block get one.
        self._choosy = False
        self._wanted = self._of_target()
        #: Those that are torn in any case.
        self._advised: Counter[int] = Counter()
        #: By class of torn gangs, the blocks that pieces are for, where they are known.
        self._places: dict[int, Sequence[int]] = {}
        most = max((self._size(bundle) for bundle in self._bundles), default=0)
        self._firm = FIRM * round(self.rows.unit * (TORN + TORN_SHARE * most))
        #: The best guess in which some gangs had no block, and what these cost.
        self._nearly: Try | None = None
        #: The guess with most gangs whole in blocks, which may leave out others.
        self.partly: Guess | None = None
        self._most = 0
        #: How many gangs the last answer tears.
        self.torn = 0
        self._steps = 0
        #: Whether a strict guess with these gangs torn has just failed.
        self.failed = False
        state, p = mine.state, self.parameters
        #: The time that is left for others.
        self._kept = max(p.least_seconds, state.left - state.at_most(state.left * self._share()))

    def _share(self) -> float:
        """The share of the time that guesses may take."""
        p = self.parameters
        if self.again:
            return p.assign_share_again
        if not self.mine.varied:
            return p.assign_share
        # Where time is short guesses mostly fail, and configurations need as long as ever.
        beside = 1 - p.configuring_seconds / max(self.mine.state.left, p.least_seconds)
        return min(p.assign_share_varied, max(p.assign_share_short, beside))

    def _of_target(self) -> Counter[int]:
        """The bundles of the target, by their places."""
        mine = self.mine
        self._picky = loose_parts(mine.classes, mine.wanted)
        if not self._choosy:
            self._picky = picky_parts(self._picky, {q for _, q in mine.blocks.room})
        wanted = bundles(mine.classes, mine.wanted)
        return Counter({self._index(bundle): n for bundle, n in wanted.items()})

    def _index(self, bundle: Bundle) -> int:
        if bundle not in self._at:
            self._at[bundle] = len(self._bundles)
            self._bundles.append(bundle)
        return self._at[bundle]

    def _size(self, bundle: Bundle) -> int:
        return sum(self.mine.classes[c].shape.size * n for c, n in bundle.members)

    def tear(self, torn: Torn) -> None:
        """From now on tear these gangs of the target, which may be another one."""
        self._wanted = self._of_target()
        classes, order = self.mine.classes, self.mine.blocks.order
        class_of = {g: c for c, mine in enumerate(classes) for g in mine.gangs}
        alone = (self._at.get(Bundle(((class_of.get(g, -1), 1),))) for g in torn.gangs)
        # A gang that has others based on it is torn only together with these.
        self._advised = Counter(i for i in alone if i is not None)
        self._places = {
            class_of[g]: [order.index(b) for b in places if b in order]
            for g, places in torn.places.items()
            if g in class_of
        }

    def choose_for_all(self) -> None:
        """From now on find blocks for all parts: what names none found no room in what was left."""
        self._choosy = sum(loose_parts(self.mine.classes, self.mine.wanted).values()) <= MOST_LOOSE
        self._wanted = self._of_target()

    def strict(self, tries: int) -> Guess | None:
        """Blocks for all gangs but those that are torn in any case; None where some find none."""
        for _ in range(tries):
            if self.is_over():
                break
            found = self._guess(*self._begin(), strict=True, more=0)
            if found is not None:
                self.failed = False
                return found.guess
        self.failed = True
        return None

    def next(self) -> Guess | None:
        """Blocks for all gangs, with few of them torn; None where no place is found for all."""
        gangs, torn = self._begin()
        best = self._best(gangs, torn)
        while best is not None and best.nowhere:
            for i in best.nowhere:
                self._tear(i, gangs, torn)
            if self.torn > self.parameters.assign_torn:
                return None
            best = self._best(gangs, torn)
        return None if best is None else best.guess

    @property
    def nearly(self) -> Guess | None:
        """The best guess that was made, also if it leaves out gangs."""
        return None if self._nearly is None else self._nearly.guess

    def _begin(self) -> Begun:
        """The gangs of the target, where those are torn that no block has room for."""
        begun = Begun(Counter(self._wanted), [])
        self.torn = 0
        for i in range(len(self._bundles)):
            tearable = may_be_apart(self._bundles[i], self.mine.classes)
            able = not tearable or self._able(i)
            for _ in range(min(self._advised[i], begun.gangs[i]) if able else begun.gangs[i]):
                self._tear(i, *begun)
        return begun

    def _able(self, i: int) -> bool:
        """Whether a block has room for a bundle alone."""
        item = self._item(i)
        fits = (item.takes <= self.rows.room).all(axis=1)
        return bool((fits & (item.small <= self.rows.small.room).all(axis=1)).any())

    def _tear(self, i: int, gangs: Counter[int], torn: list[int]) -> None:
        """Tear a bundle as often as it takes to have a block for what is left of it."""
        self.torn += 1
        gangs[i] -= 1
        bundle = self._bundles[i]
        if len(bundle.members) == 1:
            torn.append(bundle.first)
            return
        apart = without_one(bundle)
        gangs[self._index(apart.gang)] += 1
        rest = self._index(apart.rest)
        gangs[rest] += 1
        if may_be_apart(apart.rest, self.mine.classes) and not self._able(rest):
            self._tear(rest, gangs, torn)

    def _best(self, gangs: Counter[int], torn: Sequence[int]) -> Try | None:
        """The best of some guesses, up to one that costs nothing."""
        p = self.parameters
        rounds = p.assign_torn_rounds if self.torn else p.assign_rounds
        best: Try | None = None
        times = more = 0
        begin, self.failed = int(self.failed), False
        for i in range(begin, rounds):
            if self.is_over():
                break
            strict = not i % 2
            found = self._guess(gangs, torn, strict=strict, more=i // p.assign_torn_more + more)
            if found is None and not strict:
                # Racks do not hold what rows allow, and it takes too long to learn why.
                if not torn:
                    break
                more += 1
            if found is None:
                continue
            self._keep(found.guess)
            if self._nearly is None or found.cost < self._nearly.cost:
                self._nearly = found
            times += best is not None and found.cost == best.cost
            if best is None or found.cost < best.cost:
                best, times = found, 1
            # A result that comes twice is likely to be the least.
            if not best.cost or times >= 2 or len(found.nowhere) > p.assign_torn:
                break
        return best

    def is_over(self) -> bool:
        """Whether all time or all steps for guesses are used up."""
        return self.mine.state.left <= self._kept or self._steps > self.parameters.assign_all_steps

    def _item(self, i: int) -> Item:
        """What a bundle takes."""
        members, classes = self._bundles[i].members, self.mine.classes
        rows, size = self.rows, self._size(self._bundles[i])
        tearable = may_be_apart(self._bundles[i], classes)
        return Item(
            [kind for c, n in members for kind in parts_of(classes[c]) * n],
            sum((n * rows.takes[c] for c, n in members), np.zeros_like(rows.takes[0])),
            sum((n * rows.small.takes[c] for c, n in members), np.zeros_like(rows.small.takes[0])),
            round(rows.unit * (TORN + TORN_SHARE * size)) if tearable else self._firm,
            tearable,
        )

    def _guess(
        self, gangs: Counter[int], torn: Sequence[int], *, strict: bool, more: int
    ) -> Try | None:
        """Blocks for all gangs and for pieces of torn ones; None where they do not fit.

        A strict one places all gangs. Of the torn ones some are cut into `more` pieces.
        """
        rows, classes = self.rows, self.mine.classes
        some = [i for i, n in sorted(gangs.items()) if n]
        picky = sorted(self._picky)
        pieces = self._cutter.cut(
            [parts_of(classes[c]) for c in torn],
            more=more,
            places=[self._places.get(c, ()) for c in torn],
        )
        items = [
            *map(self._item, some),
            *(self._firm_item([kind]) for kind in picky),
            *(self._firm_item(piece.parts) for piece in pieces),
        ]
        times = [*(gangs[i] for i in some), *(self._picky[k] for k in picky), *(1 for _ in pieces)]
        first = len(items) - len(pieces)
        takes = _stacked([item.takes for item in items], rows.takes.shape[1])
        costs = np.array([item.cost for item in items], dtype=np.int64)
        content = _stacked([_by_kind(item.parts, rows.kinds) for item in items], len(rows.kinds))
        gang = np.array([-1] * first + [piece.gang for piece in pieces], dtype=np.int64)
        search = BlockAssignment(
            takes,
            rows.room,
            costs * (STRICT if strict else 1),
            seed=self._random.getrandbits(32),
            pieces=Pieces(gang, content, rows.parts),
        )
        # Gangs that take most of anything scarce choose first, with some randomness.
        hard = (takes / np.maximum(1, rows.room.sum(axis=0))).max(axis=1, initial=0)
        luck = [1 + self.parameters.assign_luck * self._random.random() for _ in items]
        for k in np.argsort(-hard * luck, kind="stable").tolist():
            for _ in range(times[k]):
                search.add(k)
        settled = self._settle(search, items, strict=strict)
        self._steps += search.steps
        if not settled.held:
            if settled.nearest is not None:
                self._keep_what_fits(search.content, settled.nearest, items, some)
            return None
        count = search.count
        nowhere = [k for k, n in enumerate(count[:, -1].tolist()) for _ in range(n)]
        if not all(items[k].tearable for k in nowhere):
            return None
        parts: list[Counter[tuple[Kind, int]]] = [Counter() for _ in torn]
        for k, piece in enumerate(pieces, first):
            (b,) = np.flatnonzero(count[k]).tolist()
            for kind, n in zip(rows.kinds, search.content[k].tolist(), strict=True):
                if n:
                    parts[piece.gang][kind, b] += n
        guess = Guess(
            _where([self._bundles[i] for i in some], count),
            list(zip(torn, parts, strict=True)),
            _where(picky, count[len(some) :]),
        )
        return Try(guess, [some[k] for k in nowhere], int(count[:, -1] @ costs))

    def _inside(self, content: Ints) -> Counter[Kind]:
        """Parts by kind, of which there are any."""
        both = zip(self.rows.kinds, content.tolist(), strict=True)
        return Counter({kind: n for kind, n in both if n})

    def _keep_what_fits(
        self, content: Ints, count: Ints, items: Sequence[Item], some: Sequence[int]
    ) -> None:
        """Of an assignment keep the bundles that racks hold, the first of the items."""
        whole: Counter[tuple[Bundle, int]] = Counter()
        for b, block in enumerate(self.mine.blocks.order):
            mine = count[: len(some), b].copy()
            while mine.any():
                misfit = self.fitting.misfit(block, self._inside(mine @ content[: len(some)]))
                if misfit is None:
                    break
                able = np.flatnonzero(mine * content[: len(some), self.rows.kinds.index(misfit)])
                mine[min(able.tolist(), key=lambda k: len(items[k].parts))] -= 1
            pairs = zip(some, mine.tolist(), strict=True)
            whole.update({(self._bundles[i], b): n for i, n in pairs if n})
        self._keep(Guess(whole, (), Counter()))

    def _keep(self, guess: Guess) -> None:
        """Keep a guess if more lies whole in it than in those before."""
        nodes = sum(self._size(bundle) * n for (bundle, _), n in guess.whole.items())
        if nodes > self._most:
            self._most, self.partly = nodes, guess

    def _firm_item(self, parts: Parts) -> Item:
        small = _by_kind(parts, self.rows.kinds) @ self.rows.small.parts
        return Item(parts, self._cutter.takes(parts), small, self._firm, tearable=False)

    def _settle(self, search: BlockAssignment, items: Sequence[Item], *, strict: bool) -> Settled:
        """Run until racks hold what blocks hold."""
        tearable = np.array([item.tearable for item in items], dtype=bool)
        p = self.parameters
        longer = p.assign_unlike_longer if strict and self.mine.blocks.mixed else 1
        steps = longer * (p.assign_strict_steps if strict else p.assign_steps)
        nearest: Ints | None = None
        fewest = len(self.mine.blocks.order) + 1
        for _ in range(p.assign_strict_corrections if strict else p.assign_corrections):
            search.run(steps, in_vain=longer * p.assign_in_vain, until=self.is_over)
            if self.is_over():
                break
            if not strict:
                search.relieve(tearable)
            if search.cost if strict else search.over:
                break
            if search.count[:, -1].sum() > p.assign_torn:
                # It is given up, whatever the racks say.
                return Settled(held=True)
            if self._learn_small(search, items):
                continue
            count = search.count.copy()
            crowded = self._learn_racks(search)
            if not crowded:
                return Settled(held=True)
            if crowded < fewest:
                fewest, nearest = crowded, count
        return Settled(held=False, nearest=nearest)

    def _learn_small(self, search: BlockAssignment, items: Sequence[Item]) -> bool:
        """Obey rows of small pods that blocks break; whether there are any."""
        small = self.rows.small
        takes = _stacked([item.small for item in items], small.takes.shape[1])
        pieces = search.pieces
        takes[pieces] = search.content[pieces] @ small.parts
        broken = np.flatnonzero((search.count[:, :-1].T @ takes > small.room).any(axis=0))
        if len(broken):
            search.learn(takes[:, broken], small.room[:, broken], small.parts[:, broken])
            self.rows = self._cutter.rows = self.rows.with_small(broken)
        return bool(len(broken))

    def _learn_racks(self, search: BlockAssignment) -> int:
        """Obey rows against what racks of some blocks do not hold; of how many."""
        broken = 0
        unsettled: list[tuple[int, Kind, Counter[Kind]]] = []
        for b, block in enumerate(self.mine.blocks.order):
            if search.is_over(b):
                # A row against another block already says so of this one.
                continue
            inside = self._inside(search.count[:, b] @ search.content)
            misfit = self.fitting.misfit(block, inside)
            if misfit is None:
                continue
            if self._learn(search, b, inside):
                broken += 1
            else:
                unsettled.append((b, misfit, inside))
        # Where gangs move anyway it need not be known yet.
        for b, misfit, inside in () if broken else unsettled:
            if not self.fitting.pack(self.mine.blocks.order[b], inside):
                broken += 1
                search.forbid(b, self.rows.tightest[misfit])
        return broken

    def _learn(self, search: BlockAssignment, b: int, inside: Counter[Kind]) -> bool:
        """Obey a row that a block breaks which holds these parts; false if none is found."""
        prices = self._columns.prices_against(self.mine.blocks.order[b], inside)
        if prices is None:
            return False
        row = rack_row(self._columns, prices, self.rows.unit)
        value = dict(zip(self.rows.kinds, row.parts.tolist(), strict=True))
        if sum(value[kind] * n for kind, n in inside.items()) <= row.room[b]:
            return False
        search.learn((search.content @ row.parts)[:, None], row.room[:, None], row.parts[:, None])
        self.rows = self._cutter.rows = self.rows.with_racks(row)
        return True


def _where(things: Sequence[T], count: Ints) -> Counter[tuple[T, int]]:
    """How many of each thing lie in each block, by thing and block."""
    found: Counter[tuple[T, int]] = Counter()
    for thing, row in zip(things, count[:, :-1], strict=False):
        found.update({(thing, b): int(row[b]) for b in np.flatnonzero(row).tolist()})
    return found


def _by_kind(parts: Parts, kinds: Sequence[Kind]) -> Ints:
    """How many parts there are of each kind."""
    times = Counter(parts)
    return np.array([times[kind] for kind in kinds], dtype=np.int64)


def _stacked(rows: Sequence[Ints], columns: int) -> Ints:
    """Rows as a table, also where there are none."""
    return np.array(rows, dtype=np.int64).reshape(len(rows), columns)
