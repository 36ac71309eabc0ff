"""How many admitted gangs of each class lie whole in each place that they prefer or need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.place_rows import PlaceRows
from placement_service.cp_sat.admission.shared_places import SharedPlaces
from placement_service.cp_sat.admission.wide_gangs import WideGangs, are_few
from placement_service.cp_sat.solving import Var, limit


class NearPlaces:
    """Variables for one level, under its rows; `near` by class are those that prefer it.

    If `alone`, gangs that a place can hold have none: they take no room from those that none can.
    """

    def __init__(
        self,
        cp: cp_model.CpModel,
        places: PlaceRows,
        admitted: Sequence[Var],
        *,
        wide: bool,
        each: bool,
        alone: bool,
    ) -> None:
        classes = places.counting.classes
        most = np.array([[len(c.gangs)] * places.count for c in classes], dtype=np.int64)
        for row in places.rows:
            heavy = row.weight > 0
            room = row.room[None, :] // row.weight[heavy, None]
            most[heavy] = np.minimum(most[heavy], room)
        at: dict[tuple[int, int], Var] = {}
        self.near: dict[int, Var] = {}
        for c in [] if alone else sorted({*places.prefer, *places.require}):
            whole = self.near[c] = cp.new_int_var(0, len(classes[c].gangs), "")
            mine = [(p, n) for p, n in enumerate(most[c].tolist()) if n]
            at |= {(c, p): cp.new_int_var(0, n, "") for p, n in mine}
            some = [at[c, p] for p, _ in mine]
            if places.has_others:
                some.append(cp.new_int_var(0, len(classes[c].gangs), ""))
            cp.add(cp_model.LinearExpr.sum(some) == whole)
            cp.add(whole == admitted[c] if c in places.require else whole <= admitted[c])
        index = np.full(most.shape, -1, dtype=np.int64)
        for (c, p), variable in at.items():
            index[c, p] = variable.index
        for row in places.rows if at else ():
            for p in np.flatnonzero(row.weight @ most > row.room).tolist():
                there = np.flatnonzero((row.weight > 0) & (index[:, p] >= 0))
                limit(cp, index[there, p], row.weight[there], int(row.room[p]))
        for c in places.require:
            self.near.pop(c, None)
        #: By class, the places of gangs of which each is counted.
        self.shared: dict[int, SharedPlaces] = {}
        if wide or (each and are_few(places)):
            self.shared = WideGangs(cp, places, admitted, most, at, each=each).shared
