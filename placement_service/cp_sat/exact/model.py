"""The exact model: some gangs on some nodes, with every rule.

It is used on the whole problem when that is small, and on neighbourhoods of it
when it is not. Nodes enter as classes (see `node_classes`), pods as counts per demand and class, so
pods and nodes of a kind are never distinguished:

    z[g]      gang g is placed
    x[d, J]   units of demand d on nodes of class J
    u[s, D]   required scope s is in domain D          sum_D u[s, D] = z
    w[s, P]   preferred scope s uses place P           x <= count * w
    n[J, p]   nodes of class J filled after pattern p  load <= sum_p p * n

In order: the variables (`variables`), the constraints (`constraints`), the goals as
they are asked for (`objective`); here they are put together and solved. The tiers are
solved one after another, each with the ones before held.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.exact.constraints import constrain
from placement_service.cp_sat.exact.home_pods import HomePods
from placement_service.cp_sat.exact.variables import ExactVariables, UnitsAt
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Answer, Strategy, Var, hold, optimise
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import GangIdx, NodeIdx
from placement_service.formulation.plan import Plan, units_of
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Terms


class PlaceUse(NamedTuple):
    """Demands of a gang use a place of a level."""

    gang: GangIdx
    level: int
    place: int
    demands: tuple[int, ...]


class _Placed(NamedTuple):
    """Units of a demand of a gang that are not on nodes yet."""

    gang: GangIdx
    demand: int
    units: int


class ExactModel:
    """A part of the problem under every rule.

    `bases` are gangs taken for placed, wherever they are. The gangs of the model must not meet
    fixed ones in rules between pods (`Problem.special`).
    """

    def __init__(
        self,
        counting: Counting,
        subproblem: Subproblem,
        bases: Collection[int] = (),
        parameters: ModelParameters = MODEL_DEFAULTS,
        until: float = math.inf,
    ) -> None:
        """Raises OutOfTime where it is not built by `until`."""
        self.variables = ExactVariables(counting, subproblem, bases, parameters, until)
        self.home_pods = HomePods(self.variables)
        self.filling = constrain(self.variables, self.home_pods)
        #: Filled by the goals that ask for it.
        self.w: dict[PlaceUse, Var] = {}

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.variables.cp.proto.variables)

    def hold(
        self, terms: Terms[Var], *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        """Keep a goal at what was reached."""
        hold(self.variables.cp, terms, at_least, at_most)

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
            self.variables.cp,
            terms,
            maximize=maximize,
            seconds=seconds,
            effort=effort,
            strategy=Strategy(portfolio and not self.variables.problem.policy.deterministic),
        )
        if isinstance(found, Answer):
            return found
        return Answer(self._plan(found.solver), found.value, found.bound, found.proven)

    def _hint(self, plan: Plan) -> None:
        variables = self.variables
        cp = variables.cp
        cp.clear_hints()  # type: ignore[no-untyped-call]
        class_of = {n: j for j, c in enumerate(variables.classes) for n in c.nodes}
        counts: dict[UnitsAt, int] = {}
        loads: dict[int, list[int]] = {}
        for gang in variables.gangs:
            for d, n, count in plan.get(gang.index, ()):
                if n in class_of:
                    at = UnitsAt(gang.index, d, class_of[n])
                    counts[at] = counts.get(at, 0) + count
                    load = loads.setdefault(n, [0] * len(variables.pod_classes))
                    load[variables.pod_class_at[gang.demands[d].pod_class]] += count
        for at, v in variables.x.items():
            cp.add_hint(v, counts.get(at, 0))
        for index, z in variables.z.items():
            cp.add_hint(z, bool(plan.get(index)))
        for (index, i), by_domain in variables.u.items():
            scope = variables.problem.gangs[index].scopes[i]
            for domain, u in by_domain.items():
                cp.add_hint(u, self._is_used(plan, index, scope.demands, scope.required, domain))
        for use, w in self.w.items():
            cp.add_hint(w, self._is_used(plan, use.gang, use.demands, use.level, use.place))
        self.filling.hint({n: (class_of[n], load) for n, load in loads.items()})

    def _is_used(
        self, plan: Plan, gang: GangIdx, demands: tuple[int, ...], level: int, place: int
    ) -> bool:
        places = self.variables.problem.levels[level].place_of
        return any(places[n] == place for d, n, _ in plan.get(gang, ()) if d in demands)

    def _plan(self, solver: cp_model.CpSolver) -> Plan:
        """Units on nodes from counts on classes."""
        variables = self.variables
        units: dict[GangIdx, Counter[tuple[int, int]]] = {}
        todo: dict[tuple[int, int], list[_Placed]] = {}
        for (g, d, j), v in variables.x.items():
            count = solver.value(v)
            if count:
                k = variables.pod_class_at[variables.problem.gangs[g].demands[d].pod_class]
                todo.setdefault((j, k), []).append(_Placed(g, d, count))
        for j, c in enumerate(variables.classes):
            kinds = [k for k in range(len(variables.pod_classes)) if (j, k) in todo]
            slots = self.filling.slots(solver, j, kinds)
            for k in kinds:
                sort = self.filling.sorts[k]
                for g, d, count in todo[j, k]:
                    home = variables.problem.gangs[g].home
                    homes = {h.node: h.units for h in home if h.demand == d}
                    # Pods that may stay at home do.
                    first = [homes.get(NodeIdx(node), 0) for node in c.nodes] if homes else []
                    for at, most in chain(enumerate(first), enumerate([count] * len(c.nodes))):
                        take = min(count, most, slots[at][sort])
                        if take:
                            slots[at][sort] -= take
                            count -= take
                            units.setdefault(g, Counter())[d, c.nodes[at]] += take
                    assert count == 0, "a class of nodes was overfilled"
        return {g: units_of(counts) for g, counts in sorted(units.items())}


def size_of(problem: Problem, gangs: Sequence[Gang], nodes: Ints) -> int:
    """About how many variables a model would have: demands times kinds of nodes."""
    levels = {*problem.scope_levels, *(rule.level for rule in problem.rules)}
    # A node is of a kind of its own where some pods can only be at home. There are so many of them
    # where gangs run that to compare all would take longer than the search.
    home_of = {g.demands[h.demand].pod_class: h.node for g in gangs for h in g.home}
    lone = {s for s in home_of if np.count_nonzero(problem.eligible[s]) == 1}
    alone = np.isin(nodes, [home_of[s] for s in lone])
    others = {d.pod_class for g in gangs for d in g.demands} - lone
    classes = np.array(sorted(others), dtype=np.int64)
    rest = nodes[~alone]
    columns = [problem.levels[i].place_of[rest] for i in sorted(levels)]
    columns += list(problem.free[rest].T)
    columns += list(np.packbits(problem.eligible[np.ix_(classes, rest)], axis=0))
    kinds = np.unique(np.stack(columns, axis=1), axis=0) if columns else ()
    count = int(alone.sum()) + len(kinds)
    # A pod that stays at home or goes has one node to choose from.
    fixed = sum(len(g.home) for g in gangs if not g.keeps)
    return count * (sum(len(g.demands) for g in gangs) - fixed) + fixed
