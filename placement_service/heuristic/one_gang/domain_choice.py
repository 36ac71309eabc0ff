"""Which domains may hold a part of a gang, the best first: least wanted, then tightest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.indices import ClassIdx, DemandIdx
from placement_service.formulation.problem import DemandUnits, Gang
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.regions import Region
from placement_service.heuristic.one_gang.units import GangUnits
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Domains tried for a part before the attempt is given up.
TRIES = 6

#: Up to so many domains it is cheaper to look up the nodes of each than to go through all nodes.
_FEW_DOMAINS = 64


class DemandOf(NamedTuple):
    """So many units of a pod class that one domain has to hold."""

    pod_class: ClassIdx
    units: int


class _Inner(NamedTuple):
    """So many parts that each need a domain of a narrower level for units of a pod class."""

    level: int
    pod_class: ClassIdx
    units: int
    parts: int


class _Need(NamedTuple):
    """What a part asks of one domain: units by pod class, and room for the parts in it."""

    units: Mapping[ClassIdx, int]
    main: ClassIdx
    inner: tuple[_Inner, ...]


class DomainChoice(GangUnits):
    """A gang that looks for domains. `want` are the units of each demand that it needs."""

    def __init__(
        self,
        topology: Topology,
        residual: ResidualCapacity,
        gang: Gang,
        until: float = float("inf"),
    ) -> None:
        super().__init__(topology, residual, gang, until)
        self.want = mandatory(gang)
        self._needs: dict[int, tuple[Part, _Need | None]] = {}

    def candidates(
        self, part: Part, level: int, region: Region, most: int | None = None
    ) -> list[int]:
        """Domains that may hold the part, best first; with `most` no more than these."""
        need = self._need(part)
        if need is None:
            return list(range(self.problem.levels[level].count))[:most]
        own = self.topology.domains(region, level)
        room = self.room(need.main, level, region, own)
        able = room >= need.units[need.main]
        for pod_class, count in need.units.items():
            if pod_class != need.main:
                able &= self.room(pod_class, level, region, own) >= count
        if need.inner and able.any():
            for inner in need.inner:
                able &= self._holds_inner(inner, level, region, own)
        found = able.nonzero()[0]
        room = room[found]
        if own is not None:
            found = own[found]
        if len(found) > 1:
            mine = self.own_room(need.main, level, region)
            wanted = DemandOf(need.main, need.units[need.main])
            inside = None if mine is None else mine[found]
            found = found[self.best_first(wanted, level, found, room, inside)]
        if len(need.units) > 1:
            return self._holding_together(need.units, level, region, found, most)
        result: list[int] = found[:most].tolist()
        return result

    def may_hold(self, part: Part, region: Region) -> bool:
        """Whether a region has room for each pod class of a part by itself."""
        need = self._need(part)
        return need is None or all(
            self.total_room(pod_class, region) >= units for pod_class, units in need.units.items()
        )

    def best_first(
        self, wanted: DemandOf, level: int, domains: Ints, room: Ints, own: Ints | None
    ) -> Ints:
        """The order of domains [D] with so much `room`: those first where most lies on nodes that
        others hardly want, of which there are `own`, then the least wanted, then the tightest.
        """
        rank = self.topology.least_demand_rank(wanted.pod_class, level)[domains]
        if own is None:
            return np.lexsort((room, rank))
        return np.lexsort((room, rank, np.maximum(0, wanted.units - own)))

    def own_room(self, pod_class: ClassIdx, level: int, region: Region) -> Ints | None:
        """Units of a pod class that fit into each domain of a level [D] on nodes of a region that
        others hardly want; None where there are no such nodes.
        """
        nodes = self.topology.own_nodes(pod_class)
        if nodes is None:
            return None
        if region.nodes is not None:
            nodes = nodes[np.isin(nodes, region.nodes, assume_unique=True)]
        of = self.problem.levels[level]
        nodes = nodes[of.domain[nodes] >= 0]
        row = self.residual.open_row(pod_class)[nodes]
        return np.bincount(of.domain[nodes], row, of.count).astype(np.int64)

    def _holding_together(
        self,
        units: Mapping[ClassIdx, int],
        level: int,
        region: Region,
        domains: Ints,
        most: int | None,
    ) -> list[int]:
        """The first of some domains that have what units of several pod classes take together."""
        found: list[int] = []
        begin, end = 0, most or len(domains)
        while begin < len(domains) and (most is None or len(found) < most):
            some = domains[begin:end]
            found += some[self._holds_together(units, level, region, some)].tolist()
            begin, end = end, 2 * end
        return found[:most]

    def _holds_together(
        self, units: Mapping[ClassIdx, int], level: int, region: Region, domains: Ints
    ) -> Bools:
        """Which of some domains [D] have what units of several pod classes take together of each
        resource.
        """
        nodes, places = self._nodes_of(level, region, domains)
        able = np.logical_or.reduce([self.residual.open_row(s)[nodes] > 0 for s in units])
        nodes, places = nodes[able], places[able]
        requests = self.problem.request[list(units)]
        asked = np.array(list(units.values())) @ requests
        enough = np.ones(len(domains), dtype=bool)
        # What one pod class asks for alone is in its own room.
        shared = (np.count_nonzero(requests, axis=0) > 1) & self.topology.whole_columns
        for r in shared.nonzero()[0]:
            free = self.residual.free[nodes, r]
            enough &= np.bincount(places, free, len(domains)) >= asked[r]
        return enough

    def _nodes_of(self, level: int, region: Region, domains: Ints) -> tuple[Ints, Ints]:
        """The nodes of a region in some domains, and in which of these each lies."""
        whole = region.nodes is None or self.topology.domains(region, level) is not None
        if whole and len(domains) <= _FEW_DOMAINS:
            inside = [self.topology.inside(level, d) for d in domains.tolist()]
            places = np.repeat(np.arange(len(inside)), [len(nodes) for nodes in inside])
            return np.concatenate(inside), places
        of = self.problem.levels[level]
        # The domain -1, for none, is the last place.
        number = np.full(of.count + 1, -1, dtype=np.int64)
        number[domains] = np.arange(len(domains))
        of_node = number[of.domain if region.nodes is None else of.domain[region.nodes]]
        nodes = np.flatnonzero(of_node >= 0)
        return nodes if region.nodes is None else region.nodes[nodes], of_node[nodes]

    def _holds_inner(self, inner: _Inner, level: int, region: Region, own: Ints | None) -> Bools:
        """Which domains have enough narrower ones with room for a part each."""
        parent = self.topology.parent(inner.level, level)
        count = self.problem.levels[level].count
        if parent is None:
            parent, room = self._crossing_room(inner, level, region)
        else:
            narrow = self.topology.domains(region, inner.level)
            room = self.room(inner.pod_class, inner.level, region, narrow)
            parent = parent if narrow is None else parent[narrow]
        enough: Bools = np.bincount(parent, room // inner.units, count) >= inner.parts
        return enough if own is None else enough[own]

    def _crossing_room(self, inner: _Inner, level: int, region: Region) -> tuple[Ints, Ints]:
        """The domains of two levels that do not nest have some nodes in common: of each such
        overlap the broad domain, and the room there.
        """
        overlaps = self.topology.overlaps(inner.level, level)
        nodes = overlaps.nodes
        row = self.residual.open_row(inner.pod_class)[nodes]
        if region.nodes is not None:
            row = np.where(np.isin(nodes, region.nodes, assume_unique=True), row, 0)
        room = np.bincount(overlaps.of_node, row, len(overlaps.broad)).astype(np.int64)
        return overlaps.broad, room

    def next_domain(
        self,
        level: int,
        region: Region,
        rest: Mapping[int, int],
        children: Sequence[Part],
        closed: Bools,
    ) -> int | None:
        """The tightest domain for all that is left that is not `closed` [D], else the roomiest.

        Domains before it that rules between pods close are closed from then on.
        """
        need: dict[ClassIdx, int] = {}
        for d in (*rest, *(d for c in children for d in c.demands)):
            pod_class = self.gang.demands[d].pod_class
            need[pod_class] = need.get(pod_class, 0) + rest.get(d, self.want[d])
        main = self._main(need)
        room = np.where(closed, 0, self.sums(main, level, region))
        roomy = room >= need[main]
        order = np.lexsort((np.where(roomy, room, -room), ~roomy))[: np.count_nonzero(room)]
        if not children and all(self.problem.special[s] for s in need):
            opened = self._opened(level, need)[order]
            first = int(opened.argmax()) if opened.any() else len(order)
            closed[order[:first]] = True
            order = order[first:]
        return int(order[0]) if len(order) else None

    def _opened(self, level: int, pod_classes: Iterable[ClassIdx]) -> Bools:
        """Domains in which rules between pods let in one of the pod classes [D].

        The others may have room, but trying each of them takes long.
        """
        of = self.problem.levels[level]
        opened = np.zeros(of.count + 1, dtype=bool)
        for pod_class in pod_classes:
            able = self.residual.allowed(pod_class) & (self.residual.row(pod_class) > 0)
            # The domain -1, for none, is the last place.
            opened[of.domain[able]] = True
        return opened[:-1]

    def _need(self, part: Part) -> _Need | None:
        """What a part asks of a domain; None for nothing."""
        known = self._needs.get(id(part))
        if known is None:
            units = self._units_of(part)
            found = None
            if units:
                found = _Need(units, self._main(units), tuple(self._inner(part)))
            # The part is kept, too, so that no other object can have its id.
            known = self._needs[id(part)] = (part, found)
        return known[1]

    def _units_of(self, part: Part) -> dict[ClassIdx, int]:
        units: dict[ClassIdx, int] = {}
        for d in part.demands:
            if self.want[d]:
                pod_class = self.gang.demands[d].pod_class
                units[pod_class] = units.get(pod_class, 0) + self.want[d]
        return units

    def _main(self, units: Mapping[ClassIdx, int]) -> ClassIdx:
        """The pod class that matters most: most GPUs, then most units."""
        gpus = self.topology.gpus
        return max(units, key=lambda s: (gpus[s] * units[s], units[s], -s))

    def _inner(self, part: Part) -> Iterable[_Inner]:
        """Parts within a part that need a domain of their own, equal ones together."""
        found: dict[tuple[int, ClassIdx, int], int] = {}
        waiting = list(part.children)
        while waiting:
            child = waiting.pop()
            waiting += child.children
            if child.required >= 0:
                for pod_class, units in self._units_of(child).items():
                    key = (child.required, pod_class, units)
                    found[key] = found.get(key, 0) + 1
        return (_Inner(*key, parts) for key, parts in found.items())

    # --- orders -------------------------------------------------------------

    def hardest_first(self, parts: Sequence[Part]) -> list[Part]:
        """Parts that need one domain first, of these the largest."""
        if len(parts) < 2:
            return list(parts)
        gpus = self._gpus

        def size(part: Part) -> tuple[bool, int]:
            return (part.required >= 0, sum(gpus(d) * self.want[d] for d in part.demands))

        return sorted(parts, key=size, reverse=True)

    def loose_order(self, demands: Sequence[int]) -> Sequence[int]:
        """Large pods before small; anchors before those that want to be near."""
        if len(demands) < 2:
            return demands
        pod_class = [d.pod_class for d in self.gang.demands]

        def follows(d: int) -> bool:
            return any(
                rule.comes_late(pod_class[d]) for rule, _ in self.residual.loads_of(pod_class[d])
            )

        return sorted(demands, key=lambda d: (follows(d), -self._gpus(d), d))

    def _gpus(self, demand: int) -> int:
        return self.topology.gpus[self.gang.demands[demand].pod_class]


def mandatory(gang: Gang) -> list[int]:
    """Units of each demand that make up the minimum; the first pod sets come first."""
    want = [0] * len(gang.demands)
    for requirement in gang.requirements:
        left = requirement.missing
        for d in requirement.demands:
            want[d] = min(left, gang.demands[d].count)
            left -= want[d]
    return want


def minimum_units(gang: Gang) -> Iterator[DemandUnits]:
    """The same as units by demand, none that are zero."""
    return (DemandUnits(DemandIdx(d), n) for d, n in enumerate(mandatory(gang)) if n)
