"""One call of CP-SAT: a linear goal, limits, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from placement_service.formulation.arrays import Ints
from placement_service.formulation.plan import Plan
from placement_service.formulation.tiers.goal import Terms

Var = cp_model.IntVar
Expr = cp_model.LinearExprT

#: With fewer workers the kinds of search that settle the hard models are missing.
PORTFOLIO_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one solve: a better plan if any, and a proven bound of its goal."""

    plan: Plan | None
    value: int | None
    bound: int | None
    proven: bool


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A solution and the proven bound of its goal; the solver has the values."""

    solver: cp_model.CpSolver
    value: int
    bound: int
    proven: bool


def dot(terms: Sequence[tuple[Var, int]]) -> Expr:
    """A sum of variables with weights."""
    return cp_model.LinearExpr.weighted_sum([v for v, _ in terms], [w for _, w in terms])


def limit(model: cp_model.CpModel, variables: Ints, weights: Ints, most: int) -> None:
    """Keeps a sum of variables, told by their indices, at most so large. For models of a million
    terms: this takes a fifth of the time that expressions take.
    """
    linear = model.proto.constraints.add().linear
    linear.vars.extend(variables)
    linear.coeffs.extend(weights)
    linear.domain.extend([cp_model.INT_MIN, most])


def hold(
    model: cp_model.CpModel, terms: Terms[Var], at_least: int | None, at_most: int | None
) -> None:
    """Keep a goal at what was reached."""
    if at_least is not None:
        model.add(dot(terms) >= at_least)
    if at_most is not None:
        model.add(dot(terms) <= at_most)


def lesser(model: cp_model.CpModel, terms: Terms[Var], most: int) -> Var:
    """The lesser of a sum and a number, in goals that are maximised."""
    variable = model.new_int_var(0, most, "")
    model.add(variable <= dot(terms))
    return variable


def presence(model: cp_model.CpModel, variables: Iterable[Var], most: int) -> Var:
    """A boolean that is 1 when any of the variables is positive; their sum is at most `most`."""
    there = model.new_bool_var("")
    model.add(cp_model.LinearExpr.sum(list(variables)) <= most * there)
    return there


def span(terms: Terms[Var]) -> int:
    """By how much a goal can change at most."""
    return sum(abs(w) * (v.domain.max() - v.domain.min()) for v, w in terms)


@dataclass(frozen=True, slots=True)
class Strategy:
    """How CP-SAT goes about a model.

    One worker solves easy models and takes the same path every time; a portfolio of different
    workers solves what one does not. (Interleaved workers would be deterministic, but OR-tools 9.15
    aborts on some small models with them.)
    """

    portfolio: bool = False
    #: How much of the model goes into linear relaxations, where one worker solves it.
    linear: int = 2
    #: Skips preparations that take as long as small models need.
    brief: bool = False
    #: Skips all preparations, and adds no cuts.
    direct: bool = False
    #: Where the best is likely near its bound, the search comes from there: that is sooner over,
    #: but on the way nothing is found.
    near: bool = False
    #: Where the linear relaxation says nearly all, the search follows it, and clauses are left as
    #: they are.
    by_lp: bool = False

    def solver(self) -> cp_model.CpSolver:
        """A solver that goes about models so."""
        solver = cp_model.CpSolver()
        parameters = solver.parameters
        if self.brief:
            parameters.cp_model_probing_level = 0
            parameters.symmetry_level = 0
            parameters.max_presolve_iterations = 1
        if self.direct:
            parameters.cp_model_presolve = False
            parameters.cut_level = 0
        parameters.use_objective_lb_search = self.near
        if self.by_lp:
            parameters.search_branching = cp_model.LP_SEARCH
            parameters.use_sat_inprocessing = False
        if self.portfolio:
            parameters.num_workers = PORTFOLIO_WORKERS
        else:
            parameters.num_workers = 1
            parameters.linearization_level = self.linear
        return solver


#: One worker, with all preparations.
PLAIN = Strategy()


def optimise(
    model: cp_model.CpModel,
    terms: Terms[Var],
    *,
    maximize: bool,
    seconds: float,
    effort: float,
    strategy: Strategy = PLAIN,
) -> Found | Answer:
    """Optimise one goal, or find anything without one; an answer when nothing was found.

    `effort` is CP-SAT's deterministic time, `seconds` the wall time that cuts it short.
    """
    solver = strategy.solver()
    solver.parameters.max_time_in_seconds = max(0.01, seconds)
    solver.parameters.max_deterministic_time = effort
    if terms and maximize:
        model.maximize(dot(terms))
    elif terms:
        model.minimize(dot(terms))
    else:
        # Otherwise the goal of an earlier call would stay.
        model.clear_objective()  # type: ignore[no-untyped-call]
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Answer(None, None, None, proven=True)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(None, None, None, proven=False)
    best = solver.best_objective_bound
    bound = int(np.floor(best + 1e-6)) if maximize else int(np.ceil(best - 1e-6))
    return Found(solver, round(solver.objective_value), bound, status == cp_model.OPTIMAL)
