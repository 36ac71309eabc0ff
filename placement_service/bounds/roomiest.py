"""What places offer, the roomiest ones together, and so how many of them are needed at least."""

from __future__ import annotations

import numpy as np

from placement_service.formulation.arrays import Bools, Ints


def places_needed(need: Ints, most: Ints) -> int:
    """How many places together offer what is needed each way [K]; `most` as `largest_sums`."""
    more = np.where(need > 0, (most < need[:, None]).sum(axis=1) + 1, 0)
    return int(more.max(initial=0))


def largest_sums(offers: Ints) -> Ints:
    """The most that one, two, three ... places offer together [K, P]."""
    return np.cumsum(np.sort(offers, axis=1)[:, ::-1], axis=1)


def sums_by_place(rows: Ints, place: Ints, count: int) -> Ints:
    """What each row has by place [K, count]."""
    sums = [np.bincount(place, row, count) for row in rows]
    return np.array(sums, dtype=np.int64).reshape(len(sums), count)


def enough(offers: Ints, need: Ints) -> Bools:
    """Which places [P] offer what is needed each way [K]."""
    ways = np.flatnonzero(need)
    able: Bools = np.all(offers[ways] >= need[ways, None], axis=0)
    return able
