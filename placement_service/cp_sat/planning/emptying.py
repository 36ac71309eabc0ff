"""Which domains to empty so that the fewest pods leave, wherever they go.

    y[d]      the domain is emptied                  sum y = count
    z[g]      the gang leaves whole
    m[g, d]   its pods in the domain leave as extras  m[g, d] + z[g] >= y[d]
    sum_d pods[g, group, d] m[g, d] <= what the group can spare
    sum_d GPUs[d] y[d] <= GPUs of all domains less those in use
    minimise sum pods[g] z[g] + sum pods[g, d] m[g, d]

It does not say where pods go, and only counts the GPUs there. So its optimum bounds every plan, in
any number of steps.
"""

from __future__ import annotations

import time

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.added_nodes import NEVER
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.planning_questions import (
    EmptyingAnswer,
    EmptyingQuestion,
    MovableGang,
)


def fewest_leaving(question: EmptyingQuestion, *, deadline: float) -> EmptyingAnswer:
    """The answer by `deadline`, in `time.monotonic` seconds."""
    cp = cp_model.CpModel()
    emptied = {d: cp.new_bool_var("") for d in question.able}
    cp.add(cp_model.LinearExpr.sum(list(emptied.values())) == question.count)
    for kind in question.spared:
        cp.add(dot(list(zip(emptied.values(), kind.has, strict=True))) <= kind.most)
    cost: list[tuple[Var, int]] = []
    for gang in question.gangs:
        cost += _leave(cp, gang, emptied)
    for domains in question.forbidden:
        mine = [emptied[d] for d in sorted(domains) if d in emptied]
        cp.add(cp_model.LinearExpr.sum(mine) <= question.count - 1)
    cp.minimize(dot(cost))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = max(0.05, deadline - time.monotonic())
    status = solver.solve(cp)
    if status == cp_model.INFEASIBLE:
        return EmptyingAnswer(None, NEVER)
    bound = max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return EmptyingAnswer(None, bound)
    chosen = frozenset(d for d, y in emptied.items() if solver.value(y))
    return EmptyingAnswer(chosen, bound)


def _leave(
    cp: cp_model.CpModel, gang: MovableGang, emptied: dict[int, Var]
) -> list[tuple[Var, int]]:
    """What leaves of a gang for the domains, and what that costs."""
    by_domain: dict[int, list[tuple[int, int]]] = {}
    for domain, group, pods in gang.inside:
        if domain in emptied:
            by_domain.setdefault(domain, []).append((group, pods))
    if not by_domain:
        return []
    cost: list[tuple[Var, int]] = []
    whole = cp.new_bool_var("") if gang.moves_whole else None
    if whole is not None:
        cost.append((whole, gang.pods))
    of_group: dict[int, list[tuple[Var, int]]] = {}
    for domain, groups in by_domain.items():
        y = emptied[domain]
        spares = gang.moves_extras and all(pods <= gang.spare[g] for g, pods in groups)
        if not spares:
            if whole is None:
                cp.add(y == 0)
            else:
                cp.add_implication(y, whole)
            continue
        m = cp.new_bool_var("")
        cp.add_bool_or([y.Not(), m] if whole is None else [y.Not(), m, whole])
        cost.append((m, sum(pods for _, pods in groups)))
        for group, pods in groups:
            of_group.setdefault(group, []).append((m, pods))
    for group, terms in of_group.items():
        if sum(pods for _, pods in terms) > gang.spare[group]:
            cp.add(dot(terms) <= gang.spare[group])
    return cost
