"""The variables of the exact model, and the classes of nodes that they count on.

Nothing is constrained here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.node_classes import NodeClass, classify
from placement_service.cp_sat.parameters import ModelParameters
from placement_service.cp_sat.rules.counts import ClassCount
from placement_service.cp_sat.solving import Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import check_time
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx, GangIdx, LevelIdx
from placement_service.formulation.plan import is_placed
from placement_service.formulation.problem import Gang, Problem, Scope


class UnitsAt(NamedTuple):
    """Units of a demand of a gang on nodes of a class."""

    gang: GangIdx
    demand: int
    node_class: int


class ExactVariables:
    """`z` by gang, `x` by `UnitsAt`, `u` by (gang, required scope) and then by domain.

    `at_class` finds the units again by (gang, demand) and then by class of nodes, `load` by (pod
    class, class of nodes); these are indices into `pod_classes` and `classes`.
    """

    def __init__(
        self,
        counting: Counting,
        subproblem: Subproblem,
        bases: Collection[int],
        parameters: ModelParameters,
        until: float,
    ) -> None:
        self.cp = cp_model.CpModel()
        self._until = until
        self.problem: Problem = counting.problem
        self.counting = counting
        self.gangs = tuple(g for g in subproblem.gangs if g.placeable)
        self.fixed = subproblem.fixed
        self._bases = bases
        self._domains_of = {
            (g.index, i): frozenset(np.flatnonzero(counting.domains_for(g, s)).tolist())
            for g in self.gangs
            for i, s in enumerate(g.scopes)
            if s.required >= 0 and s.demands
        }
        count: dict[int, int] = {}
        for g in self.gangs:
            for d in g.demands:
                count[d.pod_class] = count.get(d.pod_class, 0) + d.count
        self._total = sum(count.values())
        self.pod_classes = sorted(count)
        self.pod_class_at = {s: k for k, s in enumerate(self.pod_classes)}
        #: Nodes that nothing runs on and that were not taken from [N].
        self.whole: Bools = self.problem.whole_free & (subproblem.free == self.problem.free).all(
            axis=1
        )
        self.classes: tuple[NodeClass, ...] = classify(
            self.problem,
            subproblem.free,
            subproblem.nodes,
            self.pod_classes,
            [count[s] for s in self.pod_classes],
            self._levels(),
            [*self._marks(), self._told_apart(subproblem.free, parameters.told_apart)],
            parameters,
            until,
        )
        self.z = {g.index: self.cp.new_bool_var("") for g in self.gangs if g.pending}
        self.x: dict[UnitsAt, Var] = {}
        self.at_class: dict[tuple[int, int], dict[int, Var]] = {}
        self.load: dict[tuple[int, int], list[Var]] = {}
        self._units()
        self._sorted: dict[LevelIdx, dict[ClassIdx, dict[int, list[ClassCount]]]] = {}
        self.u: dict[tuple[GangIdx, int], dict[int, Var]] = {}
        self._scopes()

    def check_time(self) -> None:
        """Raises OutOfTime where `time.monotonic` is past the end."""
        check_time(self._until)

    def _levels(self) -> list[LevelIdx]:
        """The levels whose domains distinguish nodes."""
        problem = self.problem
        levels = {
            level
            for g in self.gangs
            for s in g.scopes
            if not is_single(g, s)
            for level in (s.required, s.preferred)
        }
        levels |= {g.set_level for g in self.gangs}
        levels |= {rule.level for rule in problem.rules}
        levels |= {i for i in problem.scope_levels if not problem.levels[i].is_host}
        return sorted(level for level in levels if level >= 0)

    def _marks(self) -> list[Bools]:
        """What distinguishes nodes besides their domains."""
        problem = self.problem
        marks = [self.whole, problem.node_gpus > 0]
        named = (problem.levels[i] for i in problem.scope_levels)
        marks += [level.domain >= 0 for level in named if level.is_host]

        def mark(nodes: Collection[int]) -> None:
            mask = np.zeros(problem.node_count, dtype=bool)
            mask[list(nodes)] = True
            marks.append(mask)

        for g in self.gangs:
            if g.previous:
                mark(g.previous)
            for units in {home.units for home in g.home if g.keeps}:
                mark([home.node for home in g.home if home.units == units])
            for s in g.scopes:
                if s.required >= 0 and is_single(g, s):
                    marks.append(problem.levels[s.required].domain >= 0)
        return marks

    def _told_apart(self, free: Ints, most: int) -> Ints:
        """A number for each node that is looked at alone [N], 0 for others.

        These are homes of gangs that may move, with room for more of their pods than run there:
        how many of these pods a class of such nodes has does not say whether each is at home.
        With more than `most` variables for them they are not told apart, which is looser.
        """
        request = self.problem.request
        found = {
            home.node
            for g in self.gangs
            for home in g.home
            if g.keeps
            and (
                free[home.node] >= (home.units + 1) * request[g.demands[home.demand].pod_class]
            ).all()
        }
        result = np.zeros(self.problem.node_count, dtype=np.int64)
        if len(found) * sum(len(g.demands) for g in self.gangs) <= most:
            result[sorted(found)] = np.arange(1, len(found) + 1)
        return result

    def _units(self) -> None:
        for g in self.gangs:
            for d, demand in enumerate(g.demands):
                self.check_time()
                k = self.pod_class_at[demand.pod_class]
                here: dict[int, Var] = {}
                for j, c in enumerate(self.classes):
                    most = min(demand.count, len(c.nodes) * c.most[k])
                    if most and self._may_be_at(g, d, c):
                        v = here[j] = self.x[UnitsAt(g.index, d, j)] = self.cp.new_int_var(
                            0, most, ""
                        )
                        self.load.setdefault((k, j), []).append(v)
                self.at_class[g.index, d] = here

    def _may_be_at(self, gang: Gang, demand: int, c: NodeClass) -> bool:
        node = c.nodes[0]
        return all(
            int(self.problem.levels[s.required].domain[node]) in self._domains_of[gang.index, i]
            for i, s in enumerate(gang.scopes)
            if s.required >= 0 and demand in s.demands
        )

    def _scopes(self) -> None:
        for g in self.gangs:
            for i, s in enumerate(g.scopes):
                if s.required < 0 or not s.demands or s.pin >= 0 or is_single(g, s):
                    continue
                domain = self.problem.levels[s.required].domain
                here = self.u[g.index, i] = {}
                for d in s.demands:
                    for j in self.at_class[g.index, d]:
                        at = int(domain[self.classes[j].nodes[0]])
                        if at not in here:
                            here[at] = self.cp.new_bool_var("")

    # --- what the variables say ---------------------------------------------------------

    def of_gang(self, gang: Gang) -> list[Var]:
        """All units of a gang."""
        return [v for d in range(len(gang.demands)) for v in self.at_class[gang.index, d].values()]

    def placed(self, index: GangIdx) -> Var | bool:
        """Whether a gang of the problem, fixed or not, is placed."""
        if index in self.z:
            return self.z[index]
        return index in self._bases or is_placed(self.problem.gangs[index], self.fixed)

    def by_domain(self, level: LevelIdx, classes: Bools) -> dict[int, list[ClassCount]]:
        """Units of some pod classes by domain; domains without any are absent."""
        found: dict[int, list[ClassCount]] = {}
        for pod_class, by_domain in self._units_by(level).items():
            for at, units in by_domain.items() if classes[pod_class] else ():
                found.setdefault(at, []).extend(units)
        return found

    def _units_by(self, level: LevelIdx) -> dict[ClassIdx, dict[int, list[ClassCount]]]:
        """All units by pod class and domain of a level, sorted once for all rules that ask."""
        if level not in self._sorted:
            domain = self.problem.levels[level].domain
            place = [int(domain[c.nodes[0]]) for c in self.classes]
            found: dict[ClassIdx, dict[int, list[ClassCount]]] = {}
            for (g, d, j), v in self.x.items():
                s = self.problem.gangs[g].demands[d].pod_class
                if place[j] >= 0:
                    here = found.setdefault(s, {}).setdefault(place[j], [])
                    here.append(ClassCount(v, s))
            self._sorted[level] = found
        return self._sorted[level]

    def total_units(self) -> int:
        """All units of the model's gangs, extras included."""
        return self._total


def is_single(gang: Gang, scope: Scope) -> bool:
    """Whether the scope holds one unit at most, so that there is nothing to pack."""
    units = sum(
        q.pending for q in gang.requirements if not set(q.demands).isdisjoint(scope.demands)
    )
    return units <= 1 and not scope.running and scope.pin < 0
