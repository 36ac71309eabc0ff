"""Rows of gangs that lie whole in a place of a level, place by place.

With `near[C, P]` of the admitted gangs of a class whole in place P of a level, for any way to
count, any level whose domains D lie each in one place, and any number t >= 1:

    weight(C) = sum over the gang's parts at that level of floor(weight(part) / t)
    sum_C weight(C) near[C, P]  <=  sum over D in P of floor(room(D) / t)

The parts of a gang that is whole in P lie in domains there, where rounding loses as in
`counting`. So a block with three roomy racks takes no gang of four parts that need one each.
Gangs that need a place of the level take room where they lie, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.bounds.gang_classes import is_whole
from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Gang


@dataclass(frozen=True, slots=True, eq=False)
class PlaceRow:
    """sum weight[C] * near[C, P] <= room[P], for each place P.

    Parts at the level `at` of `Counting.levels` are counted in one of its `way`s, by `rounding`.
    """

    weight: Ints
    room: Ints
    at: int
    way: int
    rounding: int


class PlaceRows:
    """The rows of one level.

    `prefer` are the classes whose gangs may lie whole in one place of it, `require` those whose
    gangs do so anyway, by place in `Counting.classes`. Places are its `count` domains;
    of nodes in none of them nothing is said.
    """

    def __init__(self, counting: Counting, level: int) -> None:
        self.counting, self.level = counting, level
        known = counting.problem.levels[level]
        self.count = known.count
        self.has_others = bool((known.domain < 0).any())
        gangs = counting.problem.gangs
        classes = [[gangs[g] for g in c.gangs] for c in counting.classes]
        every = [c for c, mine in enumerate(classes) if all(preferred(g) == level for g in mine)]
        self.prefer = [c for c in every if not counting.classes[c].beyond]
        #: Those that prefer the level and are too large for any place of it.
        self.beyond = [c for c in every if counting.classes[c].beyond]
        self.require = [
            c for c, mine in enumerate(classes) if all(requires(g, level) for g in mine)
        ]

    @cached_property
    def rows(self) -> tuple[PlaceRow, ...]:
        """Those that can be broken, no two with equal weights."""
        best: dict[bytes, PlaceRow] = {}
        for row in self._all_rows:
            near = row.weight.copy()
            near[self.beyond] = 0
            divisor = gcd(*near.tolist())
            if not divisor:
                continue
            weight, room = near // divisor, row.room // divisor
            key = weight.tobytes()
            if key in best:
                room = np.minimum(room, best[key].room)
            best[key] = replace(row, weight=weight, room=room)
        gangs = np.array([len(c.gangs) for c in self.counting.classes], dtype=np.int64)
        return tuple(row for row in best.values() if (row.weight @ gangs > row.room).any())

    def rows_against(self, classes: Sequence[int]) -> Iterator[PlaceRow]:
        """Those that keep gangs of some classes out of a place, with the parts of gangs in their
        own units.
        """
        for row in self._all_rows if classes else ():
            if (row.weight[list(classes)].max() > row.room).any():
                yield row

    @cached_property
    def _all_rows(self) -> tuple[PlaceRow, ...]:
        found = []
        counting = self.counting
        mine = sorted({*self.prefer, *self.beyond, *self.require})
        for i, level in enumerate(counting.levels):
            if level >= 0 and not counting.within(level, self.level):
                continue
            place = self._place_of(level)
            inside = np.flatnonzero(place >= 0)
            inside = inside[np.argsort(place[inside], kind="stable")]
            there, begin = np.unique(place[inside], return_index=True)
            offers = counting.offers(level)[:, inside]
            parts = [(c, part) for c in mine for part in counting.classes[c].parts[i]]
            owner = [c for c, _ in parts]
            times = np.array([part.times for _, part in parts], dtype=np.int64)
            weights = np.array([counting.weigh(part.content) for _, part in parts])
            # Ways in which all parts count the same differ only in what there is room for.
            alike: dict[bytes, list[int]] = {}
            for k in range(len(offers)) if parts and len(inside) else ():
                alike.setdefault(weights[:, k].tobytes(), []).append(k)
            for ways in alike.values():
                way = weights[:, ways[0]]
                sizes = np.unique(way)[::-1]
                large = sizes[sizes > 1][: counting.parameters.roundings] if level >= 0 else ()
                for t in (1, *(int(w) for w in large)):
                    weight = np.bincount(owner, way // t * times, len(counting.classes))
                    room = np.zeros(self.count, dtype=np.int64)
                    room[there] = np.add.reduceat(offers[ways] // t, begin, axis=1).min(axis=0)
                    found.append(PlaceRow(weight.astype(np.int64), room, i, ways[0], t))
        return tuple(found)

    def _place_of(self, level: int) -> Ints:
        """Our place of each place of a level, -1 for none; of each node for -1."""
        levels = self.counting.problem.levels
        outer = levels[self.level].domain
        if level < 0:
            return outer
        inner = levels[level].place_of
        place = np.full(int(inner.max(initial=-1)) + 1, -1, dtype=np.int64)
        place[inner] = outer
        return place


def preferred(gang: Gang) -> int:
    """The only level that a gang prefers, for all of it; -1 for none."""
    scopes = [s for s in gang.scopes if s.preferred >= 0]
    return scopes[0].preferred if len(scopes) == 1 and is_whole(gang, scopes[0]) else -1


def requires(gang: Gang, level: int) -> bool:
    """Whether all of a gang lies in one domain of a level."""
    return any(s.required == level and is_whole(gang, s) for s in gang.scopes)
