"""Reasons that name the gangs which took the room."""

from __future__ import annotations

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from tests.scenario import Scenario
from tests.service.explain.asking import as_solution, reasons_of, why

Code, State = ReasonCode, ReasonState


def test_a_gang_that_fits_alone_is_told_who_took_the_room() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8").gang("b", pods=2, gpus=8, priority=5).gang("a", pods=1, gpus=8)
    )
    assert why(scenario) == (
        Reason(
            Code.INSUFFICIENT_RESOURCES,
            "the cluster has room for 0 of 1 pod of 8 nvidia.com/gpu.",
            asked=1,
            state=State.AFTER_PLAN,
        ),
        Reason(
            Code.OUTCOMPETED,
            "the gang fits if gang b (priority 5) waits; its own priority is 0.",
            asked=1,
            state=State.AFTER_PLAN,
        ),
    )


def test_the_gang_of_lowest_priority_that_suffices_is_named() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 x3=4")
        .gang("high", pods=1, gpus=8, priority=9)
        .gang("low", pods=1, gpus=8, priority=5)
        .gang("tiny", pods=1, gpus=4, priority=1)
        .gang("a", pods=1, gpus=8)
    )
    assert why(scenario)[-1].message == (
        "the gang fits if gang low (priority 5) waits; its own priority is 0."
    )


def test_all_gangs_that_must_wait_are_named() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 | r2: x3=8")
        .gang("one", pods=1, gpus=8, priority=5, pack="rack")
        .gang("two", pods=2, gpus=8, priority=5)
        .gang("a", pods=2, gpus=8, pack="rack")
    )
    placed = scenario.bind(two_w_0="x1", two_w_1="x3", one_w_0="x2")
    solution = as_solution(scenario.snapshot(), placed)
    reasons = reasons_of(scenario.snapshot(), solution)["namespaces/ml/podgangs/a"]
    # r1 is shared by both; either alone leaves one node there.
    assert [r.code for r in reasons] == [
        Code.REQUIRED_DOMAIN_TOO_SMALL,
        Code.OUTCOMPETED,
        Code.NOT_SEARCHED,
    ]
    assert reasons[1].message == (
        "the gang fits if gangs one (priority 5) and two (priority 5) wait; its own priority is 0."
    )


def test_a_base_waits_together_with_the_gangs_based_on_it() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=2")
        .gang("base", pods=1, gpus=8, priority=5)
        .gang("scaled", pods=1, gpus=2, priority=5, base="base")
        .gang("a", pods=1, gpus=8)
    )
    assert why(scenario)[-1].message == (
        "the gang fits if gangs base (priority 5) and scaled (priority 5) wait; "
        "its own priority is 0."
    )


def test_what_holds_alone_comes_first_and_what_the_plan_adds_second() -> None:
    # Of 9 pods the nodes hold 2 + 2; beside b they hold 2.
    scenario = (
        Scenario("r1: x1=8 x2=8").gang("b", pods=1, gpus=8, priority=5).gang("a", pods=9, gpus=4)
    )
    assert [(r.message, r.state) for r in why(scenario)] == [
        (
            "even with no other gang waiting, the cluster has room for 4 of 9 pods of "
            "4 nvidia.com/gpu.",
            State.EMPTY_QUEUE,
        ),
        (
            "beside the gangs that are placed, the cluster has room for 2 of 9 pods of "
            "4 nvidia.com/gpu.",
            State.AFTER_PLAN,
        ),
    ]


def test_gangs_of_higher_priority_are_named_only_where_they_must_wait() -> None:
    """Two nodes are needed, and two of three gangs are as unimportant as the one that waits."""
    scenario = (
        Scenario("x1=8 x2=8 x3=8")
        .gang("high", pods=1, gpus=8, priority=5)
        .gang("low", pods=1, gpus=8)
        .gang("lower", pods=1, gpus=8)
        .gang("a", pods=2, gpus=8)
    )
    snapshot = scenario.snapshot()
    placed = as_solution(snapshot, scenario.bind(high_w_0="x1", low_w_0="x2", lower_w_0="x3"))
    reasons = reasons_of(snapshot, placed)["namespaces/ml/podgangs/a"]
    assert reasons[1].message == (
        "the gang fits if gangs low (priority 0) and lower (priority 0) wait; "
        "its own priority is 0."
    )
