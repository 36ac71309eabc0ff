"""Queues: a knapsack row, less what gangs outside the model take. Where what runs exceeds a limit,
it holds once anything new comes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from placement_service.cp_sat.rules.counts import ClassCount
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Problem
from placement_service.formulation.rules.queues import QueueRow
from placement_service.formulation.tiers.goal import Terms


def post(
    cp: cp_model.CpModel, problem: Problem, row: QueueRow, terms: Terms[Var], fixed: Plan
) -> None:
    """`terms` are what gangs of the model take of the row, `fixed` the plan of the others."""
    if terms:
        taken = _taken(problem, row, row.weight, fixed)
        cp.add(dot([(v, w) for v, w in terms if w]) <= row.capacity - taken)


def post_excess(
    cp: cp_model.CpModel,
    problem: Problem,
    row: QueueRow,
    units: Sequence[ClassCount],
    fixed: Plan,
) -> None:
    """Of a queue above its limit: nothing new comes, or so much of what runs goes that all is
    within the limit.
    """
    excess = row.excess
    if excess is None or not row.capacity or not units:
        return
    new = [(u.units, int(row.weight[u.pod_class])) for u in units if row.weight[u.pod_class]]
    every = [(u.units, int(excess.weight[u.pod_class])) for u in units]
    grows = cp.new_bool_var("")
    cp.add(dot(new) <= row.capacity * grows)
    if _taken(problem, row, row.weight, fixed):
        cp.add(grows == 1)
    left = excess.capacity - _taken(problem, row, excess.weight, fixed)
    cp.add(dot(every) <= left).only_enforce_if(grows)


def _taken(problem: Problem, row: QueueRow, weight: Ints, fixed: Plan) -> int:
    """What a fixed plan takes of a row."""
    return sum(
        int(weight[problem.gangs[i].demands[d].pod_class]) * count
        for i in row.gangs & fixed.keys()
        for d, _, count in fixed[i]
    )
