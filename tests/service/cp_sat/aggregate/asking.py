"""Asks stages of the search around the aggregate model, and judges what they say."""

from __future__ import annotations

import time
from collections.abc import Callable

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.judge.score import Score, score
from placement_service.judge.verify import verify
from placement_service.search.incumbent import State
from tests.scenario import Scenario
from tests.waiting import LONG

POLICY = Policy(deterministic=True, starvation_after=1000)


Stage = Callable[[State], None]


class Searched(State):
    """A search, and the question behind it."""

    snapshot: Snapshot


def after(scenario: Scenario | Snapshot, *stages: Stage, plan: Plan | None = None) -> Searched:
    """What is known after some stages, from a plan or from the first answer."""
    snapshot = scenario if isinstance(scenario, Snapshot) else scenario.snapshot()
    problem = formulate(snapshot, POLICY)
    start = first_answer(problem) if plan is None else to_solution(problem, plan)
    state = Searched(problem, start, time.monotonic() + LONG, lambda solution: None)
    state.snapshot = snapshot
    for stage in stages:
        stage(state)
    return state


def judged(state: Searched) -> Score:
    """The score of a plan that keeps the rules and is worth what it claims."""
    snapshot, solution = state.snapshot, state.solution()
    bindings = name_pods(snapshot, solution.assignments)
    assert verify(snapshot, POLICY, bindings) == ()
    result = score(snapshot, POLICY, bindings)
    assert [t.value for t in solution.tiers] == [result.value(t.name) for t in solution.tiers]
    return result


def values_and_bounds(solution: Solution) -> list[tuple[float, float | None]]:
    """Of admitted, extra and topology."""
    asked = (TierName.ADMITTED, TierName.EXTRA, TierName.TOPOLOGY)
    return [(t.value, t.bound) for t in solution.tiers if t.name in asked]


def counted(problem: Problem) -> tuple[Counting, Forest]:
    return Counting(Topology(problem)), Forest(problem)


def rack(name: str, size: int, block: str = "") -> str:
    return f"{block}/{name}: " + " ".join(f"{name}n{i}=8" for i in range(size))
