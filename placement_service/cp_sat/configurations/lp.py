"""The linear relaxation of a master with configurations as columns, and a bound at every step.

Rows of the master stay as they are. To them come, for each kind of part, that no more parts are
asked for than columns hold, and for each signature, that there are no more columns than domains:

    sum a_ck z_c - sum q_k x_gq <= 0      dual pi_k
    sum_q x_gq <= R_g                     dual sigma_g

For any pi >= 0 and any duals y of the other rows with the right signs, relaxing these rows
gives (Lagrange) a bound of the goal v, whether or not the LP has all the columns it needs:

    sum_j max over the range of variable j of (v_j - (y A)_j - (pi a)_j) + y b
        + sum_g R_g max_q pi q

The maximum over q is `Configurations.price`. Duals are rounded to integers before, and all
of it is computed in integers, so the bound is exact whatever the LP solver returned.

The first sum also says what each variable costs of the bound for each step that it is away from
where it is best. Where a goal has to stay near its bound, few can be far from there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]
from ortools.sat.python import cp_model

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.cp_sat.solving import Var
from placement_service.formulation.arrays import Ints
from placement_service.formulation.tiers.goal import Terms

Floats = NDArray[np.float64]

#: Prices of parts are multiples of the goal's unit over a scale, so that they have so many
#: digits; duals of other rows have more, as these count in bytes too.
PRICE_DIGITS = 10**7
DUAL_BITS = 40

#: The price of a part that is in no column, as a multiple of what it is worth.
MISSING = 20

#: Beyond this a row has no limit on a side.
INFINITE = 1 << 61


class PartsOfKind(NamedTuple):
    """So many parts of one kind."""

    kind: int
    times: int


class Column(NamedTuple):
    """Parts that fit together into a domain of a signature."""

    signature: int
    parts: tuple[PartsOfKind, ...]


class Weighted(NamedTuple):
    """A variable by its index in the model, and its weight in a row."""

    variable: int
    weight: int


@dataclass(frozen=True, slots=True)
class Row:
    """low <= sum of (variable, weight) <= high, with None where there is no limit."""

    weights: tuple[Weighted, ...]
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Duals:
    """Of the rows of the master [M] in their own units, and of kinds [K]."""

    rows: Floats
    kinds: Floats

    def mixed(self, other: Duals, share: float) -> Duals:
        """Between the two, `share` of the way from the other to this one."""
        return Duals(
            self.rows * share + other.rows * (1 - share),
            self.kinds * share + other.kinds * (1 - share),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    """A bound of a goal at some duals: no more than `total`, where each variable is at the end of
    its range that is best by what a step is worth. In multiples of the goal's unit over `scale`;
    `sign` is -1 where the goal is minimised.
    """

    total: int
    scale: int
    sign: int
    steps: Mapping[int, int]
    limits: Sequence[tuple[int, int]]

    def ranges(self, value: int) -> Iterator[tuple[int, int, int]]:
        """How far each variable can be from there, where the goal is no worse than a value."""
        spare = max(0, self.total - self.sign * value * self.scale)
        for v, worth in self.steps.items():
            low, high = self.limits[v]
            if worth > 0:
                yield v, max(low, high - spare // worth), high
            elif worth < 0:
                yield v, low, min(high, low + spare // -worth)


class ConfigurationLp:
    """Column generation for one goal after another; columns stay."""

    def __init__(
        self,
        configurations: Configurations,
        needs: Sequence[Sequence[tuple[Var, int]]],
        parameters: ModelParameters = MODEL_DEFAULTS,
    ) -> None:
        """`needs[K]` are the parts of each kind that variables of the master ask for."""
        self.configurations = configurations
        self.parameters = parameters
        self.columns: list[Column] = []
        self._known: set[Column] = set()
        self.needs = [[(v.index, w) for v, w in terms] for terms in needs]
        self.center: Duals | None = None
        #: By how much the bound of the last goal falls where a column is used, for each; 0 for
        #: those that are newer.
        self.reduced: list[int] = []
        self._best: _Bound | None = None

    def bound(
        self, cp: cp_model.CpModel, terms: Terms[Var], *, maximize: bool, deadline: float
    ) -> int:
        """A proven bound of a goal, under all rows of a model whose variables are linear."""
        relaxation = Relaxation(self, cp, terms, maximize)
        found = relaxation.converge(deadline)
        self.center = relaxation.best_duals
        self._best = relaxation.best_bound
        # Prices that time cut short say little about which columns are good.
        settled = relaxation.settled
        self.reduced = relaxation.reduced_costs() if settled else [0] * len(self.columns)
        return found

    def ranges(self, value: int) -> Iterator[tuple[int, int, int]]:
        """Variables, each with the least and the most that it is in any solution in which the last
        goal is as good as `value`, as far as its bound says.
        """
        assert self._best is not None
        return self._best.ranges(value)

    def add(self, column: Column) -> bool:
        """Remember a column; false if it is known."""
        if column in self._known:
            return False
        self._known.add(column)
        self.columns.append(column)
        self.reduced.append(0)
        return True


class Relaxation:
    """One goal: a linear program and the best bound so far. `uses` are the variables that say how
    often each column is used, `variables` those of the model.
    """

    def __init__(
        self,
        owner: ConfigurationLp,
        cp: cp_model.CpModel,
        terms: Terms[Var],
        maximize: bool,
        columns: Iterable[Column] | None = None,
    ) -> None:
        """Some of the columns that the owner knows may do to begin with."""
        self.owner = owner
        self.configurations = owner.configurations
        self.maximize = maximize
        domains = [list(v.domain) for v in cp.proto.variables]
        self.ranges = [(d[0], d[-1]) for d in domains]
        self.rows = list(linear_rows(cp))
        self.value: dict[int, int] = {}
        for v, w in terms:
            self.value[v.index] = self.value.get(v.index, 0) + (w if maximize else -w)
        #: All values of the goal are multiples of this.
        self.step = gcd(*self.value.values()) or 1
        largest = max((abs(w) for w in self.value.values()), default=1)
        self.scale = max(1, PRICE_DIGITS // max(1, largest))
        self.best: int | None = None
        self.best_duals: Duals | None = None
        self.best_bound: _Bound | None = None
        #: Whether no further column is worth adding.
        self.settled = False
        self.uses: dict[Column, pywraplp.Variable] = {}
        self._build(owner.columns if columns is None else columns)

    # --- the linear program ---------------------------------------------------------

    def _build(self, columns: Iterable[Column]) -> None:
        solver = pywraplp.Solver.CreateSolver("GLOP")
        self.solver = solver
        infinity = solver.infinity()
        self.variables = [solver.NumVar(low, high, "") for low, high in self.ranges]
        self._row_limits = []
        for row in self.rows:
            limits = solver.Constraint(
                -infinity if row.low is None else row.low,
                infinity if row.high is None else row.high,
            )
            for v, w in row.weights:
                limits.SetCoefficient(self.variables[v], w)
            self._row_limits.append(limits)
        self._kind_limits = []
        for needs in self.owner.needs:
            limits = solver.Constraint(-infinity, 0)
            for v, w in needs:
                limits.SetCoefficient(self.variables[v], w)
            self._kind_limits.append(limits)
        self._signature_limits = [
            solver.Constraint(-infinity, len(s.domains)) for s in self.configurations.signatures
        ]
        objective = solver.Objective()
        # Values near one, where the solver's tolerances are meaningful.
        self._unit = max((abs(w) for w in self.value.values()), default=1)
        for v, w in self.value.items():
            objective.SetCoefficient(self.variables[v], w / self._unit)
        objective.SetMaximization()
        # Goals that are held may need parts for which there are no columns yet: these have a price.
        dearest = float((self._guess().kinds / self._sizes()).max(initial=0.0)) or self._unit
        for k, size in enumerate(self._sizes().tolist()):
            missing = solver.NumVar(0, infinity, "")
            self._kind_limits[k].SetCoefficient(missing, -1)
            objective.SetCoefficient(missing, -MISSING * size * dearest / self._unit)
        for column in columns:
            self._add(column)

    def _add(self, column: Column) -> None:
        x = self.solver.NumVar(0, self.solver.infinity(), "")
        self._signature_limits[column.signature].SetCoefficient(x, 1)
        for k, times in column.parts:
            self._kind_limits[k].SetCoefficient(x, -times)
        self.uses[column] = x

    def solve(self, seconds: float) -> tuple[float, Duals, Floats] | None:
        """The value, the duals of rows and kinds, and those of signatures; None if that takes
        longer.
        """
        self.solver.SetTimeLimit(max(1, round(1000 * seconds)))
        if self.solver.Solve() != pywraplp.Solver.OPTIMAL:
            return None
        # All of them are read now: once a column is added they are no longer valid.
        rows = np.array([c.dual_value() for c in self._row_limits]) * self._unit
        kinds = np.array([c.dual_value() for c in self._kind_limits]) * self._unit
        signatures = np.array([c.dual_value() for c in self._signature_limits]) * self._unit
        value = self.solver.Objective().Value() * self._unit
        return value, Duals(rows, np.maximum(kinds, 0.0)), signatures

    # --- column generation ----------------------------------------------------------

    def converge(self, deadline: float) -> int:
        """The best bound that column generation finds in time, in the sense of the goal."""
        share = self.owner.parameters.stabilisation
        center = self.owner.center or self._guess()
        if len(center.rows) != len(self.rows):
            center = Duals(np.resize(center.rows, len(self.rows)) * 0, center.kinds)
        self.price(center)
        while (left := deadline - time.monotonic()) > 0:
            solved = self.solve(left)
            if solved is None:
                break
            value, duals, signatures = solved
            if self._floor(self.best) <= self._floor(int(value + 1e-6 * abs(value)) + 1):
                self.settled = True
                break
            assert self.best_duals is not None
            added = False
            mix = share
            while not added:
                point = self.best_duals.mixed(duals, mix)
                added = self.price(point, duals, signatures)
                if mix == 0.0:
                    break
                mix = mix / 2 if mix > 0.1 else 0.0
            if not added:
                self.settled = True
                break
        best = self._floor(self.best)
        return best if self.maximize else -best

    def reduced_costs(self) -> list[int]:
        """What each column is worth less than the best of its signature, in the goal's units."""
        assert self.best_duals is not None
        prices = np.rint(self.best_duals.kinds * self.scale).astype(np.int64)
        best = self.configurations.price(prices).worth
        return [
            (int(best[c.signature]) - sum(int(prices[k]) * n for k, n in c.parts)) // self.scale
            for c in self.owner.columns
        ]

    def _floor(self, value: int | None) -> int:
        assert value is not None
        return value // self.step * self.step

    def _sizes(self) -> Floats:
        return np.array([k.size for k in self.configurations.kinds], dtype=np.float64)

    def _guess(self) -> Duals:
        """Nearly what gangs are worth for each unit of their parts."""
        worth = np.zeros(len(self.owner.needs))
        weight = np.zeros(len(self.owner.needs))
        units: dict[int, float] = {}
        sizes = self._sizes()
        for k, needs in enumerate(self.owner.needs):
            for v, w in needs:
                units[v] = units.get(v, 0.0) + w * sizes[k]
        for k, needs in enumerate(self.owner.needs):
            for v, w in needs:
                times = w * max(1, self.ranges[v][1])
                worth[k] += times * max(0, self.value.get(v, 0)) / units[v]
                weight[k] += times
        each = 0.9 * worth / np.maximum(weight, 1)
        return Duals(np.zeros(len(self.rows)), each * sizes)

    def price(
        self,
        point: Duals,
        duals: Duals | None = None,
        signatures: Floats | None = None,
        left: Ints | None = None,
    ) -> bool:
        """Prices at a point: updates the bound and adds columns, of signatures of which domains
        are `left`; returns whether any was worth adding.
        """
        prices = np.rint(point.kinds * self.scale).astype(np.int64)
        best, columns = self.configurations.price(prices)
        bound = self._lagrangian(point.rows, prices, best)
        if self.best_bound is None or bound.total < self.best_bound.total:
            self.best = bound.total // bound.scale
            self.best_duals, self.best_bound = point, bound
        added = False
        for g, parts in enumerate(columns):
            signature = self.configurations.signatures[g]
            if not signature.fits:
                parts = self.configurations.trim(signature, parts, prices)
            there = np.flatnonzero(parts)
            if left is not None and not left[g]:
                continue
            if duals is not None and signatures is not None:
                gain = float(duals.kinds[there] @ parts[there]) - signatures[g]
                if gain <= 1e-7 * self._unit:
                    continue
            if len(there):
                column = Column(g, tuple(PartsOfKind(int(k), int(parts[k])) for k in there))
                self.owner.add(column)
                if column not in self.uses:
                    self._add(column)
                    added = True
        return added

    def _lagrangian(self, rows: Floats, prices: Ints, best: Ints) -> _Bound:
        """The bound at some duals."""
        one = 1 << DUAL_BITS
        scale = self.scale * one
        reduced = {v: w * scale for v, w in self.value.items()}
        total: int = 0
        for row, dual in zip(self.rows, rows.tolist(), strict=True):
            y = round(dual * scale)
            limit = row.high if y > 0 else row.low
            if not y or limit is None:
                continue
            total += y * limit
            for v, w in row.weights:
                reduced[v] = reduced.get(v, 0) - y * w
        for needs, price in zip(self.owner.needs, prices.tolist(), strict=True):
            if price:
                for v, w in needs:
                    reduced[v] = reduced.get(v, 0) - price * one * w
        for v, w in reduced.items():
            low, high = self.ranges[v]
            total += w * (high if w > 0 else low)
        domains = zip(self.configurations.signatures, best.tolist(), strict=True)
        total += one * sum(len(s.domains) * value for s, value in domains)
        return _Bound(total, scale, 1 if self.maximize else -1, reduced, self.ranges)


def linear_rows(cp: cp_model.CpModel) -> Iterator[Row]:
    """All rows of a model that has no others than linear ones."""
    for constraint in cp.proto.constraints:
        linear = constraint.linear
        domain = list(linear.domain)
        low, high = domain[0], domain[-1]
        yield Row(
            tuple(map(Weighted, linear.vars, linear.coeffs)),
            low if low > -INFINITE else None,
            high if high < INFINITE else None,
        )
