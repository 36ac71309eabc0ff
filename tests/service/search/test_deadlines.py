"""Nothing is counted once the time is over."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placement_service.cp_sat.admission.master import AdmissionMaster
from placement_service.cp_sat.aggregate.model import AggregateModel
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import OutOfTime
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.heuristic.first_answer import first_answer
from placement_service.search.counted_goals import count_goals, count_most
from placement_service.search.engine import search
from placement_service.search.groundwork import Groundwork, prepare
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count, count_tiers
from placement_service.search.parameters import DEFAULTS
from tests.scenario import Scenario
from tests.waiting import LONG

SCENARIO = Scenario("r1: x1=8 x2=8 | r2: x3=8")
for name in "abc":
    SCENARIO = SCENARIO.gang(name, pods=2, gpus=4)
PROBLEM = formulate(SCENARIO.snapshot(), Policy())


def state(seconds: float) -> State:
    start = to_solution(PROBLEM, {})
    return State(PROBLEM, start, time.monotonic() + seconds, lambda solution: None)


def test_no_goal_is_counted_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = state(LONG)
    solved: list[object] = []
    monkeypatch.setattr(AdmissionMaster, "solve", lambda *args, **more: solved.append(args))
    late = time.monotonic() - 1
    found = count_goals(
        mine.counting, mine.goals, mine.bounds, DEFAULTS, seconds=LONG, deadline=late
    )
    assert found is not None
    assert (found.bounds, solved) == ((), [])


@pytest.mark.parametrize("inexact", [False, True])
def test_nothing_is_counted_when_the_search_begins_late(
    monkeypatch: pytest.MonkeyPatch, inexact: bool
) -> None:
    problem = replace(PROBLEM, exact=False, relaxation=PROBLEM) if inexact else PROBLEM
    start = first_answer(problem)
    monkeypatch.setattr(Groundwork, "counting", property(lambda ground: pytest.fail("counted")))
    late = time.monotonic() - 1
    last = search(problem, start, deadline=late, report=lambda solution: None)
    assert last.assignments == start.assignments


def test_a_master_that_takes_longer_than_there_is_time_is_not_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = SCENARIO.gang("above", pods=1, gpus=8, priority=1)
    problem = formulate(scenario.snapshot(), Policy())

    def build(*args: object, **more: object) -> None:
        raise AssertionError("it is built")

    monkeypatch.setattr(AdmissionMaster, "__init__", build)
    slow = replace(DEFAULTS, master_seconds=LONG)
    late = State(problem, to_solution(problem, {}), time.monotonic() + 1, None, slow)
    nothing = late.bounds
    count(late)
    count_tiers(late)
    assert (late.bounds, late.most) == (nothing, {})


@pytest.mark.parametrize("deterministic", [False, True])
def test_counting_that_takes_longer_than_there_is_time_is_not_begun(
    monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    """But the clock decides nothing where the same request must take the same path."""
    problem = formulate(SCENARIO.snapshot(), Policy(deterministic=deterministic))
    start = first_answer(problem)

    class Counted(Exception):
        pass

    def count(ground: Groundwork) -> None:
        raise Counted

    monkeypatch.setattr(Groundwork, "counting", property(count))
    slow = replace(DEFAULTS, counting_seconds=LONG)
    late = time.monotonic() + LONG
    with pytest.raises(Counted) if deterministic else nullcontext():
        search(problem, start, deadline=late, report=lambda solution: None, parameters=slow)


def test_the_aggregate_model_is_built_no_further_than_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever time is over while gangs are sorted, variables made or constraints posted."""
    mine = state(LONG)
    part = Subproblem(PROBLEM.gangs, np.arange(PROBLEM.node_count), PROBLEM.free, {})
    asked = (mine.counting, mine.forest, part)
    looks = 0

    def ticking() -> float:
        nonlocal looks
        looks += 1
        return float(looks)

    monkeypatch.setattr(time, "monotonic", ticking)
    AggregateModel(*asked)
    every, looks = looks, 0
    ended: set[str] = set()
    for until in range(every):
        looks = 0
        with pytest.raises(OutOfTime) as late:
            AggregateModel(*asked, until=float(until))
        assert looks == until + 1
        ended.update(entry.path.stem for entry in late.traceback if isinstance(entry.path, Path))
    assert ended >= {"part_types", "variables", "constraints"}


@pytest.mark.parametrize("beside", [True, False])
def test_of_many_priorities_no_more_are_counted_than_there_is_time_for(
    beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario("x1=8 x2=8")
    for k in range(40):
        scenario = scenario.gang(f"g{k}", pods=1, gpus=8, priority=k)
    problem = formulate(scenario.snapshot(), Policy())
    now = 0.0
    solve = AdmissionMaster.solve

    def slow(*args: Any, **more: Any) -> Any:
        nonlocal now
        now += 1.0
        return solve(*args, **more)

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(AdmissionMaster, "solve", slow)
    if beside:
        prepare(problem, deadline=8.0)
    else:
        count(State(problem, to_solution(problem, {}), 8.0, None))
    assert 6 <= now <= 8


def test_the_most_of_all_priorities_together_is_not_counted_late() -> None:
    mine = state(LONG)
    late = time.monotonic() - 1
    assert count_most(mine.counting, mine.goals, DEFAULTS, seconds=LONG)
    assert not count_most(mine.counting, mine.goals, DEFAULTS, seconds=LONG, deadline=late)
