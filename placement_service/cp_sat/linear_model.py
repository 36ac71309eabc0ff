"""A linear model of arrays, solved as it is or with integers.

For models with tens of thousands of variables, which CP-SAT does not close: HiGHS and GLOP
through MathOpt. Variables are numbers, in the order in which they were made.
"""

from __future__ import annotations

import copy
import datetime
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Self, TypeVar

import numpy as np
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

from placement_service.formulation.arrays import Floats, Ints
from placement_service.formulation.tiers.goal import Terms

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


#: Solves a model as it was when it was asked. It holds no lock while it does, so two threads may.
Question = Callable[[], Solved]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What is asked for in whole numbers: what is counted are multiples of the measure, times the
    sign the less the better, and nothing that is not better than `beyond`.
    """

    terms: Terms[int]
    measure: int
    sign: int
    beyond: int | None
    size: int

    @property
    def worst(self) -> float:
        """The worst that counts, in measures."""
        if self.beyond is None:
            return math.inf
        return math.ceil(self.sign * self.beyond / self.measure) - 0.5

    def read(self, result: result_pb2.SolveResultProto) -> Solved:
        """What the solver says of it."""
        reason = mathopt.TerminationReason(result.termination.reason)
        if reason in (
            mathopt.TerminationReason.INFEASIBLE,
            # All variables have bounds.
            mathopt.TerminationReason.INFEASIBLE_OR_UNBOUNDED,
        ):
            return Solved(None, self.beyond, proven=True)
        if reason not in (
            mathopt.TerminationReason.OPTIMAL,
            mathopt.TerminationReason.FEASIBLE,
            mathopt.TerminationReason.NO_SOLUTION_FOUND,
        ):
            return Solved(None, None)
        sign, beyond = self.sign, self.beyond
        best = result.termination.objective_bounds.dual_bound
        bound = None
        if math.isfinite(best):
            bound = self.measure * sign * math.ceil(best - SLACK)
        values = _read(_best(result), self.size)
        if beyond is not None:
            # What is not better may be found and called the best all the same.
            if values is not None:
                value = sum(w * values[v] for v, w in self.terms)
                values = None if sign * value > self.worst * self.measure else values
            if bound is not None and sign * bound > sign * beyond:
                bound = beyond
        return Solved(values, bound, reason is mathopt.TerminationReason.OPTIMAL)


class _Limits(NamedTuple):
    """The bounds of rows and of variables."""

    row_least: Floats
    row_most: Floats
    most: Floats


class _Matrix(NamedTuple):
    """Entries of rows: of each its row, its variable and its weight."""

    rows: Ints
    columns: Ints
    weights: Floats

    @staticmethod
    def of(entries: Sequence[tuple[int, int, float]]) -> _Matrix:
        rows = np.array([r for r, _, _ in entries], dtype=np.int64)
        columns = np.array([c for _, c, _ in entries], dtype=np.int64)
        weights = np.array([w for _, _, w in entries], dtype=np.float64)
        order = np.lexsort((columns, rows))
        return _Matrix(rows[order], columns[order], weights[order])

    def first(self, count: int) -> _Matrix:
        return _Matrix(self.rows[:count], self.columns[:count], self.weights[:count])

    def joined(self, entries: Sequence[tuple[int, int, float]]) -> _Matrix:
        """These and more, whose rows come behind."""
        if not entries:
            return self
        more = _Matrix.of(entries)
        return _Matrix(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.columns, more.columns]),
            np.concatenate([self.weights, more.weights]),
        )


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
        #: The first entries by row and column: they are the same from one question to the next.
        self._sorted = _Matrix.of([])

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
        self._sorted = self._sorted.first(entries)

    def copy(self) -> Self:
        """Another model with the same variables and rows, of the same numbers."""
        other = copy.copy(self)
        other._most, other._whole = [*self._most], [*self._whole]
        other._row_least, other._row_most = [*self._row_least], [*self._row_most]
        other._entries = [*self._entries]
        return other

    def relaxed(self, terms: Terms[int], *, maximize: bool, seconds: float) -> Solved:
        """The optimum without integers; its bound is computed anew from the dual values."""
        return self.ask_relaxed(terms, maximize=maximize, seconds=seconds)()

    def ask_relaxed(self, terms: Terms[int], *, maximize: bool, seconds: float) -> Question:
        """The same as a question about the model as it is now."""
        measure = self._measure(terms)
        proto, matrix = self._proto(terms, measure, maximize, whole=False)
        parameters = mathopt.SolveParameters(time_limit=time_limit(seconds))
        limits = _Limits(*map(np.array, (self._row_least, self._row_most, self._most)))

        def solve() -> Solved:
            begin = time.monotonic()
            result = _solve(proto, mathopt.SolverType.GLOP, parameters)
            self.relaxing_seconds = time.monotonic() - begin
            best = _best(result)
            values = _read(best, len(limits.most))
            if best is None or best.dual_solution.feasibility_status != _FEASIBLE:
                return Solved(values, None)
            prices = _dense(best.dual_solution.dual_values, len(limits.row_most))
            return Solved(values, _bound(terms, measure, maximize, matrix, limits, prices))

        return solve

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
        return self.ask_whole(
            terms, maximize=maximize, seconds=seconds, nodes=nodes, beyond=beyond, fixed=fixed
        )()

    def ask_whole(
        self,
        terms: Terms[int],
        *,
        maximize: bool,
        seconds: float,
        nodes: int | None = None,
        beyond: int | None = None,
        fixed: Mapping[int, float] = MappingProxyType({}),
    ) -> Question:
        """The same as a question about the model as it is now."""
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
        asked = _Asked(terms, measure, sign, beyond, self.size)
        if beyond is not None:
            parameters.highs.double_options["objective_bound"] = asked.worst
        return lambda: asked.read(_solve(proto, mathopt.SolverType.HIGHS, parameters))

    def _measure(self, terms: Terms[int]) -> int:
        """A number of which all weights of a goal are multiples."""
        return math.gcd(*(w for _, w in terms)) or 1

    def _proto(
        self, terms: Terms[int], measure: int, maximize: bool, *, whole: bool
    ) -> tuple[model_pb2.ModelProto, _Matrix]:
        # Rows come one after another, so later ones stand behind.
        self._sorted = self._sorted.joined(self._entries[len(self._sorted.rows) :])
        matrix = self._sorted
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
                row_ids=matrix.rows, column_ids=matrix.columns, coefficients=matrix.weights
            ),
        )
        return proto, matrix


def _bound(
    terms: Terms[int],
    measure: int,
    maximize: bool,
    matrix: _Matrix,
    limits: _Limits,
    prices: Floats,
) -> int | None:
    """A value that no solution exceeds, whatever the prices of the rows are. The priced rows and
    the rest of the goal bound it term by term, so it holds however the solver rounded.
    """
    sign = 1.0 if maximize else -1.0
    size = len(limits.most)
    goal = np.zeros(size)
    for v, w in terms:
        goal[v] += sign * w / measure
    prices = sign * prices
    least, most = limits.row_least, limits.row_most
    prices[(prices > 0) & np.isinf(most)] = 0.0
    prices[(prices < 0) & np.isinf(least)] = 0.0
    rows, columns, weights = matrix
    left = goal - np.bincount(columns, prices[rows] * weights, size)
    parts = np.concatenate(
        [
            np.where(prices > 0, prices * np.where(prices > 0, most, 0), 0),
            np.where(prices < 0, prices * np.where(prices < 0, least, 0), 0),
            np.maximum(left, 0) * limits.most,
        ]
    )
    total = float(parts.sum()) + ROUNDING * float(np.abs(parts).sum())
    if not math.isfinite(total):
        return None
    bound = measure * math.floor(total + SLACK)
    return bound if maximize else -bound


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


def _read(best: solution_pb2.SolutionProto | None, size: int) -> Floats | None:
    if best is None or best.primal_solution.feasibility_status != _FEASIBLE:
        return None
    return _dense(best.primal_solution.variable_values, size)


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
