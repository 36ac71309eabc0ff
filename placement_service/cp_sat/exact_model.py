"""The exact model: some gangs on some nodes, with every rule.

It is used on the whole problem when that is small, and on neighbourhoods of it
when it is not. Nodes enter as classes (see `cells`), pods as counts per demand
and class, so pods and nodes of a kind are never told apart:

    z[g]      gang g is placed
    x[d, J]   units of demand d on nodes of class J
    u[s, D]   required scope s is in domain D          sum_D u[s, D] = z
    w[s, P]   preferred scope s uses place P           x <= count * w
    n[J, p]   nodes of class J filled after pattern p  load <= sum_p p * n

The tiers are solved one after another, each with the ones before held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, pairwise

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.home_pods import HomePods
from placement_service.cp_sat.node_classes import NodeClass, classify
from placement_service.cp_sat.node_packing import Filling
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.rules import post, queues
from placement_service.cp_sat.rules.counts import ClassCount
from placement_service.cp_sat.solving import Answer, Var, dot, hold, optimise
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import LevelIdx, NodeIdx
from placement_service.formulation.plan import Plan, Units, is_placed, oldest_first
from placement_service.formulation.problem import Gang, Problem, Scope
from placement_service.formulation.tiers.goal import Terms


class ExactModel:
    """Gangs to decide, on nodes with what is free there.

    `fixed` are gangs that stay as they are; their units are already out of
    `free`. `bases` are gangs taken for placed, wherever they are. The gangs of
    the model must not meet fixed ones in rules between pods
    (`Problem.special`).
    """

    def __init__(
        self,
        counting: Counting,
        gangs: Sequence[Gang],
        nodes: Ints,
        free: Ints,
        fixed: Plan,
        bases: Collection[int] = (),
        parameters: ModelParameters = MODEL_DEFAULTS,
    ) -> None:
        self.parameters = parameters
        self.problem = counting.problem
        self.counting = counting
        self.gangs = tuple(g for g in gangs if g.placeable)
        self.fixed = fixed
        self.bases = bases
        self.cp = cp_model.CpModel()
        self._inside: dict[int, frozenset[int]] = {}
        self._domains_of = {
            (g.index, i): self._open_domains(g, s)
            for g in self.gangs
            for i, s in enumerate(g.scopes)
            if s.required >= 0 and s.demands
        }
        self._classes(nodes, free)
        self._variables()
        self._gang_is_all_or_nothing()
        self._base_comes_first()
        self._required_scopes_hold()
        self._nodes_are_not_overfilled()
        self._rules_between_pods_hold()
        self._queues_hold()
        self.home_pods = HomePods(self)
        self.home_pods.budgets_hold()
        self._counting_rows_hold()
        self._equal_gangs_are_ordered()
        self.w: dict[tuple[int, int, int, tuple[int, ...]], Var] = {}

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.cp.proto.variables)

    # --- building blocks ----------------------------------------------------

    def _open_domains(self, gang: Gang, scope: Scope) -> Ints:
        return np.flatnonzero(self.counting.domains_for(gang, scope))

    def _classes(self, nodes: Ints, free: Ints) -> None:
        demand: dict[int, int] = {}
        for g in self.gangs:
            for d in g.demands:
                demand[d.pod_class] = demand.get(d.pod_class, 0) + d.count
        self.pod_classes = sorted(demand)
        self._pod_class_at = {s: k for k, s in enumerate(self.pod_classes)}
        levels = {
            level
            for g in self.gangs
            for s in g.scopes
            if not is_single(g, s)
            for level in (s.required, s.preferred)
        }
        levels |= {g.set_level for g in self.gangs}
        levels |= {rule.level for rule in self.problem.rules}
        levels |= {i for i in self.problem.scope_levels if not self.problem.levels[i].is_host}
        untouched = (free == self.problem.free).all(axis=1)
        self.whole = self.problem.whole_free & untouched
        marks = [self.whole, self.problem.node_gpus > 0]
        named = (self.problem.levels[i] for i in self.problem.scope_levels)
        marks += [level.domain >= 0 for level in named if level.is_host]
        for g in self.gangs:
            if g.previous:
                mask = np.zeros(self.problem.node_count, dtype=bool)
                mask[list(g.previous)] = True
                marks.append(mask)
            for count in {home.units for home in g.home if g.keeps}:
                mask = np.zeros(self.problem.node_count, dtype=bool)
                mask[[home.node for home in g.home if home.units == count]] = True
                marks.append(mask)
            for s in g.scopes:
                if s.required >= 0 and is_single(g, s):
                    marks.append(self.problem.levels[s.required].domain >= 0)
        self.classes: tuple[NodeClass, ...] = classify(
            self.problem,
            free,
            nodes,
            self.pod_classes,
            [demand[s] for s in self.pod_classes],
            sorted(levels - {-1}),
            marks,
            self.parameters,
        )

    def _variables(self) -> None:
        cp = self.cp
        self.z = {g.index: cp.new_bool_var("") for g in self.gangs if g.pending}
        self.x: dict[tuple[int, int, int], Var] = {}
        self.at_class: dict[tuple[int, int], dict[int, Var]] = {}
        for g in self.gangs:
            for d, demand in enumerate(g.demands):
                k = self._pod_class_at[demand.pod_class]
                here: dict[int, Var] = {}
                for j, c in enumerate(self.classes):
                    most = min(demand.count, len(c.nodes) * c.most[k])
                    if most and self._may_be_at(g, d, c):
                        here[j] = self.x[g.index, d, j] = cp.new_int_var(0, most, "")
                self.at_class[g.index, d] = here

    def _may_be_at(self, gang: Gang, demand: int, c: NodeClass) -> bool:
        node = c.nodes[0]
        for i, s in enumerate(gang.scopes):
            if s.required >= 0 and demand in s.demands:
                domain = int(self.problem.levels[s.required].domain[node])
                if domain not in self._domain_set(gang, i):
                    return False
        return True

    def _domain_set(self, gang: Gang, scope: int) -> frozenset[int]:
        domains = self._domains_of[gang.index, scope]
        key = id(domains)
        if key not in self._inside:
            self._inside[key] = frozenset(domains.tolist())
        return self._inside[key]

    def _placed(self, index: int) -> Var | bool:
        """Whether a gang of the problem, fixed or not, is placed."""
        if index in self.z:
            return self.z[index]
        return index in self.bases or is_placed(self.problem.gangs[index], self.fixed)

    # --- rules ----------------------------------------------------------------

    def _gang_is_all_or_nothing(self) -> None:
        for g in self.gangs:
            for q in g.requirements:
                for d in q.demands if len(q.demands) > 1 else ():
                    self._at_most(list(self.at_class[g.index, d].values()), g.demands[d].count)
                units = cp_model.LinearExpr.sum(
                    [v for d in q.demands for v in self.at_class[g.index, d].values()]
                )
                if g.pending and q.missing == q.pending:
                    self.cp.add(units == q.missing * self.z[g.index])
                elif g.pending:
                    self.cp.add(units >= q.missing * self.z[g.index])
                    self.cp.add(units <= q.pending * self.z[g.index])
                else:
                    self.cp.add(units <= q.pending)

    def _base_comes_first(self) -> None:
        for g in self.gangs:
            if g.base < 0:
                continue
            base = self._placed(g.base)
            if g.pending:
                self.cp.add(self.z[g.index] <= base)
            elif base is not True:
                for d in range(len(g.demands)):
                    for v in self.at_class[g.index, d].values():
                        self.cp.add(v <= g.demands[d].count * base)

    def _required_scopes_hold(self) -> None:
        self.u: dict[tuple[int, int, int], Var] = {}
        for g in self.gangs:
            for i, s in enumerate(g.scopes):
                if s.required < 0 or not s.demands or s.pin >= 0 or is_single(g, s):
                    continue
                self._one_domain(g, i, s)
            self._inner_scopes_follow(g)

    def _one_domain(self, g: Gang, i: int, s: Scope) -> None:
        domain = self.problem.levels[s.required].domain
        by_domain: dict[int, dict[int, list[Var]]] = {}
        for d in s.demands:
            for j, v in self.at_class[g.index, d].items():
                here = by_domain.setdefault(int(domain[self.classes[j].nodes[0]]), {})
                here.setdefault(d, []).append(v)
        for at in by_domain:
            self.u[g.index, i, at] = self.cp.new_bool_var("")
        chosen = cp_model.LinearExpr.sum([self.u[g.index, i, at] for at in by_domain])
        whole = [q for q in g.requirements if q.missing and set(q.demands) <= set(s.demands)]
        if g.pending and whole:
            self.cp.add(chosen == self.z[g.index])
        else:
            self.cp.add(chosen <= 1)
        for at, demands in by_domain.items():
            u = self.u[g.index, i, at]
            for d, variables in demands.items():
                self.cp.add(cp_model.LinearExpr.sum(variables) <= g.demands[d].count * u)
            if g.pending:
                for q in whole:
                    units = [v for d in q.demands for v in demands.get(d, ())]
                    if q.missing == q.pending:
                        self.cp.add(cp_model.LinearExpr.sum(units) == q.missing * u)
                    else:
                        self.cp.add(cp_model.LinearExpr.sum(units) >= q.missing * u)

    def _inner_scopes_follow(self, g: Gang) -> None:
        """Where levels nest, an inner scope's domain lies in the outer one's."""
        for i, inner in enumerate(g.scopes):
            for k, outer in enumerate(g.scopes):
                if (
                    i == k
                    or min(inner.required, outer.required) < 0
                    or not set(inner.demands) < set(outer.demands)
                ):
                    continue
                parent = self.counting.topology.parent(inner.required, outer.required)
                if parent is None:
                    continue
                below: dict[int, list[Var]] = {}
                for (gang, scope, at), u in self.u.items():
                    if gang == g.index and scope == i:
                        below.setdefault(int(parent[at]), []).append(u)
                for up, variables in below.items():
                    above = self.u.get((g.index, k, up))
                    if above is not None:
                        self.cp.add(cp_model.LinearExpr.sum(variables) <= above)

    def _nodes_are_not_overfilled(self) -> None:
        self.load: dict[tuple[int, int], list[Var]] = {}
        for (g, d, j), v in self.x.items():
            k = self._pod_class_at[self.problem.gangs[g].demands[d].pod_class]
            self.load.setdefault((k, j), []).append(v)
        self.filling = Filling(self.cp, self.problem, self.pod_classes, self.classes, self.load)

    def _at_most(self, variables: Sequence[Var], most: int) -> None:
        self.cp.add(cp_model.LinearExpr.sum(variables) <= most)

    def _rules_between_pods_hold(self) -> None:
        for rule in self.problem.rules:
            post(self, rule)

    def _queues_hold(self) -> None:
        for r, row in enumerate(self.problem.queue_rows):
            terms = [
                (v, int(row.weight[g.demands[d].pod_class]))
                for g in self.gangs
                if r in g.queue_rows
                for d in range(len(g.demands))
                for v in self.at_class[g.index, d].values()
            ]
            queues.post(self.cp, self.problem, row, terms, self.fixed)

    def by_domain(self, level: LevelIdx, classes: Bools) -> dict[int, list[ClassCount]]:
        """Units of some pod classes by domain; domains without any are absent."""
        domain = self.problem.levels[level].domain
        found: dict[int, list[ClassCount]] = {}
        for (g, d, j), v in self.x.items():
            s = self.problem.gangs[g].demands[d].pod_class
            at = int(domain[self.classes[j].nodes[0]])
            if at >= 0 and classes[s]:
                found.setdefault(at, []).append(ClassCount(v, s))
        return found

    def presence(self, variables: Iterable[Var], most: int) -> Var:
        """A boolean that is 1 when any of the variables is positive."""
        there = self.cp.new_bool_var("")
        self.cp.add(cp_model.LinearExpr.sum(list(variables)) <= most * there)
        return there

    def total_units(self) -> int:
        return sum(d.count for g in self.gangs for d in g.demands)

    def _counting_rows_hold(self) -> None:
        """Rows of the whole problem are valid cuts when nothing is fixed."""
        if self.fixed:
            return
        for row in self.counting.rows:
            terms = [
                (self.z[g], int(w))
                for w, c in zip(row.weight, self.counting.classes, strict=True)
                for g in c.gangs
                if w and g in self.z
            ]
            self.cp.add(dot(terms) <= row.capacity)
        possible = {g for c in self.counting.classes for g in c.gangs}
        for g, z in self.z.items():
            if g not in possible:
                self.cp.add(z == 0)

    def _equal_gangs_are_ordered(self) -> None:
        """Of gangs that differ in name and age alone the oldest are placed first."""
        alike: dict[object, list[int]] = {}
        based = {g.base for g in self.problem.gangs}
        for g in sorted(self.gangs, key=oldest_first):
            if g.pending and g.base < 0 and g.index not in based and not g.previous:
                key = (
                    g.precedence,
                    g.priority,
                    g.value,
                    tuple((d.pod_class, d.count) for d in g.demands),
                    g.requirements,
                    g.scopes,
                    g.queue_rows,
                )
                alike.setdefault(key, []).append(g.index)
        for indices in alike.values():
            for a, b in pairwise(indices):
                self.cp.add(self.z[a] >= self.z[b])

    # --- solving ----------------------------------------------------------------

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
    ) -> Answer:
        """Optimise one goal, starting from a plan; see `solving.optimise`."""
        if hint is not None:
            self._hint(hint)
        found = optimise(
            self.cp,
            terms,
            maximize=maximize,
            seconds=seconds,
            effort=effort,
            portfolio=portfolio and not self.problem.policy.deterministic,
        )
        if isinstance(found, Answer):
            return found
        return Answer(self._plan(found.solver), found.value, found.bound, found.proven)

    def _hint(self, plan: Plan) -> None:
        cp = self.cp
        cp.clear_hints()  # type: ignore[no-untyped-call]
        class_of = {n: j for j, c in enumerate(self.classes) for n in c.nodes}
        counts: dict[tuple[int, int, int], int] = {}
        loads: dict[int, list[int]] = {}
        for gang in self.gangs:
            for d, n, count in plan.get(gang.index, ()):
                if n in class_of:
                    at = (gang.index, d, class_of[n])
                    counts[at] = counts.get(at, 0) + count
                    load = loads.setdefault(n, [0] * len(self.pod_classes))
                    load[self._pod_class_at[gang.demands[d].pod_class]] += count
        for at, v in self.x.items():
            cp.add_hint(v, counts.get(at, 0))
        for index, z in self.z.items():
            cp.add_hint(z, bool(plan.get(index)))
        for (index, i, domain), u in self.u.items():
            scope = self.problem.gangs[index].scopes[i]
            cp.add_hint(u, self._is_used(plan, index, scope.demands, scope.required, domain))
        for (index, level, place, demands), w in self.w.items():
            cp.add_hint(w, self._is_used(plan, index, demands, level, place))
        self.filling.hint({n: (class_of[n], load) for n, load in loads.items()})

    def _is_used(
        self, plan: Plan, gang: int, demands: tuple[int, ...], level: int, place: int
    ) -> bool:
        places = self.problem.levels[level].place_of
        return any(places[n] == place for d, n, _ in plan.get(gang, ()) if d in demands)

    def _plan(self, solver: cp_model.CpSolver) -> Plan:
        """Units on nodes from counts on classes."""
        units: dict[int, list[tuple[int, int, int]]] = {}
        todo: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for (g, d, j), v in self.x.items():
            count = solver.value(v)
            if count:
                k = self._pod_class_at[self.problem.gangs[g].demands[d].pod_class]
                todo.setdefault((j, k), []).append((g, d, count))
        for j, c in enumerate(self.classes):
            kinds = [k for k in range(len(self.pod_classes)) if (j, k) in todo]
            slots = self.filling.slots(solver, j, kinds)
            for k in kinds:
                sort = self.filling.sorts[k]
                for g, d, count in todo[j, k]:
                    homes = {h.node: h.units for h in self.problem.gangs[g].home if h.demand == d}
                    # Pods that may stay at home do.
                    first = [homes.get(NodeIdx(node), 0) for node in c.nodes] if homes else []
                    for at, most in chain(enumerate(first), enumerate([count] * len(c.nodes))):
                        take = min(count, most, slots[at][sort])
                        if take:
                            slots[at][sort] -= take
                            count -= take
                            units.setdefault(g, []).append((d, c.nodes[at], take))
                    assert count == 0, "a class of nodes was overfilled"
        return {g: _merge(found) for g, found in sorted(units.items())}


def _merge(found: Sequence[tuple[int, int, int]]) -> Units:
    counts: dict[tuple[int, int], int] = {}
    for d, n, count in found:
        counts[d, n] = counts.get((d, n), 0) + count
    return tuple((d, n, c) for (d, n), c in sorted(counts.items()))


def size_of(problem: Problem, gangs: Sequence[Gang], nodes: Ints) -> int:
    """About how many variables a model would have: demands times kinds of nodes."""
    columns = [problem.levels[i].place_of[nodes] for i in problem.scope_levels]
    columns += list(problem.free[nodes].T)
    kinds = np.unique(np.stack(columns, axis=1), axis=0) if columns else ()
    # A pod that stays at home or goes has one node to choose from.
    fixed = sum(len(g.home) for g in gangs if not g.keeps)
    return len(kinds) * (sum(len(g.demands) for g in gangs) - fixed) + fixed


def is_single(gang: Gang, scope: Scope) -> bool:
    """Whether the scope holds one unit at most, so that packing it is nothing."""
    units = sum(
        q.pending for q in gang.requirements if not set(q.demands).isdisjoint(scope.demands)
    )
    return units <= 1 and not scope.running and scope.pin < 0
