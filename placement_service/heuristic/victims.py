"""Making room for gangs that wait: which running gangs give way, domain by domain.

For each gang that waits, the most important first: in each domain that could hold it, clear
nodes one after another, the cheapest for the room that it gives first, until the gang fits;
then give back every victim whose room is not needed after all. The domain whose victims
cost least wins. Extras of a gang are asked before the whole gang.

Who may use whose room needs no thought here: room that a gang may not use does not fit it
(see `formulation.running_gangs`).
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Ints, pods_that_fit
from placement_service.formulation.disruption_budgets import budgets_hold
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Demand, Gang, Problem
from placement_service.heuristic.gang_placer import OutOfTime
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Domains tried for one gang, those first that lack least.
MOST_DOMAINS = 8

#: How much more room is made, each time that what should do does not.
MORE = 1.5


class Price(NamedTuple):
    """What clearing a node costs for each slot that it gives; cheaper is smaller.

    `rank` is that of the most important gang that goes whole, -1 for extras alone.
    """

    rank: int
    pods_per_slot: float


class Cost(NamedTuple):
    """What victims cost, in the order of the tiers: value by priority, extras, pods."""

    value: tuple[tuple[int, int], ...]
    extras: int
    pods: int


def make_room(builder: Builder, plan: Plan, *, until: float) -> Plan:
    """The plan with gangs that wait placed in the room of victims, as far as time allows."""
    search = _Victims(builder, plan)
    waiting = [g for g in builder.problem.pending if not g.home and g.index not in plan]
    try:
        for gang in sorted(waiting, key=lambda g: (-g.priority, g.index)):
            search.make_room_for(gang, until)
    except OutOfTime:
        # What was found by now is whole.
        pass
    return search.plan


class _Victims:
    """The best plan so far, and what it leaves."""

    def __init__(self, builder: Builder, plan: Plan) -> None:
        self.builder = builder
        self.problem: Problem = builder.problem
        self.plan = plan
        self.residual = ResidualCapacity(self.problem)
        self.residual.take_plan(plan)
        #: Open gangs by the node that they run on.
        self._on_node: defaultdict[int, list[int]] = defaultdict(list)
        for gang in self.problem.gangs:
            for node in sorted({home.node for home in gang.home}):
                self._on_node[node].append(gang.index)
        #: Gangs that others are based on: they stay.
        self._bases = {g.base for g in self.problem.gangs if g.home}
        order = sorted({g.priority for g in self.problem.gangs if g.home})
        self._rank = {priority: rank for rank, priority in enumerate(order)}

    def make_room_for(self, gang: Gang, until: float) -> None:
        """Place one gang in the domain where that costs least, if any victims are enough."""
        best: tuple[Cost, Plan] | None = None
        for nodes in self._domains(gang):
            if time.monotonic() > until:
                break
            found = self._within(gang, nodes)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        if best is not None:
            self._move_to(best[1])

    def _move_to(self, plan: Plan) -> None:
        for index in self.plan.keys() | plan.keys():
            before, after = self.plan.get(index, ()), plan.get(index, ())
            if before != after:
                self._release(index, before)
                self._take(index, after)
        self.plan = plan

    # --- where ----------------------------------------------------------------

    def _domains(self, gang: Gang) -> Iterator[Ints]:
        """Nodes of the domains that may hold the whole gang, else all nodes."""
        whole = [
            s.required
            for s in gang.scopes
            if s.required >= 0 and len(s.demands) == len(gang.demands)
        ]
        if not whole:
            yield np.arange(self.problem.node_count)
            return
        level = max(whole, key=lambda i: self.problem.levels[i].count)
        needed = _main_demand(self.problem, gang)
        empty = ResidualCapacity(self.problem).slots(needed.pod_class, level)
        now = self.residual.slots(needed.pod_class, level)
        for domain in np.lexsort((-empty, -now))[:MOST_DOMAINS].tolist():
            if empty[domain] >= needed.count:
                yield self.builder.topology.inside(level, domain)

    def _within(self, gang: Gang, nodes: Ints) -> tuple[Cost, Plan] | None:
        needed = _main_demand(self.problem, gang)
        lacking: float = needed.count - int(self.residual.row(needed.pod_class)[nodes].sum())
        clearing = _Clearing(self, gang, nodes, needed)
        mark = self.residual.mark()
        try:
            while True:
                done = clearing.clear(max(1, lacking))
                units = self.builder.place(self.residual, gang, within=nodes)
                if units is not None:
                    break
                if done:
                    return None
                lacking = max(lacking, 1) * MORE
            plan = {i: u for i, u in {**self.plan, **clearing.left}.items() if u}
            plan[gang.index] = units
            goers = sorted(clearing.left, key=lambda i: (-self.problem.gangs[i].priority, i))
            self.builder.put_back_home(self.residual, plan, goers)
        finally:
            self.residual.undo(mark)
        return (self._cost(plan), plan) if budgets_hold(self.problem, plan) else None

    # --- what it costs --------------------------------------------------------

    def price(
        self, gang: Gang, node: int, left: Mapping[int, Units], needed: Demand
    ) -> tuple[Price, dict[int, Units]] | None:
        """The price of clearing a node, and what stays of the gangs on it; None if in vain."""
        keeps: dict[int, Units] = {}
        rank, pods = -1, 0
        request = self.problem.request[needed.pod_class]
        free = self.residual.free[node].copy()
        before = int(self.residual.row(needed.pod_class)[node])
        for index in self._on_node[node]:
            victim = self.problem.gangs[index]
            units = left.get(index, self.plan.get(index, ()))
            here = sum(c for _, n, c in units if n == node)
            if not here:
                continue
            extras = _without(victim, units, node)
            if extras is None and (victim.priority > gang.priority or index in self._bases):
                continue
            keeps[index] = () if extras is None else extras
            pods += here if extras is not None else sum(c for _, _, c in units)
            rank = max(rank, -1 if extras is not None else self._rank[victim.priority])
            for d, n, c in units:
                if n == node:
                    free += c * self.problem.request[victim.demands[d].pod_class]
        slots = 0
        if self.problem.eligible[needed.pod_class][node]:
            slots = int(pods_that_fit(free[None, :], request)[0]) - before
        if slots <= 0:
            return None
        return Price(rank, pods / min(slots, needed.count)), keeps

    def _cost(self, plan: Plan) -> Cost:
        value: dict[int, int] = {}
        extras = pods = 0
        for index, units in self.plan.items():
            gang = self.problem.gangs[index]
            if not gang.home or plan.get(index) == units:
                continue
            lost = sum(c for *_, c in units) - sum(c for *_, c in plan.get(index, ()))
            pods += lost
            if index in plan:
                extras += lost
            else:
                value[-gang.priority] = value.get(-gang.priority, 0) + gang.value
        return Cost(tuple(sorted(value.items())), extras, pods)

    # --- changes --------------------------------------------------------------

    def release(self, index: int, before: Units, after: Units) -> None:
        """What is left grows by what a gang gives up."""
        gone = Counter({(d, n): c for d, n, c in before})
        gone.subtract({(d, n): c for d, n, c in after})
        self._release(index, tuple((d, n, c) for (d, n), c in gone.items() if c))

    def _release(self, index: int, units: Units) -> None:
        self._take(index, tuple((d, n, -c) for d, n, c in units))

    def _take(self, index: int, units: Units) -> None:
        demands = self.problem.gangs[index].demands
        for d, node, count in units:
            self.residual.take(demands[d].pod_class, np.array([node]), np.array([count]))


class _Clearing:
    """Nodes of a domain, cleared one after another; `left` is what stays of their gangs."""

    def __init__(self, victims: _Victims, gang: Gang, nodes: Ints, needed: Demand) -> None:
        self._victims = victims
        self._gang = gang
        self._needed = needed
        self._inside = set(nodes.tolist())
        self.left: dict[int, Units] = {}
        self._heap: list[tuple[Price, int]] = []
        for node in sorted(self._inside):
            self._push(node)

    def _push(self, node: int) -> None:
        priced = self._victims.price(self._gang, node, self.left, self._needed)
        if priced is not None:
            heapq.heappush(self._heap, (priced[0], node))

    def clear(self, slots: float) -> bool:
        """Clear nodes for so many slots; true when there is nothing left to clear."""
        problem = self._victims.problem
        row = self._victims.residual.row
        while slots > 0 and self._heap:
            price, node = heapq.heappop(self._heap)
            priced = self._victims.price(self._gang, node, self.left, self._needed)
            if priced is None:
                continue
            if priced[0] > price:
                heapq.heappush(self._heap, (priced[0], node))
                continue
            before = int(row(self._needed.pod_class)[node])
            touched: set[int] = set()
            for index, keeps in priced[1].items():
                units = self.left.get(index, self._victims.plan.get(index, ()))
                self._victims.release(index, units, keeps)
                self.left[index] = keeps
                touched |= {home.node for home in problem.gangs[index].home}
            slots -= int(row(self._needed.pod_class)[node]) - before
            # Other nodes of the same gangs are cheaper to clear now.
            for other in (touched & self._inside) - {node}:
                self._push(other)
        return not self._heap


def _main_demand(problem: Problem, gang: Gang) -> Demand:
    """The demand of a gang that asks for most GPUs, then for most pods."""
    return max(gang.demands, key=lambda d: (int(problem.gpus[d.pod_class]) * d.count, d.count))


def _without(gang: Gang, units: Units, node: int) -> Units | None:
    """What stays of a gang that gives up a node, None when that takes more than extras."""
    gone: Sequence[tuple[int, int]] = [(d, c) for d, n, c in units if n == node]
    for requirement in gang.requirements:
        mine = sum(c for d, _, c in units if d in requirement.demands)
        lost = sum(c for d, c in gone if d in requirement.demands)
        if lost and mine - lost < max(requirement.missing, 0):
            return None
    return tuple((d, n, c) for d, n, c in units if n != node)
