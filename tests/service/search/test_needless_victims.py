"""No plan on the way reports victims whose room no gang takes."""

from __future__ import annotations

import random
import time

import pytest

from placement_service.api.wire.requests import parse_request
from placement_service.entities.solution import Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.search.engine import search
from tests.soak import questions
from tests.waiting import LONG


@pytest.mark.parametrize(("seed", "nodes"), [(89, 20), (10, 30), (70, 30), (74, 30)])
def test_every_plan_on_the_way_can_be_named(seed: int, nodes: int) -> None:
    request = parse_request(questions.evictions(random.Random(seed), nodes))
    prepared = prepare(request.snapshot, request.policy)
    problem = formulate(request.snapshot, request.policy, prepared)

    def named(solution: Solution) -> None:
        # Raises ValueError where a pod is evicted for nobody.
        name_plan(request.snapshot, request.policy, prepared, solution.assignments)

    search(problem, first_answer(problem), deadline=time.monotonic() + LONG, report=named)
