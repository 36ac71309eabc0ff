"""What is prepared before the first answer changes nothing but the time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.entities.request import ExtrasPolicy, Policy, Tolerance
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import trivial_bounds
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import goals
from placement_service.heuristic.first_answer import first_answer
from placement_service.search import master_stage
from placement_service.search.counted_goals import count_goals
from placement_service.search.engine import prepare, search
from placement_service.search.groundwork import Groundwork
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from tests.scenario import Scenario
from tests.service.evictions import PREEMPT, cluster, running, urgent

MINUTE = 60


def crowded(policy: Policy) -> Problem:
    """Two racks for three gangs of which only two fit, one of them with an extra."""
    asked = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=8")
    for i in range(3):
        asked = asked.gang(f"g{i}", pods=2, gpus=8, pack="rack", waited=i * MINUTE)
    return formulate(asked.snapshot(), policy)


def answer(problem: Problem, ground: Groundwork | None) -> object:
    late = time.monotonic() + MINUTE
    return search(
        problem, first_answer(problem), deadline=late, report=lambda _: None, prepared=ground
    )


@pytest.mark.parametrize(
    "policy",
    [
        Policy(deterministic=True),
        Policy(deterministic=True, extras=ExtrasPolicy.WITH_PRIORITY),
        Policy(deterministic=True, tolerances=(Tolerance("admitted", 0.5),)),
    ],
)
def test_the_answer_is_the_same(policy: Policy) -> None:
    problem = crowded(policy)
    ground = prepare(problem, deadline=time.monotonic() + MINUTE)
    assert ground.counted is not None
    assert len(ground.counted.target) == 2
    assert answer(problem, ground) == answer(problem, None)


def test_what_was_counted_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = crowded(Policy())
    ground = prepare(problem, deadline=time.monotonic() + MINUTE)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("counted twice")

    monkeypatch.setattr(master_stage, "count_goals", never)
    answer(problem, ground)


def test_what_was_counted_is_of_no_use_where_some_may_be_spent() -> None:
    """It is about plans that spend nothing."""
    problem = crowded(Policy())
    state = State(problem, first_answer(problem), time.monotonic() + MINUTE, lambda _: None)
    assert state.is_fresh
    state.tolerate(TierName.ADMITTED, 0.5)
    assert not state.is_fresh


def test_later_goals_are_counted_for_plans_that_reach_what_is_known_already() -> None:
    """Counting alone would have the larger gang run, which has not waited."""
    asked = Scenario("x1=8 x2=8").gang("large", pods=2, gpus=8)
    asked = asked.gang("old", pods=1, gpus=8, waited=100 * MINUTE)
    problem = formulate(asked.snapshot(), Policy())
    ground, every = Groundwork(problem), goals(problem)
    everybody = trivial_bounds(every)
    assert [goal.tier for goal in every[:2]] == [TierName.ADMITTED, TierName.WAITING]

    def waiting(gpus: int) -> int:
        known = (everybody[0] * gpus // 24, *everybody[1:])
        counted = count_goals(ground.counting, every, known, DEFAULTS, seconds=MINUTE)
        assert counted is not None
        return counted.bounds[1]

    assert [waiting(8), waiting(16)] == [100, 1]


@pytest.mark.parametrize(("steps", "rows"), [(1, False), (2, True), (4, True)])
def test_it_ends_soon_when_nobody_will_ask_for_it(steps: int, rows: bool) -> None:
    """Also between two goals."""
    problem = crowded(Policy())
    asked = iter([False] * steps)
    ground = prepare(problem, deadline=time.monotonic() + MINUTE, until=lambda: next(asked, True))
    assert ground.counted is None
    assert "classes" in vars(ground.counting)
    assert ("rows" in vars(ground.counting)) is rows


def test_nothing_is_counted_where_the_model_of_victims_comes_first() -> None:
    many = DEFAULTS.victim_gangs
    victims = [running(f"old{i}", f"n{i}", gpus=8) for i in range(many)]
    asked = cluster(*victims, urgent(), nodes=many)
    problem = formulate(asked, PREEMPT)
    ground = prepare(problem, deadline=time.monotonic() + MINUTE)
    assert ground.counted is None
    assert "cheap_room" in vars(ground)
    nobody_asks = prepare(problem, deadline=time.monotonic() + MINUTE, until=lambda: True)
    assert "cheap_room" not in vars(nobody_asks)
    fewer = formulate(replace(asked, gangs=asked.gangs[1:]), PREEMPT)
    ground = prepare(fewer, deadline=time.monotonic() + MINUTE)
    assert ground.counted is not None
    assert "cheap_room" not in vars(ground)
