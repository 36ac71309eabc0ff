"""Where room for waiting gangs costs least while nothing has moved: what is open in a core.

What costs least for one gang alone is known from the prices of the first answer.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from placement_service.cp_sat.victims.coming_units import ComingUnits
from placement_service.cp_sat.victims.core import Core
from placement_service.cp_sat.victims.waiting_parts import WaitingPart
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.plan import Plan, home_plan
from placement_service.formulation.problem import Demand, Gang
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims.plan import VictimPlan
from placement_service.heuristic.victims.prices import NodePrices, slots_lacking


class CheapRoom:
    """Where room for waiting gangs costs least, each alone, while nothing has moved. `share` is how
    many times the room that units need is open.
    """

    def __init__(self, builder: Builder, coming: ComingUnits, share: float) -> None:
        self._problem, self._coming, self._share = builder.problem, coming, share
        self._now = VictimPlan(builder, home_plan(builder.problem))
        self._gangs = {g.index: g for g in coming.waiting}
        self._prices: dict[tuple[int, int, int, int], NodePrices] = {}

    def core(self, domains: int, plan: Plan) -> Core:
        """The core with so many domains for each part, and with all that a plan uses."""
        problem, coming = self._problem, self._coming
        nodes = self._in_use(plan)
        anywhere = self._units()
        chosen: dict[int, set[int]] = {}
        for p, part in enumerate(coming.parts):
            of_level = problem.levels[part.level].domain
            gang = self._gangs[part.gang]
            chosen[p] = self._used(part, plan)
            for pod_class, units in part.units.items():
                demand = Demand(ClassIdx(pod_class), units, ())
                prices = self._prices_of(gang, demand, part.level)
                chosen[p] |= self._cheapest_domains(demand, part.level, prices, domains)
                for d in chosen[p]:
                    inside = np.flatnonzero(of_level == d)
                    nodes[self._cheapest_nodes(demand, prices, inside)] = True
                if not part.within:
                    anywhere[gang.priority, pod_class] -= units
        everywhere = np.arange(problem.node_count)
        for gang in coming.waiting:
            for pod_class in {d.pod_class for d in gang.demands}.intersection(coming.asked):
                # Gangs that may take from the same victims are counted together.
                units = anywhere.pop((gang.priority, pod_class), 0)
                demand = Demand(pod_class, units, ())
                if units > 0:
                    prices = self._prices_of(gang, demand, -1)
                    nodes[self._cheapest_nodes(demand, prices, everywhere)] = True
        return Core(nodes, chosen)

    def _in_use(self, plan: Plan) -> Bools:
        """Nodes that the plan uses for what comes, and those that moved pods may take at once."""
        found = np.zeros(self._problem.node_count, dtype=np.bool_)
        homes = {g.index: {(h.demand, h.node) for h in g.home} for g in self._problem.gangs}
        for g, units in plan.items():
            for d, n, _ in units:
                found[n] |= (d, n) not in homes[g]
        for pod_class in self._coming.again:
            found |= self._now.residual.row(pod_class) > 0
        return found

    def _units(self) -> Counter[tuple[int, int]]:
        """Units that wait, by priority and pod class."""
        found: Counter[tuple[int, int]] = Counter()
        for gang in self._coming.waiting:
            for demand in gang.demands:
                found[gang.priority, demand.pod_class] += demand.count
        return found

    def _used(self, part: WaitingPart, plan: Plan) -> set[int]:
        """The domains of a part in a plan."""
        of_level = self._problem.levels[part.level].domain
        units = plan.get(part.gang, ())
        return {int(of_level[n]) for d, n, _ in units if d in part.demands}

    def _prices_of(self, gang: Gang, demand: Demand, level: int) -> NodePrices:
        key = gang.index, demand.pod_class, demand.count, level
        if key not in self._prices:
            now = self._now
            lacking = 0
            if now.moves:
                lacking = slots_lacking(now.residual, demand, self._coming.waiting)
            self._prices[key] = now.prices.of_nodes(now.residual, gang, demand, level, lacking)
        return self._prices[key]

    def _cheapest_domains(
        self, demand: Demand, level: int, prices: NodePrices, most: int
    ) -> set[int]:
        free = self._now.residual.slots(demand.pod_class, level)
        cost = prices.by_domain(self._problem.levels[level].domain, free, demand.count)
        order = np.argsort(cost, kind="stable")[:most]
        return set(order[cost[order] < np.inf].tolist())

    def _cheapest_nodes(self, demand: Demand, prices: NodePrices, among: Ints) -> Ints:
        """Some of these nodes, the cheapest, for the units of a demand and some more."""
        free = self._now.residual.row(demand.pod_class)[among]
        cost = np.where(free > 0, 0.0, prices.each[among])
        slots = np.where(free > 0, free, prices.slots[among])
        order = np.argsort(cost, kind="stable")
        order = order[cost[order] < np.inf]
        wanted = demand.count * self._share
        return among[order[: 1 + int(np.searchsorted(np.cumsum(slots[order]), wanted))]]
