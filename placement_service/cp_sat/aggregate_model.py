"""The aggregate model: parts of a kind are counted per domain, whichever gang they belong to.

Where the exact model (`model`) asks of every gang which of its units lie on
which class of nodes, this one asks only how many parts of which kind open in
which domain (`kinds`, `forest`), and how many units of which pod class lie on which
class of nodes (`cells`, `filling`). It says the same of gangs that kinds can
describe, is much smaller, and knows no two gangs apart that are alike:

    z[G]         gangs of a group placed
    set[F, D]    whole sets of a family in domain D
    whole[k, D]  parts of kind k in one domain of their preferred level
    apart[k, D]  parts of kind k that open in domain D and are split below it
    empty[k, D]  parts of kind k without any unit, of what opened in domain D
    load[s, J]   units of pod class s on nodes of class J

A domain must hold at least what opened inside it: for every domain D and kind,
the parts in D >= those that the wholes opened in D consist of; for every pod class,
the load in D >= the units of what opened in D. As domains form a forest, that
suffices to disaggregate everything (serve the narrowest domains first).

What it takes for less than it is: a part that is split counts as using two
domains, or as many as counting proves. Parts that fill a large share of a
domain are told apart, and count the domains that they use one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import le
from typing import TypeVar

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.disaggregation import Disaggregation, Large, Reading, Tally
from placement_service.cp_sat.domain_forest import ROOT, Forest
from placement_service.cp_sat.domain_packings import Budget, DomainPackings, Multiset
from placement_service.cp_sat.node_classes import classify
from placement_service.cp_sat.node_packing import Filling
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.part_types import Ask, Content, Kind, Kinds
from placement_service.cp_sat.rules import queues
from placement_service.cp_sat.solving import Answer, Var, dot, hold, lesser, optimise
from placement_service.formulation.arrays import Ints
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Admission, Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN

K = TypeVar("K")

#: Whether parts are whole there, their kind, and the vertex.
Spot = tuple[bool, int, int]


@dataclass(slots=True, eq=False)
class _Alike:
    """Parts that ask for the same units [S], at most so many, and where they may be."""

    need: Ints
    most: int = 0
    spots: list[Spot] = field(default_factory=list)


class AggregateModel:
    """Gangs to decide, on nodes with what is free there; `fixed` stay as they are.

    All gangs must be plain (`kinds.is_plain`).
    """

    def __init__(
        self,
        counting: Counting,
        forest: Forest,
        gangs: Sequence[Gang],
        nodes: Ints,
        free: Ints,
        fixed: Plan,
        parameters: ModelParameters = MODEL_DEFAULTS,
    ) -> None:
        self.parameters = parameters
        self.problem = counting.problem
        self.counting = counting
        self.forest = forest
        self.gangs = gangs
        self.cp = cp_model.CpModel()
        self.kinds = Kinds(counting, forest, gangs, fixed)
        demand: dict[int, int] = {}
        for g in gangs:
            for d in g.demands:
                demand[d.pod_class] = demand.get(d.pod_class, 0) + d.count
        self.pod_classes = sorted(demand)
        self.pod_class_at = {s: k for k, s in enumerate(self.pod_classes)}
        self.classes = classify(
            self.problem,
            free,
            nodes,
            self.pod_classes,
            [demand[s] for s in self.pod_classes],
            forest.levels,
            (),
            parameters,
        )
        self._path = [
            tuple(int(v) for v in forest.holds[:, c.nodes[0]] if v >= 0) for c in self.classes
        ]
        self._vertices = sorted({v for path in self._path for v in path})
        self._room(free)
        self._at_depth: dict[int, list[int]] = {}
        for v in self._vertices:
            self._at_depth.setdefault(forest.depth_of[v], []).append(v)
        self._needs: dict[int, Ints] = {}
        self._fit: dict[int, Ints] = {}
        self._upper: dict[int, int] = {}
        self.costs: Terms[Var] = []
        #: By `Ask.priority`.
        self.extras: dict[int, Terms[Var]] = {}
        self.tally: Tally[Var] = Tally()
        self._units: dict[int, list[tuple[int, Var, int]]] = {}
        self._demand: dict[int, list[tuple[int, Var, int]]] = {}
        #: What is taken of the rows of queues.
        self._taken: list[Terms[Var]] = [[] for _ in self.problem.queue_rows]
        self._packed: list[tuple[list[Var], list[Multiset], list[list[Spot]]]] = []
        self._gangs_open()
        # A part's kind has a larger index than those of its own parts.
        for k in range(len(self.kinds.kinds) - 1, -1, -1):
            if k in self._demand:
                self._kind_opens(k)
        self._units_lie_on_nodes()
        for row, terms in zip(self.problem.queue_rows, self._taken, strict=True):
            queues.post(self.cp, self.problem, row, terms, fixed)
        self._counting_rows_hold()

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.cp.proto.variables)

    def _new(self, most: int) -> Var:
        var = self.cp.new_int_var(0, most, "")
        self._upper[var.index] = most
        return var

    # --- what fits where ------------------------------------------------------------

    def _room(self, free: Ints) -> None:
        """Per vertex: units of each pod class, and what is free of each resource."""
        count = len(self.forest.depth_of)
        self._slots = np.zeros((count, len(self.pod_classes)), dtype=np.int64)
        self._free = np.zeros((count, free.shape[1]), dtype=np.float64)
        for c, path in zip(self.classes, self._path, strict=True):
            for v in path:
                self._slots[v] += len(c.nodes) * np.array(c.most, dtype=np.int64)
                self._free[v] += free[list(c.nodes)].sum(axis=0, dtype=np.float64)

    def _need(self, content: Content) -> Ints:
        """The least units of each pod class that a content asks for."""
        total = np.zeros(len(self.pod_classes), dtype=np.int64)
        for ask in content.asks:
            if len(ask.pod_classes) == 1:
                total[self.pod_class_at[ask.pod_classes[0][0]]] += ask.least
        for kind, times in content.kinds:
            total += times * self._kind_need(kind)
        return total

    def _kind_need(self, kind: int) -> Ints:
        if kind not in self._needs:
            self._needs[kind] = self._need(self.kinds.kinds[kind].apart)
        return self._needs[kind]

    def _most(self, kind: int) -> Ints:
        """At most so many parts of a kind fit in each vertex."""
        if kind not in self._fit:
            need = self._kind_need(kind)
            most = np.full(len(self._slots), 1 << 20, dtype=np.int64)
            for k in np.flatnonzero(need):
                np.minimum(most, self._slots[:, k] // need[k], out=most)
            amounts = need @ self.problem.request[self.pod_classes].astype(np.float64)
            for r in np.flatnonzero(amounts):
                by_amount = np.floor(self._free[:, r] / amounts[r] + 1e-9)
                np.minimum(most, by_amount.astype(np.int64), out=most)
            # A part lies at its vertex or spreads over the narrower ones below it.
            self._fit[kind] = most
        return self._fit[kind]

    def _total(self, kind: int) -> int:
        """At most so many parts of a kind are asked for."""
        return sum(max(0, times) * self._upper[v.index] for _, v, times in self._demand[kind])

    # --- gangs ------------------------------------------------------------------------

    def _gangs_open(self) -> None:
        cp, kinds = self.cp, self.kinds
        self.z = [self._new(len(g.gangs)) for g in kinds.groups]
        self.tally.gangs = dict(enumerate(self.z))
        for z, group in zip(self.z, kinds.groups, strict=True):
            if group.keep:
                cp.add(z == len(group.gangs))
        singles: list[Terms[Var]] = [[(z, 1)] for z in self.z]
        for f, family in enumerate(kinds.families):
            base = self.z[family.base]
            if family.whole >= 0:
                whole = self.tally.sets[f] = self._new(len(family.sets))
                self._demand.setdefault(family.whole, []).append((ROOT, whole, 1))
                cp.add(whole <= base)
                for at, times in family.scaled.items():
                    cp.add(times * whole <= self.z[at])
                    singles[at].append((whole, -times))
                singles[family.base].append((whole, -1))
                self._sets_cost(f)
            for at, times in family.scaled.items():
                cp.add(dot(singles[at]) <= times * dot(singles[family.base]))
        for g, group in enumerate(kinds.groups):
            for kind, times in group.content.kinds:
                self._demand.setdefault(kind, []).extend(
                    (ROOT, v, w * times) for v, w in singles[g]
                )
            for i, ask in enumerate(group.content.asks):
                amounts = self._ask(ROOT, ask, singles[g], len(group.gangs))
                for pod_class, v in amounts.items():
                    self.tally.loose[g, i, pod_class] = v

    def _sets_cost(self, f: int) -> None:
        """Sets that are not whole in one domain, but have all their gangs, cost one more."""
        family = self.kinds.families[f]
        size = sum(family.scaled.values())
        members = family.sets[0]
        gangs = [self.problem.gangs[i] for i in (members[0], *members[1])]
        level = next(g.set_level for g in gangs if g.set_level >= 0)
        if self._fits_outside(self._need(self.kinds.kinds[family.whole].apart), level):
            return
        apart = self._new(len(family.sets))
        single = [t for at in family.scaled for t in self._rest(at, f)]
        bases = self._rest(family.base, f)
        self.cp.add(dot([(apart, 1), *((v, w * (size - 1)) for v, w in bases)]) >= dot(single))
        self.costs.append((apart, UNITS_PER_DOMAIN))

    def _rest(self, group: int, f: int) -> Terms[Var]:
        """Gangs of a group that are not in a whole set."""
        family = self.kinds.families[f]
        times = 1 if group == family.base else family.scaled[group]
        return [(self.z[group], 1), (self.tally.sets[f], -times)]

    def _fits_outside(self, need: Ints, level: int) -> bool:
        """Whether a node that is in no domain of a level may hold it all."""
        outside = self.forest.holds[self.forest.depth[level]] < 0
        used = np.flatnonzero(need)
        return any(
            outside[c.nodes[0]] and all(c.most[k] >= need[k] for k in used) for c in self.classes
        )

    # --- parts ------------------------------------------------------------------------

    def _ask(
        self, at: int, ask: Ask, times: Terms[Var], most: int, count_extras: bool = True
    ) -> dict[int, Var]:
        """Units that `times` parts ask for, lying in `at`; variables where there is a choice."""
        if ask.is_certain:
            pod_class = ask.pod_classes[0][0]
            self._units.setdefault(pod_class, []).extend((at, v, w * ask.least) for v, w in times)
            self._charge(ask, pod_class, ((v, w * ask.least) for v, w in times))
            return {}
        found: dict[int, Var] = {}
        for i, (pod_class, cap) in enumerate(ask.pod_classes):
            v = found[i] = self._new(min(cap, ask.most) * most)
            self.cp.add(v <= min(cap, ask.most) * dot(times))
            self._units.setdefault(pod_class, []).append((at, v, 1))
            self._charge(ask, pod_class, ((v, 1),))
        total = cp_model.LinearExpr.sum(list(found.values()))
        if ask.least:
            self.cp.add(total >= ask.least * dot(times))
        if len(found) > 1:
            self.cp.add(total <= ask.most * dot(times))
        if count_extras and ask.most > ask.least:
            extras = self.extras.setdefault(ask.priority, [])
            extras += [(v, 1) for v in found.values()]
            extras += [(v, -w * ask.least) for v, w in times if ask.least]
        return found

    def _charge(self, ask: Ask, pod_class: int, units: Iterable[tuple[Var, int]]) -> None:
        """Count units of an ask in the rows of its queues."""
        units = tuple(units)
        for r in ask.queue_rows:
            weight = int(self.problem.queue_rows[r].weight[pod_class])
            self._taken[r] += [(v, w * weight) for v, w in units if weight]

    def _open(self, kind: int, whole: bool, at: int, var: Var, most: int) -> None:
        """Parts open in a domain: their units and parts lie there."""
        k = self.kinds.kinds[kind]
        content = k.whole if whole else k.apart
        assert content is not None
        for i, ask in enumerate(content.asks):
            for choice, v in self._ask(at, ask, [(var, 1)], most).items():
                self.tally.units[kind, whole, at, i, choice] = v
        for child, times in content.kinds:
            self._demand.setdefault(child, []).append((at, var, times))

    def _kind_opens(self, kind: int) -> None:
        k = self.kinds.kinds[kind]
        total = self._total(kind)
        most = self._most(kind)
        if self._is_large(k, most, total):
            for _ in range(total):
                self.tally.large.append(self._large(kind))
            there = [p.there for p in self.tally.large[-total:]] if total else []
            for a, b in pairwise(there):
                self.cp.add(a >= b)
            needed = dot([(v, times) for _, v, times in self._demand[kind]])
            self.cp.add(cp_model.LinearExpr.sum(there) == needed)
            return
        supply: list[tuple[int, Var]] = []
        for v in self._at_depth.get(k.at, ()):
            if k.pin >= 0 and k.pin not in self.forest.above[v]:
                continue
            upper = min(total, int(most[v]))
            if upper <= 0:
                continue
            var = self.tally.apart[kind, v] = self._new(upper)
            supply.append((v, var))
            self._open(kind, False, v, var, upper)
            cost = k.cost_apart
            if k.preferred and not k.running:
                level = self.forest.levels[k.preferred - 1]
                if self._fits_outside(self._kind_need(kind), level):
                    cost = max(0, k.least - 1)
            if cost:
                self.costs.append((var, cost * UNITS_PER_DOMAIN))
        for v in self._at_depth.get(k.preferred, ()) if k.preferred else ():
            if k.at not in {self.forest.depth_of[up] for up in self.forest.above[v]}:
                continue
            if k.pin >= 0 and k.pin not in self.forest.above[v]:
                continue
            upper = min(total, int(most[v]))
            if upper <= 0:
                continue
            var = self.tally.whole[kind, v] = self._new(upper)
            supply.append((v, var))
            self._open(kind, True, v, var, upper)
            if k.cost_whole(v):
                self.costs.append((var, k.cost_whole(v) * UNITS_PER_DOMAIN))
        if self.kinds.may_be_empty(k.apart):
            # Extras alone need no domain.
            for v in {v for v, _, _ in self._demand[kind]}:
                var = self.tally.empty[kind, v] = self._new(total)
                supply.append((v, var))
                if k.fixed:
                    self.costs.append((var, k.fixed * UNITS_PER_DOMAIN))
        self._supply_covers(supply, self._demand[kind])

    def _supply_covers(
        self, supply: Sequence[tuple[int, Var]], demand: Sequence[tuple[int, Var, int]]
    ) -> None:
        """Every domain holds the parts of what opened in it; nothing is left over."""
        where = {v for v, _, _ in demand} | {ROOT}
        have: dict[int, list[Var]] = {v: [] for v in where}
        need: dict[int, Terms[Var]] = {v: [] for v in where}
        for v, var in supply:
            for up in self.forest.above[v]:
                if up in where:
                    have[up].append(var)
        for v, var, times in demand:
            for up in self.forest.above[v]:
                if up in where:
                    need[up].append((var, times))
        for v in where:
            if v == ROOT:
                self.cp.add(cp_model.LinearExpr.sum(have[v]) == dot(need[v]))
            else:
                self.cp.add(cp_model.LinearExpr.sum(have[v]) >= dot(need[v]))

    def _units_lie_on_nodes(self) -> None:
        asked = {s for s in self._units}
        for j, c in enumerate(self.classes):
            for k, s in enumerate(self.pod_classes):
                if c.most[k] and s in asked:
                    self.tally.load[k, j] = self._new(len(c.nodes) * c.most[k])
        self.filling = Filling(
            self.cp,
            self.problem,
            self.pod_classes,
            self.classes,
            {key: [v] for key, v in self.tally.load.items()},
        )
        by_shape: dict[int, list[tuple[int, Var]]] = {}
        for (k, j), v in self.tally.load.items():
            by_shape.setdefault(self.pod_classes[k], []).append((j, v))
        for pod_class, demand in self._units.items():
            where = {v for v, _, _ in demand} | {ROOT}
            have: dict[int, list[Var]] = {v: [] for v in where}
            need: dict[int, Terms[Var]] = {v: [] for v in where}
            for j, v in by_shape.get(pod_class, ()):
                for up in self._path[j]:
                    if up in where:
                        have[up].append(v)
            for at, v, times in demand:
                for up in self.forest.above[at]:
                    if up in where:
                        need[up].append((v, times))
            for at in where:
                self.cp.add(cp_model.LinearExpr.sum(have[at]) >= dot(need[at]))

    def _counting_rows_hold(self) -> None:
        """Rows of the whole problem are valid cuts when nothing is fixed."""
        if self.kinds.fixed:
            return
        group_of = {i: g for g, group in enumerate(self.kinds.groups) for i in group.gangs}
        for row in self.counting.rows:
            weights: dict[int, int] = {}
            for w, c in zip(row.weight.tolist(), self.counting.classes, strict=True):
                for g in {group_of[i] for i in c.gangs if i in group_of}:
                    weights[g] = min(w, weights.get(g, w))
            self.cp.add(dot([(self.z[g], w) for g, w in weights.items() if w]) <= row.capacity)

    # --- what fits together -------------------------------------------------------------

    def tell_what_fits(self, deadline: float) -> None:
        """Say of domains which parts fit into them together: redundant, but far tighter.

        Let n[D, p] be 1 when what domain D holds is below its p-th maximal multiset
        (`domain_packings`). Then sum_p n[D, p] <= 1, and for every part

            parts in domains inside D <= sum_p p[part] * n[D, p]

        This holds for every plan: the units of a part that opened in D or inside it lie on
        nodes of D, no unit belongs to two of the parts (those that may be parts of others
        there are not counted), so the multiset of these parts fits and is below a maximal
        one. Where there are too many multisets small parts are not counted either.
        """
        inner = self._inner_kinds()
        inside: dict[int, dict[int, list[Spot]]] = {}
        for whole, table in ((False, self.tally.apart), (True, self.tally.whole)):
            for kind, v in table:
                for up in self.forest.above[v]:
                    if up != ROOT:
                        inside.setdefault(up, {}).setdefault(kind, []).append((whole, kind, v))
        packings: dict[object, DomainPackings] = {}
        budget = Budget(self.parameters.packing_trials, self.parameters.packing_proofs, deadline)
        order = sorted(inside, key=lambda v: (-self.forest.depth_of[v], v))
        for i, v in enumerate(order):
            classes = [c for c, path in zip(self.classes, self._path, strict=True) if v in path]
            if not 0 < sum(len(c.nodes) for c in classes) <= self.parameters.packing_nodes:
                continue
            hidden = frozenset[int]().union(*(inner[kind] for kind in inside[v]))
            parts: dict[bytes, _Alike] = {}
            for kind, spots in inside[v].items():
                need = self._kind_need(kind)
                if kind not in hidden and need.any():
                    # Parts that ask for the same need not be told apart.
                    alike = parts.setdefault(need.tobytes(), _Alike(need))
                    alike.most += self._total(kind)
                    alike.spots += spots
            key = DomainPackings.key(classes)
            if key not in packings:
                packings[key] = DomainPackings(
                    self.counting, self.pod_classes, classes, self.parameters
                )
            mine = budget.share(len(order) - i)
            self._pack(packings[key], list(parts.values()), mine)
            budget.give_back(mine)

    def _pack(self, packing: DomainPackings, parts: list[_Alike], budget: Budget) -> None:
        parts.sort(key=lambda p: -packing.size(p.need))
        found: list[Multiset] | None = None
        while parts and found is None:
            # Half of what is left, lest the next try have nothing.
            mine = budget.share(2)
            found = packing.maximal([p.need for p in parts], [p.most for p in parts], mine)
            budget.give_back(mine)
            if found is None:
                del parts[len(parts) // 2 :]
        if not found:
            return
        uses = [self._new(1) for _ in found]
        self.cp.add(cp_model.LinearExpr.sum(uses) <= 1)
        for i, part in enumerate(parts):
            variables = [
                (self.tally.whole if whole else self.tally.apart)[kind, v]
                for whole, kind, v in part.spots
            ]
            supply = [(use, p[i]) for use, p in zip(uses, found, strict=True) if p[i]]
            self.cp.add(cp_model.LinearExpr.sum(variables) <= dot(supply))
        self._packed.append((uses, found, [part.spots for part in parts]))

    def _inner_kinds(self) -> list[frozenset[int]]:
        """By kind: the kinds of all parts that are parts of its parts."""
        found: list[frozenset[int]] = []
        # A part's kind has a larger index than those of its own parts.
        for k in self.kinds.kinds:
            children = {c for content in (k.apart, k.whole) if content for c, _ in content.kinds}
            found.append(frozenset(children).union(*(found[c] for c in children)))
        return found

    # --- large parts ------------------------------------------------------------------

    def _is_large(self, k: Kind, most: Ints, total: int) -> bool:
        if not k.preferred or k.at or k.pin >= 0 or k.running or not k.least:
            return False
        if k.whole != k.apart:
            # Something in it needs a domain that is not narrower.
            return False
        places = self._at_depth.get(k.preferred, [])
        best = max((int(most[v]) for v in places), default=0)
        return best <= 1 and len(self.tally.large) + total <= self.parameters.large_parts

    def _large(self, kind: int) -> Large[Var]:
        cp, k = self.cp, self.kinds.kinds[kind]
        content = k.whole
        assert content is not None
        there = self._new(1)
        places = list(self._at_depth.get(k.preferred, ()))
        uses = {v: self._new(1) for v in places}
        part = Large(kind, there, uses, {}, {})
        level = self.forest.levels[k.preferred - 1]
        outside = self.forest.holds[self.forest.depth[level]] < 0
        lonely = any(outside[c.nodes[0]] for c in self.classes)
        # Nodes in no domain of the level: what lies there is not charged for.
        spots = [*places, ROOT] if lonely else places
        for i, ask in enumerate(content.asks):
            every: list[Var] = []
            for choice, (pod_class, cap) in enumerate(ask.pod_classes):
                mine: list[Var] = []
                column = self.pod_class_at[pod_class]
                for v in spots:
                    cap_here = min(cap, ask.most, int(self._slots[v][column]))
                    if not cap_here:
                        continue
                    x = part.units[v, i, choice] = self._new(cap_here)
                    mine.append(x)
                    self._units.setdefault(pod_class, []).append((v, x, 1))
                    self._charge(ask, pod_class, ((x, 1),))
                    cp.add(x <= cap_here * (uses[v] if v != ROOT else there))
                cp.add(cp_model.LinearExpr.sum(mine) <= cap * there)
                every += mine
            total = cp_model.LinearExpr.sum(every)
            cp.add(total >= ask.least * there)
            cp.add(total <= ask.most * there)
            if ask.most > ask.least:
                extras = self.extras.setdefault(ask.priority, [])
                extras += [(x, 1) for x in every]
                extras.append((there, -ask.least))
        for child, times in content.kinds:
            mine = []
            most = self._most(child)
            for v in spots:
                cap_here = min(times, int(most[v]))
                if cap_here <= 0:
                    continue
                x = part.parts[v, child] = self._new(cap_here)
                mine.append(x)
                self._demand.setdefault(child, []).append((v, x, 1))
                cp.add(x <= cap_here * (uses[v] if v != ROOT else there))
            cp.add(cp_model.LinearExpr.sum(mine) == times * there)
        used = cp_model.LinearExpr.sum(list(uses.values()))
        cp.add(used >= (0 if lonely else max(1, k.least)) * there)
        # On nodes in no domain it may use more places than there are domains.
        extra = self._new(max(len(places), k.least))
        cp.add(extra >= used - there)
        if k.least > 1:
            cp.add(extra >= (k.least - 1) * there)
        self.costs.append((extra, UNITS_PER_DOMAIN))
        return part

    # --- goals ------------------------------------------------------------------------

    def admissions(self) -> Iterable[Admission[Var]]:
        for z, group in zip(self.z, self.kinds.groups, strict=True):
            if self.problem.gangs[group.gangs[0]].pending:
                yield Admission(z, group.gangs)

    def lesser(self, terms: Terms[Var], most: int) -> Var:
        return lesser(self.cp, terms, most)

    def extra_units(self, priority: int | None) -> Terms[Var]:
        return [t for p, terms in self.extras.items() if priority in (None, p) for t in terms]

    def kept_pods(self) -> Terms[Var]:
        # Gangs that are open to decision are no part of the model.
        return []

    def topology_cost(self) -> Terms[Var]:
        return self.costs

    def fragmentation_cost(self) -> None:
        return None

    def hold(
        self, terms: Terms[Var], *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        """Keep a goal at what was reached."""
        hold(self.cp, terms, at_least, at_most)

    def solve(
        self,
        terms: Terms[Var],
        *,
        maximize: bool,
        hint: Plan | None,
        seconds: float,
        effort: float,
        portfolio: bool = False,
        linear: int = 2,
    ) -> Answer:
        """Optimise one goal, from a plan if there is one; see `solving.optimise`."""
        if hint is not None:
            self._hint(hint)
        found = optimise(
            self.cp,
            terms,
            maximize=maximize,
            seconds=seconds,
            effort=effort,
            portfolio=portfolio and not self.problem.policy.deterministic,
            linear=linear,
        )
        if isinstance(found, Answer):
            return found
        plan = Disaggregation(
            self.kinds,
            self.pod_classes,
            self.classes,
            lambda j, kinds: self.filling.slots(found.solver, j, kinds),
            self.tally.map(found.solver.value),
        ).plan()
        return Answer(plan, found.value, found.bound, found.proven)

    def _hint(self, plan: Plan) -> None:
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        start = Reading(self.kinds, self.pod_classes, self.classes, plan, self.tally.large)
        mine, have = self.tally, start.tally

        def add(variables: Mapping[K, Var], counts: Mapping[K, int]) -> None:
            for key, v in variables.items():
                self.cp.add_hint(v, min(counts.get(key, 0), self._upper[v.index]))

        add(mine.gangs, have.gangs)
        add(mine.loose, have.loose)
        add(mine.sets, have.sets)
        add(mine.whole, have.whole)
        add(mine.apart, have.apart)
        add(mine.empty, have.empty)
        add(mine.units, have.units)
        add(mine.load, have.load)
        for p, q in zip(mine.large, have.large, strict=True):
            self.cp.add_hint(p.there, q.there)
            add(p.uses, q.uses)
            add(p.units, q.units)
            add(p.parts, q.parts)
        self.filling.hint(start.on_node)
        for uses, multisets, parts in self._packed:
            held = [
                sum((have.whole if whole else have.apart).get((kind, v), 0) for whole, kind, v in p)
                for p in parts
            ]
            first = next((i for i, p in enumerate(multisets) if all(map(le, held, p))), -1)
            for i, use in enumerate(uses):
                self.cp.add_hint(use, i == first)


def aggregate_size(problem: Problem, forest: Forest, gangs: Sequence[Gang]) -> int:
    """About how many variables a model of everything would have, before it is built."""
    pod_classes = {d.pod_class for g in gangs for d in g.demands}
    kinds = np.unique(np.concatenate([forest.holds.T, problem.free], axis=1), axis=0)
    return len(kinds) * len(pod_classes)
