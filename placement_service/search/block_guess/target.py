"""What a guess has to find blocks for: the gangs of the target as bundles, and what each takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from placement_service.cp_sat.admission.master import Torn
from placement_service.cp_sat.blocks.parts import Kind
from placement_service.formulation.arrays import Ints
from placement_service.search.block_guess.bundles import (
    Bundle,
    bundles,
    loose_parts,
    may_be_apart,
    picky_parts,
    without_one,
)
from placement_service.search.block_guess.guess import Begun
from placement_service.search.block_guess.items import Item, Items
from placement_service.search.block_guess.pieces import GangPiece, Parts, PieceCutter, parts_of
from placement_service.search.block_guess.rows import BlockRows, block_rows
from placement_service.search.blocks.problem import BlockProblem

#: What a gang without a block costs: so many whole nodes, and this share of its own.
TORN, TORN_SHARE = 3.0, 0.1

#: Parts that name no block up to which blocks are sought for them, too.
MOST_LOOSE = 200

#: A gang that must not be torn, or a piece of one that is, costs so many times as much.
FIRM = 20


class GuessTarget:
    """The gangs of the target. Bundles that were ever asked for have a place."""

    def __init__(self, mine: BlockProblem, *, seed: int) -> None:
        self.mine = mine
        self.rows = block_rows(mine.blocks, mine.classes)
        self._cutter = PieceCutter(self.rows, seed=seed)
        self.bundles: list[Bundle] = []
        self._at: dict[Bundle, int] = {}
        self._picky: Counter[Kind] = Counter()
        #: Whether all parts that name no block get one.
        self._choosy = False
        self._wanted = self._of_target()
        #: Those that are torn in any case.
        self._advised: Counter[int] = Counter()
        #: By class of torn gangs, the blocks that pieces of each are for, where they are known.
        self._places: dict[int, list[Sequence[int]]] = {}
        most = max(map(self.size, self.bundles), default=0)
        self._firm = FIRM * round(self.rows.unit * (TORN + TORN_SHARE * most))
        #: How many gangs are torn since the last begin.
        self.torn = 0

    def obey(self, rows: BlockRows) -> None:
        """Count by other rows from now on."""
        self.rows = self._cutter.rows = rows

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
            self._at[bundle] = len(self.bundles)
            self.bundles.append(bundle)
        return self._at[bundle]

    def size(self, bundle: Bundle) -> int:
        """The nodes that a bundle takes."""
        return sum(self.mine.classes[c].shape.size * n for c, n in bundle.members)

    # --- tearing ----------------------------------------------------------

    def advise(self, torn: Torn) -> None:
        """From now on tear these gangs of the target, which may be another one."""
        self._wanted = self._of_target()
        classes, order = self.mine.classes, self.mine.blocks.order
        class_of = {g: c for c, mine in enumerate(classes) for g in mine.gangs}
        alone = (self._at.get(Bundle(((class_of.get(g, -1), 1),))) for g in torn.gangs)
        # A gang that has others based on it is torn only together with these.
        self._advised = Counter(i for i in alone if i is not None)
        self._places = {}
        for g, places in torn.places.items():
            if g in class_of:
                mine = [order.index(b) for b in places if b in order]
                self._places.setdefault(class_of[g], []).append(mine)

    @property
    def is_advised(self) -> bool:
        """Whether anything was said of gangs that are torn in any case."""
        return bool(self._advised or self._places)

    def choose_for_all(self) -> None:
        """From now on find blocks for all parts: what names none found no room in what was left."""
        self._choosy = sum(loose_parts(self.mine.classes, self.mine.wanted).values()) <= MOST_LOOSE
        self._wanted = self._of_target()

    def begin(self) -> Begun:
        """The gangs of the target, where those are torn that no block has room for."""
        begun = Begun(Counter(self._wanted), [])
        self.torn = 0
        for i in range(len(self.bundles)):
            able = not self._tearable(i) or self._able(i)
            for _ in range(min(self._advised[i], begun.gangs[i]) if able else begun.gangs[i]):
                self.tear(i, begun)
        return begun

    def tear(self, i: int, begun: Begun) -> None:
        """Tear a bundle as often as it takes to have a block for what is left of it."""
        self.torn += 1
        begun.gangs[i] -= 1
        bundle = self.bundles[i]
        if len(bundle.members) == 1:
            begun.torn.append(bundle.first)
            return
        apart = without_one(bundle)
        begun.gangs[self._index(apart.gang)] += 1
        rest = self._index(apart.rest)
        begun.gangs[rest] += 1
        if self._tearable(rest) and not self._able(rest):
            self.tear(rest, begun)

    def mended(self, gang: int, begun: Begun) -> Begun | None:
        """The same with one of the torn gangs whole; None where no block has room for it."""
        whole = self._index(Bundle(((begun.torn[gang], 1),)))
        if not self._able(whole):
            return None
        gangs = begun.gangs.copy()
        gangs[whole] += 1
        return Begun(gangs, [*begun.torn[:gang], *begun.torn[gang + 1 :]])

    def _tearable(self, i: int) -> bool:
        return may_be_apart(self.bundles[i], self.mine.classes)

    def _able(self, i: int) -> bool:
        """Whether a block has room for a bundle alone."""
        item = self._item(i)
        fits = (item.takes <= self.rows.room).all(axis=1)
        return bool((fits & (item.small <= self.rows.small.room).all(axis=1)).any())

    def fits(self, parts: Parts) -> bool:
        """Whether a block has room for parts alone."""
        return bool((self._cutter.takes(parts) <= self.rows.room).all(axis=1).any())

    # --- items ------------------------------------------------------------

    def items(self, gangs: Counter[int]) -> Items:
        """So many bundles, by their places, and all picky parts."""
        some, picky = [i for i, n in sorted(gangs.items()) if n], sorted(self._picky)
        each = [*map(self._item, some), *(self._firm_item([kind]) for kind in picky)]
        times = [*(gangs[i] for i in some), *(self._picky[kind] for kind in picky)]
        return Items(some, picky, (), each, times)

    def with_pieces(self, items: Items, pieces: Sequence[GangPiece]) -> Items:
        """The same and pieces of torn gangs."""
        return items.with_pieces(pieces, [self._firm_item(piece.parts) for piece in pieces])

    def pieces(self, torn: Sequence[int], *, more: int, load: Ints, first: int) -> list[GangPiece]:
        """Torn gangs by class, the first of which is the `first`-th that is torn, in pieces; some
        of them in `more`. `load` [B, R] is what blocks hold.
        """
        known = {c: iter(places) for c, places in self._places.items()}
        cut = self._cutter.cut(
            [parts_of(self.mine.classes[c]) for c in torn],
            more=more,
            places=[next(known.get(c, iter(())), ()) for c in torn],
            load=load,
        )
        return [GangPiece(first + piece.gang, piece.parts) for piece in cut]

    def _item(self, i: int) -> Item:
        """What a bundle takes."""
        rows, tearable, bundle = self.rows, self._tearable(i), self.bundles[i]
        classes, times = map(list, zip(*bundle.members, strict=True))
        return Item(
            times @ rows.times[classes],
            times @ rows.takes[classes],
            times @ rows.small.takes[classes],
            round(rows.unit * (TORN + TORN_SHARE * self.size(bundle))) if tearable else self._firm,
            tearable,
        )

    def _firm_item(self, parts: Parts) -> Item:
        rows, times = self.rows, Counter(parts)
        content = np.array([times[kind] for kind in rows.kinds], dtype=np.int64)
        small = content @ rows.small.parts
        return Item(content, content @ rows.parts, small, self._firm, tearable=False)
