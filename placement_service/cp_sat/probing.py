"""Which whole variables of a linear program have to be 0 (Savelsbergh, "Preprocessing and probing
techniques for mixed integer programming problems", 1994).

A variable is set to 1 at least, and what follows from row to row is looked at until there is a
contradiction or nothing more follows.
"""

from __future__ import annotations

import math
import time

import numpy as np

from placement_service.cp_sat.linear_program import LinearProgram
from placement_service.cp_sat.tightening import TINY, Bounds, bounds_of, each, follow, sums
from placement_service.formulation.arrays import Ints

#: So many variables are looked at, and so far what follows from each.
MOST = 200
STEPS = 8


def impossible(program: LinearProgram, variables: Ints, *, until: float = math.inf) -> list[int]:
    """Those of some whole variables that cannot be 1, as far as that is seen until
    `time.monotonic` says so. Few of them may be 1 together, such as the domains of one part. Only
    those are probed with which some row leaves no choice: of others hardly anything follows.
    """
    bounds = bounds_of(program)
    if bounds is None:
        return []
    found: list[int] = variables[bounds.most[variables] < 1].tolist()
    probing = _Probing(program, bounds, variables)
    for v in probing.decisive()[:MOST].tolist():
        if time.monotonic() > until:
            break
        if not probing.may_be_1(v):
            found.append(v)
    return found


class _Probing:
    def __init__(self, program: LinearProgram, bounds: Bounds, variables: Ints) -> None:
        self._program, self._bounds = program, bounds
        self._variables = variables
        rows, columns, _ = program.matrix
        self._order = np.argsort(columns, kind="stable")
        self._of_variable = np.searchsorted(columns[self._order], np.arange(len(program.goal) + 1))
        self._of_row = np.searchsorted(rows, np.arange(len(program.row_most) + 1))

    def decisive(self) -> Ints:
        """Those with which some row leaves no choice."""
        (rows, columns, weights), program = self._program.matrix, self._program
        low, high = each(weights, columns, *self._bounds)
        left = program.row_most[rows] - (sums(rows, low, program)[rows] - low + weights)
        lacks = (sums(rows, high, program)[rows] - high + weights) - program.row_least[rows]
        # Rows with two sides say which variables exclude each other.
        one_sided = np.isinf(program.row_most - program.row_least)[rows]
        able = one_sided & (self._bounds.most[columns] >= 1)
        none = able & (np.minimum(left, lacks) <= TINY)
        found: Ints = np.intersect1d(columns[none], self._variables)
        return found

    def may_be_1(self, variable: int) -> bool:
        bounds = Bounds(self._bounds.least.copy(), self._bounds.most.copy())
        bounds.least[variable] = 1.0
        changed = np.array([variable])
        for _ in range(STEPS):
            rows = self._program.matrix.rows[self._order[_ranges(self._of_variable, changed)]]
            changed = follow(self._program, bounds, _ranges(self._of_row, np.unique(rows)))
            if (bounds.least[changed] > bounds.most[changed] + TINY).any():
                return False
            # That others are 0 says hardly anything, and these are many.
            changed = np.setdiff1d(changed, self._variables)
            if not len(changed):
                break
        return True


def _ranges(begin: Ints, which: Ints) -> Ints:
    """The numbers of some ranges, one after another; each ends where the next one begins."""
    first, count = begin[which], begin[which + 1] - begin[which]
    before = np.cumsum(count) - count
    found: Ints = np.repeat(first - before, count) + np.arange(count.sum())
    return found
