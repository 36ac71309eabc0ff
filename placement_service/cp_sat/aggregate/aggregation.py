"""A plan in the counts of the aggregate model: the inverse of `disaggregation`.

A plan that the model does not count exactly is counted as far as it fits: the counts are where
the solver starts from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from placement_service.cp_sat.aggregate.domain_forest import ROOT
from placement_service.cp_sat.aggregate.part_types import Kind, Kinds, Opened, Piece, RequirementOf
from placement_service.cp_sat.aggregate.tally import (
    Large,
    Load,
    Loose,
    PartsAt,
    Tally,
    UnitsOfOne,
    UnitsOfParts,
)
from placement_service.cp_sat.node_classes import NodeClass
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan

S = TypeVar("S")


class Aggregation:
    """Counts a plan, as far as it fits what the model counts: a place to start from."""

    def __init__(
        self,
        kinds: Kinds,
        pod_classes: Sequence[int],
        classes: Sequence[NodeClass],
        plan: Plan,
        large: Sequence[Large[S]],
    ) -> None:
        self.kinds = kinds
        self.forest = kinds.forest
        self.problem = kinds.problem
        self.plan = plan
        self.tally: Tally[int] = Tally(large=[Large(p.kind, 0, {}, {}, {}) for p in large])
        self._place_of = {s: k for k, s in enumerate(pod_classes)}
        self._class_of = {n: j for j, c in enumerate(classes) for n in c.nodes}
        #: What lies on nodes: by node, its class and its units of each pod class.
        self.on_node: dict[int, tuple[int, list[int]]] = {}
        self._gangs()

    def _gangs(self) -> None:
        kinds, tally = self.kinds, self.tally
        in_sets: set[int] = set()
        for f, family in enumerate(kinds.families):
            for base, scaled, piece in family.sets:
                members = (base, *scaled)
                if piece is None or not all(g in self.plan for g in members):
                    continue
                depth = kinds.kinds[piece.kind].at
                nodes = {n for g in members for _, n, _ in self.plan[g]}
                places = {int(self.forest.holds[depth][n]) for n in nodes}
                if len(places) == 1 and -1 not in places:
                    tally.sets[f] = tally.sets.get(f, 0) + 1
                    in_sets.update(members)
                    self._part(piece)
        for g, group in enumerate(kinds.groups):
            here = [i for i in group.gangs if i in self.plan]
            tally.gangs[g] = len(here)
            for i in here:
                self._loads(i)
                if i not in in_sets:
                    opened = kinds.opened[i]
                    for a, requirement in enumerate(opened.requirements):
                        for c, count in enumerate(self._counts(requirement)):
                            key = Loose(g, a, c)
                            tally.loose[key] = tally.loose.get(key, 0) + count
                    for piece in opened.pieces:
                        self._part(piece)

    def _loads(self, gang: GangIdx) -> None:
        demands = self.problem.gangs[gang].demands
        for d, n, count in self.plan[gang]:
            j = self._class_of.get(n)
            if j is not None:
                k = self._place_of[demands[d].pod_class]
                key = Load(k, j)
                self.tally.load[key] = self.tally.load.get(key, 0) + count
                load = self.on_node.setdefault(n, (j, [0] * len(self._place_of)))[1]
                load[k] += count

    def _counts(self, requirement: RequirementOf) -> list[int]:
        gang, i = requirement
        demands = self.problem.gangs[gang].requirements[i].demands
        return [sum(c for d, _, c in self.plan[gang] if d == e) for e in demands]

    def _nodes(self, opened: Opened) -> set[int]:
        found: set[int] = set()
        for gang, i in opened.requirements:
            demands = self.problem.gangs[gang].requirements[i].demands
            found.update(n for d, n, _ in self.plan[gang] if d in demands)
        for piece in opened.pieces:
            found |= self._nodes(piece.apart)
        return found

    def _part(self, piece: Piece) -> None:
        kind, tally, holds = self.kinds.kinds[piece.kind], self.tally, self.forest.holds
        nodes = self._nodes(piece.apart)
        if not nodes:
            return
        some = next(iter(nodes))
        part = next((p for p in tally.large if p.kind == piece.kind and not p.there), None)
        if part is not None:
            self._large(kind, piece.apart, part)
            return
        places = {int(holds[kind.preferred][n]) for n in nodes} if kind.preferred else set()
        whole = len(places) == 1 and -1 not in places
        at = places.pop() if whole else int(holds[kind.at][some])
        table = tally.whole if whole else tally.apart
        opening = PartsAt(piece.kind, at)
        table[opening] = table.get(opening, 0) + 1
        opened = piece.whole if whole else piece.apart
        assert opened is not None
        for a, requirement in enumerate(opened.requirements):
            for c, count in enumerate(self._counts(requirement)):
                key = UnitsOfParts(piece.kind, whole, at, a, c)
                tally.units[key] = tally.units.get(key, 0) + count
        for inner in opened.pieces:
            self._part(inner)

    def _large(self, kind: Kind, opened: Opened, part: Large[int]) -> None:
        row = self.forest.holds[kind.preferred]
        part.there = 1

        def spot(n: int) -> int:
            return int(row[n]) if row[n] >= 0 else ROOT

        for a, (gang, i) in enumerate(opened.requirements):
            for c, e in enumerate(self.problem.gangs[gang].requirements[i].demands):
                for d, n, count in self.plan[gang]:
                    if d == e:
                        key = UnitsOfOne(spot(n), a, c)
                        part.units[key] = part.units.get(key, 0) + count
                        part.uses[spot(n)] = 1
        for piece in opened.pieces:
            nodes = self._nodes(piece.apart)
            if nodes:
                at = spot(next(iter(nodes)))
                inner = PartsAt(piece.kind, at)
                part.parts[inner] = part.parts.get(inner, 0) + 1
                part.uses[at] = 1
            self._part(piece)
