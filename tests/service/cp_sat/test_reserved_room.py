"""The model of who uses which reservation says what the rule says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from ortools.sat.python import cp_model

from placement_service.cp_sat.rules import reserved_room
from placement_service.cp_sat.rules.counts import ClassCount
from placement_service.formulation.arrays import Bools
from placement_service.formulation.indices import ClassIdx, LevelIdx
from placement_service.formulation.rules.reserved_room import Kind, ReservedRoom, Row

#: Class 0 owns, class 1 does not.
ONCE = Kind((0,), single=True, restricted=False, ends=True)
ALL_ROOM = Row(np.array([2, 1]), (3, 3), 8, ((0,), (0,)), (False, False))
#: The same for gangs that may not have the room of an owner of class 0, who has two of it.
SHARED = Row(np.array([0, 1]), (3, 3), 8, ((2,), (2,)), (False, False))
#: Less than is held.
SCARCE = Row(np.array([2, 1]), (3, 3), 5, ((0,), (0,)), (False, False))


@dataclass
class Counts:
    """So many units of each class in domain 0."""

    units: tuple[int, ...]
    cp: cp_model.CpModel = field(default_factory=cp_model.CpModel)

    def by_domain(self, level: LevelIdx, classes: Bools) -> dict[int, list[ClassCount]]:
        return {
            0: [
                ClassCount(self.cp.new_constant(n), ClassIdx(c))
                for c, n in enumerate(self.units)
                if classes[c]
            ]
        }

    def total_units(self) -> int:
        return sum(self.units)


@pytest.mark.parametrize(
    "rows", [(ALL_ROOM,), (SHARED,), (ALL_ROOM, SHARED), (SCARCE,), (SCARCE, SHARED)]
)
@pytest.mark.parametrize(
    "kind", [ONCE, ONCE._replace(restricted=True), ONCE._replace(single=False, ends=False)]
)
def test_a_model_has_a_solution_where_the_rule_holds(kind: Kind, rows: tuple[Row, ...]) -> None:
    # Only the first one caps what its users take.
    rows = tuple(row._replace(capped=(kind.restricted, False)) for row in rows)
    rule = ReservedRoom(LevelIdx(0), 0, (ClassIdx(0),), (False,), (kind, kind), rows)
    for insists in (False, True):
        rule = replace(rule, insist=(insists,))
        for units in np.ndindex(4, 9):
            model = Counts(units)
            reserved_room.post(model, rule)
            status = cp_model.CpSolver().solve(model.cp)
            tracked = [sum(w[c] * n for c, n in enumerate(units)) for w in rule.tracked()]
            assert (status == cp_model.OPTIMAL) == rule.holds(np.array(tracked)[:, None]), units
