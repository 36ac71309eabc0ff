"""Rows of gangs that lie whole in one place of a level that they prefer.

With `near[C]` of the admitted gangs of a class whole in one place of level l, for any way to
count and any number t >= 1, with P over the places of l:

    sum_C floor(weight(C) / t) near[C]  <=  sum_P floor(room(P) / t)

as in `counting`: floor(a/t) + floor(b/t) <= floor((a+b)/t), and what lies in a place counts no
more than there is room. Each other gang uses one more place at least. So two gangs that only
fit into the one large block cost a domain, though each of them alone need not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.bounds.gang_classes import Content, GangClass
from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Gang


class NearContent(NamedTuple):
    """What a gang has in one place of the level that it prefers."""

    level: int
    content: Content


def near_content(counting: Counting, gang: Gang) -> NearContent | None:
    """The only level that a gang prefers, and what it would have in one place of it.

    None where it prefers several or none, or has pods that run.
    """
    scopes = [s for s in gang.scopes if s.preferred >= 0]
    if len(scopes) != 1 or scopes[0].running or gang.home:
        return None
    content = counting.content(gang, scopes[0].demands)
    return NearContent(scopes[0].preferred, content) if content else None


class NearRow(NamedTuple):
    """Near gangs by their classes' weights, all together, take no more than the room."""

    weights: Mapping[int, int]
    room: int


class _Rounding(NamedTuple):
    """Weights by class, rounded down, and the room rounded in the same way."""

    weight: Ints
    room: int


class NearRows:
    """`classes` are those whose gangs may be near, by place in `Counting.classes`.

    Gangs of the others need several places, or it is not known what they need.
    """

    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.classes: dict[int, NearContent] = {}
        for i, c in enumerate(counting.classes):
            found = {near_content(counting, counting.problem.gangs[g]) for g in c.gangs}
            known = found.pop() if len(found) == 1 else None
            if known is not None and not c.beyond:
                self.classes[i] = known

    def rows(self) -> Iterator[NearRow]:
        """The rows that can be broken."""
        best: dict[tuple[tuple[int, int], ...], int] = {}
        for level in sorted({near.level for near in self.classes.values()}):
            mine = [i for i, near in self.classes.items() if near.level == level]
            gangs = np.array([len(self._class(i).gangs) for i in mine], dtype=np.int64)
            weights = np.array([self.counting.weigh(self.classes[i].content) for i in mine])
            offers = self.counting.offers(level)
            for k in range(weights.shape[1]):
                for weight, room in self._roundings(weights[:, k], gangs, offers[k]):
                    key = tuple((i, int(w)) for i, w in zip(mine, weight, strict=True) if w)
                    best[key] = min(room, best.get(key, room))
        for weights_by_class, room in best.items():
            yield NearRow(dict(weights_by_class), room)

    def _roundings(self, sizes: Ints, gangs: Ints, offers: Ints) -> Iterator[_Rounding]:
        large = np.unique(sizes[sizes > 1])[::-1]
        for t in large[: self.counting.parameters.roundings].tolist():
            found = _Rounding(sizes // t, int((offers // t).sum()))
            if int(found.weight @ gangs) > found.room:
                yield found

    def _class(self, i: int) -> GangClass:
        return self.counting.classes[i]
