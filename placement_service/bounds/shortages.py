"""What is missing for all of some gangs to run, by counting.

The same rows as those of `counting`, with every gang admitted: what the gangs weigh together
against what the nodes offer, domain by domain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.bounds.gang_classes import Content, least_of
from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Gang


@dataclass(frozen=True, slots=True)
class Lack:
    """`size` parts are too many at a level (-1: single nodes), by a way of counting.

    Parts and domains are counted in whole multiples of `step`.
    """

    level: int
    way: int
    step: int
    size: int


class Offers:
    """What the places of each level offer when only some nodes count; `room` as in `Counting`."""

    def __init__(self, counting: Counting, room: Ints) -> None:
        self._counting = counting
        self._room = room
        self._offers: dict[int, Ints] = {-1: room}

    def at(self, level: int) -> Ints:
        """By way of counting and place [K, P]; level -1 is single nodes."""
        if level not in self._offers:
            place = self._counting.problem.levels[level].place_of
            count = int(place.max(initial=-1)) + 1
            sums = [np.bincount(place, row, count) for row in self._room]
            self._offers[level] = np.array(sums, dtype=np.int64).reshape(len(sums), count)
        return self._offers[level]


def queues_allow(counting: Counting, gangs: Sequence[Gang]) -> bool:
    """Whether the limits of queues let all of these gangs run, as far as counting says."""
    return all(
        sum(
            times * least_of(row, content)
            for gang in gangs
            if r in gang.queue_rows
            for content, times in counting.parts(gang, -1)
        )
        <= row.capacity
        for r, row in enumerate(counting.problem.queue_rows)
    )


def lacks(counting: Counting, gangs: Sequence[Gang], offers: Offers) -> Iterator[Lack]:
    """The rows that all of these gangs together break."""
    for level in counting.levels:
        parts: Counter[Content] = Counter()
        for gang in gangs:
            for content, times in counting.parts(gang, level):
                parts[content] += times
        if not parts:
            continue
        counts = np.array(list(parts.values()), dtype=np.int64)
        weights = np.array([counting.weigh(content) for content in parts])
        there = offers.at(level)
        for k in range(len(there)):
            sizes = np.unique(weights[:, k])[::-1]
            large = sizes[sizes > 1][: counting.parameters.roundings] if level >= 0 else ()
            for t in (1, *(int(w) for w in large)):
                need = int((weights[:, k] // t * counts).sum())
                size = need - int((there[k] // t).sum())
                if size > 0:
                    yield Lack(level, k, t, size)
