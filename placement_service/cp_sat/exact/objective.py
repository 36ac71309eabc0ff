"""What the exact model optimises: the tiers as linear goals over its variables.

Each goal adds the variables and constraints that it needs when it is first
asked for. `formulation.tiers` defines what the terms count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.cp_sat.exact.model import ExactModel, PlaceUse
from placement_service.cp_sat.exact.variables import is_single
from placement_service.cp_sat.node_classes import NodeClass
from placement_service.cp_sat.solving import Var, lesser, presence
from placement_service.entities.request import HOSTNAME
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.levels import Level
from placement_service.formulation.plan import is_placed, pods_of
from placement_service.formulation.problem import Gang, Scope
from placement_service.formulation.tiers.goal import Admission, Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN, sets


class _SetPlaces(NamedTuple):
    """Places that a set uses whatever is decided, and whether it uses each other one."""

    known: set[int]
    fresh: list[Var]


class Goals:
    """The goals of one model."""

    def __init__(self, model: ExactModel) -> None:
        self.model = model
        variables = self.variables = model.variables
        self.problem, self.fixed, self.cp = variables.problem, variables.fixed, variables.cp
        self.classes, self.z, self.x = variables.classes, variables.z, variables.x
        self.at_class, self.load = variables.at_class, variables.load
        self.hold, self.solve, self.gangs = model.hold, model.solve, variables.gangs

    def admissions(self) -> Iterable[Admission[Var]]:
        for index, z in self.z.items():
            yield Admission(z, (index,))

    def lesser(self, terms: Terms[Var], most: int) -> Var:
        return lesser(self.cp, terms, most)

    def extra_units(self, priority: int | None) -> Terms[Var]:
        """Units beyond the minimum, to be maximised."""
        terms: Terms[Var] = []
        for g in self.gangs:
            if priority not in (None, g.priority):
                continue
            for q in g.requirements:
                if q.pending > q.missing:
                    terms += [(v, 1) for d in q.demands for v in self.at_class[g.index, d].values()]
                    if g.pending and q.missing:
                        terms.append((self.z[g.index], -q.missing))
            if g.surplus:
                terms.append((self.z[g.index], g.surplus))
        return terms

    def kept_pods(self) -> Terms[Var]:
        """Running pods that stay at home, of gangs that are open to decision."""
        return [term for mine in self.model.home_pods.terms.values() for term in mine]

    def topology_cost(self) -> Terms[Var]:
        """Places beyond the first, to be minimised."""
        return self._topology

    def fragmentation_cost(self) -> Terms[Var]:
        """Nodes in domains that lose their wholeness, to be minimised."""
        return self._fragmentation

    @cached_property
    def _topology(self) -> Terms[Var]:
        terms = [*self.domains]
        for g in self.gangs:
            if g.previous:
                terms += [
                    (v, pods_of(g, d))
                    for d in range(len(g.demands))
                    for j, v in self.at_class[g.index, d].items()
                    if self.classes[j].nodes[0] not in g.previous
                ]
        return terms + self._set_terms()

    @cached_property
    def domains(self) -> Terms[Var]:
        """The share of the preferred scopes alone, without sets and previous nodes."""
        terms: Terms[Var] = []
        for g in self.gangs:
            fresh = self._gets_new_pods(g)
            for s in g.scopes:
                if s.preferred >= 0 and s.demands and not is_single(g, s):
                    terms += self._scope_terms(g, s, fresh)
                elif s.preferred >= 0 and s.running:
                    terms.append((fresh, (len(s.running) - 1) * UNITS_PER_DOMAIN))
        return terms

    def _gets_new_pods(self, g: Gang) -> Var:
        if g.pending:
            return self.z[g.index]
        return presence(self.cp, self.variables.of_gang(g), self.variables.total_units())

    def _by_place(self, g: Gang, demand: int, level: int) -> dict[int, list[Var]]:
        place = self.problem.levels[level].place_of
        found: dict[int, list[Var]] = {}
        for j, v in self.at_class[g.index, demand].items():
            found.setdefault(int(place[self.classes[j].nodes[0]]), []).append(v)
        return found

    def _scope_terms(self, g: Gang, s: Scope, fresh: Var) -> Terms[Var]:
        uses: dict[int, Var] = {}
        for d in s.demands:
            for at, variables in self._by_place(g, d, s.preferred).items():
                if at in s.running:
                    continue
                if at not in uses:
                    uses[at] = self.model.w[PlaceUse(g.index, s.preferred, at, s.demands)] = (
                        self.cp.new_bool_var("")
                    )
                most = g.demands[d].count
                self.cp.add(cp_model.LinearExpr.sum(variables) <= most * uses[at])
        terms: Terms[Var] = [(w, UNITS_PER_DOMAIN) for w in uses.values()]
        used = cp_model.LinearExpr.sum(list(uses.values()))
        certain = any(q.missing and set(q.demands) <= set(s.demands) for q in g.requirements)
        if g.pending and (certain or s.running):
            least = self.variables.counting.fewest_places(g, s) - len(s.running)
            if least > 0:
                self.cp.add(used >= least * self.z[g.index])
        if s.running:
            terms.append((fresh, (len(s.running) - 1) * UNITS_PER_DOMAIN))
        elif certain and g.pending:
            terms.append((fresh, -UNITS_PER_DOMAIN))
        else:
            any_used = self.cp.new_bool_var("")
            self.cp.add(any_used <= used)
            terms.append((any_used, -UNITS_PER_DOMAIN))
        return terms

    def _set_terms(self) -> Terms[Var]:
        terms: Terms[Var] = []
        mine = {g.index for g in self.gangs}
        for members in sets(self.problem).values():
            if any(g.index in mine for g in members):
                terms.append((self._set_cost(members, mine), UNITS_PER_DOMAIN))
        return terms

    def _set_cost(self, members: Sequence[Gang], mine: set[GangIdx]) -> Var:
        """Places beyond the first that a set uses at its level, when it counts."""
        places = self._set_places(members, mine)
        counts = self._set_counts(members, mine)
        cost = self.cp.new_int_var(0, len(places.known) + len(places.fresh), "")
        beyond = cp_model.LinearExpr.sum(places.fresh) + len(places.known) - 1
        self.cp.add(cost >= beyond).only_enforce_if(counts)
        return cost

    def _set_places(self, members: Sequence[Gang], mine: set[GangIdx]) -> _SetPlaces:
        """The places of a set, of whose members `mine` are open to decision."""
        level = members[0].set_level
        place = self.problem.levels[level].place_of
        known: set[int] = set()
        uses: dict[int, Var] = {}

        def use(at: int) -> Var:
            if at not in uses:
                uses[at] = self.cp.new_bool_var("")
            return uses[at]

        for g in members:
            running = set(g.set_running)
            if g.index not in mine:
                if is_placed(g, self.fixed):
                    known |= running
                    known |= {int(place[n]) for _, n, _ in self.fixed.get(g.index, ())}
                continue
            if not g.pending:
                known |= running
            for at in running if g.pending else ():
                self.cp.add(use(at) >= self.z[g.index])
            for d in range(len(g.demands)):
                for at, variables in self._by_place(g, d, level).items():
                    most = g.demands[d].count
                    self.cp.add(cp_model.LinearExpr.sum(variables) <= most * use(at))
        return _SetPlaces(known, [v for at, v in uses.items() if at not in known])

    def _set_counts(self, members: Sequence[Gang], mine: set[GangIdx]) -> Var:
        """Whether a set counts: a scaled gang of it runs, and one of its gangs gets new pods."""
        scaled = members[1:]
        counts = self.cp.new_bool_var("")
        running = [
            g for g in scaled if not g.pending or (g.index not in mine and is_placed(g, self.fixed))
        ]
        if running and any(self.fixed.get(g.index) for g in members):
            self.cp.add(counts == 1)
        for g in members:
            if g.index not in mine:
                continue
            if g in scaled and g.pending:
                self.cp.add(counts >= self.z[g.index])
            elif running:
                self.cp.add(counts >= self._gets_new_pods(g))
        return counts

    @cached_property
    def _fragmentation(self) -> Terms[Var]:
        problem = self.problem
        terms: Terms[Var] = []
        # The host level always counts, whether it is named or not.
        named = [problem.levels[i] for i in problem.scope_levels]
        named = [level for level in named if level.key != HOSTNAME]
        for level in named:
            if not level.is_host:
                terms += self._opened_domains(level)
        for j, c in enumerate(self.classes):
            node = c.nodes[0]
            if self.variables.whole[node]:
                times = 1 + sum(level.is_host and level.domain[node] >= 0 for level in named)
                terms += [(v, times * k) for v, k in self._opened_nodes(c, j)]
        for (g, d, j), v in self.x.items():
            pods_without_gpus = int(
                problem.pods_without_gpus[problem.gangs[g].demands[d].pod_class]
            )
            if pods_without_gpus and problem.node_gpus[self.classes[j].nodes[0]]:
                terms.append((v, pods_without_gpus))
        return terms

    def _opened_domains(self, level: Level) -> Terms[Var]:
        inside = level.domain >= 0
        at = level.domain[inside]
        has_gpus = self.problem.node_gpus > 0
        size = np.bincount(at, has_gpus[inside], level.count)
        whole = np.bincount(at, (self.variables.whole & has_gpus)[inside], level.count)
        loads: dict[int, list[Var]] = {}
        for (g, d, j), v in self.x.items():
            if self.problem.gpus[self.problem.gangs[g].demands[d].pod_class]:
                loads.setdefault(int(level.domain[self.classes[j].nodes[0]]), []).append(v)
        return [
            (presence(self.cp, variables, self.variables.total_units()), int(size[domain]))
            for domain, variables in loads.items()
            if domain >= 0 and size[domain] > 0 and whole[domain] == size[domain]
        ]

    def _opened_nodes(self, c: NodeClass, j: int) -> Terms[Var]:
        kinds = [
            k
            for k, s in enumerate(self.variables.pod_classes)
            if self.problem.gpus[s] and (k, j) in self.load
        ]
        if not kinds:
            return []
        if c.patterns is None:
            every = [v for k in kinds for v in self.load[k, j]]
            return [(presence(self.cp, every, self.variables.total_units()), 1)]
        if all(sum(p) == 1 for p in c.patterns):
            return [(v, 1) for k in kinds for v in self.load[k, j]]
        if len(c.patterns) == 1:
            opened = self.cp.new_int_var(0, len(c.nodes), "")
            for sort, variables in self.model.filling.by_sort(j, kinds).items():
                self.cp.add(cp_model.LinearExpr.sum(variables) <= c.patterns[0][sort] * opened)
            return [(opened, 1)]
        return [(opened, 1) for opened in self.model.filling.open_for(j, kinds)]
