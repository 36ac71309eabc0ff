"""Gangs that no place they prefer can hold whole: how many places they use at least, all together.

With `use[C, P]` gangs of a class that have parts in place P, and for each row of `place_rows` what
these parts count there, `inside[C, P]`:

    sum over P of inside[C, P]  =  weight(C) admitted[C]
    inside[C, P]  <=  min(weight(C), room(P)) use[C, P]
    sum over wide C of inside[C, P]  +  sum over the others of weight(C) near[C, P]  <=  room(P)

What the parts of a gang count adds up, wherever they lie, and in each place parts of all gangs
share the room, where rounding loses as in `counting`. So a gang of six parts of sixteen nodes,
where no block has more than two racks for them, uses three blocks, and another such gang three
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortools.sat.python import cp_model

from placement_service.bounds.place_rows import PlaceRow, PlaceRows
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints

#: Classes that are counted like this: each has variables for every row and place.
MOST_CLASSES = 8


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
    ) -> None:
        self._cp, self._places, self._admitted, self._near = cp, places, admitted, near
        self.uses: dict[int, list[Var]] = {}
        # A node in none of the places may hold any part.
        wide = [*places.beyond, *(c for c in places.prefer if not most[c].any())]
        for c in [] if places.has_others else wide[:MOST_CLASSES]:
            known = places.counting.classes[c]
            least = max(1, known.beyond) + 1
            self.uses[c] = [cp.new_int_var(0, len(known.gangs), "") for _ in range(places.count)]
            cp.add(cp_model.LinearExpr.sum(self.uses[c]) >= least * admitted[c])
        for row in places.rows_against(list(self.uses)):
            self._post(row)

    def _post(self, row: PlaceRow) -> None:
        classes = self._places.counting.classes
        terms: list[list[tuple[Var, int]]] = [[] for _ in range(self._places.count)]
        for (c, p), v in self._near.items():
            if row.weight[c]:
                terms[p].append((v, int(row.weight[c])))
        for c, uses in self.uses.items():
            weight = int(row.weight[c])
            if not weight:
                continue
            parts = []
            for p, use in enumerate(uses):
                most = min(weight, int(row.room[p]))
                inside = self._cp.new_int_var(0, most * len(classes[c].gangs), "")
                self._cp.add(inside <= most * use)
                parts.append(inside)
                terms[p].append((inside, 1))
            self._cp.add(cp_model.LinearExpr.sum(parts) == weight * self._admitted[c])
        for mine, room in zip(terms, row.room.tolist(), strict=True):
            self._cp.add(dot(mine) <= room)
