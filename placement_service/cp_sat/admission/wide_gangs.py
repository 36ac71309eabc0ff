"""Gangs that no place they prefer can hold whole: how many places they use at least, all together.
Where few classes of gangs prefer any place, all of them may be counted like this.

With `use[C, P]` gangs of a class that have parts in place P, and `inside[C, k, P]` parts of kind k
of these gangs there, of which one counts `weight(k)` in a row of `place_rows`:

    sum over P of inside[C, k, P]  =  times(C, k) admitted[C]
    sum over k of weight(k) inside[C, k, P]  <=  min(weight(C), room(P)) use[C, P]
    sum over wide C, k of weight(k) inside[C, k, P]  +  sum over the others of weight(C) near[C, P]
        <=  room(P)

What the parts of a gang count adds up, wherever they lie, and in each place parts of all gangs
share the room, where rounding loses as in `counting`. So a gang of six parts of sixteen nodes,
where no block has more than two racks for them, uses three blocks, and another such gang three
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.gang_classes import Content
from placement_service.bounds.place_rows import PlaceRow, PlaceRows
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints

#: Classes that are counted like this: each has variables for every row and place.
MOST_CLASSES = 8

#: Places of a class up to which it is told which of its gangs uses which.
MOST_PLACES = 20

#: Places of one gang up to which all choices are tried.
MOST_TOGETHER = 3

#: Parts that count in a row: the class, the level that they are counted at, what they ask for, and
#: what one of them weighs.
Counted = tuple[tuple[int, int, Content, int], ...]


def are_few(places: PlaceRows) -> bool:
    """Whether so few classes prefer a place that all of them can be counted."""
    return len(places.beyond) + len(places.prefer) <= MOST_CLASSES


class Inside(NamedTuple):
    """The places of gangs of a class: for each how many of them use it, and for each kind of their
    parts how many a gang has and how many lie in each place.
    """

    uses: Sequence[Var]
    parts: Sequence[tuple[int, Sequence[Var]]] = ()

    def of_each(self, gangs: int, solver: cp_model.CpSolver) -> Sequence[tuple[int, ...]]:
        """The places of each of so many gangs in a solution, those with most of them first; nothing
        where it is not told which of them uses which.
        """
        used = [p for p, use in enumerate(self.uses) if solver.value(use)]
        if gangs == 1:
            return [tuple(used)]
        if not self.parts or len(used) > MOST_PLACES:
            return ()
        needs = np.array([times for times, _ in self.parts], dtype=np.int64)
        there = np.array([[solver.value(vs[p]) for _, vs in self.parts] for p in used])
        found = (tuple(used[i] for i in mine) for mine in shares(needs, there, gangs))
        return sorted(found, key=len, reverse=True)


def shares(needs: Ints, there: Ints, gangs: int) -> Sequence[tuple[int, ...]]:
    """The places of each of some gangs that need so many parts of each kind [K], of those that lie
    `there` [P, K]. One after another takes the fewest places that hold its parts, and of those
    what leaves least there; nothing where they do not.
    """
    there, found = there.copy(), []
    for _ in range(gangs):
        mine = _fewest(needs, there)
        wanted = needs.copy()
        for p in mine:
            taken = np.minimum(there[p], wanted)
            there[p] -= taken
            wanted -= taken
        found.append(mine)
    return found


def _fewest(needs: Ints, there: Ints) -> tuple[int, ...]:
    """The places of the next gang."""
    left = np.flatnonzero(there.any(axis=1)).tolist()
    for count in range(1, MOST_TOGETHER + 1):
        able = [
            some
            for some in combinations(left, count)
            if (there[list(some)].sum(axis=0) >= needs).all()
        ]
        if able:
            return min(able, key=lambda some: int(there[list(some)].sum()))
    # Of many at once there would be too many choices.
    fullest = sorted(left, key=lambda p: -int(there[p].sum()))
    for count in range(MOST_TOGETHER + 1, len(fullest) + 1):
        if (there[fullest[:count]].sum(axis=0) >= needs).all():
            return tuple(fullest[:count])
    return ()


class WideGangs:
    """Posts the rows of some classes; `uses` are their places, by class.

    `most` [C, P] says how many gangs of a class rows let lie whole in a place, and `near` are the
    variables of those that can.
    """

    def __init__(
        self,
        cp: cp_model.CpModel,
        places: PlaceRows,
        admitted: Sequence[Var],
        most: Ints,
        near: Mapping[tuple[int, int], Var],
        *,
        each: bool,
    ) -> None:
        """If `each`, all classes are counted where they are few enough."""
        self._cp, self._places, self._admitted, self._near = cp, places, admitted, near
        self.uses: dict[int, list[Var]] = {}
        split = [*places.beyond, *(c for c in places.prefer if not most[c].any())]
        all_of_them = each and are_few(places)
        # What needs a place of the level is whole in one anyway.
        free = [c for c in (*places.beyond, *places.prefer) if c not in places.require]
        wide = free if all_of_them else split[:MOST_CLASSES]
        # A node in none of the places may hold any part.
        for c in [] if places.has_others else wide:
            known = places.counting.classes[c]
            least = max(1, known.beyond) + 1 if c in split else 1
            self.uses[c] = [cp.new_int_var(0, len(known.gangs), "") for _ in range(places.count)]
            cp.add(cp_model.LinearExpr.sum(self.uses[c]) >= least * admitted[c])
        self._inside: dict[tuple[int, int], dict[Content, list[Var]]] = {}
        # Rows that count the same parts alike differ only in the room. That gangs weigh the same in
        # both is not enough: the one may count parts that the other does not.
        rooms: dict[tuple[bytes, Counted], Ints] = {}
        for row in places.rows_against(list(self.uses)):
            key = row.weight.tobytes(), self._counted(row)
            rooms[key] = np.minimum(row.room, rooms.get(key, row.room))
        for (weight, counted), room in rooms.items():
            self._post(np.frombuffer(weight, dtype=np.int64), counted, room)
        #: By class, the places of its gangs.
        self.inside = {c: Inside(uses, self._parts_of(c)) for c, uses in self.uses.items()}

    def _parts_of(self, c: int) -> Sequence[tuple[int, Sequence[Var]]]:
        """The parts of a class at the level where it has most of them, as in `Inside`."""
        groups = [group for known, group in self._inside if known == c]
        parts = self._places.counting.classes[c].parts
        most = max(groups, key=lambda g: sum(times for _, times in parts[g]), default=None)
        if most is None:
            return ()
        return [(times, self._inside[c, most][content]) for content, times in parts[most]]

    def _counted(self, row: PlaceRow) -> Counted:
        """The parts of our classes that count in a row."""
        weigh = self._places.counting.weigh
        return tuple(
            (c, group, content, weight)
            for c in self.uses
            if row.weight[c]
            for group in [self._group(c, row.at)]
            for content, _ in self._places.counting.classes[c].parts[group]
            if (weight := int(weigh(content)[row.way]) // row.rounding)
        )

    def _post(self, weight: Ints, counted: Counted, room: Ints) -> None:
        terms: list[list[tuple[Var, int]]] = [[] for _ in range(self._places.count)]
        for (c, p), v in self._near.items():
            if weight[c]:
                terms[p].append((v, int(weight[c])))
        for c, parts in groupby(counted, key=itemgetter(0)):
            inside = [(self._parts_inside(c, at)[content], w) for _, at, content, w in parts]
            for p, use in enumerate(self.uses[c]):
                mine = [(vs[p], w) for vs, w in inside]
                self._cp.add(dot(mine) <= min(int(weight[c]), int(room[p])) * use)
                terms[p] += mine
        for mine, most in zip(terms, room.tolist(), strict=True):
            self._cp.add(dot(mine) <= most)

    def _group(self, c: int, at: int) -> int:
        """The first level at which a class has the same parts as at another one."""
        counting = self._places.counting
        levels, known = counting.levels, counting.classes[c]

        def same(other: int) -> bool:
            """Whether parts at another level are the same ones: each of them lies in one of ours,
            and there are no more.
            """
            nested = levels[other] < 0 or counting.within(levels[other], levels[at])
            return nested and known.parts[other] == known.parts[at]

        return next(other for other in range(len(levels)) if other == at or same(other))

    def _parts_inside(self, c: int, group: int) -> dict[Content, list[Var]]:
        """How many parts of a class, by what they ask for, lie in each place."""
        if (c, group) not in self._inside:
            known = self._places.counting.classes[c]
            found = self._inside[c, group] = {}
            for content, times in known.parts[group]:
                most = times * len(known.gangs)
                mine = [self._cp.new_int_var(0, most, "") for _ in range(self._places.count)]
                self._cp.add(cp_model.LinearExpr.sum(mine) == times * self._admitted[c])
                found[content] = mine
        return self._inside[c, group]
