"""A block for every gang of the target at once, by counted rows and best fit in racks.

Gangs that belong together get one block. Gangs of which counting says so (`place_stage`), or for
which no block has room beside the others, are torn: of a set one gang gets a block of its own,
others are cut into pieces that get blocks like gangs, while all others get theirs anew. Where racks
do not hold what the rows allow, prices of their nodes make another row (see `rack_columns`), and
gangs move to other blocks. Rows of small pods are obeyed from the first time that they are broken.

Where blocks have nodes of several pools, gangs are torn one after another where room lacks, all
others stay where they are, and in the end those become whole again for which there is a block.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from placement_service.cp_sat.blocks.parts import Kind
from placement_service.cp_sat.blocks.rack_columns import RackColumns
from placement_service.formulation.arrays import Ints
from placement_service.search.block_guess.assignment import NO_END, BlockAssignment, Crowded, Pieces
from placement_service.search.block_guess.bundles import Bundle
from placement_service.search.block_guess.fewer_pieces import fewer_pieces
from placement_service.search.block_guess.guess import Begun, Guess, Settled, Try
from placement_service.search.block_guess.items import Items
from placement_service.search.block_guess.pieces import GangPiece
from placement_service.search.block_guess.rack_fitting import RackFitting
from placement_service.search.block_guess.rows import BlockRows, rack_row
from placement_service.search.block_guess.standing import PlacedPiece, Standing, where_all_stand
from placement_service.search.block_guess.target import GuessTarget
from placement_service.search.blocks.problem import BlockProblem

T = TypeVar("T")

#: How much more a gang without a block costs where only what costs nothing counts: then blocks may
#: be too full for a while. With less it shows which gangs are split at best.
STRICT = 10

#: Gangs that are torn at once where all must find a block.
AT_ONCE = 2


class BlockGuess:
    """Guesses repeatedly; what is tried is random. It takes most of the time where it is `again`
    the turn of guesses.
    """

    def __init__(self, mine: BlockProblem, *, again: bool = False) -> None:
        self.mine, self.parameters, self.again = mine, mine.parameters, again
        seed = self.parameters.seed
        self._random = random.Random(seed)
        self.target = GuessTarget(mine, seed=seed)
        self._columns = RackColumns(mine.blocks, self.rows.kinds)
        self.fitting = RackFitting(mine.blocks, self._columns, self.parameters)
        #: The best guess in which some gangs had no block, and what these cost.
        self._nearly: Try | None = None
        #: The guess with most gangs whole in blocks, which may leave out others.
        self.partly: Guess | None = None
        self._most = 0
        self._steps = 0
        #: Whether a strict guess with the gangs torn that are advised has just failed.
        self.failed = False
        #: What the last guess had to place, and where it is.
        self._begun: Begun | None = None
        self._standing: Standing | None = None
        state, p = mine.state, self.parameters
        #: The time that is left for others.
        self._kept = max(p.least_seconds, state.left - state.at_most(state.left * self._share()))

    @property
    def rows(self) -> BlockRows:
        """The rows that are known so far."""
        return self.target.rows

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

    def strict(self, tries: int, *, brief: bool = False) -> Guess | None:
        """Blocks for all gangs but those that are torn in any case; None where some find none. A
        `brief` one gives up soon.
        """
        for _ in range(tries):
            if self.is_over():
                break
            found = self._guess(self.target.begin(), strict=True, brief=brief)
            if found is not None:
                self.failed = False
                return found.guess
        self.failed = True
        return None

    def next(self) -> Guess | None:
        """Blocks for all gangs, with few of them torn; None where no place is found for all."""
        begun = self.target.begin()
        best = self._best(begun)
        while best is not None and best.nowhere:
            for i in best.nowhere:
                self.target.tear(i, begun)
            if self.target.torn > self.parameters.assign_torn:
                return None
            best = self._best(begun)
        return None if best is None else best.guess

    def torn_by_and_by(self) -> Guess | None:
        """Blocks for all gangs, of which more and more are torn: those that leave room where it
        lacks. It begins anew after so many rounds, or where none leaves any.
        """
        begun, rounds, over = self.target.begin(), 0, NO_END
        standing = self._standing if self.failed else None
        self.failed = False
        while not self.is_over():
            if rounds == self.parameters.assign_tearing_rounds:
                standing = None
            elif standing is not None and not standing.tear and standing.over >= over:
                # Another piece has not helped.
                standing = None
            over = NO_END if standing is None else standing.over
            if standing is None or not self._tear_in(standing, begun):
                standing, begun, rounds = None, self.target.begin(), 0
            found = self._guess(begun, strict=True, standing=standing)
            if found is not None:
                return found.guess
            standing = self._standing
            rounds += 1
        return None

    def _tear_in(self, standing: Standing, begun: Begun) -> bool:
        """Tear the largest bundles that leave room where they stand; where there are none, make
        another piece of gangs that are torn, for parts of those they have. Whether there are any.
        """
        size, bundles = self.target.size, self.target.bundles
        largest = sorted(standing.tear, key=lambda one: -size(bundles[one.gang]))
        for bundle, block, _ in largest[:AT_ONCE]:
            standing.bundles[bundle][block] -= 1
            self.target.tear(bundle, begun)
        if not largest:
            standing.pieces.extend(PlacedPiece(g, [], there) for g, _, there in standing.cut)
        return bool(largest or standing.cut)

    def join_pieces(self, take: Callable[[Guess], bool], *, until: Callable[[], bool]) -> None:
        """Give `take` guesses with ever fewer pieces, from the last one on: gangs are whole again
        that find a block among all others, and of others two pieces become one, the smallest
        first. It says whether blocks hold a guess.
        """
        begun, standing = self._begun, self._standing
        if begun is None or standing is None:
            return
        failed: Counter[object] = Counter()
        while not (self.is_over() or until()):
            some = fewer_pieces(self.target, begun, standing)
            one = min(some, key=lambda f: (failed[f.name], f.size), default=None)
            if one is None or failed[one.name] >= self.parameters.assign_joining:
                break
            brief = not failed[one.name]
            better = self._guess(one.begun, strict=True, brief=brief, standing=one.standing)
            if better is None or not take(better.guess):
                # Another time it may find other moves.
                failed[one.name] += 1
            else:
                begun, standing = one.begun, self._standing or one.standing

    @property
    def nearly(self) -> Guess | None:
        """The best guess that was made, also if it leaves out gangs."""
        return None if self._nearly is None else self._nearly.guess

    def _best(self, begun: Begun) -> Try | None:
        """The best of some guesses, up to one that costs nothing."""
        p = self.parameters
        rounds = p.assign_torn_rounds if self.target.torn else p.assign_rounds
        best: Try | None = None
        times = more = 0
        begin, self.failed = int(self.failed), False
        for i in range(begin, rounds):
            if self.is_over():
                break
            strict = not i % 2
            found = self._guess(begun, strict=strict, more=i // p.assign_torn_more + more)
            if found is None and not strict:
                # Racks do not hold what rows allow, and it takes too long to learn why.
                if not begun.torn:
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

    def _guess(
        self,
        begun: Begun,
        *,
        strict: bool,
        brief: bool = False,
        more: int = 0,
        standing: Standing | None = None,
    ) -> Try | None:
        """Blocks for all gangs and for pieces of torn ones; None where they do not fit.

        A strict one places all gangs, a `brief` one gives up soon. Of the torn ones some are cut
        into `more` pieces. What is `standing` begins there.
        """
        items = self.target.items(begun.gangs)
        known, load = 0, np.zeros_like(self.rows.room)
        count = np.zeros((len(items.each), len(load) + 1), dtype=np.int64)
        if standing is not None:
            known = standing.torn
            kept = [GangPiece(piece.gang, piece.parts) for piece in standing.pieces]
            items = self.target.with_pieces(items, kept)
            count = standing.count(items, len(load))
            load = load if not items.each else count[:, :-1].T @ items.takes
        pieces = self.target.pieces(begun.torn[known:], more=more, load=load, first=known)
        items = self.target.with_pieces(items, pieces)
        if not items.each:
            return Try(Guess(Counter(), [], Counter()), [], 0)
        search = self._search(items, strict=strict)
        search.begin(np.pad(count, ((0, len(pieces)), (0, 0))))
        self._add(search, items)
        settled = self._settle(search, items, strict=strict, brief=brief)
        self._steps += 1 + search.steps
        torn, kinds = len(begun.torn), self.rows.kinds
        self._begun = begun
        self._standing = where_all_stand(items, torn, kinds, search, settled.crowded)
        if settled.held:
            return self._tried(search, items, begun.torn)
        if settled.nearest is not None:
            self._keep_what_fits(search.content, settled.nearest, items)
        elif self.is_over():
            search.relieve(items.tearable)
            self._keep_what_fits(search.content, search.count, items)
        return None

    def _search(self, items: Items, *, strict: bool) -> BlockAssignment:
        """A search in which nothing has a block yet."""
        return BlockAssignment(
            items.takes,
            self.rows.room,
            items.costs * (STRICT if strict else 1),
            seed=self._random.getrandbits(32),
            pieces=Pieces(items.gang, items.content, self.rows.parts),
        )

    def _add(self, search: BlockAssignment, items: Items) -> None:
        """Put everything somewhere that has no block: what takes most of anything scarce chooses
        first, with some randomness.
        """
        total = np.maximum(1, self.rows.room.sum(axis=0))
        hard = (items.takes / total).max(axis=1, initial=0)
        luck = [1 + self.parameters.assign_luck * self._random.random() for _ in items.each]
        for k in np.argsort(-hard * luck, kind="stable").tolist():
            for _ in range(items.times[k] - int(search.count[k].sum())):
                search.add(k)

    def _tried(self, search: BlockAssignment, items: Items, torn: Sequence[int]) -> Try | None:
        """What was found; None where a piece or another firm part has no block."""
        count = search.count
        nowhere = [k for k, n in enumerate(count[:, -1].tolist()) for _ in range(n)]
        if not all(items.each[k].tearable for k in nowhere):
            return None
        parts: list[Counter[tuple[Kind, int]]] = [Counter() for _ in torn]
        for k, piece in enumerate(items.pieces, items.first_piece):
            (b,) = np.flatnonzero(count[k]).tolist()
            for kind, n in self._inside(search.content[k]).items():
                parts[piece.gang][kind, b] += n
        guess = Guess(
            _where([self.target.bundles[i] for i in items.bundles], count),
            list(zip(torn, parts, strict=True)),
            _where(items.picky, count[len(items.bundles) :]),
        )
        return Try(guess, [items.bundles[k] for k in nowhere], int(count[:, -1] @ items.costs))

    def _inside(self, content: Ints) -> Counter[Kind]:
        """Parts by kind, of which there are any."""
        both = zip(self.rows.kinds, content.tolist(), strict=True)
        return Counter({kind: n for kind, n in both if n})

    def _keep_what_fits(self, content: Ints, count: Ints, items: Items) -> None:
        """Of an assignment keep the bundles that racks hold, the first of the items."""
        whole: Counter[tuple[Bundle, int]] = Counter()
        content = content[: len(items.bundles)]
        for b, block in enumerate(self.mine.blocks.order):
            mine = count[: len(content), b].copy()
            while mine.any():
                misfit = self.fitting.misfit(block, self._inside(mine @ content))
                if misfit is None:
                    break
                able = np.flatnonzero(mine * content[:, self.rows.kinds.index(misfit)])
                mine[min(able.tolist(), key=lambda k: int(content[k].sum()))] -= 1
            pairs = zip(items.bundles, mine.tolist(), strict=True)
            whole.update({(self.target.bundles[i], b): n for i, n in pairs if n})
        self._keep(Guess(whole, (), Counter()))

    def _keep(self, guess: Guess) -> None:
        """Keep a guess if more lies whole in it than in those before."""
        nodes = sum(self.target.size(bundle) * n for (bundle, _), n in guess.whole.items())
        if nodes > self._most:
            self._most, self.partly = nodes, guess

    def _settle(
        self, search: BlockAssignment, items: Items, *, strict: bool, brief: bool
    ) -> Settled:
        """Run until racks hold what blocks hold."""
        tearable, p = items.tearable, self.parameters
        longer = p.assign_unlike_longer if strict and self.mine.blocks.mixed else 1
        steps = longer * (p.assign_strict_steps if strict else p.assign_steps)
        in_vain = longer * (p.assign_in_vain_brief if brief else p.assign_in_vain)
        nearest: Ints | None = None
        fewest = len(self.mine.blocks.order) + 1
        crowded: Sequence[Crowded] = ()
        for _ in range(p.assign_strict_corrections if strict else p.assign_corrections):
            search.run(steps, in_vain=in_vain, until=self.is_over)
            if self.is_over():
                break
            if not strict:
                search.relieve(tearable)
            if search.cost if strict else search.over:
                crowded = search.crowded(tearable)
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
            if len(crowded) < fewest:
                fewest, nearest = len(crowded), count
        return Settled(held=False, nearest=nearest, crowded=crowded)

    def _learn_small(self, search: BlockAssignment, items: Items) -> bool:
        """Obey rows of small pods that blocks break; whether there are any."""
        small = self.rows.small
        takes = items.small
        pieces = search.pieces
        takes[pieces] = search.content[pieces] @ small.parts
        broken = np.flatnonzero((search.count[:, :-1].T @ takes > small.room).any(axis=0))
        if len(broken):
            search.learn(takes[:, broken], small.room[:, broken], small.parts[:, broken])
            self.target.obey(self.rows.with_small(broken))
        return bool(len(broken))

    def _learn_racks(self, search: BlockAssignment) -> list[Crowded]:
        """Obey rows against what racks of some blocks do not hold; in each of these, what has most
        parts of a kind that finds no rack.
        """
        broken: list[Crowded] = []
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
                broken.append(self._most_of(search, misfit, b))
            else:
                unsettled.append((b, misfit, inside))
        # Where gangs move anyway it need not be known yet.
        for b, misfit, inside in () if broken else unsettled:
            if not self.fitting.pack(self.mine.blocks.order[b], inside):
                broken.append(self._most_of(search, misfit, b))
                search.forbid(b, self.rows.tightest[misfit])
        return broken

    def _most_of(self, search: BlockAssignment, kind: Kind, b: int) -> Crowded:
        """What has most parts of a kind in a block."""
        parts = search.content[:, self.rows.kinds.index(kind)] * (search.count[:, b] > 0)
        return Crowded(int(parts.argmax()), b, search.roomiest(self.rows.tightest[kind]))

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
        self.target.obey(self.rows.with_racks(row))
        return True


def _where(things: Sequence[T], count: Ints) -> Counter[tuple[T, int]]:
    """How many of each thing lie in each block, by thing and block."""
    found: Counter[tuple[T, int]] = Counter()
    for thing, row in zip(things, count[:, :-1], strict=False):
        found.update({(thing, b): int(row[b]) for b in np.flatnonzero(row).tolist()})
    return found
