"""Queues: a knapsack row, less what gangs outside the model take."""

from __future__ import annotations

from ortools.sat.python import cp_model

from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Problem
from placement_service.formulation.rules.queues import QueueRow
from placement_service.formulation.tiers.goal import Terms


def post(
    cp: cp_model.CpModel, problem: Problem, row: QueueRow, terms: Terms[Var], fixed: Plan
) -> None:
    """`terms` are what gangs of the model take of the row, `fixed` the plan of the others."""
    if terms:
        taken = sum(
            int(row.weight[problem.gangs[i].demands[d].pod_class]) * count
            for i in row.gangs & fixed.keys()
            for d, _, count in fixed[i]
        )
        cp.add(dot([(v, w) for v, w in terms if w]) <= row.capacity - taken)
