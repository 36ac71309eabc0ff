"""Questions about running gangs that stay, and what is said of them."""

from __future__ import annotations

import math

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.placement import Reason
from placement_service.entities.request import ExtrasPolicy, Policy
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from tests.scenario import Group, Scenario


def ask(
    scenario: Scenario,
    eviction: EvictionPolicy,
    *,
    nothing_goes: bool = False,
    extras: ExtrasPolicy = ExtrasPolicy.AFTER_MINIMUMS,
    of: str = "urgent",
) -> tuple[Reason, ...]:
    """Why a gang waits in the first answer, or where nothing goes."""
    asked, policy = scenario.snapshot(), Policy(eviction=eviction, extras=extras)
    prepared = prepare(asked, policy)
    problem = formulate(asked, policy, prepared)
    solution = first_answer(problem)
    if nothing_goes:
        solution = to_solution(problem, home_plan(problem))
    plan = name_plan(asked, policy, prepared, solution.assignments)
    result = score(asked, policy, plan.bindings, plan.evictions)
    reasons = explain(prepared.snapshot, problem, solution, result, asked=asked, deadline=math.inf)
    found = zip(asked.gangs, reasons, strict=True)
    return next(r for g, r in found if g.name.endswith(f"/{of}"))


def old(name: str = "old", *nodes: str, gpus: int = 8) -> Group:
    """The group of a running gang with a pod on each of some nodes."""
    return Group("w", gpus=gpus, told=nodes, labels={"app": name})
