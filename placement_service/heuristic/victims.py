"""Making room for gangs that wait: which running gangs give way, domain by domain.

For each gang that waits, the most important first, for which nobody need go: where it fits best.
For each other gang: in each domain that could hold it, clear nodes one after another, the cheapest
for the room that it gives first, until the gang fits; then keep every victim whose room is not
needed after all. The domain whose victims cost least wins. Extras of a gang are evicted before the
whole gang. With moves every victim has to fit elsewhere; a gang that does not stays, and the
domain is tried again without it.

Rights to use the room of others are not checked here: room that a gang may not use does not fit it
(see `formulation.running_gangs`).
"""

from __future__ import annotations

import heapq
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import MANY, Ints
from placement_service.formulation.disruption_budgets import budgets_hold
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import Plan, Units, kept_by_demand, units_of
from placement_service.formulation.problem import Demand, Gang, Problem, UnitsOnNode
from placement_service.heuristic.gang_units import OutOfTime
from placement_service.heuristic.plan_builder import Builder, bases_first
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.victim_prices import A_POD, AN_EXTRA, NodePrices, Prices, least_of

#: Domains tried for one gang, those first whose victims should cost least.
MOST_DOMAINS = 3

#: How much more room is made each time the expected room was not enough.
MORE = 1.5

#: How often a domain is tried again without gangs for which there is no room elsewhere.
MOST_TRIES = 4


class Cost(NamedTuple):
    """What victims cost, in the order of the tiers: value by priority from high to low, extras,
    pods."""

    value: tuple[int, ...]
    extras: int
    pods: int


class _Priced(NamedTuple):
    """A plan and what it costs."""

    cost: Cost
    plan: Plan


def make_room(builder: Builder, plan: Plan, *, until: float, by_priority: bool = True) -> Plan:
    """The plan with gangs that wait placed in the room of victims, as far as time allows.

    The most important gangs come first, or else those with the narrowest domains, the largest
    first: that costs least where there is room for all. Where others move, those for which they do
    are then placed once more, each beside all the others.
    """
    problem = builder.problem

    def order(gang: Gang) -> tuple[int, ...]:
        levels = (problem.levels[s.required].count for s in gang.scopes if s.required >= 0)
        size = sum(int(problem.gpus[d.pod_class]) * d.count for d in gang.demands)
        first = (-gang.priority,) if by_priority else ()
        return (*first, -max(levels, default=0), -size, -gang.priority, gang.index)

    waiting = [g for g in problem.pending if not g.home and g.index not in plan]
    if not waiting:
        return plan
    search = _Victims(builder, plan)
    waiting = bases_first(sorted(waiting, key=order))
    try:
        for gang in waiting:
            search.make_room_for(gang, until)
        if search.moves:
            search.place_again(waiting, until)
    except OutOfTime:
        # The plan found so far is whole.
        pass
    return search.best


class _Victims:
    """The best plan so far, and what it leaves."""

    def __init__(self, builder: Builder, plan: Plan) -> None:
        self.builder = builder
        self.problem: Problem = builder.problem
        self.plan = plan
        #: The plan to go on with when time is over.
        self.best = plan
        self.residual = ResidualCapacity(self.problem)
        self.residual.take_plan(plan)
        #: Open gangs by the node that they run on.
        self.on_node: defaultdict[int, list[GangIdx]] = defaultdict(list)
        #: Where what leaves its node has to run elsewhere.
        self.moves = False
        for gang in self.problem.gangs:
            self.moves |= bool(gang.keeps)
            for node in {home.node for home in gang.home}:
                self.on_node[node].append(gang.index)
        #: Gangs that are not wholly at home, and those for which there is no room elsewhere.
        self.away: set[GangIdx] = {
            g.index for g in self.problem.gangs if _is_away(g, plan.get(g.index, ()))
        }
        #: Gangs that wait, by their base.
        self._based: defaultdict[GangIdx, list[GangIdx]] = defaultdict(list)
        for gang in self.problem.gangs:
            if gang.base >= 0 and not gang.home:
                self._based[gang.base].append(gang.index)
        self._stuck: set[GangIdx] = set()
        self.prices = Prices(self.problem, plan)
        self._columns: dict[ClassIdx, Ints] = {}
        priorities = sorted({g.priority for g in self.problem.gangs if g.home}, reverse=True)
        self._rank = {priority: rank for rank, priority in enumerate(priorities)}

    def make_room_for(self, gang: Gang, until: float) -> None:
        """Place one gang in the domain where that costs least, if any victims are enough."""
        if not self.builder.base_is_placed(gang, self.plan):
            return
        found = self._beside(gang) or self._in_the_room_of_others(gang, until)
        if found is not None:
            self._move_to(found.plan)
            self.best = found.plan

    def place_again(self, gangs: Iterable[Gang], until: float) -> None:
        """Place gangs once more, each beside all the others, where that is better."""
        for gang in gangs:
            if time.monotonic() > until:
                break
            before, cost, placed = self.plan, self._cost(self.plan, ()), gang.index in self.plan
            if not placed and not self.builder.base_is_placed(gang, before):
                continue
            if placed:
                self._move_to({i: u for i, u in before.items() if i != gang.index})
                if not self._go_home():
                    self._move_to(before)
                    continue
            found = self._beside(gang) or self._in_the_room_of_others(gang, until)
            if found is not None and (not placed or found.cost < cost):
                self._move_to(found.plan)
                self.best = found.plan
            else:
                self._move_to(before)

    def _go_home(self) -> bool:
        """Gangs that are away go home where there is room; whether any did."""
        plan = dict(self.plan)
        mark, queues = self.residual.mark(), self.residual.queues.left
        self.builder.put_back_home(self.residual, plan, self._dearest(self.away))
        self.residual.undo(mark)
        self.residual.queues.left = queues
        came = any(plan.get(i) != self.plan.get(i) for i in self.away)
        if came:
            self._move_to(plan)
        return came

    def _dearest(self, gangs: Iterable[GangIdx]) -> list[GangIdx]:
        every = self.problem.gangs
        return sorted(gangs, key=lambda i: (-every[i].priority, -every[i].value, i))

    def _move_to(self, plan: Plan) -> None:
        gangs = self.problem.gangs
        for index in self.plan.keys() | plan.keys():
            before, after = self.plan.get(index, ()), plan.get(index, ())
            if before is not after and before != after:
                self._release(index, before)
                self._take(index, after)
                queues, gang = self.residual.queues, gangs[index]
                queues.charge(gang, before, -1)
                queues.charge(gang, after)
                away = _is_away(gang, after)
                (self.away.add if away else self.away.discard)(index)
                # What was moved once stays where it is now.
                self.prices.see(index, () if away and self.moves else after)
        self.plan = plan

    # --- where ----------------------------------------------------------------

    def _beside(self, gang: Gang) -> _Priced | None:
        """The plan with a gang for which nobody need go, None where there is no room."""
        mark = self.residual.mark()
        units = self.builder.place(self.residual, gang)
        self.residual.undo(mark)
        if units is None:
            return None
        return _Priced(self._cost(self.plan, ()), {**self.plan, gang.index: units})

    def _in_the_room_of_others(self, gang: Gang, until: float) -> _Priced | None:
        """The plan with a gang where that costs least, None where no victims are enough."""
        best: _Priced | None = None
        needed = _main_demand(self.problem, gang)
        level = _level_of(self.problem, gang)
        prices = self.prices.of_nodes(self.residual, gang, needed, level)
        self._stuck.clear()
        for nodes in self._domains(needed, level, prices):
            if time.monotonic() > until:
                break
            found = self._within(gang, needed, nodes, prices)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

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
    ) -> _Priced | None:
        """The plan with a gang on some nodes, and what that costs."""
        for _ in range(MOST_TRIES if self.moves else 1):
            mark, queues = self.residual.mark(), self.residual.queues.left
            stuck = len(self._stuck)
            try:
                found = self._cleared(gang, needed, nodes, prices)
            finally:
                self.residual.undo(mark)
                self.residual.queues.left = queues
            if found is not None:
                return found if budgets_hold(self.problem, found.plan) else None
            if len(self._stuck) == stuck:
                return None
        return None

    def _cleared(
        self, gang: Gang, needed: Demand, nodes: Ints, prices: NodePrices
    ) -> _Priced | None:
        """The plan with a gang on some nodes that others leave; the residual is changed."""
        lacking: float = needed.count - int(self.residual.row(needed.pod_class)[nodes].sum())
        clearing = _Clearing(self, gang, nodes, needed, prices)
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
        goers = self._dearest(clearing.left)
        queues = self.residual.queues
        queues.charge(gang, units)
        for index in goers:
            leaver = self.problem.gangs[index]
            queues.charge(leaver, self.plan.get(index, ()), -1)
            queues.charge(leaver, clearing.left[index])
        if self.moves:
            if not self._run_elsewhere(plan, goers):
                return None
        else:
            self.builder.put_back_home(self.residual, plan, goers)
            if any(b in plan for i in goers if i not in plan for b in self._based.get(i, ())):
                # What was placed needs its base.
                return None
        return _Priced(self._cost(plan, clearing.left), plan)

    def _run_elsewhere(self, plan: dict[GangIdx, Units], goers: Sequence[GangIdx]) -> bool:
        """Gangs that leave go back home or else to other nodes; whether all of them could."""
        gangs = self.problem.gangs
        self.builder.put_back_home(self.residual, plan, goers)
        for index in sorted(goers, key=lambda i: (-len(gangs[i].scopes), -gangs[i].value, i)):
            if plan.get(index, ()) != gangs[index].home and not self.builder.move(
                self.residual, plan, gangs[index]
            ):
                self._stuck.add(index)
                return False
        return True

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
            if index in self._stuck or (self.moves and index in self.away):
                continue
            victim = self.problem.gangs[index]
            units = left.get(index, self.plan.get(index, ()))
            here = sum(c for _, n, c in units if n == node)
            if not here:
                continue
            extras = _without(victim, units, node)
            if extras is not None:
                cost += here * (A_POD if self.moves else AN_EXTRA + A_POD)
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

    def _cost(self, plan: Plan, changed: Iterable[GangIdx]) -> Cost:
        """What a plan costs that differs from the best so far in some gangs."""
        value = [0] * len(self._rank)
        extras = pods = 0
        for index in self.away.union(changed):
            gang = self.problem.gangs[index]
            units = plan.get(index, ())
            if units is gang.home or not gang.home or units == gang.home:
                continue
            if self.moves:
                pods += sum(h.units for h in gang.home) - sum(kept_by_demand(gang, units).values())
                continue
            lost = sum(h.units for h in gang.home) - sum(c for *_, c in units)
            pods += lost
            if index in plan:
                extras += lost
            else:
                value[self._rank[gang.priority]] += gang.value
        return Cost(tuple(value), extras, pods)

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
    for q, requirement in enumerate(gang.requirements):
        lost = sum(c for d, c in gone if d in requirement.demands)
        if lost:
            mine = sum(c for d, _, c in units if d in requirement.demands)
            if mine - lost < least_of(gang, q):
                return None
    return tuple(unit for unit in units if unit.node != node)


def _is_away(gang: Gang, units: Units) -> bool:
    """Whether not all of a gang that runs is at home."""
    if units is gang.home or units == gang.home:
        return False
    there = Counter({(d, n): count for d, n, count in units})
    return any(there[h.demand, h.node] < h.units for h in gang.home)
