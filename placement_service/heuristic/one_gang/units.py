"""Units of one gang on nodes, with exact undo. Nothing here knows of scopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from placement_service.entities.deadline import check_time
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.levels import sums_by_domain
from placement_service.formulation.plan import Units, units_of
from placement_service.formulation.problem import DemandUnits, Gang
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.node_choice import Chosen
from placement_service.heuristic.one_gang.regions import EVERYWHERE, Region
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: What a pod in a domain counts in a key: more than all else.
_CROWDED = 1 << 50


class NodeUnits(NamedTuple):
    """So many units on a node."""

    node: int
    units: int


class Mark(NamedTuple):
    """A moment to go back to: how much the residual capacity and the gang had written down."""

    residual: int
    taken: int


class GangUnits:
    """Takes and gives back units of one gang."""

    def __init__(
        self,
        topology: Topology,
        residual: ResidualCapacity,
        gang: Gang,
        until: float = float("inf"),
    ) -> None:
        self.topology = topology
        self.problem = topology.problem
        self.residual = residual
        self.gang = gang
        self.taken: dict[tuple[int, int], int] = {}
        self._until = until
        self.journal: list[tuple[int, Sequence[NodeUnits]]] = []

    def units(self) -> Units:
        """What the gang has taken so far."""
        return units_of(self.taken)

    def take(self, demand: int, nodes: Ints, counts: Ints) -> None:
        """Place units of a demand on distinct nodes that are known to have room."""
        self.residual.take(self.gang.demands[demand].pod_class, nodes, counts)
        self.note(demand, list(map(NodeUnits, nodes.tolist(), counts.tolist())))

    def take_in_turn(self, parts: Sequence[DemandUnits], chosen: Chosen) -> None:
        """Place units of one demand after another, all of one pod class, on nodes in their order.

        `parts` together are as many units as are chosen.
        """
        self.residual.take(self.gang.demands[parts[0].demand].pod_class, *chosen)
        on_nodes = zip(chosen.nodes.tolist(), chosen.counts.tolist(), strict=True)
        node, room = next(on_nodes)
        for demand, missing in parts:
            mine: list[NodeUnits] = []
            while missing:
                if not room:
                    node, room = next(on_nodes)
                units = min(room, missing)
                mine.append(NodeUnits(node, units))
                room -= units
                missing -= units
            self.note(demand, mine)

    def note(self, demand: int, on_nodes: Sequence[NodeUnits]) -> None:
        """Remember units that are taken."""
        self.journal.append((demand, on_nodes))
        for node, units in on_nodes:
            self.taken[demand, node] = self.taken.get((demand, node), 0) + units

    def give_up(self) -> None:
        """Gives back all units, also when others were taken since."""
        for (d, node), count in self.taken.items():
            if count:
                pod_class = self.gang.demands[d].pod_class
                self.residual.take(pod_class, np.array([node]), np.array([-count]))
        self.taken.clear()

    def mark(self) -> Mark:
        """Where `undo` goes back to."""
        return Mark(self.residual.mark(), len(self.journal))

    def undo(self, mark: Mark) -> None:
        """Gives back all that was taken since a mark."""
        self.residual.undo(mark.residual)
        while len(self.journal) > mark.taken:
            demand, on_nodes = self.journal.pop()
            for node, units in on_nodes:
                self.taken[demand, node] -= units

    def check_time(self) -> None:
        """Raises OutOfTime when there is no time left."""
        check_time(self._until)

    # --- room -------------------------------------------------------------

    def sums(self, pod_class: ClassIdx, level: int, region: Region) -> Ints:
        """Units of a pod class per domain of a level [D], within a region."""
        own = self.topology.domains(region, level)
        if own is None:
            return self.room(pod_class, level, region, None)
        sums = np.zeros(self.problem.levels[level].count, dtype=np.int64)
        sums[own] = self.room(pod_class, level, region, own)
        return sums

    def room(self, pod_class: ClassIdx, level: int, region: Region, own: Ints | None) -> Ints:
        """The same, only for domains that the region holds whole; None for all."""
        if region.nodes is None:
            return self.residual.open_slots(pod_class, level)
        if own is not None:
            return self.residual.open_slots(pod_class, level)[own]
        of = self.problem.levels[level]
        domain = of.domain[region.nodes]
        inside = domain >= 0
        row = self.residual.open_row(pod_class)[region.nodes]
        return np.bincount(domain[inside], row[inside], of.count).astype(np.int64)

    def total_room(self, pod_class: ClassIdx, region: Region) -> int:
        """Units of a pod class that fit in a region."""
        row = self.residual.open_row(pod_class)
        return int((row if region.nodes is None else row[region.nodes]).sum())

    # --- pods -------------------------------------------------------------

    def loose(self, demand: int, count: int, region: Region = EVERYWHERE) -> int:
        """Place up to `count` units on the best nodes; returns how many."""
        pod_class = self.gang.demands[demand].pod_class
        if count <= 0:
            return 0
        if self.is_one_by_one(pod_class):
            done = self._at_once(demand, count, region)
            return self._one_by_one(demand, count, region) if done is None else done
        chosen = self.topology.choice.best(self.residual, pod_class, region, count)
        if not len(chosen.nodes):
            return 0
        self.take(demand, chosen.nodes, chosen.counts)
        return int(chosen.counts.sum())

    def is_one_by_one(self, pod_class: ClassIdx) -> bool:
        """Whether where a pod of the class is may open or close nodes to the next one."""
        if not self.problem.special[pod_class]:
            return False
        return not self.residual.closed_by_others(pod_class)

    def _one_by_one(self, demand: int, count: int, region: Region) -> int:
        """Units under rules between pods, each placed with the rules as they are then."""
        pod_class = self.gang.demands[demand].pod_class
        nodes = self._near_each_other(pod_class, count, region).nodes
        done = 0
        while done < count:
            self.check_time()
            able = self.residual.allowed(pod_class) & (self.residual.row(pod_class) > 0)
            chosen = np.flatnonzero(able) if nodes is None else nodes[able[nodes]]
            if not len(chosen):
                break
            key = self.topology.choice.keys(self.residual, pod_class, chosen)
            key = key + self._crowding(pod_class, chosen) * _CROWDED
            best = self._one_in_each(pod_class, chosen, key)[: count - done]
            self.take(demand, best, np.ones(len(best), dtype=np.int64))
            done += len(best)
        return done

    def _one_in_each(self, pod_class: ClassIdx, nodes: Ints, key: Ints) -> Ints:
        """The best node; where one rule spreads the pods, and others surely let them in, the best
        of each domain that is as little crowded, which would come next.
        """
        best: Ints = nodes[[key.argmin()]]
        rules = self.residual.loads_of(pod_class)
        spread = [rule for rule, _ in rules if rule.spreads(pod_class)]
        if len(spread) != 1:
            return best
        limits: list[tuple[Ints, Ints]] = []
        for rule, load in rules:
            most = None if rule is spread[0] else rule.surely(load, pod_class)
            if most is not None:
                limits.append((self.problem.levels[rule.level].domain, most))
            elif rule is not spread[0]:
                return best
        order = key.argsort(kind="stable")
        order = order[key[order] // _CROWDED == key[order[0]] // _CROWDED]
        domain = self.problem.levels[spread[0].level].domain[nodes[order]]
        nodes = nodes[order[np.sort(np.unique(domain, return_index=True)[1])]]
        takes = np.ones(len(nodes), dtype=np.int64)
        for place, most in limits:
            takes = _at_most(takes, place[nodes], most)
        return nodes[takes > 0]

    def _at_once(self, demand: int, count: int, region: Region) -> int | None:
        """Up to `count` units on the best nodes, as many in each domain as every rule lets in;
        returns how many, None where some rule wants to look at each of them.
        """
        pod_class = self.gang.demands[demand].pod_class
        done = 0
        while done < count:
            self.check_time()
            chosen = self._surely(pod_class, count - done, region)
            if chosen is None:
                return None
            if not len(chosen.nodes):
                break
            # With these there, rules may let in more.
            self.take(demand, *chosen)
            done += int(chosen.counts.sum())
        return done

    def _surely(self, pod_class: ClassIdx, count: int, region: Region) -> Chosen | None:
        """The best nodes for units of a class that rules let in whatever comes elsewhere; None
        where a rule does not say.
        """
        fits = self.residual.row(pod_class)
        nodes = fits.nonzero()[0] if region.nodes is None else region.nodes[fits[region.nodes] > 0]
        limits: list[tuple[Ints, Ints]] = []
        for rule, load in self.residual.loads_of(pod_class):
            most = rule.surely(load, pod_class)
            if most is None:
                return None
            if most.min() < count:
                domain = self.problem.levels[rule.level].domain
                limits.append((domain, most))
                nodes = nodes[most[domain[nodes]] > 0]
        nodes = nodes[
            self.topology.choice.keys(self.residual, pod_class, nodes).argsort(kind="stable")
        ]
        takes = np.minimum(fits[nodes], count)
        for domain, most in limits:
            takes = _at_most(takes, domain[nodes], most)
        before = takes.cumsum() - takes
        takes = np.minimum(takes, np.maximum(0, count - before))
        used = takes > 0
        return Chosen(nodes[used], takes[used])

    def _crowding(self, pod_class: ClassIdx, nodes: Ints) -> Ints:
        """How much the rules of the pod class would avoid the nodes' domains."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for rule, load in self.residual.loads_of(pod_class):
            crowding = rule.crowding(load, pod_class)
            if crowding is not None:
                total += crowding[self.problem.levels[rule.level].domain[nodes]]
        return total

    def _near_each_other(self, pod_class: ClassIdx, count: int, region: Region) -> Region:
        """A domain that holds the pods, for pods that must share one only with each other."""
        for rule, load in self.residual.loads_of(pod_class):
            if not rule.shares_one_domain(load, pod_class):
                continue
            row = np.where(self.residual.allowed(pod_class), self.residual.row(pod_class), 0)
            if region.nodes is not None:
                row = np.where(np.isin(np.arange(len(row)), region.nodes), row, 0)
            room = sums_by_domain(self.problem.levels[rule.level], row)
            holds = np.flatnonzero(room >= count)
            if len(holds):
                tightest = int(holds[np.argmin(room[holds])])
                region = self.topology.narrowed(region, rule.level, tightest)
        return region


def _at_most(takes: Ints, domain: Ints, most: Ints) -> Ints:
    """The first units that nodes take, with no more in each domain than its most [D + 1]."""
    order = domain.argsort(kind="stable")
    taken = takes[order]
    before = taken.cumsum() - taken
    first = np.searchsorted(domain[order], domain[order])
    left = most[domain[order]] - (before - before[first])
    result = np.empty_like(takes)
    result[order] = np.clip(taken, 0, np.maximum(0, left))
    return result
