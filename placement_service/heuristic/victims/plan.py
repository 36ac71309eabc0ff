"""A plan while running gangs give way: where all gangs are, what is left, and what that costs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import compress
from operator import is_not
from typing import NamedTuple

from placement_service.formulation.indices import GangIdx, NodeIdx
from placement_service.formulation.plan import Plan, Units, kept_by_demand
from placement_service.formulation.problem import Gang, Problem, UnitsOnNode
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.victims.budget_room import BudgetRoom
from placement_service.heuristic.victims.prices import Prices, requirements_of_demands


class Cost(NamedTuple):
    """What victims cost, in the order of the tiers: value by priority from high to low, extras,
    pods."""

    value: tuple[int, ...]
    extras: int
    pods: int


@dataclass(slots=True)
class _Losses:
    """A cost that is added up."""

    value: list[int]
    extras: int = 0
    pods: int = 0

    def copy(self) -> _Losses:
        return _Losses([*self.value], self.extras, self.pods)

    def cost(self) -> Cost:
        return Cost(tuple(self.value), self.extras, self.pods)


class VictimPlan:
    """The plan so far, and what it leaves."""

    def __init__(self, builder: Builder, plan: Plan) -> None:
        self.builder = builder
        self.problem: Problem = builder.problem
        self.plan = plan
        self.residual = ResidualCapacity(self.problem)
        self.residual.take_plan(plan)
        #: Open gangs by the node that they run on.
        self.on_node: defaultdict[int, list[GangIdx]] = defaultdict(list)
        #: Whether pods that leave their node have to run elsewhere.
        self.moves = False
        #: The nodes of the open gangs, and their units.
        self.homes: dict[GangIdx, frozenset[NodeIdx]] = {}
        self._at_home: dict[GangIdx, int] = {}
        #: What gangs have lost with the units that they had last.
        self._lost: dict[GangIdx, tuple[Units, int]] = {}
        for gang in self.problem.gangs:
            self.moves |= bool(gang.keeps)
            if gang.home:
                self.homes[gang.index] = frozenset([home.node for home in gang.home])
                self._at_home[gang.index] = sum([home.units for home in gang.home])
                for node in self.homes[gang.index]:
                    self.on_node[node].append(gang.index)
        #: Gangs that are not wholly at home.
        self.away: set[GangIdx] = {
            g.index for g in self.problem.gangs if _is_away(g, plan.get(g.index, ()))
        }
        #: Gangs that wait, by their base.
        self.based: defaultdict[GangIdx, list[GangIdx]] = defaultdict(list)
        for gang in self.problem.gangs:
            for base in () if gang.home else gang.rests_on:
                self.based[base].append(gang.index)
        self.prices = Prices(self.problem, plan)
        self.budgets = BudgetRoom(self.problem, plan)
        #: `Problem.request`, to be read one by one.
        self.requests: list[list[int]] = self.problem.request.tolist()
        self._requirement_of: dict[GangIdx, list[int]] = {}
        priorities = sorted({g.priority for g in self.problem.gangs if g.home}, reverse=True)
        self._rank = {priority: rank for rank, priority in enumerate(priorities)}
        #: What the plan costs.
        self._losses = _Losses([0] * len(priorities))
        for index in self.away:
            self._count(self._losses, index, plan.get(index, ()))

    def go_home(self, gangs: Collection[GangIdx] | None = None) -> bool:
        """Brings gangs that are away home where there is room, all or some of them; returns
        whether any came home.
        """
        gangs = self.away if gangs is None else gangs
        plan = dict(self.plan)
        mark, queues = self.residual.mark(), self.residual.queues.left
        self.builder.put_back_home(self.residual, plan, self.dearest(gangs))
        self.residual.undo(mark)
        self.residual.queues.left = queues
        came = any(plan.get(i) != self.plan.get(i) for i in gangs)
        if came:
            self.move_to(plan, gangs)
        return came

    def requirement_of(self, index: GangIdx) -> list[int]:
        """The requirement that each demand of a gang counts for."""
        if index not in self._requirement_of:
            self._requirement_of[index] = requirements_of_demands(self.problem.gangs[index])
        return self._requirement_of[index]

    def in_row(self, row: int, gang: Gang) -> list[GangIdx]:
        """Running gangs that a row of queues counts and that may give way to a gang."""
        mine = (i for i in self.problem.queue_rows[row].gangs if i in self.homes)
        return sorted(i for i in mine if self.gives_way(i, gang))

    def gives_way(self, index: GangIdx, gang: Gang) -> bool:
        """Whether a running gang may be evicted for another one."""
        return gang.index in self.problem.winners.get(index, ())

    def dearest(self, gangs: Iterable[GangIdx]) -> list[GangIdx]:
        every = self.problem.gangs
        return sorted(gangs, key=lambda i: (-every[i].priority, -every[i].value, i))

    def move_to(self, plan: Plan, among: Iterable[GangIdx] | None = None) -> None:
        """From now on this is the plan, which differs only in gangs `among` these, where they are
        known.
        """
        gangs = self.problem.gangs
        queues = self.residual.queues
        if among is None:
            # Most gangs have the same units, and all of them are asked often.
            others = map(is_not, map(plan.get, self.plan), self.plan.values())
            among = [*compress(self.plan, others), *(i for i in plan if i not in self.plan)]
        for index in list(among):
            before, after = self.plan.get(index, ()), plan.get(index, ())
            if before != after:
                gang = gangs[index]
                self.residual.take_units(gang, before, -1)
                self.residual.take_units(gang, after)
                queues.charge(gang, before, -1)
                queues.charge(gang, after)
                self._count(self._losses, index, before, -1)
                self._count(self._losses, index, after)
                self.budgets.change(gang, before, after)
                away = _is_away(gang, after)
                (self.away.add if away else self.away.discard)(index)
                # A gang that was moved stays where it is now.
                self.prices.see(index, () if away and self.moves else after)
        self.plan = plan

    def cost(self, plan: Plan, changed: Iterable[GangIdx]) -> Cost:
        """The cost of a plan that differs from this one in some gangs at most."""
        losses = self._losses.copy()
        for index in changed:
            before, after = self.plan.get(index, ()), plan.get(index, ())
            if before is not after:
                self._count(losses, index, before, -1)
                self._count(losses, index, after)
        return losses.cost()

    def _count(self, losses: _Losses, index: GangIdx, units: Units, sign: int = 1) -> None:
        """Counts what is lost where only these units of a gang are there."""
        gang = self.problem.gangs[index]
        if units is gang.home or not gang.home or units == gang.home:
            return
        if self.moves:
            kept = sum(kept_by_demand(gang, units).values())
            losses.pods += sign * (self._at_home[index] - kept)
            return
        lost = sign * self._lost_of(index, units)
        losses.pods += lost
        if units:
            losses.extras += lost
        else:
            losses.value[self._rank[gang.priority]] += sign * gang.value

    def _lost_of(self, index: GangIdx, units: Units) -> int:
        """How many units of a gang are no longer anywhere."""
        known = self._lost.get(index)
        if known is None or known[0] is not units:
            lost = self._at_home[index] - sum([count for *_, count in units])
            known = self._lost[index] = units, lost
        return known[1]

    def release(self, index: GangIdx, before: Units, after: Units) -> None:
        """Adds what a gang gives up to what is left."""
        gone = before
        if after:
            kept = {(d, n): c for d, n, c in after}
            lost = (UnitsOnNode(d, n, c - kept.get((d, n), 0)) for d, n, c in before)
            gone = tuple(one for one in lost if one.units)
        self.residual.take_units(self.problem.gangs[index], gone, -1)


def _is_away(gang: Gang, units: Units) -> bool:
    """Whether not all of a gang that runs is at home."""
    if units is gang.home or units == gang.home:
        return False
    there = Counter({(d, n): count for d, n, count in units})
    return any(there[h.demand, h.node] < h.units for h in gang.home)
