"""Clears nodes of a domain of victims, the cheapest first for the room that each gives.

Extras of a gang go before the whole gang does. Once some of a gang have gone its other nodes may be
cheaper, and are priced again.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import MANY, Ints
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Units
from placement_service.formulation.problem import Demand, Gang
from placement_service.heuristic.victim_plan import VictimPlan
from placement_service.heuristic.victim_prices import A_POD, AN_EXTRA, NodePrices, least_of


class _Price(NamedTuple):
    """What a slot costs on a node that is cleared, and what stays of the gangs on it."""

    each: float
    keeps: dict[GangIdx, Units]


class Clearing:
    """Nodes of a domain, cleared one after another; `left` is what stays of their gangs."""

    def __init__(
        self,
        standing: VictimPlan,
        gang: Gang,
        needed: Demand,
        nodes: Ints,
        prices: NodePrices,
        stuck: Collection[GangIdx],
    ) -> None:
        """`prices` are those of nodes cleared alone; gangs that are `stuck` cannot go."""
        self._standing = standing
        self._stuck = stuck
        self._gang = gang
        self._needed = needed
        #: The resources that it asks for, as columns.
        self._asked = np.flatnonzero(standing.problem.request[needed.pod_class])
        self._prices = prices
        self._nodes = nodes
        self._inside = set(nodes.tolist())
        self._nodes_of: dict[int, int] = {}
        self.left: dict[GangIdx, Units] = {}
        able = nodes[prices.each[nodes] < np.inf]
        self._heap = list(zip(prices.each[able].tolist(), able.tolist(), strict=True))
        heapq.heapify(self._heap)

    def _nodes_inside(self, index: int) -> int:
        if index not in self._nodes_of:
            homes = {home.node for home in self._standing.problem.gangs[index].home}
            self._nodes_of[index] = len(homes & self._inside)
        return max(1, self._nodes_of[index])

    def _again(self, victim: Gang, demand: int) -> float:
        return float(self._prices.again[victim.demands[demand].pod_class])

    def _price(self, node: int) -> _Price | None:
        """The price of clearing a node; None if it would not help."""
        standing, needed = self._standing, self._needed
        problem, residual, prices = standing.problem, standing.residual, standing.prices
        keeps: dict[GangIdx, Units] = {}
        cost = 0.0
        request = problem.request[needed.pod_class]
        free = residual.free[node].copy()
        before = int(residual.row(needed.pod_class)[node])
        for index in standing.on_node[node]:
            if index in self._stuck or (standing.moves and index in standing.away):
                continue
            victim = problem.gangs[index]
            units = self.left.get(index, standing.plan.get(index, ()))
            here = sum(c for _, n, c in units if n == node)
            if not here:
                continue
            extras = _without(victim, units, node)
            if extras is not None:
                cost += here * (A_POD if standing.moves else AN_EXTRA + A_POD)
                cost += sum(c * self._again(victim, d) for d, n, c in units if n == node)
            elif prices.may_go_whole(victim, self._gang):
                whole = prices.value[index]
                whole += sum(c * (A_POD + self._again(victim, d)) for d, _, c in units)
                cost += whole / min(self._nodes_inside(index), needed.count)
            else:
                continue
            keeps[index] = () if extras is None else extras
            for d, n, c in units:
                if n == node:
                    free += c * problem.request[victim.demands[d].pod_class]
        slots = 0
        if problem.eligible[needed.pod_class][node]:
            used = self._asked
            slots = int((free[used] // request[used]).min(initial=MANY)) - before
        if slots <= 0:
            return None
        return _Price(cost / min(slots, needed.count), keeps)

    def _push(self, node: int) -> None:
        priced = self._price(node)
        if priced is not None:
            heapq.heappush(self._heap, (priced.each, node))

    def clear(self, slots: float) -> bool:
        """Clears nodes for so many slots; returns true when nothing is left to clear."""
        problem = self._standing.problem
        row = self._standing.residual.row
        while slots > 0 and self._heap:
            price, node = heapq.heappop(self._heap)
            priced = self._price(node)
            if priced is None:
                continue
            if priced.each > price * (1 + 1e-9):
                heapq.heappush(self._heap, (priced.each, node))
                continue
            freed = int(row(self._needed.pod_class)[self._nodes].sum())
            touched: set[int] = set()
            for index, keeps in priced.keeps.items():
                units = self.left.get(index, self._standing.plan.get(index, ()))
                self._standing.release(index, units, keeps)
                self.left[index] = keeps
                touched |= {home.node for home in problem.gangs[index].home}
            # A gang that goes whole frees other nodes, too.
            slots -= int(row(self._needed.pod_class)[self._nodes].sum()) - freed
            # Other nodes of the same gangs are cheaper to clear now.
            for other in (touched & self._inside) - {node}:
                self._push(other)
        return not self._heap


def _without(gang: Gang, units: Units, node: int) -> Units | None:
    """What stays of a gang that gives up a node; None when it would lose more than extras."""
    gone: Sequence[tuple[int, int]] = [(d, c) for d, n, c in units if n == node]
    for q, requirement in enumerate(gang.requirements):
        lost = sum(c for d, c in gone if d in requirement.demands)
        if lost:
            mine = sum(c for d, _, c in units if d in requirement.demands)
            if mine - lost < least_of(gang, q):
                return None
    return tuple(unit for unit in units if unit.node != node)
