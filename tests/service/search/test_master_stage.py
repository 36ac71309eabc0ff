"""Placing the target greedily: as long as it may admit more."""

from __future__ import annotations

import time
from typing import Any

import pytest

from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.heuristic.plan_builder import Builder
from placement_service.search import master_stage
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count, decode
from tests.scenario import Scenario

HOUR = 3600


@pytest.mark.parametrize(("large", "passes"), [(False, True), (True, False)])
def test_a_large_question_is_not_placed_anew_for_older_gangs(
    large: bool, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass over many gangs takes as long as neighbourhoods that find them."""
    asked = Scenario("x1=8").gang("old", pods=1, gpus=8, waited=HOUR).gang("new", pods=1, gpus=8)
    problem = formulate(asked.snapshot(), Policy())
    newest_first = Builder(problem).build(lambda g: -g.index)
    start = to_solution(problem, newest_first)
    state = State(problem, start, time.monotonic() + 60, lambda _: None)
    count(state)
    assert state.open_tier is TierName.WAITING
    monkeypatch.setattr(master_stage, "is_large", lambda _: large)
    built: list[object] = []
    build = Builder.build

    def noted(self: Builder, order: Any, **options: Any) -> Plan:
        built.append(order)
        return build(self, order, **options)

    monkeypatch.setattr(Builder, "build", noted)
    decode(state, first=True)
    decode(state, first=False)
    assert bool(built) is passes
