"""Asking for the reasons of a scenario or an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.placement import Reason
from placement_service.entities.request import (
    Binding,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import Assignment, Solution
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.judge.score import score
from tests.placed import solve
from tests.scenario import Scenario

POLICY = Policy()


def reasons_of(
    snapshot: Snapshot, solution: Solution, deadline: float = math.inf
) -> dict[str, tuple[Reason, ...]]:
    """The reasons by the gangs' full names."""
    bindings = name_pods(snapshot, solution.assignments)
    result = score(snapshot, POLICY, bindings)
    problem = formulate(snapshot, POLICY)
    reasons = explain(snapshot, problem, solution, result, deadline=deadline)
    return {g.name: r for g, r in zip(snapshot.gangs, reasons, strict=True)}


def why(scenario: Scenario, gang: str = "a") -> tuple[Reason, ...]:
    """The reasons of one gang in the engine's answer."""
    snapshot = scenario.snapshot()
    found = reasons_of(snapshot, solve(snapshot, scenario.policy)[-1])
    return next(r for name, r in found.items() if name.endswith(f"/{gang}"))


def only(scenario: Scenario, gang: str = "a") -> Reason:
    (reason,) = why(scenario, gang)
    return reason


def as_solution(snapshot: Snapshot, bindings: Sequence[Binding]) -> Solution:
    """A plan by hand, of which nothing is proven."""
    where = {b.pod: b.node for b in bindings}
    node = {n.name: i for i, n in enumerate(snapshot.nodes)}
    counts: dict[tuple[int, int, int, int], int] = {}
    for i, gang in enumerate(snapshot.gangs):
        for k, group in enumerate(gang.groups):
            for m, pod_set in enumerate(group.pod_sets):
                for pod in pod_set.pods:
                    if pod.name in where:
                        key = (i, k, m, node[where[pod.name]])
                        counts[key] = counts.get(key, 0) + 1
    return Solution(tuple(Assignment(*key, n) for key, n in sorted(counts.items())), ())
