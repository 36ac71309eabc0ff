"""A linear model of arrays, solved as it is or with integers.

For models with tens of thousands of variables, which CP-SAT does not close: HiGHS and GLOP
through MathOpt. Variables are numbers, in the order in which they were made.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Self, TypeVar

import numpy as np
from ortools.math_opt import result_pb2
from ortools.math_opt.python import mathopt

from placement_service.cp_sat import linear_program
from placement_service.cp_sat.linear_program import (
    SLACK,
    LinearProgram,
    Matrix,
    prices_of,
    rounded,
    time_limit,
    values_of,
)
from placement_service.cp_sat.probing import impossible
from placement_service.cp_sat.tightening import tightened
from placement_service.entities.deadline import check_time
from placement_service.formulation.arrays import Floats
from placement_service.formulation.tiers.goal import Terms

N = TypeVar("N", int, float)

#: A sum of variables with weights.
LinearTerms = list[tuple[int, float]]


class Priced(NamedTuple):
    """A linear program, its optimal prices, and the goal's unit: below 0 for a goal that is the
    better the less it is.
    """

    program: LinearProgram
    prices: Floats
    unit: int

    def read(self, bound: float) -> int | None:
        """A bound of the program as one of the goal."""
        return rounded(bound, self.unit)


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What a solve says: values of all variables if it has any, and a bound that holds, and of a
    linear program the prices that say so.

    Proven and without values: there are none.
    """

    values: Floats | None
    bound: int | None
    proven: bool = False
    priced: Priced | None = None


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
        values = values_of(result, self.size)
        if beyond is not None:
            # What is not better may be found and called the best all the same.
            if values is not None:
                value = sum(w * values[v] for v, w in self.terms)
                values = None if sign * value > self.worst * self.measure else values
            if bound is not None and sign * bound > sign * beyond:
                bound = beyond
        return Solved(values, bound, reason is mathopt.TerminationReason.OPTIMAL)


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
        self._sorted = Matrix.of([])

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
        self._entries += [(number, v, w / scale) for v, w in terms if w]

    def exclude(self, variables: Sequence[int]) -> None:
        """Makes those of some variables 0 for good that cannot be 1."""
        some = np.array(variables, dtype=np.int64)
        for v in impossible(self._program([], 1, 1), some, until=self.until):
            self._most[v] = 0.0

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
        self._sorted = self._sorted.some(slice(entries))

    def copy(self) -> Self:
        """Another model with the same variables and rows, of the same numbers."""
        other = copy.copy(self)
        other.detach()
        return other

    def detach(self) -> None:
        """Takes lists of its own, so that the model that it was copied from may go on."""
        self._most, self._whole = [*self._most], [*self._whole]
        self._row_least, self._row_most = [*self._row_least], [*self._row_most]
        self._entries = [*self._entries]

    def relaxed(self, terms: Terms[int], *, maximize: bool, seconds: float) -> Solved:
        """The optimum without integers; its bound is computed anew from the dual values."""
        return self.ask_relaxed(terms, maximize=maximize, seconds=seconds)()

    def ask_relaxed(self, terms: Terms[int], *, maximize: bool, seconds: float) -> Question:
        """The same as a question about the model as it is now."""
        measure, sign = _measure(terms), 1 if maximize else -1
        program = tightened(self._program(terms, sign, measure))
        proto = program.proto(whole=False)
        parameters = mathopt.SolveParameters(time_limit=time_limit(seconds))

        def solve() -> Solved:
            begin = time.monotonic()
            result = linear_program.solve(proto, mathopt.SolverType.GLOP, parameters)
            self.relaxing_seconds = time.monotonic() - begin
            values = values_of(result, len(program.goal))
            prices = prices_of(result, len(program.row_most))
            if prices is None:
                return Solved(values, None)
            priced = Priced(program, program.prices(prices), sign * measure)
            return Solved(values, priced.read(program.bound(priced.prices)), priced=priced)

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
        presolve: bool = True,
    ) -> Question:
        """The same as a question about the model as it is now. Without `presolve` it comes sooner
        to the root of the search tree, which is worth it where the model is tight already.
        """
        measure, sign = _measure(terms), -1 if maximize else 1
        proto = self._program(terms, -sign, measure).proto(whole=True)
        bounds = proto.variables
        for v, value in fixed.items():
            bounds.lower_bounds[v] = bounds.upper_bounds[v] = value
        parameters = linear_program.limits(seconds, nodes)
        parameters.absolute_gap_tolerance = 0.5
        if not presolve:
            parameters.presolve = mathopt.Emphasis.OFF
        asked = _Asked(terms, measure, sign, beyond, self.size)
        if beyond is not None:
            parameters.highs.double_options["objective_bound"] = asked.worst
        return lambda: asked.read(linear_program.solve(proto, mathopt.SolverType.HIGHS, parameters))

    def _program(self, terms: Terms[int], sign: int, measure: int) -> LinearProgram:
        # Rows come one after another, so later ones stand behind.
        self._sorted = self._sorted.joined(self._entries[len(self._sorted.rows) :])
        goal = np.zeros(self.size)
        for v, w in terms:
            goal[v] += sign * w / measure
        least, most = np.array(self._row_least), np.array(self._row_most)
        whole = np.array(self._whole, dtype=np.bool_)
        return LinearProgram(goal, self._sorted, least, most, np.array(self._most), whole)


def _measure(terms: Terms[int]) -> int:
    """A number of which all weights of a goal are multiples."""
    return math.gcd(*(w for _, w in terms)) or 1


def summed(terms: Sequence[tuple[int, N]]) -> list[tuple[int, N]]:
    """Each variable once."""
    sums: dict[int, N] = {}
    for v, w in terms:
        sums[v] = sums.get(v, 0) + w
    return list(sums.items())
