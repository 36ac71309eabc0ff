"""A looser question of which some gang has another priority tells no bounds: goals are paired by
priority.
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.entities.request import Policy, Tolerance
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.search.engine import search
from tests.scenario import Scenario
from tests.waiting import LONG

POLICIES = [
    pytest.param(Policy(), id="nothing is spent"),
    pytest.param(Policy(tolerances=(Tolerance("waiting", 0.1),)), id="some of waiting is spent"),
]


def asked(priority: int, policy: Policy) -> Problem:
    """A node of eight GPUs, and two gangs that want all of it."""
    scenario = Scenario("x1=8").gang("a", pods=1, gpus=8, priority=priority)
    return formulate(scenario.gang("b", pods=1, gpus=8).snapshot(), policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("priority", [0, 1])
def test_only_bounds_of_the_same_goals_are_taken(priority: int, policy: Policy) -> None:
    problem = replace(asked(1, policy), exact=False, relaxation=asked(priority, policy))
    start = first_answer(problem)
    deadline = time.monotonic() + LONG
    final = search(problem, start, deadline=deadline, report=lambda _: None)
    assert final.tiers[0].value == 8
    # Without a looser question of the same goals nothing is known but what all gangs ask for.
    assert final.tiers[0].bound == (8 if priority else 16)
