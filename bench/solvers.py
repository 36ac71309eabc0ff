"""The plain integer program, for any solver that MathOpt knows.

One variable for each unit and node that takes it, one for each gang, one for each scope and
domain: what a solver makes of the question when nobody prepares it. It knows the first tier and,
with a small weight, the domains of preferred scopes; extras are left out.

    x[u, n] in {0, 1}   unit u of a gang's minimum runs on node n
    sum_n x[u, n] = z[g];   sum_u request(u) x[u, n] <= free(n);   x[u, n] <= d[s, D]
    required: sum_D d[s, D] = z[g];   preferred: cost sum_D d[s, D] - z[g]
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from ortools.math_opt.python import mathopt

from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, units_of
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.one_gang.domain_choice import mandatory

#: Open solvers that come with OR-tools and take integer programs.
SOLVERS: Mapping[str, mathopt.SolverType] = MappingProxyType(
    {
        "CP-SAT": mathopt.SolverType.CP_SAT,
        "HiGHS": mathopt.SolverType.HIGHS,
        "SCIP": mathopt.SolverType.GSCIP,
    }
)

#: More variables do not fit into the memory of small machines.
MOST_VARIABLES = 2_000_000

#: What a domain beyond the first costs in GPUs.
DOMAIN = 1e-3


class TooLarge(Exception):
    """The model would have more variables than are built."""


class Unit(NamedTuple):
    """The i-th unit of a demand of a gang."""

    gang: int
    demand: int
    number: int


class PlainModel:
    """The integer program of a problem; raises TooLarge. Rules across nodes are left out."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.variables = self._count()
        if self.variables > MOST_VARIABLES:
            raise TooLarge(f"{self.variables:,} variables")
        self.model = mathopt.Model()
        self._where: dict[tuple[Unit, int], mathopt.Variable] = {}
        self._on: dict[int, list[tuple[mathopt.Variable, int]]] = {}
        goal: list[mathopt.LinearBase] = []
        for gang in problem.pending:
            placed = self.model.add_binary_variable()
            goal.append(gang.value / UNITS_PER_GPU * placed)
            goal += self._gang(gang, placed)
        self._nodes_hold_units()
        self.model.maximize(mathopt.fast_sum(goal))

    def _count(self) -> int:
        """Pairs of units and nodes that take them."""
        problem = self.problem
        takers = problem.eligible.sum(axis=1)
        return sum(
            want * int(takers[gang.demands[d].pod_class])
            for gang in problem.pending
            for d, want in enumerate(mandatory(gang))
        )

    def _gang(self, gang: Gang, placed: mathopt.Variable) -> list[mathopt.LinearBase]:
        mine: dict[int, list[tuple[int, mathopt.Variable]]] = {}
        for d, want in enumerate(mandatory(gang)):
            pod_class = gang.demands[d].pod_class
            nodes = np.flatnonzero(self.problem.eligible[pod_class]).tolist()
            for i in range(want):
                here = [(n, self.model.add_binary_variable()) for n in nodes]
                for n, x in here:
                    self._where[Unit(gang.index, d, i), n] = x
                    self._on.setdefault(n, []).append((x, pod_class))
                self.model.add_linear_constraint(mathopt.fast_sum(x for _, x in here) == placed)
                mine.setdefault(d, []).extend(here)
        cost: list[mathopt.LinearBase] = []
        for scope in gang.scopes:
            pairs = [p for d in scope.demands for p in mine.get(d, ())]
            if scope.required >= 0:
                domain = self.problem.levels[scope.required].domain
                chosen = self._domains(pairs, domain)
                self.model.add_linear_constraint(mathopt.fast_sum(chosen) == placed)
            if scope.preferred >= 0:
                place = self.problem.levels[scope.preferred].place_of
                cost += [-DOMAIN * v for v in self._domains(pairs, place)]
                cost.append(DOMAIN * placed)
        return cost

    def _domains(
        self, pairs: list[tuple[int, mathopt.Variable]], domain: np.ndarray
    ) -> list[mathopt.Variable]:
        """Variables of the domains in which units may lie; a node in none takes no unit."""
        used: dict[int, mathopt.Variable] = {}
        for n, x in pairs:
            at = int(domain[n])
            if at < 0:
                self.model.add_linear_constraint(x == 0)
            else:
                if at not in used:
                    used[at] = self.model.add_binary_variable()
                self.model.add_linear_constraint(x <= used[at])
        return list(used.values())

    def _nodes_hold_units(self) -> None:
        problem = self.problem
        for n, units in self._on.items():
            for r in range(len(problem.columns)):
                terms = [int(problem.request[s, r]) * x for x, s in units if problem.request[s, r]]
                if terms:
                    self.model.add_linear_constraint(
                        mathopt.fast_sum(terms) <= int(problem.free[n, r])
                    )

    def solve(self, solver: mathopt.SolverType, seconds: float) -> Plan | None:
        """The plan that a solver finds in so many seconds, if any; with two threads if it may."""
        result = mathopt.solve(
            self.model,
            solver,
            params=mathopt.SolveParameters(
                time_limit=datetime.timedelta(seconds=max(0.01, seconds)),
                threads=2 if solver is mathopt.SolverType.CP_SAT else None,
            ),
        )
        if not result.has_primal_feasible_solution():
            return None
        keys = list(self._where)
        values = result.variable_values([self._where[key] for key in keys])
        counts: dict[int, dict[tuple[int, int], int]] = {}
        for (unit, n), value in zip(keys, values, strict=True):
            if value > 0.5:
                mine = counts.setdefault(unit.gang, {})
                mine[unit.demand, n] = mine.get((unit.demand, n), 0) + 1
        return {GangIdx(g): units_of(mine) for g, mine in counts.items()}
