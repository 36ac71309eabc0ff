"""What racks of a block hold, by columns: sets of parts that fit into a rack together.

A rack may have nodes of several pools, and a part takes nodes of all pools that it may use. So
parts fit into a rack exactly when for each set of pools the parts that may use no others are no
more than there are nodes of them (Hall's condition). Mostly the pools of parts nest. Then the sets
come one after another, and a knapsack that fills the nodes of one set before those of the next
finds the most valuable column at some prices. Otherwise it looks at fewer sets: racks seem to hold
more, and what does not fit is taken out of the column again.

Where racks do not hold some parts, the duals of a linear program over columns are prices at which
these parts are worth more than all that the racks hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]

from placement_service.cp_sat.blocks.parts import Kind, RackSort
from placement_service.cp_sat.blocks.shapes import Blocks
from placement_service.formulation.arrays import Bools, Floats, Ints

#: Parts of so many nodes that are left over are an error of floats.
ROUNDING = 1e-6

#: Less than any sum of prices.
NEVER = -float(1 << 50)

#: The share of what is left over that prices have to say.
SAID = 0.98

#: Parts by kind, and how many of each.
Column = tuple[tuple[Kind, int], ...]

#: What a part of each kind is worth, in whole nodes or a measure of them.
Prices = Mapping[Kind, float]


class Best(NamedTuple):
    """The most that a rack can be worth, and what it holds then."""

    worth: float
    column: Column


@dataclass(frozen=True, slots=True, eq=False)
class _Alike:
    """Racks by sort whose nodes are counted in one order of pool sets: `nodes` [G, P] are those of
    all sets up to each, `nested` whether that says all.
    """

    order: tuple[frozenset[int], ...]
    sorts: tuple[RackSort, ...]
    nodes: Ints
    nested: bool


class RackColumns:
    """Columns of the racks of all blocks; those that were found once are kept."""

    def __init__(self, blocks: Blocks, kinds: Iterable[Kind]) -> None:
        self.kinds = sorted(kinds)
        #: Racks of each block by sort, and how many.
        self.racks: dict[int, dict[RackSort, int]] = {b: {} for b in blocks.order}
        for sort, racks in sorted(blocks.racks.items()):
            self.racks[sort.block][sort] = len(racks)
        #: The pools of each rack that differs in them.
        self.pools = {frozenset(q for q, _ in sort.nodes) for sort in blocks.racks}
        self._choosiness = blocks.choosiness
        self._kinds_of: dict[frozenset[int], list[Kind]] = {}
        for kind in self.kinds:
            self._kinds_of.setdefault(frozenset(kind.pools), []).append(kind)
        self._alike_in: dict[int, list[_Alike]] = {}
        self._lps: dict[int, _BlockLp] = {}
        #: Blocks and parts that their racks hold if these may be mixed.
        self._held: set[tuple[int, Column]] = set()
        #: Columns of each sort, in the order in which they were found.
        self.known: dict[RackSort, dict[Column, None]] = {
            sort: {} for racks in self.racks.values() for sort in racks
        }

    @cached_property
    def _every(self) -> list[_Alike]:
        return self._by_order([sort for racks in self.racks.values() for sort in racks])

    def _alike(self, block: int) -> list[_Alike]:
        if block not in self._alike_in:
            self._alike_in[block] = self._by_order(self.racks[block])
        return self._alike_in[block]

    def _by_order(self, sorts: Iterable[RackSort]) -> list[_Alike]:
        found: dict[tuple[tuple[frozenset[int], ...], bool], dict[RackSort, list[int]]] = {}
        every = sorted(self._kinds_of, key=lambda pools: (len(pools), sorted(pools)))
        for sort in sorts:
            order = [pools for pools in every if sort.within(pools)]
            if not _nests(sort, order):
                # They may do so in another order.
                order.sort(key=lambda pools: (sort.within(pools), sorted(pools)))
            if order:
                nodes = _nodes_up_to(sort, order)
                found.setdefault((tuple(order), _nests(sort, order)), {})[sort] = nodes
        return [
            _Alike(order, tuple(mine), np.array(list(mine.values())), nested)
            for (order, nested), mine in found.items()
        ]

    # --- prices -----------------------------------------------------------------------

    def worths(self, prices: Prices) -> dict[int, float]:
        """What all racks of each block hold at most, at some prices."""
        total = dict.fromkeys(self.racks, 0.0)
        for alike in self._every:
            worth, _ = self._fill(alike, prices)
            for sort, most in zip(alike.sorts, worth.max(axis=1).tolist(), strict=True):
                total[sort.block] += self.racks[sort.block][sort] * most
        return total

    def _best(self, block: int, prices: Prices) -> dict[RackSort, Best]:
        """The best column of each rack of a block."""
        found = {}
        for alike in self._alike(block):
            worth, steps = self._fill(alike, prices)
            for g, (sort, u) in enumerate(zip(alike.sorts, worth.argmax(axis=1), strict=True)):
                most = float(worth[g, u])
                column: Counter[Kind] = Counter()
                for kind, with_one in reversed(steps):
                    while u >= kind.size and with_one[g, u]:
                        column[kind] += 1
                        u -= kind.size
                found[sort] = Best(
                    most,
                    tuple(sorted(column.items())) if alike.nested else self._trimmed(sort, column),
                )
        return found

    def _fill(self, alike: _Alike, prices: Prices) -> tuple[Floats, list[tuple[Kind, Bools]]]:
        """What so many nodes are worth at most [G, nodes], and for each kind in turn whether one
        more of it is in the best content.
        """
        most = int(alike.nodes.max())
        worth: Floats = np.full((len(alike.sorts), most + 1), NEVER)
        worth[:, 0] = 0.0
        count = np.arange(most + 1)
        steps: list[tuple[Kind, Bools]] = []
        for i, pools in enumerate(alike.order):
            for kind in self._kinds_of[pools]:
                price, size = prices.get(kind, 0.0), kind.size
                if price <= 0 or size > most:
                    continue
                after = _with_more(worth, size, price)
                steps.append((kind, after > worth))
                worth = after
            worth[count > alike.nodes[:, i, None]] = NEVER
        return worth, steps

    def _trimmed(self, sort: RackSort, column: Mapping[Kind, int]) -> Column:
        """The parts of a column that find nodes, those that fewest pools hold first."""
        left, kept = dict(sort.nodes), Counter[Kind]()
        for kind in sorted(column, key=lambda kind: (len(kind.pools), -kind.size)):
            order = sorted(kind.pools, key=self._choosiness.__getitem__)
            able = sum(left.get(q, 0) for q in order)
            kept[kind] = min(column[kind], able // kind.size)
            needs = kept[kind] * kind.size
            for q in order:
                taken = min(needs, left.get(q, 0))
                if taken:
                    left[q] -= taken
                    needs -= taken
        return tuple(sorted((+kept).items()))

    # --- why parts do not fit -----------------------------------------------------------

    def prices_against(self, block: int, parts: Mapping[Kind, int]) -> Prices | None:
        """Prices at which these parts are worth more than all that racks of a block can hold; None
        where racks hold them all, if these may be mixed.
        """
        asked = {kind: n for kind, n in sorted(parts.items()) if n}
        key = block, tuple(asked.items())
        if key in self._held:
            return None
        if block not in self._lps:
            self._lps[block] = _BlockLp(self.racks[block], self.kinds)
        lp = self._lps[block]
        lp.ask(asked)
        best, found = 0.0, None
        while lp.solve() and lp.value > ROUNDING:
            prices = lp.prices
            racks = self._best(block, prices)
            bound = sum(prices[kind] * n for kind, n in lp.parts.items())
            bound -= sum(self.racks[block][sort] * rack.worth for sort, rack in racks.items())
            if bound > max(best, ROUNDING):
                best, found = bound, prices
            if best > SAID * lp.value or not self._extend(lp, racks):
                return found
        self._held.add(key)
        return None

    def _extend(self, lp: _BlockLp, racks: Mapping[RackSort, Best]) -> bool:
        """Add columns that may improve the linear program; whether there are any."""
        extended = False
        rents = lp.rents
        for sort, rack in racks.items():
            if rack.worth > rents[sort] + ROUNDING and rack.column not in self.known[sort]:
                self.known[sort][rack.column] = None
                lp.add(sort, rack.column)
                extended = True
        return extended


def _with_more(worth: Floats, size: int, price: float) -> Floats:
    """What so many nodes are worth [G, nodes] if any number of parts of a size may be added."""
    groups, nodes = worth.shape
    turns = -(-nodes // size)
    padded = np.full((groups, turns * size), NEVER)
    padded[:, :nodes] = worth
    # Whatever is added to so many nodes, the rest of a division by the size stays.
    by_rest = padded.reshape(groups, turns, size)
    added = price * np.arange(turns)[:, None]
    most = np.maximum.accumulate(by_rest - added, axis=1) + added
    found = most.reshape(groups, -1)[:, :nodes]
    # What is hardly more is an error of floats, and so is what nothing was added to.
    more: Bools = (found > worth + ROUNDING) & (found > NEVER / 2)
    return np.where(more, found, worth)


def _nodes_up_to(sort: RackSort, order: Sequence[frozenset[int]]) -> list[int]:
    """How many nodes of a rack each set of pools and all before it have together."""
    return [sort.within(frozenset().union(*order[: i + 1])) for i in range(len(order))]


def _nests(sort: RackSort, order: Sequence[frozenset[int]]) -> bool:
    """Whether each set of pools has all nodes of a rack that those before it have."""
    return _nodes_up_to(sort, order) == [sort.within(pools) for pools in order]


class _BlockLp:
    """The fewest nodes' worth of parts that are left over, where racks of a block hold shares of
    columns.
    """

    def __init__(self, racks: Mapping[RackSort, int], kinds: Iterable[Kind]) -> None:
        self.parts: Mapping[Kind, int] = {}
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        infinity = self._solver.infinity()
        self._cover = {kind: self._solver.Constraint(0, infinity) for kind in kinds}
        self._racks = {sort: self._solver.Constraint(-infinity, n) for sort, n in racks.items()}
        goal = self._solver.Objective()
        for kind, row in self._cover.items():
            left_over = self._solver.NumVar(0, infinity, "")
            row.SetCoefficient(left_over, 1)
            goal.SetCoefficient(left_over, kind.size)
        goal.SetMinimization()

    def ask(self, parts: Mapping[Kind, int]) -> None:
        """From now on these are the parts."""
        for kind in self.parts:
            self._cover[kind].SetLb(0)
        for kind, n in parts.items():
            self._cover[kind].SetLb(n)
        self.parts = parts

    def add(self, sort: RackSort, column: Column) -> None:
        """A rack may hold these parts."""
        share = self._solver.NumVar(0, self._solver.infinity(), "")
        self._racks[sort].SetCoefficient(share, 1)
        for kind, n in column:
            self._cover[kind].SetCoefficient(share, n)

    def solve(self) -> bool:
        """Whether it was solved; then what it says is read, which is lost with the next column."""
        if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
            return False
        self.value: float = self._solver.Objective().Value()
        self.prices = {
            kind: min(max(0.0, self._cover[kind].dual_value()), kind.size) for kind in self.parts
        }
        self.rents = {sort: -row.dual_value() for sort, row in self._racks.items()}
        return True
