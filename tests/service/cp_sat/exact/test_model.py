"""How large the exact model is, and what becomes of one that takes too long to build."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.exact.model import ExactModel, size_of
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import OutOfTime
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.search import exact_stage
from placement_service.search.exact_stage import settle_exact
from placement_service.search.incumbent import State
from tests.avoiding import avoiding
from tests.scenario import Group, Scenario, spread
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.questions import node
from tests.waiting import LONG

FOUR = "r1: x1=8 x2=8 x3=8 x4=8"


def plain() -> Scenario:
    return Scenario(FOUR).gang("a", Group("w", pods=2, gpus=8))


def with_compute_domains() -> Scenario:
    found = Scenario(FOUR)
    for name in "ab":
        asks = {"compute_domain": name}
        found = found.gang(name, Group("w", pods=2, gpus=1, asks=asks))
    return found


def with_spread() -> Scenario:
    even = (spread("host", app="a"),)
    return Scenario(FOUR).gang("a", Group("w", pods=2, gpus=8, labels={"app": "a"}, spread=even))


def with_avoided_nodes() -> Scenario:
    found = Scenario(FOUR)
    for host in ("x1", "x2"):
        found = found.gang(host, Group("w", pods=1, gpus=8, asks=avoiding(host)))
    return found


def problem_of(scenario: Scenario) -> Problem:
    return formulate(scenario.snapshot(), Policy())


def model_of(problem: Problem, until: float) -> ExactModel:
    counting = Counting(Topology(problem))
    every = np.arange(problem.node_count)
    return ExactModel(counting, Subproblem(problem.gangs, every, problem.free, {}), until=until)


@pytest.mark.parametrize(
    ("drawn", "kinds"),
    [(plain, 1), (with_compute_domains, 4), (with_spread, 4), (with_avoided_nodes, 3)],
)
def test_rules_and_what_pods_avoid_tell_nodes_apart(
    drawn: Callable[[], Scenario], kinds: int
) -> None:
    problem = problem_of(drawn())
    demands = sum(len(g.demands) for g in problem.gangs)
    assert size_of(problem, problem.gangs, np.arange(4)) == kinds * demands
    assert len(model_of(problem, LONG + time.monotonic()).variables.classes) == kinds


def test_what_can_only_be_at_home_tells_its_node_apart() -> None:
    """Two nodes with as much in use, and two that are free."""
    gangs = (running("a", "n0"), running("b", "n1"), urgent())
    nodes = tuple(node(f"n{i}", used=4 if i < 2 else 0) for i in range(4))
    problem = formulate(Snapshot(nodes, gangs), PREEMPT)
    at_home = sum(len(g.home) for g in problem.gangs)
    assert at_home == 2
    kinds = {(0, 1, 2, 3): 3, (2, 3): 1, (1, 2): 2}
    for some, count in kinds.items():
        assert size_of(problem, problem.gangs, np.array(some)) == count + at_home


def test_a_model_is_not_built_when_its_time_is_up() -> None:
    with pytest.raises(OutOfTime):
        model_of(problem_of(plain()), time.monotonic() - 1)


def test_a_model_that_takes_half_of_the_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[float] = []

    def build(*_: object, until: float, **__: object) -> ExactModel:
        ends.append(until)
        raise OutOfTime

    monkeypatch.setattr(exact_stage, "ExactModel", build)
    problem = problem_of(plain())
    now = time.monotonic()
    state = State(problem, to_solution(problem, {}), now + LONG, lambda _: None)
    settle_exact(state)
    assert not state.plan
    assert now < ends[0] <= now + 0.6 * LONG
