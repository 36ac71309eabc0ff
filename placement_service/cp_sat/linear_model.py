"""A linear model of arrays, solved as it is or with integers.

For models with tens of thousands of variables, which CP-SAT does not close: HiGHS and GLOP
through MathOpt. Variables are numbers, in the order in which they were made.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from ortools.math_opt import (
    callback_pb2,
    model_parameters_pb2,
    model_pb2,
    result_pb2,
    solution_pb2,
    sparse_containers_pb2,
)
from ortools.math_opt.core.python import solver
from ortools.math_opt.python import mathopt

from placement_service.formulation.tiers.goal import Terms

Floats = NDArray[np.float64]

N = TypeVar("N", int, float)

#: A sum of variables with weights.
LinearTerms = list[tuple[int, float]]

#: The relative error that float arithmetic may cause in a bound.
ROUNDING = 1e-9
#: How far from a whole number a bound may be and still mean that number.
SLACK = 1e-4

_FEASIBLE = solution_pb2.SOLUTION_STATUS_FEASIBLE

#: No reduced costs: nothing reads them.
_RETURNED = model_parameters_pb2.ModelSolveParametersProto(
    reduced_costs_filter=sparse_containers_pb2.SparseVectorFilterProto(filter_by_ids=True)
)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What a solve says: values of all variables if it has any, and a bound that holds.

    Proven and without values: there are none.
    """

    values: Floats | None
    bound: int | None
    proven: bool = False


class OutOfTime(Exception):
    """There is no time left to build the model."""


def check_time(until: float) -> None:
    """Raises OutOfTime where `time.monotonic` is past `until`."""
    if time.monotonic() > until:
        raise OutOfTime


class LinearModel:
    """Variables between bounds, and rows of them between bounds. `row` raises OutOfTime where
    `time.monotonic` is past `until`.
    """

    def __init__(self, *, until: float = math.inf) -> None:
        self.until = until
        #: What the last linear program took.
        self.relaxing_seconds = 0.0
        self._most: list[float] = []
        self._whole: list[bool] = []
        self._row_least: list[float] = []
        self._row_most: list[float] = []
        self._entries: list[tuple[int, int, float]] = []

    def variable(self, most: int, *, whole: bool = True) -> int:
        """A variable from 0 to `most`."""
        self._most.append(float(most))
        self._whole.append(whole)
        return len(self._most) - 1

    def most(self, variable: int) -> float:
        """The upper bound of a variable, as it was given."""
        return self._most[variable]

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self._most)

    def row(
        self, terms: Sequence[tuple[int, float]], least: float = -math.inf, most: float = math.inf
    ) -> None:
        """A sum of variables with weights between bounds; each variable stands there once."""
        check_time(self.until)
        number = len(self._row_least)
        # The largest weight is one, whatever is counted.
        scale = max([abs(w) for _, w in terms], default=1.0) or 1.0
        self._row_least.append(least / scale)
        self._row_most.append(most / scale)
        self._entries += [(number, v, w / scale) for v, w in terms]

    def mark(self) -> tuple[int, int, int]:
        """The present state, for `undo`."""
        return len(self._most), len(self._row_least), len(self._entries)

    def undo(self, mark: tuple[int, int, int]) -> None:
        """Forget all variables and rows since a mark."""
        variables, rows, entries = mark
        for columns in (self._most, self._whole):
            del columns[variables:]
        for bounds in (self._row_least, self._row_most):
            del bounds[rows:]
        del self._entries[entries:]

    def relaxed(self, terms: Terms[int], *, maximize: bool, seconds: float) -> Solved:
        """The optimum without integers; its bound is computed anew from the dual values."""
        measure = self._measure(terms)
        proto, matrix = self._proto(terms, measure, maximize, whole=False)
        parameters = mathopt.SolveParameters(time_limit=time_limit(seconds))
        begin = time.monotonic()
        result = _solve(proto, mathopt.SolverType.GLOP, parameters)
        self.relaxing_seconds = time.monotonic() - begin
        values = self._read(result)
        best = _best(result)
        if best is None or best.dual_solution.feasibility_status != _FEASIBLE:
            return Solved(values, None)
        prices = _dense(best.dual_solution.dual_values, len(self._row_least))
        return Solved(values, self._bound(terms, measure, maximize, matrix, prices))

    def whole(
        self,
        terms: Terms[int],
        *,
        maximize: bool,
        seconds: float,
        nodes: int | None = None,
        beyond: int | None = None,
        fixed: Mapping[int, float] = MappingProxyType({}),
    ) -> Solved:
        """The best solution in whole numbers that is found in time, or in so many nodes of the
        search tree, and its bound; of those where some variables are `fixed`.

        With `beyond` only solutions better than that are looked for. If there are none, this is the
        bound.
        """
        measure = self._measure(terms)
        sign = -1 if maximize else 1
        proto, _ = self._proto([(v, sign * w) for v, w in terms], measure, False, whole=True)
        bounds = proto.variables
        for v, value in fixed.items():
            bounds.lower_bounds[v] = bounds.upper_bounds[v] = value
        parameters = mathopt.SolveParameters(
            time_limit=time_limit(seconds),
            node_limit=nodes,
            relative_gap_tolerance=0.0,
            absolute_gap_tolerance=0.5,
        )
        worst = math.inf
        if beyond is not None:
            # What is counted are multiples of the measure.
            worst = math.ceil(sign * beyond / measure) - 0.5
            parameters.highs.double_options["objective_bound"] = worst
        result = _solve(proto, mathopt.SolverType.HIGHS, parameters)
        reason = mathopt.TerminationReason(result.termination.reason)
        if reason in (
            mathopt.TerminationReason.INFEASIBLE,
            # All variables have bounds.
            mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED,
        ):
            return Solved(None, beyond, proven=True)
        if reason not in (
            mathopt.TerminationReason.OPTIMAL,
            mathopt.TerminationReason.FEASIBLE,
            mathopt.TerminationReason.NO_SOLUTION_FOUND,
        ):
            return Solved(None, None)
        best = result.termination.objective_bounds.dual_bound
        bound = None
        if math.isfinite(best):
            bound = measure * sign * math.ceil(best - SLACK)
        values = self._read(result)
        if beyond is not None:
            # What is not better may be found and called the best all the same.
            if values is not None:
                value = sum(w * values[v] for v, w in terms)
                values = None if sign * value > worst * measure else values
            if bound is not None and sign * bound > sign * beyond:
                bound = beyond
        proven = reason is mathopt.TerminationReason.OPTIMAL
        return Solved(values, bound, proven)

    def _measure(self, terms: Terms[int]) -> int:
        """A number of which all weights of a goal are multiples."""
        return math.gcd(*(w for _, w in terms)) or 1

    def _read(self, result: result_pb2.SolveResultProto) -> Floats | None:
        best = _best(result)
        if best is None or best.primal_solution.feasibility_status != _FEASIBLE:
            return None
        return _dense(best.primal_solution.variable_values, self.size)

    # --- bounds ---------------------------------------------------------------

    def _bound(
        self,
        terms: Terms[int],
        measure: int,
        maximize: bool,
        matrix: tuple[NDArray[np.int64], NDArray[np.int64], Floats],
        prices: Floats,
    ) -> int | None:
        """A value that no solution exceeds, whatever the prices of the rows are. The priced rows
        and the rest of the goal bound it term by term, so it holds however the solver rounded.
        """
        sign = 1.0 if maximize else -1.0
        goal = np.zeros(self.size)
        for v, w in terms:
            goal[v] += sign * w / measure
        prices = sign * prices
        least, most = np.array(self._row_least), np.array(self._row_most)
        prices[(prices > 0) & np.isinf(most)] = 0.0
        prices[(prices < 0) & np.isinf(least)] = 0.0
        rows, columns, weights = matrix
        left = goal - np.bincount(columns, prices[rows] * weights, self.size)
        parts = np.concatenate(
            [
                np.where(prices > 0, prices * np.where(prices > 0, most, 0), 0),
                np.where(prices < 0, prices * np.where(prices < 0, least, 0), 0),
                np.maximum(left, 0) * np.array(self._most),
            ]
        )
        total = float(parts.sum()) + ROUNDING * float(np.abs(parts).sum())
        if not math.isfinite(total):
            return None
        bound = measure * math.floor(total + SLACK)
        return bound if maximize else -bound

    def _proto(
        self, terms: Terms[int], measure: int, maximize: bool, *, whole: bool
    ) -> tuple[model_pb2.ModelProto, tuple[NDArray[np.int64], NDArray[np.int64], Floats]]:
        rows = np.array([r for r, _, _ in self._entries], dtype=np.int64)
        columns = np.array([c for _, c, _ in self._entries], dtype=np.int64)
        weights = np.array([w for _, _, w in self._entries])
        order = np.lexsort((columns, rows))
        rows, columns, weights = rows[order], columns[order], weights[order]
        goal: dict[int, float] = {}
        for v, w in terms:
            goal[v] = goal.get(v, 0.0) + w / measure
        variables = sorted(goal)
        proto = model_pb2.ModelProto(
            variables=model_pb2.VariablesProto(
                ids=range(self.size),
                lower_bounds=np.zeros(self.size),
                upper_bounds=self._most,
                integers=self._whole if whole else [False] * self.size,
            ),
            objective=model_pb2.ObjectiveProto(
                maximize=maximize,
                linear_coefficients=sparse_containers_pb2.SparseDoubleVectorProto(
                    ids=variables, values=[goal[v] for v in variables]
                ),
            ),
            linear_constraints=model_pb2.LinearConstraintsProto(
                ids=range(len(self._row_least)),
                lower_bounds=self._row_least,
                upper_bounds=self._row_most,
            ),
            linear_constraint_matrix=sparse_containers_pb2.SparseDoubleMatrixProto(
                row_ids=rows, column_ids=columns, coefficients=weights
            ),
        )
        return proto, (rows, columns, weights)


def _solve(
    proto: model_pb2.ModelProto, kind: mathopt.SolverType, parameters: mathopt.SolveParameters
) -> result_pb2.SolveResultProto:
    """The result as a message: objects of each variable and row would cost more than a solve."""
    return solver.solve(
        proto,
        kind.value,
        mathopt.StreamableSolverInitArguments().to_proto(),
        parameters.to_proto(),
        _RETURNED,
        None,
        callback_pb2.CallbackRegistrationProto(),
        None,
        None,
    )


def _best(result: result_pb2.SolveResultProto) -> solution_pb2.SolutionProto | None:
    return result.solutions[0] if result.solutions else None


def _dense(found: sparse_containers_pb2.SparseDoubleVectorProto, size: int) -> Floats:
    values: Floats = np.zeros(size)
    values[np.array(found.ids, dtype=np.int64)] = found.values
    return values


def time_limit(seconds: float) -> datetime.timedelta:
    """The same for MathOpt, and not so little that it cannot begin."""
    return datetime.timedelta(seconds=max(0.01, seconds))


def summed(terms: Sequence[tuple[int, N]]) -> list[tuple[int, N]]:
    """Each variable once."""
    sums: dict[int, N] = {}
    for v, w in terms:
        sums[v] = sums.get(v, 0) + w
    return list(sums.items())
