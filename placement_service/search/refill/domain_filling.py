"""Fills domain after domain with whole gangs that together use all of it.

Where hardly anything is left free, gangs lie whole in a domain only if some of them add up to what
it has. So each domain gets gangs of which the sum is exact, by dynamic programming over the way to
count that has least left, the largest gangs first. A gang that no domain holds gives a part of
itself, and its rest is filled in like any gang. Where no sum is exact, a few pods of a gang of
small ones make it so. What remains then is poured into the domains that remain.

Only counts are looked at (see `bounds.counting`). Where the sizes of pods divide each other these
are all that decides; elsewhere it may turn out that nodes do not hold what a domain should.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import MANY, Ints
from placement_service.formulation.indices import GangIdx

#: Sums that are tried for one domain with one part.
MOST_SUMS = 200

#: What a domain may have at most in the scarcest way to count: sums are found bit by bit.
MOST_ROOM = 50_000

#: Sizes of a part that are tried: of a gang that no domain holds, and of one that fills a gap.
LARGE_PARTS, SMALL_PARTS = 6, 8

#: Gangs of which such a part is taken at most: the largest, and those of the smallest pods.
MOST_LARGE, MOST_SMALL = 3, 2


class Part(NamedTuple):
    """Units of one demand of a gang."""

    gang: GangIdx
    demand: int


#: Units by part.
Content = Counter[Part]


class _Item(NamedTuple):
    """What is left of a gang: its parts, what they count in each way [K], and in the scarcest."""

    content: Content
    takes: Ints
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """`units[K]` are what a unit of each part counts in each way, and `room[D, K]` what domains
    have for all parts.
    """

    units: Mapping[Part, Ints]
    room: Ints

    def takes(self, content: Content) -> Ints:
        """What all of this counts in each way [K]."""
        nothing = np.zeros(self.room.shape[1], dtype=np.int64)
        return sum((n * self.units[part] for part, n in content.items()), nothing)


class DomainFilling:
    """Fills domains; what is tried is random. `content` is all there is."""

    def __init__(self, counted: Counted, content: Content, *, seed: int) -> None:
        self._counted = counted
        self._random = random.Random(seed)
        asked = counted.takes(content)
        offered = np.maximum(1, counted.room.sum(axis=0))
        #: The way to count that has least left, -1 where nothing is counted.
        self._scarce = max(
            range(len(asked)), key=lambda k: (asked[k] / offered[k], asked[k]), default=-1
        )

    @property
    def usable(self) -> bool:
        """Whether something is counted, and not too finely for sums."""
        return (
            self._scarce >= 0
            and int(self._counted.room[:, self._scarce].max(initial=0)) <= MOST_ROOM
        )

    def fill(
        self, domains: Sequence[int], content: Content, *, until: Callable[[], bool]
    ) -> dict[int, Content] | None:
        """What each of some domains gets of all this; None where not all of it finds room, or
        `until` says that time is up.
        """
        order = list(domains)
        self._random.shuffle(order)
        filling = _Filling(self._counted, self._scarce, order, content)
        gaps = [d for d in order if not (until() or filling.fill_whole(d))]
        gaps = [d for d in gaps if not (until() or filling.fill_gap(d))]
        return None if until() or not filling.pour(gaps) else filling.found


class _Filling:
    """One filling on its way: `found` so far, by domain."""

    def __init__(
        self, counted: Counted, scarce: int, domains: Sequence[int], content: Content
    ) -> None:
        self._counted, self._scarce = counted, scarce
        self._largest = int(counted.room[:, scarce].max(initial=0))
        #: What may be left free in each way to count.
        self._slack = counted.room[domains].sum(axis=0) - counted.takes(content)
        of_gang: defaultdict[GangIdx, Content] = defaultdict(Counter)
        for part, n in content.items():
            of_gang[part.gang][part] = n
        self._items = {gang: self._item(mine) for gang, mine in of_gang.items()}
        self.found: dict[int, Content] = {d: Counter() for d in domains}

    def _item(self, content: Content) -> _Item:
        takes = self._counted.takes(content)
        return _Item(content, takes, int(takes[self._scarce]))

    def fill_whole(self, domain: int) -> bool:
        """Whole gangs that add up, beside a part of one that no domain holds, where there is one;
        returns whether there are any.
        """
        large = [g for g, item in self._items.items() if item.weight > self._largest]
        for gang in sorted(large, key=lambda g: -self._items[g].weight)[:MOST_LARGE]:
            content = self._items[gang].content
            part = max(content, key=lambda p: (self._weight(p), content[p]))
            able = min(content[part], self._able(part, self._counted.room[domain]))
            for n in range(able, max(0, able - LARGE_PARTS), -1):
                if self._add_up(domain, part, n):
                    return True
        return self._add_up(domain)

    def fill_gap(self, domain: int) -> bool:
        """Whole gangs that add up beside a few pods; returns whether there are any."""
        left = {p: n for item in self._items.values() for p, n in item.content.items()}
        small = sorted(filter(self._weight, left), key=lambda p: (self._weight(p), -left[p]))
        for part in small[:MOST_SMALL]:
            able = min(left[part], self._able(part, self._counted.room[domain]), SMALL_PARTS)
            for n in range(1, able + 1):
                if self._add_up(domain, part, n):
                    return True
        return False

    def pour(self, domains: Sequence[int]) -> bool:
        """What is left, into some domains, the largest pods first: the rest of a gang where all of
        it fits, or else where most does. Returns whether all found room.
        """
        room = {d: self._counted.room[d] - self._counted.takes(self.found[d]) for d in domains}
        left = [one for item in self._items.values() for one in item.content.items()]
        weight = self._weight
        left.sort(key=lambda one: (weight(one[0]), one[1]), reverse=True)
        for part, all_units in left:
            units = all_units
            able = {d: self._able(part, free) for d, free in room.items()}
            while units:
                holds = [d for d, n in able.items() if n >= units]
                if holds:
                    at = min(holds, key=able.__getitem__)
                else:
                    at = max(able, key=able.__getitem__, default=-1)
                here = min(units, able.get(at, 0))
                if not here:
                    return False
                self.found[at][part] += here
                room[at] = room[at] - here * self._counted.units[part]
                able[at] -= here
                units -= here
        return True

    def _weight(self, part: Part) -> int:
        return int(self._counted.units[part][self._scarce])

    def _able(self, part: Part, room: Ints) -> int:
        """How many units of a part fit."""
        units = self._counted.units[part]
        counts = units > 0
        return int((room[counts] // units[counts]).min(initial=MANY))

    def _add_up(self, domain: int, part: Part | None = None, units: int = 0) -> bool:
        """Fills a domain with whole gangs beside so many units of a part; returns whether some add
        up, so that in no way more is left free than may be.
        """
        room = self._counted.room[domain]
        if part is not None:
            room = room - units * self._counted.units[part]
        if (room < 0).any():
            return False
        most = int(room[self._scarce])
        able = [
            gang
            for gang, item in self._items.items()
            if item.weight <= most and (part is None or gang != part.gang)
        ]
        able.sort(key=lambda gang: -self._items[gang].weight)
        items = [self._items[gang] for gang in able]
        chosen = _sum_up(items, room, self._slack, self._scarce)
        if chosen is None:
            return False
        self._slack = self._slack - room + sum(items[i].takes for i in chosen)
        found = self.found[domain]
        for i in chosen:
            found.update(items[i].content)
            del self._items[able[i]]
        if part is not None:
            found[part] += units
            rest = self._items.pop(part.gang).content - Counter({part: units})
            if rest:
                self._items[part.gang] = self._item(rest)
        return True


def _sum_up(items: Sequence[_Item], room: Ints, slack: Ints, scarce: int) -> list[int] | None:
    """Some items that fit into the room and leave no more than the slack, the first ones that do;
    as little as can be in the scarcest way to count.
    """
    most = int(room[scarce])
    weights = [item.weight for item in items]
    mask = (1 << most + 1) - 1
    # Bit by bit, the sums that the items from each on can have.
    sums = [1] * (len(items) + 1)
    for i in range(len(items) - 1, -1, -1):
        sums[i] = sums[i + 1] | sums[i + 1] << weights[i] & mask
    least = room - slack
    left = MOST_SUMS

    def choose(first: int, goal: int, used: Ints) -> list[int] | None:
        nonlocal left
        if not goal:
            return [] if (used >= least).all() else None
        for i in range(first, len(items)):
            if left < 0 or not sums[i] >> goal & 1:
                return None
            if weights[i] <= goal and sums[i + 1] >> goal - weights[i] & 1:
                left -= 1
                with_it = used + items[i].takes
                if (with_it <= room).all():
                    rest = choose(i + 1, goal - weights[i], with_it)
                    if rest is not None:
                        return [i, *rest]
        return None

    for goal in range(most, max(-1, most - 1 - int(slack[scarce])), -1):
        if sums[0] >> goal & 1:
            found = choose(0, goal, np.zeros_like(room))
            if found is not None or left < 0:
                return found
    return None


def domains_of(held: Mapping[int, Content]) -> int:
    """In how many domains gangs lie, all together, by what each domain holds."""
    return sum(len({part.gang for part in content}) for content in held.values())
