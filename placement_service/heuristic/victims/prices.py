"""What it costs to clear each node of the running gangs that may give way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_service.formulation.arrays import Ints, pods_that_fit
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.indices import GangIdx, NodeIdx
from placement_service.formulation.plan import Plan, Units, home_plan
from placement_service.formulation.problem import Demand, Gang, Problem
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.victims.budget_room import BudgetRoom

Floats = NDArray[np.float64]

#: How much more a GPU counts at the next higher priority of running gangs.
NEXT_RANK = 1e4
#: What an extra and a pod count in relation to a GPU of a minimum.
AN_EXTRA = 1e-4
A_POD = 1e-8

#: Below every priority.
NOBODYS = -(1 << 62)


@dataclass(frozen=True, slots=True, eq=False)
class NodePrices:
    """What clearing each node alone costs for each slot that it gives [N], and the slots [N].

    `together` is the same where other nodes of its domain are cleared, too: a gang gives up its
    extras only once there. `again` is what a unit of each pod class costs besides [S], where it
    takes slots elsewhere.
    """

    each: Floats
    slots: Ints
    again: Sequence[float]
    together: Floats

    def last_of(self, count: int) -> float:
        """What the dearest of the `count` cheapest slots costs; 0 where there are none."""
        order = np.argsort(self.each, kind="stable")
        order = order[self.each[order] < np.inf]
        if not len(order):
            return 0.0
        at = int(np.searchsorted(np.cumsum(self.slots[order]), count))
        return float(self.each[order[min(at, len(order) - 1)]])

    def by_domain(self, domain: Ints, now: Ints, count: int) -> Floats:
        """The least that `count` slots cost in each domain [D], besides those that are free now."""
        order = np.argsort(self.together, kind="stable")
        order = order[(self.together[order] < np.inf) & (domain[order] >= 0)]
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
        cost = np.bincount(at, used * self.together[order], len(now))
        offered = np.bincount(at, slots, len(now))
        return np.where(offered >= lacking, cost, np.inf)


class _Places(NamedTuple):
    """The place of each entry: its gang in a domain of some level; and the nodes of the place."""

    place: Ints
    nodes: Ints


class Prices:
    """Running pods as arrays, to price all nodes at once: entries are (gang, demand, node)."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._problem = problem
        homes = [(g, home) for g in problem.gangs for home in g.home]
        self._gang = np.array([g.index for g, _ in homes], dtype=np.int64)
        self._node = np.array([home.node for _, home in homes], dtype=np.int64)
        classes = [g.demands[home.demand].pod_class for g, home in homes]
        self._request = problem.request[classes]
        self._class = np.array(classes, dtype=np.int64)
        self._entry = {(g.index, h.demand, h.node): e for e, (g, h) in enumerate(homes)}
        self._home_units = np.array([home.units for _, home in homes], dtype=np.int64)
        #: The entries of each gang: they follow each other.
        self._entries: dict[int, slice] = {}
        least: list[int] = []
        requirement: list[int] = []
        for g in problem.gangs:
            if g.home:
                of_demand, known = requirements_of_demands(g), len(least)
                least += [least_of(g, q) for q in range(len(g.requirements))]
                self._entries[g.index] = slice(len(requirement), len(requirement) + len(g.home))
                requirement += [known + of_demand[home.demand] for home in g.home]
        self._requirement = np.array(requirement, dtype=np.int64)
        self._least = np.array(least, dtype=np.int64)
        self._units = np.zeros(len(homes), dtype=np.int64)
        self._bases = {g.base for g in problem.gangs if g.home}
        budgets = BudgetRoom(problem, home_plan(problem))
        ranks = {p: r for r, p in enumerate(sorted({g.priority for g in problem.gangs if g.home}))}
        #: Whether pods that leave their node run elsewhere.
        self._moves = any(g.keeps for g in problem.gangs)
        self._an_extra = A_POD if self._moves else AN_EXTRA + A_POD
        #: What a whole gang costs, beside its pods.
        self.value = np.zeros(len(problem.gangs))
        self._priority = np.full(len(problem.gangs), np.iinfo(np.int64).max)
        #: What a unit of each pod class costs besides where it takes no slots elsewhere.
        self._nothing = np.zeros(len(problem.request))
        self._none: list[float] = self._nothing.tolist()
        #: By level.
        self._places: dict[int, _Places] = {}
        for g in problem.gangs:
            if g.home:
                rank = min(ranks[g.priority], 20)
                if not g.keeps:
                    self.value[g.index] = max(1, g.value) / UNITS_PER_GPU * NEXT_RANK**rank
                bound = g.index in self._bases or g.only_extras
                if not bound and budgets.allow(budgets.pods(g, g.home)):
                    # A moved gang still runs, so its priority does not count.
                    self._priority[g.index] = NOBODYS if g.keeps else g.priority
                self.see(g.index, plan.get(g.index, ()))

    def see(self, gang: GangIdx, units: Units) -> None:
        """Notes what stays of a gang."""
        mine = self._entries.get(gang)
        if mine is None:
            return
        if units is self._problem.gangs[gang].home:
            self._units[mine] = self._home_units[mine]
            return
        self._units[mine] = 0
        for d, n, count in units:
            e = self._entry.get((gang, d, NodeIdx(n)), -1)
            if e >= 0:
                self._units[e] = count

    def may_go_whole(self, victim: GangIdx, gang: Gang) -> bool:
        """Whether a victim may lose its minimum for a gang; gangs that others need may not."""
        return bool(self._priority[victim] <= gang.priority)

    def of_nodes(
        self,
        residual: ResidualCapacity,
        gang: Gang,
        needed: Demand,
        level: int,
        lacking: int = 0,
        *,
        within: Ints | None = None,
    ) -> NodePrices:
        """The prices of all nodes, each as if it were cleared alone; or of those `within` a domain
        of the level, while the others are not to be cleared.

        With moves, so many slots are `lacking` for all that wait. Then a pod that moves and takes
        slots elsewhere gains none: each costs as much as the last of the cheapest that are lacking.
        """
        if lacking <= 0:
            return self._of_nodes(residual, gang, needed, level, self._nothing, within)
        request = self._problem.request
        takes = pods_that_fit(request, request[needed.pod_class])
        never = np.where(takes > 0, np.inf, 0.0)
        others = self._of_nodes(residual, gang, needed, level, never)
        again = takes.astype(np.float64) * others.last_of(lacking)
        return self._of_nodes(residual, gang, needed, level, again, within)

    def _of_nodes(
        self,
        residual: ResidualCapacity,
        gang: Gang,
        needed: Demand,
        level: int,
        again: Floats,
        within: Ints | None = None,
    ) -> NodePrices:
        problem, count = self._problem, self._problem.node_count
        there = np.bincount(self._requirement, self._units, len(self._least))
        left = (there - self._least)[self._requirement]
        may_go = (self._units > 0) & (
            (self._units <= left) | (self._priority[self._gang] <= gang.priority)
        )
        if within is not None:
            inside = np.zeros(count, dtype=bool)
            inside[within] = True
            may_go &= inside[self._node]
        # From here on only pods that may go count.
        goers = np.flatnonzero(may_go)
        units, node, gangs = self._units[goers], self._node[goers], self._gang[goers]
        is_extra = units <= left[goers]
        request = problem.request[needed.pod_class]
        asked = np.flatnonzero(request)
        room = residual.free[:, asked]
        for column, r in zip(room.T, asked, strict=True):
            np.add.at(column, node, self._request[goers, r] * units)
        # A gang frees all its nodes in the domain at once.
        places = self._places_at(level)
        # Where nobody is, nobody needs another place, whatever that costs.
        more = self._units * np.where(self._units > 0, again[self._class], 0)
        pods = np.bincount(self._gang, A_POD * self._units + more, len(self.value))[gangs]
        whole = (self.value[gangs] + pods) / np.minimum(places.nodes[goers], needed.count)
        cost = np.where(is_extra, units * self._an_extra + more[goers], whole)
        slots = pods_that_fit(room, request[asked]) - residual.row(needed.pod_class)
        slots = np.where(problem.eligible[needed.pod_class], np.minimum(slots, needed.count), 0)

        def by_slot(cost: Floats) -> Floats:
            total = np.bincount(node, cost, count)
            return np.where(slots > 0, total / np.maximum(slots, 1), np.inf)

        each = together = by_slot(cost)
        if not self._moves and within is None:
            spent = self._spent(places.place[goers], self._requirement[goers], each[node], units)
            together = by_slot(np.where(spent <= left[goers], cost, whole))
        of_each = self._none if again is self._nothing else again.tolist()
        return NodePrices(each, slots, of_each, together)

    def _spent(self, place: Ints, requirement: Ints, price: Floats, units: Ints) -> Ints:
        """Units of its requirement that each entry and cheaper ones of its gang in the same place
        give up; of entries that may go.
        """
        group = place * (int(requirement.max(initial=0)) + 1) + requirement
        order = np.lexsort((units, price, group))
        running = np.cumsum(units[order])
        begin = np.searchsorted(group[order], group[order])
        spent = np.empty_like(units)
        spent[order] = running - (running - units[order])[begin]
        return spent

    def _places_at(self, level: int) -> _Places:
        if level not in self._places:
            of = self._problem.levels[level].domain if level >= 0 else None
            at = np.zeros_like(self._node) if of is None else of[self._node]
            places = self._gang * (int(at.max(initial=0)) + 2) + at + 1
            _, place, nodes = np.unique(places, return_inverse=True, return_counts=True)
            self._places[level] = _Places(place, nodes[place])
        return self._places[level]


def requirements_of_demands(gang: Gang) -> list[int]:
    """The requirement that each demand counts for."""
    found = [0] * len(gang.demands)
    for q, requirement in enumerate(gang.requirements):
        for d in requirement.demands:
            found[d] = q
    return found


def least_of(gang: Gang, requirement: int) -> int:
    """Units of a requirement that have to stay at home for the rest of a gang to stay."""
    if gang.keeps:
        return gang.keeps[requirement] if requirement < len(gang.keeps) else 0
    return max(0, gang.requirements[requirement].missing)


def slots_lacking(residual: ResidualCapacity, needed: Demand, waiting: Iterable[Gang]) -> int:
    """Slots that those who wait, and do not run, need besides those that are free everywhere."""
    request = residual.problem.request
    takes = pods_that_fit(request, request[needed.pod_class])
    wanted = sum(
        int(takes[d.pod_class]) * d.count for g in waiting if not g.home for d in g.demands
    )
    return wanted - int(residual.row(needed.pod_class).sum())
