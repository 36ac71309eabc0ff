"""What queues have left while gangs are placed one after another."""

from __future__ import annotations

from collections.abc import Iterable

from placement_service.formulation.arrays import Ints
from placement_service.formulation.plan import Plan, home_plan
from placement_service.formulation.problem import DemandUnits, Gang, Problem, UnitsOnNode
from placement_service.formulation.rules.queues import QueueRow

#: Units of a gang; where they are does not matter.
UnitsTaken = Iterable[DemandUnits | UnitsOnNode]


class QueueLedger:
    """What is left of each row of `Problem.queue_rows`. Where more runs than a limit, what is at
    home counts, too, and is let in as long as nothing new has come.
    """

    def __init__(self, problem: Problem) -> None:
        self._rows = problem.queue_rows
        #: Rows above their limit.
        self._over = {
            r: row.excess
            for r, row in enumerate(problem.queue_rows)
            if row.excess is not None and not row.is_exact
        }
        whole = [self._over.get(r, row) for r, row in enumerate(problem.queue_rows)]
        self._weights = [counted.weight for counted in whole]
        self._left = [counted.capacity for counted in whole]
        #: What has come anew in rows above their limit.
        self._new = [0] * len(self._left)

    @property
    def left(self) -> tuple[tuple[int, int], ...]:
        """What is left of each row and what has come, to restore later."""
        return tuple(zip(self._left, self._new, strict=True))

    @left.setter
    def left(self, amounts: tuple[tuple[int, int], ...]) -> None:
        self._left = [left for left, _ in amounts]
        self._new = [new for _, new in amounts]

    def charge(self, gang: Gang, units: UnitsTaken, sign: int = 1) -> None:
        """Count units of a gang, or with the sign -1 no longer."""
        if gang.queue_rows:
            units = tuple(units)
            for r in gang.queue_rows:
                self._left[r] -= sign * self.weight(r, gang, units)
                if r in self._over:
                    self._new[r] += sign * self._anew(r, gang, units)

    def charge_plan(self, problem: Problem, plan: Plan) -> None:
        """Count all units of a plan."""
        if self._rows:
            for index, units in plan.items():
                self.charge(problem.gangs[index], units)

    def allows(self, gang: Gang, units: UnitsTaken) -> bool:
        """Whether the gang may have these units beside all that is counted."""
        units = tuple(units) if gang.queue_rows else ()
        return all(self._lacks(r, gang, units) <= 0 for r in gang.queue_rows)

    def lacks(self, gang: Gang, units: UnitsTaken) -> dict[int, int]:
        """How much has to leave each row that keeps the gang from having these units."""
        units = tuple(units) if gang.queue_rows else ()
        lacks = {r: self._lacks(r, gang, units) for r in gang.queue_rows}
        return {r: n for r, n in lacks.items() if n > 0}

    def most(self, gang: Gang, demand: int) -> int:
        """How many more units of a demand the gang may have; the demand's count for no limit."""
        d = gang.demands[demand]
        most = d.count
        for r in gang.queue_rows:
            weight = int(self._weights[r][d.pod_class])
            if weight:
                most = min(most, max(0, self._left[r]) // weight)
        return most

    def weight(self, row: int, gang: Gang, units: UnitsTaken) -> int:
        """What units of a gang take of a row."""
        return _sum(self._weights[row], gang, units)

    def _anew(self, row: int, gang: Gang, units: UnitsTaken) -> int:
        """What of it does not run there already, of a row above its limit."""
        return _sum(self._rows[row].weight, gang, units)

    def _lacks(self, row: int, gang: Gang, units: UnitsTaken) -> int:
        if row in self._over and not self._new[row] + self._anew(row, gang, units):
            return 0
        return self.weight(row, gang, units) - self._left[row]


def _sum(weight: Ints, gang: Gang, units: UnitsTaken) -> int:
    return sum(int(weight[gang.demands[u.demand].pod_class]) * u.units for u in units)


def queues_hold(problem: Problem, plan: Plan) -> bool:
    """Whether a plan takes no more of any queue than there is, or than runs in it already."""
    if not problem.queue_rows:
        return True
    mine, at_home = QueueLedger(problem), QueueLedger(problem)
    mine.charge_plan(problem, plan)
    at_home.charge_plan(problem, home_plan(problem))
    return all(
        left >= min(0, home) if row.excess is None else _stays_below(row, problem, plan)
        for row, (left, _), (home, _) in zip(
            problem.queue_rows, mine.left, at_home.left, strict=True
        )
    )


def _stays_below(row: QueueRow, problem: Problem, plan: Plan) -> bool:
    """Whether a plan brings nothing new into a queue above its limit, or is within the limit."""
    excess = row.excess
    assert excess is not None
    new = whole = 0
    for index in row.gangs & plan.keys():
        for unit in plan[index]:
            pod_class = problem.gangs[index].demands[unit.demand].pod_class
            new += int(row.weight[pod_class]) * unit.units
            whole += int(excess.weight[pod_class]) * unit.units
    return not new or whole <= excess.capacity
