"""Counts of the aggregate model, disaggregated to gangs and nodes, and a plan counted back.

Parts and units of a kind are interchangeable, so a count per domain can be assigned in any way that
serves the narrowest domains first: what a narrow domain needs can come from nowhere else, and a
domain was counted to hold all that is needed inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from placement_service.cp_sat.domain_forest import ROOT, Forest
from placement_service.cp_sat.node_classes import NodeClass, sorts_of
from placement_service.cp_sat.part_types import Content, Kind, Kinds, Opened, Piece, RequirementOf
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, units_of
from placement_service.formulation.problem import Problem

T = TypeVar("T")
S = TypeVar("S")


@dataclass(slots=True, eq=False)
class Large(Generic[T]):
    """A part that is told apart from others of its kind.

    `uses` by vertex; `units` by (vertex, ask, choice); `parts` by (vertex, kind).
    """

    kind: int
    there: T
    uses: dict[int, T]
    units: dict[tuple[int, int, int], T]
    parts: dict[tuple[int, int], T]


@dataclass(slots=True, eq=False)
class Tally(Generic[T]):
    """All that the aggregate model counts, as variables or as numbers.

    `gangs` by group; `loose` by (group, ask, choice); `sets` by family; `whole`,
    `apart` and `empty` by (kind, vertex); `units` by (kind, whole, vertex, ask, choice);
    `load` by (pod class's place in the model, class of nodes).
    """

    gangs: dict[int, T] = field(default_factory=dict)
    loose: dict[tuple[int, int, int], T] = field(default_factory=dict)
    sets: dict[int, T] = field(default_factory=dict)
    whole: dict[tuple[int, int], T] = field(default_factory=dict)
    apart: dict[tuple[int, int], T] = field(default_factory=dict)
    empty: dict[tuple[int, int], T] = field(default_factory=dict)
    units: dict[tuple[int, bool, int, int, int], T] = field(default_factory=dict)
    large: list[Large[T]] = field(default_factory=list)
    load: dict[tuple[int, int], T] = field(default_factory=dict)

    def map(self, value: Callable[[T], S]) -> Tally[S]:
        """The same with every entry replaced."""

        def of(table: Mapping[K, T]) -> dict[K, S]:
            return {key: value(x) for key, x in table.items()}

        return Tally(
            of(self.gangs),
            of(self.loose),
            of(self.sets),
            of(self.whole),
            of(self.apart),
            of(self.empty),
            of(self.units),
            [
                Large(p.kind, value(p.there), of(p.uses), of(p.units), of(p.parts))
                for p in self.large
            ],
            of(self.load),
        )


K = TypeVar("K")

#: Places for each sort of pod classes on each node of a class.
Slots = Callable[[int, Sequence[int]], list[list[int]]]


@dataclass(frozen=True, slots=True)
class _Wish:
    """Units of one demand that must lie in a vertex."""

    vertex: int
    gang: GangIdx
    demand: int
    count: int


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
        self._todo: dict[int, list[tuple[int, Piece]]] = {}

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
                    self._todo.setdefault(piece.kind, []).append((ROOT, piece))
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
                self._todo.setdefault(piece.kind, []).append((at, piece))

    def _parts(self, kind: int) -> None:
        tally, k = self.tally, self.kinds.kinds[kind]
        todo = sorted(self._todo.pop(kind), key=lambda t: -self.forest.depth_of[t[0]])
        large = [p for p in tally.large if p.kind == kind]
        if large:
            for (_, piece), part in zip(todo, (p for p in large if p.there), strict=True):
                self._large(k, piece, part)
            return
        left: dict[tuple[bool | None, int], int] = {}
        for spot, table in ((None, tally.empty), (True, tally.whole), (False, tally.apart)):
            left |= {(spot, v): n for (i, v), n in table.items() if i == kind and n}
        below: dict[int, list[tuple[bool | None, int]]] = {}
        for where in left:
            for up in self.forest.above[where[1]]:
                below.setdefault(up, []).append(where)
        chosen: dict[tuple[bool, int], list[Opened]] = {}
        for at, piece in todo:
            options = below[at]
            while not left[options[-1]]:
                options.pop()
            is_whole, v = options[-1]
            left[is_whole, v] -= 1
            if is_whole is None:
                continue
            opened = piece.whole if is_whole else piece.apart
            assert opened is not None
            chosen.setdefault((is_whole, v), []).append(opened)
        for (whole, v), openings in chosen.items():
            content = k.whole if whole else k.apart
            assert content is not None
            amounts = {
                (i, c): tally.units[kind, whole, v, i, c]
                for i, ask in enumerate(content.asks)
                for c in range(len(ask.pod_classes))
                if not ask.is_certain
            }
            self._openings(content, openings, v, amounts)

    def _large(self, k: Kind, piece: Piece, part: Large[int]) -> None:
        opened = piece.apart
        for (v, i, choice), count in part.units.items():
            if count:
                gang, requirement = opened.requirements[i]
                demand = self.problem.gangs[gang].requirements[requirement].demands[choice]
                self._wishes.append(_Wish(v, gang, demand, count))
        pieces: dict[int, list[Piece]] = {}
        for p in opened.pieces:
            pieces.setdefault(p.kind, []).append(p)
        for (v, child), count in part.parts.items():
            for _ in range(count):
                self._todo.setdefault(child, []).append((v, pieces[child].pop()))

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
                    take = min(row[sorts[k]], left.get((k, j), 0))
                    if take:
                        row[sorts[k]] -= take
                        left[k, j] -= take
                        found.setdefault(k, {})[node] = take
        return found

    def _used_first(self, nodes: Iterable[int]) -> list[int]:
        """Nodes that are in use before nodes that are wholly free."""
        whole = self.problem.whole_free
        return sorted(nodes, key=lambda n: (bool(whole[n]), n))

    def _take(
        self, slots: dict[int, int], nodes: Sequence[int], wish: _Wish
    ) -> Iterator[tuple[int, int]]:
        able = [n for n in nodes if slots[n]]
        left = wish.count
        for n in self._together(able, slots, wish):
            take = min(left, slots[n])
            slots[n] -= take
            left -= take
            yield n, take
            if not left:
                return
        assert not left, "fewer units lie on nodes than were counted"

    def _together(
        self, nodes: Sequence[int], slots: Mapping[int, int], wish: _Wish
    ) -> Sequence[int]:
        """Nodes of the domains with most left first, broad domains before narrow ones."""
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


class Reading:
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
        self.tally: Tally[int] = Tally(
            large=[Large(p.kind, 0, {}, {}, {}) for p in large],
        )
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
                            key = (g, a, c)
                            tally.loose[key] = tally.loose.get(key, 0) + count
                    for piece in opened.pieces:
                        self._part(piece)

    def _loads(self, gang: GangIdx) -> None:
        demands = self.problem.gangs[gang].demands
        for d, n, count in self.plan[gang]:
            j = self._class_of.get(n)
            if j is not None:
                k = self._place_of[demands[d].pod_class]
                self.tally.load[k, j] = self.tally.load.get((k, j), 0) + count
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
        table[piece.kind, at] = table.get((piece.kind, at), 0) + 1
        opened = piece.whole if whole else piece.apart
        assert opened is not None
        for a, requirement in enumerate(opened.requirements):
            for c, count in enumerate(self._counts(requirement)):
                key = (piece.kind, whole, at, a, c)
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
                        key = (spot(n), a, c)
                        part.units[key] = part.units.get(key, 0) + count
                        part.uses[spot(n)] = 1
        for piece in opened.pieces:
            nodes = self._nodes(piece.apart)
            if nodes:
                at = spot(next(iter(nodes)))
                part.parts[at, piece.kind] = part.parts.get((at, piece.kind), 0) + 1
                part.uses[at] = 1
            self._part(piece)
