"""Placing one gang where it leaves most room.

Which node: see `node_choice`. Which domain: the tightest that holds the part.
Preferred levels: one domain if any holds the part, else the roomiest first.
Nothing here looks at other gangs; see `plan_builder`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import Gang
from placement_service.formulation.tiers.topology import gang_domains, scopes_in_use
from placement_service.heuristic.one_gang.alike_parts import Run, most, place_alike, runs
from placement_service.heuristic.one_gang.domain_choice import TRIES, DomainChoice
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.flat_scopes import place_flat
from placement_service.heuristic.one_gang.regions import EVERYWHERE, Region
from placement_service.heuristic.one_gang.units import NodeUnits
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.slot_layout import Layout, Slot


class GangPlacer(DomainChoice):
    """Places one gang into residual capacity, part by part, with exact undo."""

    def __init__(
        self,
        topology: Topology,
        residual: ResidualCapacity,
        gang: Gang,
        layout: Layout | None = None,
        until: float = float("inf"),
    ) -> None:
        super().__init__(topology, residual, gang, until)
        self.layout = layout

    def run(self, region: Region = EVERYWHERE) -> bool:
        """Place the minimum within a region."""
        if not self._is_room():
            return False
        tree = self.topology.tree(self.gang)
        if tree is None:
            return place_flat(self, region)
        return self._contents(tree, region)

    def _is_room(self) -> bool:
        """Whether all nodes together have room for the minimum: on a full cluster most gangs find
        none, and looking for domains takes longer.
        """
        wanted: dict[ClassIdx, int] = {}
        for demand, units in zip(self.gang.demands, self.want, strict=True):
            wanted[demand.pod_class] = wanted.get(demand.pod_class, 0) + units
        return all(self.total_room(s, EVERYWHERE) >= units for s, units in wanted.items() if units)

    def _part(self, part: Part, region: Region) -> bool:
        """A part with its scope: one domain of the required level."""
        if part.required < 0:
            return self._soft(part, region)
        scope = part.scope
        assert scope is not None
        size = self._slot_size(part)
        most = None if size > 1 else TRIES
        candidates = (
            [scope.pin] if scope.pin >= 0 else self.candidates(part, part.required, region, most)
        )
        if size > 1:
            return self._in_slot(part, size, candidates, region)
        best: tuple[int, list[tuple[int, Sequence[NodeUnits]]]] | None = None
        matters = self._has_wishes(part)
        for domain in candidates[:TRIES]:
            inside = self.topology.narrowed(region, part.required, domain)
            mark = self.mark()
            if self._soft(part, inside):
                if not matters:
                    return True
                cost = self._wish_cost()
                done = self.journal[mark[1] :]
                if best is None or cost < best[0]:
                    best = (cost, done)
            self.undo(mark)
        if best is None:
            return False
        for demand, on_nodes in best[1]:
            nodes, units = zip(*on_nodes, strict=True)
            self.take(demand, np.array(nodes), np.array(units))
        return True

    def _slot_size(self, part: Part) -> int:
        """The size of the slot that the layout has for a part, if any."""
        if self.layout is None or part.required != self.layout.level:
            return 0
        return self.layout.size(self.gang, part.demands, self.want)

    def _in_slot(self, part: Part, size: int, candidates: Sequence[int], region: Region) -> bool:
        """A part in a domain that has a slot of its size left."""
        able = [d for d in candidates if self.residual.slots_left.get(Slot(d, size), 0) > 0]
        for domain in able[:TRIES]:
            mark = self.mark()
            if self._soft(part, self.topology.narrowed(region, part.required, domain)):
                self.residual.use_slot(domain, size)
                return True
            self.undo(mark)
        return False

    def _has_wishes(self, part: Part) -> bool:
        return part.preferred >= 0 or any(self._has_wishes(c) for c in part.children)

    def _wish_cost(self) -> int:
        units = self.units()
        return gang_domains(self.problem, self.gang, units) - scopes_in_use(self.gang, units)

    def _soft(self, part: Part, region: Region) -> bool:
        """A part with its preferred level: one domain if possible, else few."""
        if part.preferred < 0:
            return self._contents(part, region)
        scope = part.scope
        assert scope is not None
        known = [p for p in scope.running if p >= 0]
        candidates = self.candidates(part, part.preferred, region, None if known else TRIES)
        candidates.sort(key=lambda domain: domain not in known)
        for domain in candidates[:TRIES]:
            mark = self.mark()
            if self._contents(part, self.topology.narrowed(region, part.preferred, domain)):
                return True
            self.undo(mark)
        mark = self.mark()
        if self._split(part, region, known):
            return True
        self.undo(mark)
        return self._contents(part, region)

    def _contents(self, part: Part, region: Region) -> bool:
        """What a part consists of, hardest first, wherever it fits."""
        self.check_time()
        for alike, some in self._runs(part.children):
            if alike is None:
                if not all(self._part(child, region) for child in some):
                    return False
                continue
            homes = most(self, alike, region, len(some))
            if sum(home.times for home in homes) < len(some):
                return False
            place_alike(self, alike, some, region, homes)
        return all(
            self.loose(d, self.want[d], region) == self.want[d]
            for d in self.loose_order(part.loose)
        )

    def _split(self, part: Part, region: Region, used: Sequence[int]) -> bool:
        """Spreads a part over as few domains of its preferred level as possible."""
        level = part.preferred
        children = self.hardest_first(part.children)
        holds = np.zeros(self.problem.levels[level].count, dtype=bool)
        for child in children:
            able = self.candidates(child, level, region)
            if not able:
                return False
            holds[able] = True
        rest = {d: self.want[d] for d in part.loose if self.want[d]}
        left = list(used)
        closed = np.zeros_like(holds)
        while children or rest:
            self.check_time()
            if not rest:
                closed |= ~holds
            domain = (
                left.pop(0) if left else self.next_domain(level, region, rest, children, closed)
            )
            if domain is None:
                return False
            closed[domain : domain + 1] = True
            inside = self.topology.narrowed(region, level, domain)
            children = [c for run in self._runs(children) for c in self._try(run, inside)]
            for d in self.loose_order(list(rest)):
                rest[d] -= self.loose(d, rest[d], inside)
            rest = {d: k for d, k in rest.items() if k}
        return True

    def _try(self, run: Run, region: Region) -> list[Part]:
        """Place what fits of some parts; returns the others."""
        alike, parts = run
        if alike is None:
            return [part for part in parts if not self._try_one(part, region)]
        homes = most(self, alike, region, len(parts))
        placed = sum(home.times for home in homes)
        if placed:
            place_alike(self, alike, parts[:placed], region, homes)
        return parts[placed:]

    def _try_one(self, part: Part, region: Region) -> bool:
        if not self.may_hold(part, region):
            return False
        mark = self.mark()
        if self._part(part, region):
            return True
        self.undo(mark)
        return False

    def _runs(self, parts: Sequence[Part]) -> Iterator[Run]:
        """Parts, hardest first, those that are alike together."""
        ordered = self.hardest_first(parts)
        if self.layout is not None:
            # Each part has its own slot.
            return iter([Run(None, ordered)])
        return runs(self, ordered)
