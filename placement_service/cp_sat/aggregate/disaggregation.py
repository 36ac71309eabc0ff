"""Counts of the aggregate model, disaggregated to gangs and nodes.

Parts and units of a kind are interchangeable, so a count per domain can be assigned in any way that
serves the narrowest domains first: what a narrow domain needs can come from nowhere else, and a
domain was counted to hold all that is needed inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placement_service.cp_sat.aggregate.domain_forest import ROOT, Forest
from placement_service.cp_sat.aggregate.part_types import Content, Kinds, Opened, Piece
from placement_service.cp_sat.aggregate.tally import Large, Load, Tally, UnitsOfParts
from placement_service.cp_sat.node_classes import NodeClass, sorts_of
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, units_of
from placement_service.formulation.problem import Problem
from placement_service.heuristic.one_gang.units import NodeUnits

#: Places for each sort of pod classes on each node of a class.
Slots = Callable[[int, Sequence[int]], list[list[int]]]


@dataclass(frozen=True, slots=True)
class _Wish:
    """Units of one demand that must lie in a vertex."""

    vertex: int
    gang: GangIdx
    demand: int
    count: int


class _Todo(NamedTuple):
    """A piece that must lie in a vertex."""

    vertex: int
    piece: Piece


class _Opened(NamedTuple):
    """A vertex where parts lie whole or apart, or (None) are empty."""

    whole: bool | None
    vertex: int


class Disaggregation:
    """Turns the counts of a tally into units of gangs on nodes."""

    def __init__(
        self,
        kinds: Kinds,
        pod_classes: Sequence[int],
        classes: Sequence[NodeClass],
        slots: Slots,
        tally: Tally[int],
    ) -> None:
        self.kinds = kinds
        self.forest: Forest = kinds.forest
        self.problem: Problem = kinds.problem
        self.pod_classes = pod_classes
        self.classes = classes
        self.slots = slots
        self.tally = tally
        self._wishes: list[_Wish] = []
        self._todo: dict[int, list[_Todo]] = {}

    def plan(self) -> Plan:
        """Units on nodes for all gangs that are placed."""
        self._gangs()
        # A part's kind has a larger index than those of its own parts.
        for kind in range(len(self.kinds.kinds) - 1, -1, -1):
            if kind in self._todo:
                self._parts(kind)
        return self._on_nodes()

    # --- gangs and parts ------------------------------------------------------------

    def _gangs(self) -> None:
        kinds, left = self.kinds, self.tally.gangs
        placed: dict[int, list[GangIdx]] = {g: [] for g in range(len(kinds.groups))}
        group_of = {i: g for g, group in enumerate(kinds.groups) for i in group.gangs}
        for f, family in enumerate(kinds.families):
            whole = self.tally.sets.get(f, 0)
            bases = left[family.base] - whole
            budget = {at: left[at] - times * whole for at, times in family.scaled.items()}
            for i, (base, scaled, piece) in enumerate(family.sets):
                if i < whole:
                    assert piece is not None
                    self._todo.setdefault(piece.kind, []).append(_Todo(ROOT, piece))
                elif i < whole + bases:
                    placed[family.base].append(base)
                    for gang in scaled:
                        if budget[group_of[gang]] > 0:
                            budget[group_of[gang]] -= 1
                            placed[group_of[gang]].append(gang)
        for g, group in enumerate(kinds.groups):
            if group.family < 0:
                placed[g] = group.gangs[: left[g]]
            amounts = {(i, c): n for (at, i, c), n in self.tally.loose.items() if at == g}
            self._openings(group.content, [kinds.opened[i] for i in placed[g]], ROOT, amounts)

    def _openings(
        self,
        content: Content,
        openings: Sequence[Opened],
        at: int,
        amounts: Mapping[tuple[int, int], int],
    ) -> None:
        """Openings of one content at one vertex: their units, and parts to place."""
        if not openings:
            return
        for i, ask in enumerate(content.asks):
            requirements = [o.requirements[i] for o in openings]
            if ask.is_certain:
                counts = [[ask.least]] * len(requirements)
            else:
                counts = _spread_evenly(
                    [amounts[i, c] for c in range(len(ask.pod_classes))], len(requirements)
                )
            for (gang, requirement), mine in zip(requirements, counts, strict=True):
                demands = self.problem.gangs[gang].requirements[requirement].demands
                for d, count in zip(demands, mine, strict=True):
                    if count:
                        self._wishes.append(_Wish(at, gang, d, count))
        for o in openings:
            for piece in o.pieces:
                self._todo.setdefault(piece.kind, []).append(_Todo(at, piece))

    def _parts(self, kind: int) -> None:
        tally, k = self.tally, self.kinds.kinds[kind]
        todo = sorted(self._todo.pop(kind), key=lambda t: -self.forest.depth_of[t.vertex])
        large = [p for p in tally.large if p.kind == kind]
        if large:
            for (_, piece), part in zip(todo, (p for p in large if p.there), strict=True):
                self._large(piece, part)
            return
        left: dict[_Opened, int] = {}
        for whole, table in ((None, tally.empty), (True, tally.whole), (False, tally.apart)):
            left |= {_Opened(whole, v): n for (i, v), n in table.items() if i == kind and n}
        below: dict[int, list[_Opened]] = {}
        for where in left:
            for up in self.forest.above[where.vertex]:
                below.setdefault(up, []).append(where)
        chosen: dict[_Opened, list[Opened]] = {}
        for at, piece in todo:
            options = below[at]
            while not left[options[-1]]:
                options.pop()
            where = options[-1]
            left[where] -= 1
            if where.whole is None:
                continue
            opened = piece.whole if where.whole else piece.apart
            assert opened is not None
            chosen.setdefault(where, []).append(opened)
        for (whole, v), openings in chosen.items():
            content = k.whole if whole else k.apart
            assert content is not None
            assert whole is not None
            amounts = {
                (i, c): tally.units[UnitsOfParts(kind, whole, v, i, c)]
                for i, ask in enumerate(content.asks)
                for c in range(len(ask.pod_classes))
                if not ask.is_certain
            }
            self._openings(content, openings, v, amounts)

    def _large(self, piece: Piece, part: Large[int]) -> None:
        opened = piece.apart
        for (v, i, choice), count in part.units.items():
            if count:
                gang, requirement = opened.requirements[i]
                demand = self.problem.gangs[gang].requirements[requirement].demands[choice]
                self._wishes.append(_Wish(v, gang, demand, count))
        pieces: dict[int, list[Piece]] = {}
        for p in opened.pieces:
            pieces.setdefault(p.kind, []).append(p)
        for (child, v), count in part.parts.items():
            for _ in range(count):
                self._todo.setdefault(child, []).append(_Todo(v, pieces[child].pop()))

    # --- nodes ------------------------------------------------------------------------

    def _on_nodes(self) -> Plan:
        """Serve wishes from the narrowest domains first, each where most is left."""
        place_of = {s: k for k, s in enumerate(self.pod_classes)}
        slots = self._slots_by_node()
        wishes: dict[int, list[_Wish]] = {}
        for w in self._wishes:
            pod_class = self.problem.gangs[w.gang].demands[w.demand].pod_class
            wishes.setdefault(place_of[pod_class], []).append(w)
        units: dict[GangIdx, dict[tuple[int, int], int]] = {}
        for k, mine in wishes.items():
            below: dict[int, list[int]] = {}
            for node in slots.get(k, {}):
                for v in self.forest.holds[:, node].tolist():
                    if v >= 0:
                        below.setdefault(v, []).append(node)
            mine.sort(key=lambda w: (-self.forest.depth_of[w.vertex], w.gang))
            for w in mine:
                for node, count in self._take(slots[k], below[w.vertex], w):
                    on = units.setdefault(w.gang, {})
                    on[w.demand, node] = on.get((w.demand, node), 0) + count
        return {g: units_of(on) for g, on in sorted(units.items())}

    def _slots_by_node(self) -> dict[int, dict[int, int]]:
        """Units that lie on each node, by pod class."""
        found: dict[int, dict[int, int]] = {}
        left = {key: n for key, n in self.tally.load.items() if n}
        sorts = sorts_of(self.problem, self.pod_classes)
        kinds: dict[int, list[int]] = {}
        for k, j in self.tally.load:
            kinds.setdefault(j, []).append(k)
        for j in sorted({j for _, j in left}):
            rows = self.slots(j, kinds[j])
            nodes = self._used_first(self.classes[j].nodes)
            for node, row in zip(nodes, rows, strict=True):
                for k in kinds[j]:
                    load = Load(k, j)
                    take = min(row[sorts[k]], left.get(load, 0))
                    if take:
                        row[sorts[k]] -= take
                        left[load] -= take
                        found.setdefault(k, {})[node] = take
        return found

    def _used_first(self, nodes: Iterable[int]) -> list[int]:
        """Nodes that are in use before nodes that are wholly free."""
        whole = self.problem.whole_free
        return sorted(nodes, key=lambda n: (bool(whole[n]), n))

    def _take(
        self, slots: dict[int, int], nodes: Sequence[int], wish: _Wish
    ) -> Iterator[NodeUnits]:
        able = [n for n in nodes if slots[n]]
        left = wish.count
        for n in self._together(able, slots, wish):
            take = min(left, slots[n])
            slots[n] -= take
            left -= take
            yield NodeUnits(n, take)
            if not left:
                return
        assert not left, "fewer units lie on nodes than were counted"

    def _together(
        self, nodes: Sequence[int], slots: Mapping[int, int], wish: _Wish
    ) -> Sequence[int]:
        """The nodes of the domains with most room first, broad domains before narrow ones."""
        rows = self.forest.holds[self.forest.depth_of[wish.vertex] + 1 :]
        if not len(rows):
            return nodes
        totals: list[dict[int, int]] = []
        for row in rows:
            total: dict[int, int] = {}
            for n in nodes:
                total[int(row[n])] = total.get(int(row[n]), 0) + slots[n]
            totals.append(total)

        def key(n: int) -> tuple[tuple[int, int], ...]:
            return tuple(
                (-total[int(row[n])], int(row[n])) for total, row in zip(totals, rows, strict=True)
            )

        return sorted(nodes, key=key)


def _spread_evenly(totals: Sequence[int], shares: int) -> list[list[int]]:
    """Divide units of several sorts one by one, so that all shares are alike."""
    counts = [[0] * len(totals) for _ in range(shares)]
    at = 0
    for i, total in enumerate(totals):
        each, rest = divmod(total, shares)
        for share in counts:
            share[i] += each
        for _ in range(rest):
            counts[at % shares][i] += 1
            at += 1
    return counts
