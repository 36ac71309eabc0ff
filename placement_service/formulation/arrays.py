"""The arrays that problems are made of, and how often a request fits into what is left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

#: More pods than any domain can hold, so that one pod can fill a knapsack row.
MANY = 1 << 20

#: Amounts from here on mean that there is no limit.
UNLIMITED = 1 << 61

#: How often a gang may be placed by those who place it several times.
MOST_REPEATED = 5_000


def fit(free: Ints, request: Ints) -> Ints:
    """How many units of one request[R] fit in each row of free[N, R]; shape [N].

    A request of nothing fits MANY times.
    """
    used = np.flatnonzero(request)
    if not len(used):
        return np.full(len(free), MANY, dtype=np.int64)
    result: Ints | None = None
    for amount in np.unique(request[used]):
        # Dividing takes longer than finding the least of many columns.
        first, *others = used[request[used] == amount]
        least: Ints = free[:, first].copy()
        for r in others:
            np.minimum(least, free[:, r], out=least)
        least //= amount
        result = least if result is None else np.minimum(result, least, out=result)
    assert result is not None
    return result


def pods_that_fit(free: Ints, request: Ints) -> Ints:
    """As `fit`, but at most MANY, so that sums over nodes stay small."""
    return np.minimum(fit(free, request), MANY)
