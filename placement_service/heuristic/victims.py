"""Making room for gangs that wait: which running gangs give way, domain by domain.

For each gang that waits, the most important first: in each domain that could hold it, clear
nodes one after another, the cheapest for the room that it gives first, until the gang fits;
then keep every victim whose room is not needed after all. The domain whose victims
cost least wins. Extras of a gang are evicted before the whole gang.

Rights to use the room of others are not checked here: room that a gang may not use does not fit it
(see `formulation.running_gangs`).
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_service.formulation.arrays import MANY, Ints, pods_that_fit
from placement_service.formulation.disruption_budgets import budgets_hold
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.indices import ClassIdx, GangIdx, NodeIdx
from placement_service.formulation.plan import Plan, Units, units_of
from placement_service.formulation.problem import Demand, Gang, Problem, UnitsOnNode
from placement_service.heuristic.gang_units import OutOfTime
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity

Floats = NDArray[np.float64]

#: Domains tried for one gang, those first whose victims should cost least.
MOST_DOMAINS = 3

#: How much more room is made each time the expected room was not enough.
MORE = 1.5

#: How much more a GPU counts at the next higher priority of running gangs.
NEXT_RANK = 1e4
#: What an extra and a pod count for beside a GPU of a minimum.
AN_EXTRA = 1e-4
A_POD = 1e-8


class Cost(NamedTuple):
    """What victims cost, in the order of the tiers: value by priority, extras, pods."""

    value: tuple[tuple[int, int], ...]
    extras: int
    pods: int


def make_room(builder: Builder, plan: Plan, *, until: float, by_priority: bool = True) -> Plan:
    """The plan with gangs that wait placed in the room of victims, as far as time allows.

    The most important gangs come first, or else those with the narrowest domains, the largest
    first: that costs least where there is room for all.
    """
    problem = builder.problem

    def order(gang: Gang) -> tuple[int, ...]:
        levels = (problem.levels[s.required].count for s in gang.scopes if s.required >= 0)
        size = sum(int(problem.gpus[d.pod_class]) * d.count for d in gang.demands)
        first = (-gang.priority,) if by_priority else ()
        return (*first, -max(levels, default=0), -size, -gang.priority, gang.index)

    search = _Victims(builder, plan)
    waiting = [g for g in builder.problem.pending if not g.home and g.index not in plan]
    try:
        for gang in sorted(waiting, key=order):
            search.make_room_for(gang, until)
    except OutOfTime:
        # The plan found so far is whole.
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
        self.on_node: defaultdict[int, list[GangIdx]] = defaultdict(list)
        for gang in self.problem.gangs:
            for node in sorted({home.node for home in gang.home}):
                self.on_node[node].append(gang.index)
        self.prices = Prices(self.problem, plan)
        self._columns: dict[ClassIdx, Ints] = {}

    def make_room_for(self, gang: Gang, until: float) -> None:
        """Place one gang in the domain where that costs least, if any victims are enough."""
        best: tuple[Cost, Plan] | None = None
        needed = _main_demand(self.problem, gang)
        level = _level_of(self.problem, gang)
        prices = self.prices.of_nodes(self.residual, gang, needed, level)
        for nodes in self._domains(needed, level, prices):
            if time.monotonic() > until:
                break
            found = self._within(gang, needed, nodes, prices)
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
                queues, gang = self.residual.queues, self.problem.gangs[index]
                queues.charge(gang, before, -1)
                queues.charge(gang, after)
                self.prices.see(index, after)
        self.plan = plan

    # --- where ----------------------------------------------------------------

    def _domains(self, needed: Demand, level: int, prices: NodePrices) -> Iterator[Ints]:
        """Nodes of the domains that may hold the whole gang, the cheapest first; else all."""
        if level < 0:
            yield np.arange(self.problem.node_count)
            return
        now = self.residual.slots(needed.pod_class, level)
        estimate = prices.by_domain(self.problem.levels[level].domain, now, needed.count)
        for domain in np.argsort(estimate, kind="stable")[:MOST_DOMAINS].tolist():
            if estimate[domain] < np.inf:
                yield self.builder.topology.inside(level, domain)

    def _within(
        self, gang: Gang, needed: Demand, nodes: Ints, prices: NodePrices
    ) -> tuple[Cost, Plan] | None:
        lacking: float = needed.count - int(self.residual.row(needed.pod_class)[nodes].sum())
        clearing = _Clearing(self, gang, nodes, needed, prices)
        mark = self.residual.mark()
        try:
            while True:
                # Where there is room already nobody need go.
                done = lacking > 0 and clearing.clear(lacking)
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
        self,
        gang: Gang,
        node: int,
        left: Mapping[GangIdx, Units],
        needed: Demand,
        inside: Callable[[int], int],
    ) -> tuple[float, dict[GangIdx, Units]] | None:
        """The price of clearing a node, and what stays of the gangs on it; None if it would not
        help.

        `inside` says on how many nodes of the domain a gang runs, which all get free with it.
        """
        keeps: dict[GangIdx, Units] = {}
        cost = 0.0
        request = self.problem.request[needed.pod_class]
        free = self.residual.free[node].copy()
        before = int(self.residual.row(needed.pod_class)[node])
        for index in self.on_node[node]:
            victim = self.problem.gangs[index]
            units = left.get(index, self.plan.get(index, ()))
            here = sum(c for _, n, c in units if n == node)
            if not here:
                continue
            extras = _without(victim, units, node)
            if extras is not None:
                cost += here * (AN_EXTRA + A_POD)
            elif self.prices.may_go_whole(victim, gang):
                whole = self.prices.value[index] + A_POD * sum(c for _, _, c in units)
                cost += whole / min(inside(index), needed.count)
            else:
                continue
            keeps[index] = () if extras is None else extras
            for d, n, c in units:
                if n == node:
                    free += c * self.problem.request[victim.demands[d].pod_class]
        slots = 0
        if self.problem.eligible[needed.pod_class][node]:
            used = self._used(needed)
            slots = int((free[used] // request[used]).min(initial=MANY)) - before
        if slots <= 0:
            return None
        return cost / min(slots, needed.count), keeps

    def _used(self, demand: Demand) -> Ints:
        """The resources that a demand asks for, as columns."""
        pod_class = demand.pod_class
        if pod_class not in self._columns:
            self._columns[pod_class] = np.flatnonzero(self.problem.request[pod_class])
        return self._columns[pod_class]

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

    def release(self, index: GangIdx, before: Units, after: Units) -> None:
        """What is left grows by what a gang gives up."""
        gone = Counter({(d, n): c for d, n, c in before})
        gone.subtract({(d, n): c for d, n, c in after})
        self._release(index, units_of(gone))

    def _release(self, index: GangIdx, units: Units) -> None:
        self._take(index, tuple(UnitsOnNode(d, n, -c) for d, n, c in units))

    def _take(self, index: GangIdx, units: Units) -> None:
        demands = self.problem.gangs[index].demands
        for d, node, count in units:
            self.residual.take(demands[d].pod_class, np.array([node]), np.array([count]))


class _Clearing:
    """Nodes of a domain, cleared one after another; `left` is what stays of their gangs."""

    def __init__(
        self, victims: _Victims, gang: Gang, nodes: Ints, needed: Demand, prices: NodePrices
    ) -> None:
        self._victims = victims
        self._gang = gang
        self._needed = needed
        self._inside = set(nodes.tolist())
        self._nodes_of: dict[int, int] = {}
        self.left: dict[GangIdx, Units] = {}
        able = nodes[prices.each[nodes] < np.inf]
        self._heap = list(zip(prices.each[able].tolist(), able.tolist(), strict=True))
        heapq.heapify(self._heap)

    def _nodes_inside(self, index: int) -> int:
        if index not in self._nodes_of:
            homes = {home.node for home in self._victims.problem.gangs[index].home}
            self._nodes_of[index] = len(homes & self._inside)
        return max(1, self._nodes_of[index])

    def _price(self, node: int) -> tuple[float, dict[GangIdx, Units]] | None:
        return self._victims.price(self._gang, node, self.left, self._needed, self._nodes_inside)

    def _push(self, node: int) -> None:
        priced = self._price(node)
        if priced is not None:
            heapq.heappush(self._heap, (priced[0], node))

    def clear(self, slots: float) -> bool:
        """Clear nodes for so many slots; true when there is nothing left to clear."""
        problem = self._victims.problem
        row = self._victims.residual.row
        while slots > 0 and self._heap:
            price, node = heapq.heappop(self._heap)
            priced = self._price(node)
            if priced is None:
                continue
            if priced[0] > price * (1 + 1e-9):
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


@dataclass(frozen=True, slots=True, eq=False)
class NodePrices:
    """What clearing each node costs for each slot that it gives [N], and the slots [N]."""

    each: Floats
    slots: Ints

    def by_domain(self, domain: Ints, now: Ints, count: int) -> Floats:
        """What `count` slots cost in each domain at the least [D], beside those free now."""
        order = np.argsort(self.each, kind="stable")
        order = order[(self.each[order] < np.inf) & (domain[order] >= 0)]
        at = domain[order]
        # Domain by domain, the cheapest nodes first.
        order, at = order[np.argsort(at, kind="stable")], np.sort(at, kind="stable")
        slots = self.slots[order]
        running = np.cumsum(slots)
        begin = np.searchsorted(at, np.arange(len(now)))
        before = np.concatenate([[0], running])[begin]
        taken_before = running - slots - before[at]
        lacking = np.maximum(count - now, 0)
        used = np.clip(lacking[at] - taken_before, 0, slots)
        cost = np.bincount(at, used * self.each[order], len(now))
        offered = np.bincount(at, slots, len(now))
        return np.where(offered >= lacking, cost, np.inf)


class Prices:
    """Running pods as arrays, to price all nodes at once: entries are (gang, demand, node)."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._problem = problem
        homes = [(g, home) for g in problem.gangs for home in g.home]
        self._gang = np.array([g.index for g, _ in homes], dtype=np.int64)
        self._node = np.array([home.node for _, home in homes], dtype=np.int64)
        classes = [g.demands[home.demand].pod_class for g, home in homes]
        self._request = problem.request[classes]
        self._entry = {(g.index, h.demand, h.node): e for e, (g, h) in enumerate(homes)}
        self._entries: defaultdict[int, list[int]] = defaultdict(list)
        for e, (g, _) in enumerate(homes):
            self._entries[g.index].append(e)
        numbers: dict[tuple[int, int], int] = {}
        least: list[int] = []
        requirement = []
        for g, home in homes:
            q = next(i for i, r in enumerate(g.requirements) if home.demand in r.demands)
            if (g.index, q) not in numbers:
                numbers[g.index, q] = len(least)
                least.append(max(0, g.requirements[q].missing))
            requirement.append(numbers[g.index, q])
        self._requirement = np.array(requirement, dtype=np.int64)
        self._least = np.array(least, dtype=np.int64)
        self._units = np.zeros(len(homes), dtype=np.int64)
        self._bases = {g.base for g in problem.gangs if g.home}
        ranks = {p: r for r, p in enumerate(sorted({g.priority for g in problem.gangs if g.home}))}
        #: What a whole gang costs.
        self.value = np.zeros(len(problem.gangs))
        self._priority = np.full(len(problem.gangs), np.iinfo(np.int64).max)
        for g in problem.gangs:
            if g.home:
                rank = min(ranks[g.priority], 20)
                self.value[g.index] = max(1, g.value) / UNITS_PER_GPU * NEXT_RANK**rank
                if g.index not in self._bases:
                    self._priority[g.index] = g.priority
                self.see(g.index, plan.get(g.index, ()))

    def see(self, gang: GangIdx, units: Units) -> None:
        """Take note of what stays of a gang."""
        for e in self._entries.get(gang, ()):
            self._units[e] = 0
        for d, n, count in units:
            e = self._entry.get((gang, d, NodeIdx(n)), -1)
            if e >= 0:
                self._units[e] = count

    def may_go_whole(self, victim: Gang, gang: Gang) -> bool:
        """Whether a victim may lose its minimum for a gang; gangs that others need may not."""
        return bool(self._priority[victim.index] <= gang.priority)

    def of_nodes(
        self, residual: ResidualCapacity, gang: Gang, needed: Demand, level: int
    ) -> NodePrices:
        """The prices of all nodes, as if each were cleared alone."""
        problem, units, count = self._problem, self._units, self._problem.node_count
        there = np.bincount(self._requirement, units, len(self._least))
        left = (there - self._least)[self._requirement]
        is_extra = units <= left
        may_go = (units > 0) & (is_extra | (self._priority[self._gang] <= gang.priority))
        freed = np.zeros((count, problem.request.shape[1]), dtype=np.int64)
        np.add.at(freed, self._node[may_go], self._request[may_go] * units[may_go][:, None])
        # A gang frees all its nodes in the domain at once.
        at = problem.levels[level].domain[self._node] if level >= 0 else np.zeros_like(self._node)
        places = self._gang * (int(at.max(initial=0)) + 2) + at + 1
        _, place, together = np.unique(places, return_inverse=True, return_counts=True)
        pods = np.bincount(self._gang, units, len(self.value))[self._gang]
        whole = (self.value[self._gang] + A_POD * pods) / np.minimum(together[place], needed.count)
        cost = np.where(is_extra, units * (AN_EXTRA + A_POD), whole)
        total = np.bincount(self._node[may_go], cost[may_go], count)
        request = problem.request[needed.pod_class]
        slots = pods_that_fit(residual.free + freed, request) - residual.row(needed.pod_class)
        slots = np.where(problem.eligible[needed.pod_class], np.minimum(slots, needed.count), 0)
        able = slots > 0
        return NodePrices(np.where(able, total / np.maximum(slots, 1), np.inf), slots)


def _level_of(problem: Problem, gang: Gang) -> int:
    """The narrowest level that holds the whole gang together, -1 for none."""
    whole = [
        s.required for s in gang.scopes if s.required >= 0 and len(s.demands) == len(gang.demands)
    ]
    return max(whole, key=lambda i: problem.levels[i].count, default=-1)


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
    return tuple(unit for unit in units if unit.node != node)
