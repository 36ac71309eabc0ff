"""A bound of a linear program with whole variables, from its regions one by one.

Rows that join regions are left out, each at its price in the linear program (Lagrangian relaxation:
Geoffrion, "Lagrangean relaxation for integer programming", 1974). Each region is then settled in
whole numbers by itself:

    most of goal x  <=  sum of price * bound over rows that join
                        + sum over regions of the most of (goal - prices of rows that join) x there

Variables of no region have a copy in each one whose rows name them, at what these rows cost of them
(Guignard and Kim, "Lagrangean decomposition", 1987). Without whole numbers the right is what the
linear program has, so with them it is never more.

*Why it holds for any prices:* a solution obeys the rows that are left out, so it pays for them no
more than their bounds; its values are a solution of each region, and what is counted of a variable
adds up to what the goal counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from ortools.math_opt.python import mathopt

from placement_service.cp_sat.linear_model import Priced
from placement_service.cp_sat.linear_program import LinearProgram, Matrix, limits, solve
from placement_service.formulation.arrays import Bools, Floats, Ints

#: How far from its best a region may end, as a share of what it has.
TOLERANCE = 1e-6
#: How wrong the solver may be about a region.
ERROR = 1e-3

#: A variable of no region, and a row without a variable of any.
NONE = -1
_SEVERAL = -2

_BOUNDS = (mathopt.TerminationReason.OPTIMAL, mathopt.TerminationReason.FEASIBLE)

#: The most that the goal has in a region: what its linear program has, or less.
RegionQuestion = Callable[[], float]


class _Part(NamedTuple):
    """What is settled of a region, its variables in the whole, and the prices of its rows."""

    program: LinearProgram
    variables: Ints
    prices: Floats


class Decomposition:
    """Regions of a linear program, as questions."""

    def __init__(self, priced: Priced, region: Ints, *, until: float, nodes: int) -> None:
        """`region` of each variable [V], or `NONE`; what it means for others follows from the rows.
        Regions are settled until `time.monotonic` says so, in so many nodes of the search tree.
        """
        self._priced = priced
        self._until, self._nodes = until, nodes
        program, prices = priced.program, priced.prices
        count = len(program.row_most)
        self._region = grown(program.matrix, region, count)
        self._of_row = _of_rows(program.matrix, self._region, count)
        joins = self._of_row < 0
        joining = np.where(joins, prices, 0)
        size = len(program.goal)
        shared = self._region == NONE
        self._goal = program.goal - program.matrix.priced(joining, size)
        rest = program.goal - program.matrix.priced(prices, size)
        #: What holds whatever is done in the regions.
        self._fixed = float(program.costs(joining).sum())
        self._fixed += float((np.maximum(rest, 0) * program.most)[shared].sum())
        self.regions: Ints = np.unique(self._region[~shared])
        self._parts = [self._part(r) for r in self.regions.tolist()]
        self.questions: Sequence[RegionQuestion] = [self._ask(part) for part in self._parts]

    def bound(self, found: Sequence[float]) -> int | None:
        """The bound of the goal, from the answers to all questions."""
        return self._priced.read(self._fixed + sum(found) + ERROR * len(found))

    def shortfalls(self, found: Sequence[float], values: Floats) -> Floats:
        """By how much each region [regions] of a solution has less than its most, from the answers
        to all questions. With what rows that join leave of their bounds, at their prices, this adds
        up to what the goal lacks of its bound. Variables behind `values` count as 0.
        """
        values = np.pad(values, (0, max(0, len(self._region) - len(values))))
        has = [float(p.program.goal @ values[p.variables]) for p in self._parts]
        return np.maximum(0.0, np.array(found) - has)

    def _ask(self, region: _Part) -> RegionQuestion:
        part, prices = region.program, region.prices
        proto, simple = part.proto(whole=True), part.bound(prices)

        def most() -> float:
            left = self._until - time.monotonic()
            brief = limits(left, self._nodes, relative_gap=TOLERANCE)
            result = solve(proto, mathopt.SolverType.HIGHS, brief)
            if mathopt.TerminationReason(result.termination.reason) not in _BOUNDS:
                return simple
            return min(simple, -float(result.termination.objective_bounds.dual_bound))

        return most

    def _part(self, region: int) -> _Part:
        """The rows of a region, with its variables and copies of those of no region."""
        program, size = self._priced.program, len(self._region)
        rows = np.flatnonzero(self._of_row == region)
        entries = program.matrix.some(self._of_row[program.matrix.rows] == region)
        mine = self._region == region
        named = np.zeros(size, dtype=np.bool_)
        named[entries.columns] = True
        goal = np.where(mine, self._goal, entries.priced(self._priced.prices, size))
        variables = np.flatnonzero(mine | named)
        matrix = Matrix(
            np.searchsorted(rows, entries.rows),
            np.searchsorted(variables, entries.columns),
            entries.weights,
        )
        part = LinearProgram(
            goal[variables],
            matrix,
            program.row_least[rows],
            program.row_most[rows],
            program.most[variables],
            program.whole[variables],
        )
        return _Part(part, variables, self._priced.prices[rows])


def grown(matrix: Matrix, region: Ints, rows: int) -> Ints:
    """The same where variables of no region have that of all their rows."""
    of_row = _of_rows(matrix, region, rows)[matrix.rows]
    least, most = _range(matrix.columns, of_row, np.ones(len(of_row), dtype=np.bool_), len(region))
    new = (region == NONE) & (least == most) & (most >= 0)
    return np.where(new, most, region)


def _of_rows(matrix: Matrix, region: Ints, rows: int) -> Ints:
    """The region of each row [R]: `NONE` where its variables have none, or `_SEVERAL`."""
    of_entry = region[matrix.columns]
    least, most = _range(matrix.rows, of_entry, of_entry >= 0, rows)
    return np.where(most < 0, NONE, np.where(least == most, most, _SEVERAL))


def _range(keys: Ints, values: Ints, counts: Bools, size: int) -> tuple[Ints, Ints]:
    """The least and the most of those values that count, for each key [size]."""
    least: Ints = np.full(size, np.iinfo(np.int64).max)
    most: Ints = np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(least, keys[counts], values[counts])
    np.maximum.at(most, keys[counts], values[counts])
    return least, most
