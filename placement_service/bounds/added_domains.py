"""The least number of further domains that all waiting gangs need, by counting.

As `added_nodes`, but whole domains are added: at their own level and inside it they are new
domains, above it they make their parents larger. Also the most copies of a gang that fit beside all
others.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placement_service.bounds.added_nodes import NEVER
from placement_service.bounds.counting import Counting
from placement_service.bounds.gang_classes import Content
from placement_service.bounds.shortages import Lack, Offers, lacks, queues_allow
from placement_service.formulation.arrays import Bools
from placement_service.formulation.problem import Gang

#: No more domains than this are considered.
MOST_DOMAINS = 1 << 16


class AddedDomains:
    """For a counted problem whose nodes from `first` on are one further domain."""

    def __init__(self, counting: Counting, first: int) -> None:
        self.counting = counting
        self.problem = counting.problem
        self._first = first
        room = counting.room.copy()
        room[:, first:] = 0
        self._there = Offers(counting, room)
        added = counting.room.copy()
        added[:, :first] = 0
        self._added = Offers(counting, added)

    def least(self) -> int:
        """The least number with which all pending gangs may run, `NEVER` for none."""
        everyone = self.problem.pending
        if not queues_allow(self.counting, everyone):
            return NEVER
        found = 0
        for lack in lacks(self.counting, everyone, self._there):
            found = max(found, self._for_row(lack))
        seen: set[tuple[Content, int, int]] = set()
        for gang in everyone:
            for scope in gang.scopes:
                content = self.counting.content(gang, scope.demands)
                if scope.required >= 0 and content:
                    key = (content, scope.required, scope.pin)
                    if key not in seen:
                        seen.add(key)
                        found = max(found, self._for_scope(*key))
        return found

    def _is_new(self, level: int) -> Bools:
        """Which places of a level the further domain has to itself [P]."""
        if level < 0:
            return np.arange(self.problem.node_count) >= self._first
        place = self.problem.levels[level].place_of
        old = np.zeros(int(place.max(initial=-1)) + 1, dtype=bool)
        old[place[: self._first]] = True
        return ~old

    def _for_row(self, lack: Lack) -> int:
        there = self._there.at(lack.level)[lack.way]
        more = self._added.at(lack.level)[lack.way]
        new = self._is_new(lack.level)
        own = int((more[new] // lack.step).sum())
        joined = ~new & (more > 0)
        before = there[joined] // lack.step

        def gain(domains: int) -> int:
            after = (there[joined] + domains * more[joined]) // lack.step
            return domains * own + int((after - before).sum())

        return _first_with(lambda domains: gain(domains) >= lack.size)

    def _for_scope(self, content: Content, level: int, pin: int) -> int:
        need = self.counting.weigh(content)[:, None]
        count = self.problem.levels[level].count
        able = np.arange(count) == pin if pin >= 0 else np.ones(count, dtype=bool)
        there = self._there.at(level)[:, :count]
        if ((there >= need).all(axis=0) & able).any():
            return 0
        more = self._added.at(level)[:, :count]
        new = self._is_new(level)[:count]
        if ((more >= need).all(axis=0) & able & new).any():
            return 1
        joined = able & ~new

        def suffices(domains: int) -> bool:
            return bool(((there + domains * more)[:, joined] >= need).all(axis=0).any())

        return _first_with(suffices) if joined.any() else NEVER


def most_copies(counting: Counting, gang: Gang, most: int) -> int:
    """The most further gangs like a pending one that run beside all other pending ones."""
    others = [one for one in counting.problem.pending if one.index != gang.index]
    if not gang.placeable or not counting.fits_alone(gang):
        return 0
    offers = Offers(counting, counting.room)

    def is_too_many(copies: int) -> bool:
        everyone = [*others, *[gang] * copies]
        return not queues_allow(counting, everyone) or any(
            True for _ in lacks(counting, everyone, offers)
        )

    return min(most, _first_with(lambda copies: copies > most or is_too_many(copies)) - 1)


def _first_with(holds: Callable[[int], bool]) -> int:
    """The first number from 1 on for which a monotone condition holds; `NEVER` for none."""
    low, high = 0, 1
    while not holds(high):
        if high >= MOST_DOMAINS:
            return NEVER
        low, high = high, 2 * high
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
