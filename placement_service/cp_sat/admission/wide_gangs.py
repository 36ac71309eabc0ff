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
from itertools import groupby
from operator import itemgetter

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.gang_classes import Content
from placement_service.bounds.place_rows import PlaceRow, PlaceRows
from placement_service.cp_sat.admission.shared_places import SharedPlaces
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints

#: Classes that are counted like this: each has variables for every row and place.
MOST_CLASSES = 8

#: Parts that count in a row: the class, the level that they are counted at, what they ask for, and
#: what one of them weighs.
Counted = tuple[tuple[int, int, Content, int], ...]


def are_few(places: PlaceRows) -> bool:
    """Whether so few classes prefer a place that all of them can be counted."""
    return len(places.beyond) + len(places.prefer) <= MOST_CLASSES


class WideGangs:
    """Posts the rows of some classes; `shared` are the places of their gangs, by class.

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
        self._uses: dict[int, list[Var]] = {}
        split = [*places.beyond, *(c for c in places.prefer if not most[c].any())]
        all_of_them = each and are_few(places)
        # What needs a place of the level is whole in one anyway.
        free = [c for c in (*places.beyond, *places.prefer) if c not in places.require]
        wide = free if all_of_them else split[:MOST_CLASSES]
        # A node in none of the places may hold any part.
        for c in [] if places.has_others else wide:
            known = places.counting.classes[c]
            least = max(1, known.beyond) + 1 if c in split else 1
            self._uses[c] = [cp.new_int_var(0, len(known.gangs), "") for _ in range(places.count)]
            cp.add(cp_model.LinearExpr.sum(self._uses[c]) >= least * admitted[c])
        self._inside: dict[tuple[int, int], dict[Content, list[Var]]] = {}
        # Rows that count the same parts alike differ only in the room. That gangs weigh the same in
        # both is not enough: the one may count parts that the other does not.
        rooms: dict[tuple[bytes, Counted], Ints] = {}
        for row in places.rows_against(list(self._uses)):
            key = row.weight.tobytes(), self._counted(row)
            rooms[key] = np.minimum(row.room, rooms.get(key, row.room))
        for (weight, counted), room in rooms.items():
            self._post(np.frombuffer(weight, dtype=np.int64), counted, room)
        self.shared = {c: SharedPlaces(uses, self._parts_of(c)) for c, uses in self._uses.items()}

    def _parts_of(self, c: int) -> Sequence[tuple[int, Sequence[Var]]]:
        """The parts of a class at the level where it has most of them, as in `SharedPlaces`."""
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
            for c in self._uses
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
            for p, use in enumerate(self._uses[c]):
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
