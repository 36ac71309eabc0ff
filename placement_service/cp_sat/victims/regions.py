"""Parts of the victim model that are open while all the rest is as a plan has it.

Open are all nodes of some domains: what comes to them, which parts of waiting gangs lie where in
them, and whether gangs that run there stay. All else keeps the value that the plan gives it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.formulation.arrays import Floats, Ints
from placement_service.formulation.plan import Plan

#: What differs by no more does not differ.
TINY = 1e-6


class Regions:
    """The domains of one level, the broadest that a part of a waiting gang requires: -1 and no
    domains where there is none.
    """

    def __init__(self, model: VictimModel) -> None:
        self._model = model
        problem = model.problem
        levels = {part.level for part in model.parts}
        self.level = min(levels, key=lambda i: problem.levels[i].count, default=-1)
        #: How many domains there are.
        self.count = problem.levels[self.level].count if self.level >= 0 else 0
        self._class_of = np.full(problem.node_count, -1)
        for j, node_class in enumerate(model.classes):
            self._class_of[node_class.nodes] = j
        if self.level < 0:
            return
        broad = problem.levels[self.level].domain
        of_class = np.array([broad[c.nodes[0]] for c in model.classes], dtype=np.int64)
        self._loads = np.array(list(model.load.values()), dtype=np.int64)
        self._domain_of_load = of_class[[j for _, j in model.load]]
        number = {g.index: i for i, g in enumerate(model.running)}
        self._placed = np.array([model.placed[g] for g in number], dtype=np.int64)
        self._kept = np.array([v for v, _ in model.kept.values()], dtype=np.int64)
        self._gang_of_kept = np.array([number[g] for g, _, _ in model.kept], dtype=np.int64)
        self._domain_of_kept = of_class[[j for _, j, _ in model.kept]]
        #: The values of a plan that was asked for last.
        self._known: tuple[Plan, Floats] | None = None
        #: The domains that have a node in common with the domain of a part, by level and domain.
        self._around: dict[tuple[int, int], frozenset[int]] = {}
        for p, d in model.here:
            at = model.parts[p].level, d
            if at not in self._around:
                inside = problem.levels[at[0]].domain == d
                self._around[at] = frozenset(broad[inside].tolist())

    def of_variables(self, size: int) -> Ints:
        """The domain of each of the first variables [size] of which that is known, or -1."""
        found = np.full(size, -1)
        if self.level < 0:
            return found
        found[self._loads] = self._domain_of_load
        for variables, domains in (
            (self._kept, self._domain_of_kept),
            (self._placed[self._gang_of_kept], self._domain_of_kept),
        ):
            least, most = np.full(len(found), self.count), np.full(len(found), -1)
            np.minimum.at(least, variables, domains)
            np.maximum.at(most, variables, domains)
            found = np.where(least == most, least, found)
        for (p, d), v in self._model.here.items():
            around = self._around[self._model.parts[p].level, d]
            found[v] = min(around) if len(around) == 1 else -1
        return found

    def fixed(
        self, plan: Plan, domains: Collection[int], relaxed: Floats | None = None
    ) -> Mapping[int, float]:
        """The variables that keep their values of the plan while some domains are open. Those that
        a `relaxed` solution gives another value are open, too.
        """
        values = self.values(plan)
        closed = np.fromiter(self._outside(plan, domains), dtype=np.int64)
        if relaxed is not None:
            closed = closed[np.abs(relaxed[closed] - values[closed]) <= TINY]
        return dict(zip(closed.tolist(), values[closed].tolist(), strict=True))

    def _outside(self, plan: Plan, domains: Collection[int]) -> Iterator[int]:
        """The variables that are closed, some of them twice."""
        model, opened = self._model, list(domains)
        yield from self._loads[~np.isin(self._domain_of_load, opened)].tolist()
        touched = np.zeros(len(self._placed), dtype=np.bool_)
        touched[self._gang_of_kept[np.isin(self._domain_of_kept, opened)]] = True
        yield from self._placed[~touched].tolist()
        yield from self._kept[~touched[self._gang_of_kept]].tolist()
        used = self._used(plan)
        closed = {
            p for p, ds in used.items() if not all(self._around[at] <= set(domains) for at in ds)
        }
        for (p, d), v in model.here.items():
            if p in closed or not self._around[model.parts[p].level, d] <= set(domains):
                yield v

    def values(self, plan: Plan) -> Floats:
        """What a plan makes of the variables that may be closed; 0 for all others."""
        if self._known is None or self._known[0] is not plan:
            self._known = plan, self._values_of(plan)
        return self._known[1]

    def _values_of(self, plan: Plan) -> Floats:
        model, used = self._model, self._used(plan)
        kept, loads = self._units(plan)
        found = np.zeros(model.size)
        for (a, j), v in model.load.items():
            found[v] = loads.get((model.asked[a], j), 0)
        for (g, j, s), (v, units) in model.kept.items():
            found[v] = kept.get((g, j, model.problem.request[s].tobytes()), 0) / units
        for gang in model.running:
            found[model.placed[gang.index]] = float(bool(plan.get(gang.index)))
        for (p, d), v in model.here.items():
            found[v] = float((model.parts[p].level, d) in used.get(p, ()))
        return found

    def _units(
        self, plan: Plan
    ) -> tuple[Mapping[tuple[int, int, bytes], int], Mapping[tuple[int, int], int]]:
        """Units that stay, by gang, node class and request; those that come, by pod class and node
        class.
        """
        kept: defaultdict[tuple[int, int, bytes], int] = defaultdict(int)
        loads: defaultdict[tuple[int, int], int] = defaultdict(int)
        request = self._model.problem.request
        for g, units in plan.items():
            gang = self._model.problem.gangs[g]
            home = {(h.demand, h.node): h.units for h in gang.home}
            for d, n, count in units:
                pod_class, j = gang.demands[d].pod_class, int(self._class_of[n])
                stay = min(count, home.get((d, n), 0))
                if stay:
                    kept[g, j, request[pod_class].tobytes()] += stay
                if count > stay:
                    loads[pod_class, j] += count - stay
        return kept, loads

    def _used(self, plan: Plan) -> Mapping[int, set[tuple[int, int]]]:
        """The domain, with its level, of each part that the plan places."""
        found: dict[int, set[tuple[int, int]]] = {}
        for p, part in enumerate(self._model.parts):
            domain = self._model.problem.levels[part.level].domain
            units = plan.get(part.gang, ())
            if units:
                inside = {int(domain[n]) for d, n, _ in units if d in part.demands}
                found[p] = {(part.level, d) for d in inside}
        return found
