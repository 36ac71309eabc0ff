"""Assigns domains so that the sum of costs is least: the Hungarian method.

Rows join one after another. Each takes the column to which the cheapest path of exchanges leads,
where prices of rows and columns (the duals) keep every cost that is left at zero or above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from placement_service.heuristic.victims.prices import Floats


class Assignment(NamedTuple):
    """The column of each row, -1 for none; `wanted` columns are of use to other rows, too."""

    column: list[int]
    wanted: frozenset[int]


def least_assignment(cost: Floats) -> Assignment:
    """For each row of cost[R, C], R at most C, a column of its own; none where only inf is left."""
    rows, columns = cost.shape
    real = cost[cost < np.inf]
    # All rows together cost less than one row with a forbidden column.
    finite = np.where(cost < np.inf, cost, 2 * rows * float(real.max(initial=0)) + 1)
    # Column 0 holds the row that looks for a place.
    price_of_row, price_of_column = np.zeros(rows), np.zeros(columns + 1)
    taken_by = np.full(columns + 1, -1, dtype=np.int64)
    for row in range(rows):
        taken_by[0] = row
        least = np.full(columns + 1, np.inf)
        before = np.zeros(columns + 1, dtype=np.int64)
        seen = np.zeros(columns + 1, dtype=bool)
        at = 0
        while taken_by[at] >= 0:
            seen[at] = True
            mine = taken_by[at]
            reduced = finite[mine] - price_of_row[mine] - price_of_column[1:]
            better = ~seen[1:] & (reduced < least[1:])
            least[1:][better] = reduced[better]
            before[1:][better] = at
            nearest = int(np.where(seen, np.inf, least)[1:].argmin()) + 1
            step = least[nearest]
            price_of_row[taken_by[seen]] += step
            price_of_column[seen] -= step
            least[~seen] -= step
            at = nearest
        while at:
            taken_by[at] = taken_by[before[at]]
            at = int(before[at])
    found = [-1] * rows
    for column, row in enumerate(taken_by[1:].tolist()):
        if row >= 0 and cost[row, column] < np.inf:
            found[row] = column
    return Assignment(found, frozenset(np.flatnonzero(price_of_column[1:] < 0).tolist()))
