"""A linear program as arrays, solved through MathOpt, and what prices of its rows prove."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import NamedTuple

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

from placement_service.formulation.arrays import Bools, Floats, Ints

#: The relative error that float arithmetic may cause in a bound.
ROUNDING = 1e-9
#: How far from a whole number a bound may be and still mean that number.
SLACK = 1e-4

_FEASIBLE = solution_pb2.SOLUTION_STATUS_FEASIBLE

#: No reduced costs: nothing reads them.
_RETURNED = model_parameters_pb2.ModelSolveParametersProto(
    reduced_costs_filter=sparse_containers_pb2.SparseVectorFilterProto(filter_by_ids=True)
)


class Matrix(NamedTuple):
    """Entries of rows: of each its row, its variable and its weight, which is not 0, sorted by row
    and variable.
    """

    rows: Ints
    columns: Ints
    weights: Floats

    @staticmethod
    def of(entries: Sequence[tuple[int, int, float]]) -> Matrix:
        rows = np.array([r for r, _, _ in entries], dtype=np.int64)
        columns = np.array([c for _, c, _ in entries], dtype=np.int64)
        weights = np.array([w for _, _, w in entries], dtype=np.float64)
        order = np.lexsort((columns, rows))
        return Matrix(rows[order], columns[order], weights[order])

    def some(self, entries: slice | Bools | Ints) -> Matrix:
        return Matrix(self.rows[entries], self.columns[entries], self.weights[entries])

    def joined(self, entries: Sequence[tuple[int, int, float]]) -> Matrix:
        """These and more, whose rows come behind."""
        if not entries:
            return self
        more = Matrix.of(entries)
        return Matrix(*(np.concatenate(both) for both in zip(self, more, strict=True)))

    def priced(self, prices: Floats, size: int) -> Floats:
        """What the rows cost of each variable [size], at a price for each row."""
        return np.bincount(self.columns, prices[self.rows] * self.weights, size).astype(np.float64)


class LinearProgram(NamedTuple):
    """The most of a goal [V] in rows between bounds [R], with variables from 0 to `most` [V], some
    of which are `whole`.
    """

    goal: Floats
    matrix: Matrix
    row_least: Floats
    row_most: Floats
    most: Floats
    whole: Bools

    def prices(self, found: Floats) -> Floats:
        """The prices of rows that bound something, of those that a solver found."""
        prices = found.copy()
        prices[(prices > 0) & np.isinf(self.row_most)] = 0.0
        prices[(prices < 0) & np.isinf(self.row_least)] = 0.0
        return prices

    def costs(self, prices: Floats) -> Floats:
        """What each row adds to a bound at its price [R]."""
        most, least = (np.where(np.isinf(b), 0, b) for b in (self.row_most, self.row_least))
        costs: Floats = prices * np.where(prices > 0, most, least)
        return costs

    def bound(self, prices: Floats) -> float:
        """What no solution exceeds, whatever the prices of the rows are. The priced rows and the
        rest of the goal bound it term by term, so it holds however the solver rounded.
        """
        left = self.goal - self.matrix.priced(prices, len(self.goal))
        parts = np.concatenate([self.costs(prices), np.maximum(left, 0) * self.most])
        return float(parts.sum()) + ROUNDING * float(np.abs(parts).sum())

    def proto(self, *, whole: bool) -> model_pb2.ModelProto:
        """The same for MathOpt, as the least of the goal's negative."""
        variables, counted = range(len(self.goal)), np.flatnonzero(self.goal)
        return model_pb2.ModelProto(
            variables=model_pb2.VariablesProto(
                ids=variables,
                lower_bounds=np.zeros(len(variables)),
                upper_bounds=self.most,
                integers=self.whole if whole else np.zeros(len(variables), dtype=np.bool_),
            ),
            objective=model_pb2.ObjectiveProto(
                linear_coefficients=sparse_containers_pb2.SparseDoubleVectorProto(
                    ids=counted, values=-self.goal[counted]
                ),
            ),
            linear_constraints=model_pb2.LinearConstraintsProto(
                ids=range(len(self.row_least)),
                lower_bounds=self.row_least,
                upper_bounds=self.row_most,
            ),
            linear_constraint_matrix=sparse_containers_pb2.SparseDoubleMatrixProto(
                row_ids=self.matrix.rows,
                column_ids=self.matrix.columns,
                coefficients=self.matrix.weights,
            ),
        )


def solve(
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


def limits(
    seconds: float, nodes: int | None = None, *, relative_gap: float = 0.0
) -> mathopt.SolveParameters:
    """Limits of a solve in whole numbers by HiGHS; with `nodes` of the search tree it is brief."""
    parameters = mathopt.SolveParameters(
        time_limit=time_limit(seconds), node_limit=nodes, relative_gap_tolerance=relative_gap
    )
    if nodes is not None:
        # To begin anew takes a third of the time, and pays where many nodes follow.
        parameters.highs.bool_options["mip_allow_restart"] = False
    return parameters


def values_of(result: result_pb2.SolveResultProto, size: int) -> Floats | None:
    """The variables of the best solution, None where there is none."""
    best = result.solutions[0] if result.solutions else None
    if best is None or best.primal_solution.feasibility_status != _FEASIBLE:
        return None
    return _dense(best.primal_solution.variable_values, size)


def prices_of(result: result_pb2.SolveResultProto, rows: int) -> Floats | None:
    """The prices of rows that a linear program was solved at, None where there are none."""
    best = result.solutions[0] if result.solutions else None
    if best is None or best.dual_solution.feasibility_status != _FEASIBLE:
        return None
    # What is solved is the negative.
    return -_dense(best.dual_solution.dual_values, rows)


def _dense(found: sparse_containers_pb2.SparseDoubleVectorProto, size: int) -> Floats:
    values: Floats = np.zeros(size)
    values[np.array(found.ids, dtype=np.int64)] = found.values
    return values


def time_limit(seconds: float) -> datetime.timedelta:
    """The same for MathOpt, and not so little that it cannot begin."""
    return datetime.timedelta(seconds=max(0.01, seconds))


def rounded(total: float, measure: int) -> int | None:
    """A bound in measures as the whole number that it means; None where it is none."""
    return measure * math.floor(total + SLACK) if math.isfinite(total) else None
