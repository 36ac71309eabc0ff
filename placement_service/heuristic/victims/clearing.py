"""Clears nodes of a domain of victims, the cheapest first for the room that each gives, and full
queues.

Extras of a gang go before the whole gang does, and no more pods than disruption budgets allow. Once
some of a gang have gone its other nodes may be cheaper, and are priced again.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import MANY, Ints
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Units
from placement_service.formulation.problem import Demand, Gang
from placement_service.heuristic.one_gang.domain_choice import minimum_units
from placement_service.heuristic.victims.plan import VictimPlan
from placement_service.heuristic.victims.prices import A_POD, AN_EXTRA, NodePrices, least_of


class _Left(NamedTuple):
    """What is left of a gang: its units by node as (demand, units), what all of them cost, and how
    many of each requirement it could lose and still stay.
    """

    on_node: dict[int, list[tuple[int, int]]]
    cost: float
    spare: list[int]


class _Price(NamedTuple):
    """What a slot costs on a node that is cleared, and the gangs that leave it; those that lose
    more than extras go whole.
    """

    each: float
    goes_whole: dict[GangIdx, bool]


class Clearing:
    """Nodes of a domain, cleared one after another; `left` is what stays of their gangs.

    What else changes the plan meanwhile has to be undone before more nodes are cleared.
    """

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
        request = standing.problem.request[needed.pod_class]
        #: The resources that it asks for, as columns, and how much of each.
        self._asked = [(r, int(request[r])) for r in np.flatnonzero(request).tolist()]
        #: What a unit of each pod class costs besides.
        self._again = prices.again
        self._inside = set(nodes.tolist())
        self._nodes_of: dict[int, int] = {}
        self.left: dict[GangIdx, Units] = {}
        self._facts: dict[GangIdx, _Left] = {}
        able = nodes[prices.each[nodes] < np.inf]
        self._heap = list(zip(prices.each[able].tolist(), able.tolist(), strict=True))
        heapq.heapify(self._heap)
        #: Prices of nodes as they are now; None where clearing would not help.
        self._now: dict[int, _Price | None] = {}
        #: Slots that nodes have now.
        self._slots: dict[int, int] = {}
        #: The pods of each budget that may still go.
        self._may_go = list(standing.budgets.left)
        #: Nodes that may have become cheaper, and are not in the heap as such.
        self._cheaper: set[int] = set()

    def _nodes_inside(self, index: GangIdx) -> int:
        if index not in self._nodes_of:
            self._nodes_of[index] = len(self._standing.homes[index] & self._inside)
        return max(1, self._nodes_of[index])

    def _units(self, index: GangIdx) -> Units:
        return self.left.get(index, self._standing.plan.get(index, ()))

    def _left_of(self, index: GangIdx) -> _Left:
        facts = self._facts.get(index)
        if facts is None:
            gang = self._standing.problem.gangs[index]
            facts = self._facts[index] = self._find(gang, self._units(index))
        return facts

    def _find(self, gang: Gang, units: Units) -> _Left:
        on_node: dict[int, list[tuple[int, int]]] = {}
        of_demand = [0] * len(gang.demands)
        for d, node, count in units:
            on_node.setdefault(node, []).append((d, count))
            of_demand[d] += count
        cost = sum(c * (A_POD + self._again[gang.demands[d].pod_class]) for d, _, c in units)
        spare = [
            sum(of_demand[d] for d in requirement.demands) - least_of(gang, q)
            for q, requirement in enumerate(gang.requirements)
        ]
        return _Left(on_node, cost, spare)

    def _slots_on(self, node: int) -> int:
        """Slots on a node as it is now."""
        if node not in self._slots:
            able = self._standing.problem.eligible[self._needed.pod_class, node]
            free = self._standing.residual.free[node].tolist()
            self._slots[node] = _slots(free, self._asked) if able else 0
        return self._slots[node]

    def _price(self, node: int) -> _Price | None:
        """The price of clearing a node; None if it would not help."""
        standing, needed = self._standing, self._needed
        if not standing.problem.eligible[needed.pod_class, node]:
            return None
        goes_whole: dict[GangIdx, bool] = {}
        gone = Counter[int]()
        cost = 0.0
        free: list[int] = standing.residual.free[node].tolist()
        for index in standing.on_node[node]:
            able = (
                index not in standing.away
                if standing.moves
                else standing.gives_way(index, self._gang)
            )
            if not able or index in self._stuck:
                continue
            left = self._left_of(index)
            units = left.on_node.get(node)
            if not units:
                continue
            demands = standing.problem.gangs[index].demands
            are_extras = self._are_extras(index, units)
            lost = self._pods_of_budgets(index, node if are_extras else None)
            if any(gone[b] + pods > self._may_go[b] for b, pods in lost.items()):
                continue
            if are_extras:
                here = sum(count for _, count in units)
                cost += here * (A_POD if standing.moves else AN_EXTRA + A_POD)
                cost += sum(count * self._again[demands[d].pod_class] for d, count in units)
                goes_whole[index] = False
            elif standing.prices.may_go_whole(index, self._gang):
                whole = standing.prices.value[index] + left.cost
                cost += whole / min(self._nodes_inside(index), needed.count)
                goes_whole[index] = True
            else:
                continue
            gone.update(lost)
            for d, count in units:
                request = standing.requests[demands[d].pod_class]
                for r, _ in self._asked:
                    free[r] += count * request[r]
        slots = _slots(free, self._asked) - self._slots_on(node)
        if slots <= 0:
            return None
        return _Price(cost / min(slots, needed.count), goes_whole)

    def _are_extras(self, index: GangIdx, units: Sequence[tuple[int, int]]) -> bool:
        """Whether a gang keeps its minimum when it loses these units."""
        requirement_of, spare = self._standing.requirement_of(index), self._left_of(index).spare
        if len(units) == 1:
            ((d, count),) = units
            return count <= spare[requirement_of[d]]
        lost = Counter[int]()
        for d, count in units:
            lost[requirement_of[d]] += count
        return all(count <= spare[q] for q, count in lost.items())

    def _pods_of_budgets(self, index: GangIdx, node: int | None) -> Mapping[int, int]:
        """The pods of each budget that a gang has on a node, or everywhere."""
        if not self._may_go:
            return {}
        gang = self._standing.problem.gangs[index]
        mine = (unit for unit in self._units(index) if node is None or unit.node == node)
        return self._standing.budgets.pods(gang, mine)

    def _price_now(self, node: int) -> _Price | None:
        if node not in self._now:
            self._now[node] = self._price(node)
        return self._now[node]

    def _push(self, node: int) -> None:
        priced = self._price_now(node)
        if priced is not None:
            heapq.heappush(self._heap, (priced.each, node))

    def clear(self, slots: float) -> bool:
        """Clears nodes for so many slots; returns true when nothing is left to clear."""
        while slots > 0 and self._any_left():
            price, node = heapq.heappop(self._heap)
            known = node in self._now
            priced = self._price_now(node)
            if priced is None:
                continue
            if priced.each > price * (1 + 1e-9):
                # Where the price was known it is in the heap already.
                if not known:
                    self._push(node)
                continue
            slots -= self._clear(node, priced)
        return not (self._heap or self._cheaper)

    def _any_left(self) -> bool:
        """Whether there are nodes to clear, each of them in the heap with its price."""
        for node in self._cheaper:
            self._push(node)
        self._cheaper.clear()
        return bool(self._heap)

    def _clear(self, node: int, priced: _Price) -> int:
        """Clears a node; returns how many slots that gives."""
        standing = self._standing
        # A gang that goes whole frees other nodes, too.
        touched = {n for i in priced.goes_whole for n in standing.homes[i]} & self._inside
        before = sum(map(self._slots_on, touched))
        for index, whole in priced.goes_whole.items():
            units = self._units(index)
            keeps = () if whole else tuple(unit for unit in units if unit.node != node)
            for b, pods in self._pods_of_budgets(index, None if whole else node).items():
                self._may_go[b] -= pods
                # With less that may go, no node is cheaper, and any may be out of reach.
                self._now.clear()
            self._let_go(index, units, keeps)
        for other in touched:
            self._now.pop(other, None)
            self._slots.pop(other, None)
        # Other nodes of the same gangs are cheaper to clear now.
        self._cheaper |= touched - {node}
        return sum(map(self._slots_on, touched)) - before

    def _let_go(self, index: GangIdx, units: Units, keeps: Units) -> None:
        standing, gang = self._standing, self._standing.problem.gangs[index]
        standing.release(index, units, keeps)
        standing.residual.queues.charge(gang, units, -1)
        standing.residual.queues.charge(gang, keeps)
        self.left[index] = keeps
        self._facts.pop(index, None)

    def make_room_in_queues(self) -> None:
        """Lets gangs of full queues go, wherever they run, the cheapest first for what each gives,
        extras before whole gangs.
        """
        queues = self._standing.residual.queues
        for row in queues.lacks(self._gang, minimum_units(self._gang)):
            able = self._standing.in_row(row, self._gang)
            able = [i for i in able if i not in self._stuck and self._units(i)]
            for whole in (False, True):
                for index in sorted(able, key=partial(self._price_in_row, row, whole)):
                    lacking = queues.lacks(self._gang, minimum_units(self._gang)).get(row, 0)
                    if lacking:
                        self._leave_row(row, index, lacking, whole=whole)

    def _price_in_row(self, row: int, whole: bool, index: GangIdx) -> float:
        """What each unit of a row costs that a gang gives up, those first that run inside."""
        standing = self._standing
        gang, units = standing.problem.gangs[index], self._units(index)
        cost = standing.prices.value[index] * whole + self._left_of(index).cost
        gives = standing.residual.queues.weight(row, gang, units)
        outside = not any(unit.node in self._inside for unit in units)
        return float((cost + A_POD * outside) / max(1, gives))

    def _leave_row(self, row: int, index: GangIdx, lacking: int, *, whole: bool) -> None:
        """Lets a gang go, or as many of its extras as a row lacks."""
        standing = self._standing
        gang, units = standing.problem.gangs[index], self._units(index)
        if whole and not standing.prices.may_go_whole(index, self._gang):
            return
        keeps = () if whole else self._without_extras(row, index, lacking)
        if keeps == units:
            return
        lost = Counter(standing.budgets.pods(gang, units))
        lost.subtract(standing.budgets.pods(gang, keeps))
        if any(pods > self._may_go[b] for b, pods in lost.items()):
            return
        for b, pods in lost.items():
            self._may_go[b] -= pods
        self._let_go(index, units, keeps)
        self._now.clear()
        self._slots.clear()
        self._cheaper |= standing.homes[index] & self._inside

    def _without_extras(self, row: int, index: GangIdx, lacking: int) -> Units:
        """What a gang keeps that gives up as many extras as a row lacks, if it has so many."""
        standing, queues = self._standing, self._standing.residual.queues
        gang, spare = standing.problem.gangs[index], [*self._left_of(index).spare]
        keeps = []
        for unit in self._units(index):
            q = standing.requirement_of(index)[unit.demand]
            each = queues.weight(row, gang, (unit._replace(units=1),))
            gone = 0
            if each and lacking > 0:
                gone = min(unit.units, max(0, spare[q]), -(-lacking // each))
            spare[q] -= gone
            lacking -= gone * each
            if gone < unit.units:
                keeps.append(unit._replace(units=unit.units - gone))
        return tuple(keeps)


def _slots(free: Sequence[int], asked: Sequence[tuple[int, int]]) -> int:
    """How many units fit that ask for these amounts, by column, of what is free."""
    return min([MANY, *[free[r] // amount for r, amount in asked]])
