"""Where room of reservations is left out, bounds come from looser questions, the loosest first."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.formulation.rules import reservations
from placement_service.heuristic.first_answer import first_answer
from placement_service.search import relaxation_stage
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.parameters import DEFAULTS
from placement_service.search.relaxation_stage import settle_relaxation
from tests.scenario import Group, Scenario

#: Two nodes on which pods of one gang would have to choose, and a third one.
TWO = Scenario("x1=8 x2=8 x3=8")
for node in ("x1", "x2"):
    TWO = TWO.hold(f"r-{node}", node, 8, "large", "small", allocate_once=True)
TWO = TWO.gang("a", Group("large", pods=1, gpus=8), Group("small", pods=1, gpus=1))


@pytest.fixture(autouse=True)
def none_ruled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "MOST_RULED", 0)


def counted(
    scenario: Scenario, most_nodes: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Problem], float | None]:
    """The questions that are counted one after another, and the bound of what is admitted."""
    questions: list[Problem] = []

    def noted(state: State) -> None:
        questions.append(state.problem)
        count(state)

    monkeypatch.setattr(relaxation_stage, "count", noted)
    for stage in ("settle_aggregate", "settle_exact"):
        monkeypatch.setattr(relaxation_stage, stage, lambda state: None)
    problem = formulate(scenario.snapshot(), scenario.policy)
    assert problem.relaxation is not None
    start = first_answer(problem)
    parameters = replace(DEFAULTS, relaxation_nodes=most_nodes)
    state = State(problem, start, time.monotonic() + 60, None, parameters)
    settle_relaxation(state, problem.relaxation, start)
    tiers = state.solution().tiers
    return questions, next(t.bound for t in tiers if t.name is TierName.ADMITTED)


def beside(problem: Problem) -> int:
    return sum("beside" in name for name in problem.columns)


def test_on_many_nodes_that_is_enough_once_it_is_known_who_is_admitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = TWO.gang("b", pods=4, gpus=8)
    questions, bound = counted(scenario, 0, monkeypatch)
    assert [beside(q) for q in questions] == [0]
    assert bound == 9


def test_what_reservations_hold_is_counted_where_more_might_be_admitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = TWO
    for name in ("b", "c", "d"):
        scenario = scenario.gang(name, pods=1, gpus=8)
    questions, bound = counted(scenario, 0, monkeypatch)
    assert [beside(q) > 0 for q in questions] == [False, True]
    assert bound == 17


def test_on_few_nodes_both_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    questions, _ = counted(TWO.gang("b", pods=4, gpus=8), 3, monkeypatch)
    assert [beside(q) > 0 for q in questions] == [False, True]
