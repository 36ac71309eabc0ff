"""Reasons that name the gangs which took the room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.explain.blocking_gangs import Rivals
from placement_service.formulation.plan import Units
from placement_service.formulation.problem import Gang
from tests.scenario import Group, Scenario, near
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


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[int]]:
    """The rivals that are left out in each trial, in the order of their price."""
    found: list[Sequence[int]] = []
    place = Rivals._place_without

    def watched(self: Rivals, gang: Gang, rivals: Sequence[int]) -> Units | None:
        found.append(rivals)
        return place(self, gang, rivals)

    monkeypatch.setattr(Rivals, "_place_without", watched)
    return found


def rivals_of(scenario: Scenario, **bound: str) -> str:
    """Why gang a waits beside a plan by hand, in its last reason but the one about proof."""
    snapshot = scenario.snapshot()
    solution = as_solution(snapshot, scenario.bind(**bound))
    *_, told, _ = reasons_of(snapshot, solution)["namespaces/ml/podgangs/a"]
    return told.message


def test_only_who_frees_enough_where_it_is_needed_is_tried(trials: list[Sequence[int]]) -> None:
    """Two pods must join those in r2, and one has room there already; r1 has room for more, and d
    runs in no rack.
    """
    scenario = Scenario("r1: x1=8 x2=8 x3=8 x4=8 | r2: y1=8 y2=8 y3=0/8 | z1=8")
    for k in range(2):
        scenario = scenario.gang(f"b{k}", pods=1, gpus=4)
    scenario = scenario.gang("d", pods=1, gpus=8).gang("c", pods=2, gpus=4)
    scenario = scenario.gang("a", Group("w", pods=2, gpus=8, told=("y3",)), pack="rack")
    told = rivals_of(scenario, b0_w_0="x1", b1_w_0="x2", c_w_0="y1", c_w_1="y1", d_w_0="z1")
    assert told.startswith("the gang fits if gang c (priority 0) waits")
    assert trials == [[3]]


def test_what_has_room_already_need_not_be_freed(trials: list[Sequence[int]]) -> None:
    """The pod with GPUs lacks a node, the one with cores does not, and b uses none."""
    scenario = Scenario("r1: x1=8 x2=4").gang("b", pods=1, gpus=8)
    scenario = scenario.gang("a", Group("w", pods=1, gpus=8), Group("v", pods=1, cpus=2))
    assert rivals_of(scenario, b_w_0="x1").startswith("the gang fits if gang b (priority 0) waits")
    assert trials == [[0]]


def test_its_own_base_is_no_rival(trials: list[Sequence[int]]) -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8")
        .gang("base", pods=1, gpus=8)
        .gang("other", pods=1, gpus=8)
        .gang("a", pods=1, gpus=8, base="base")
    )
    told = rivals_of(scenario, base_w_0="x1", other_w_0="x2")
    assert told.startswith("the gang fits if gang other (priority 0) waits")
    assert trials == [[1]]


def test_of_many_gangs_only_those_in_the_way_are_named() -> None:
    """Only r0 has two nodes; of a dozen gangs, two stand there."""
    racks = " | ".join(f"r{i}: x{i}=8" for i in range(1, 11))
    scenario = Scenario(f"r0: y1=8 y2=8 | {racks}")
    for i in range(1, 11):
        scenario = scenario.gang(f"b{i}", pods=1, gpus=8)
    scenario = scenario.gang("c", pods=1, gpus=8).gang("d", pods=1, gpus=2)
    scenario = scenario.gang("a", pods=2, gpus=8, pack="rack")
    elsewhere = {f"b{i}_w_0": f"x{i}" for i in range(1, 11)}
    assert rivals_of(scenario, **elsewhere, c_w_0="y1", d_w_0="y2").startswith(
        "the gang fits if gangs c (priority 0) and d (priority 0) wait"
    )


def test_a_gang_beside_which_there_is_room_is_not_named() -> None:
    """The trial with nobody there takes the roomiest nodes first, and one of the pods fits beside
    small; both large gangs have to wait.
    """
    scenario = (
        Scenario("r1: x1=8 x2=8 x3=8")
        .gang("small", pods=1, gpus=2)
        .gang("large1", pods=1, gpus=8)
        .gang("large2", pods=1, gpus=8)
        .gang("a", pods=3, gpus=6)
    )
    told = rivals_of(scenario, small_w_0="x1", large1_w_0="x2", large2_w_0="x3")
    assert told.startswith(
        "the gang fits if gangs large1 (priority 0) and large2 (priority 0) wait"
    )


def test_pods_that_must_be_apart_are_named_where_there_is_room() -> None:
    """Each of two gangs keeps its node from a's pods; there is room for all of them."""
    away = (near("host", group="w"),)
    scenario = Scenario("r1: x1=8 x2=8")
    for name in ("b", "c"):
        scenario = scenario.gang(name, Group("w", pods=1, gpus=1))
    scenario = scenario.gang("a", Group("v", pods=2, gpus=7, away=away))
    told = rivals_of(scenario, b_w_0="x1", c_w_0="x2")
    assert told.startswith("the gang fits if gangs b (priority 0) and c (priority 0) wait")


def test_a_gang_beyond_its_base_that_runs_is_named() -> None:
    scenario = (
        Scenario("r1: x1=0/8 x2=8")
        .gang("base", Group("w", gpus=8, on=("x1",)))
        .gang("scaled", pods=1, gpus=8, base="base")
        .gang("a", pods=1, gpus=8, priority=-1)
    )
    told = rivals_of(scenario, scaled_w_0="x2")
    assert told.startswith("the gang fits if gang scaled (priority 0) waits")


def test_who_frees_room_that_can_be_used_is_tried_first(trials: list[Sequence[int]]) -> None:
    """Each of two pods fits x1, both do not; smaller gangs leave nothing that either could use."""
    scenario = Scenario("x1=8 x2=8 | r1: y1=1 y2=1 y3=1 y4=1 y5=1")
    for i in range(1, 6):
        scenario = scenario.gang(f"c{i}", pods=1, gpus=1)
    scenario = scenario.gang("d", pods=2, gpus=4)
    scenario = scenario.gang("a", Group("w", pods=1, gpus=8), Group("v", pods=1, gpus=4))
    small = {f"c{i}_w_0": f"y{i}" for i in range(1, 6)}
    told = rivals_of(scenario, **small, d_w_0="x2", d_w_1="x2")
    assert told.startswith("the gang fits if gang d (priority 0) waits")
    assert trials == [[5]]
