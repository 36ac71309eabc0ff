"""Pods that run in a reservation or not at all: as many as find one, each in one of its own."""

from __future__ import annotations

import pytest

from placement_service.entities.reservations import ReservationSelector
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from placement_service.formulation.formulate import formulate
from placement_service.formulation.rules import reservations
from tests.scenario import Group, Scenario

#: What pods ask for that run in any reservation that is for them.
ANY = {
    "required_reservation": ReservationSelector(
        terms=(NodeSelectorTerm((Requirement("team", Operator.DOES_NOT_EXIST),)),)
    )
}


def own(name: str, pods: int, gpus: int, *, least: int = 1) -> Group:
    return Group(name, pods=pods, gpus=gpus, min=least, asks=ANY)


def test_one_that_serves_one_pod_serves_one_where_there_is_room_for_more() -> None:
    scenario = Scenario("x1=8 x2=8").hold("r", "x1", 2, "a", allocate_once=True)
    scenario.gang("g", own("a", pods=3, gpus=2)).place().expect(new={"g": 1})


def test_a_restricted_one_serves_as_many_as_fit_it() -> None:
    scenario = Scenario("x1=8").hold("r", "x1", 5, "a", restricted=True)
    scenario.gang("g", own("a", pods=4, gpus=2)).place().expect(new={"g": 2})


def test_one_that_may_be_topped_up_serves_all() -> None:
    scenario = Scenario("x1=8").hold("r", "x1", 1, "a")
    scenario.gang("g", own("a", pods=4, gpus=2)).place().expect(new={"g": 4})


def test_unlike_pods_share_what_is_for_both() -> None:
    scenario = Scenario("x1=8")
    for name in ("r0", "r1"):
        scenario = scenario.hold(name, "x1", 1, "a", "b", allocate_once=True)
    scenario = scenario.gang("g", own("a", pods=2, gpus=1, least=0), own("b", pods=2, gpus=1))
    scenario.place().expect(new={"g": 2})
    assert not formulate(scenario.snapshot(), scenario.policy).rules


def test_each_pod_has_the_one_of_its_own_though_both_may_share_another() -> None:
    """The pods have to be on one node, and the reservation of both is on the other one."""
    scenario = Scenario("x1=8 x2=8").hold("both", "x2", 4, "a", "b", allocate_once=True)
    for name in ("a", "b"):
        scenario = scenario.hold(name, "x1", 4, name, allocate_once=True)
    groups = own("a", pods=1, gpus=4), own("b", pods=1, gpus=4)
    placed = scenario.gang("g", *groups, pack="host").place()
    placed.expect(placed=("g",), nodes={"g": {"x1": 2}})


def test_where_nobody_can_have_what_is_held_nobody_finds_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More is held than there is, and how pods choose is not looked at."""
    monkeypatch.setattr(reservations, "MOST_RULED", 0)
    scenario = Scenario("x1=4 x2=4").hold("r", "x1", 3, "a")
    scenario = scenario.hold("s", "x1", 3, "b", allocate_once=True)
    scenario = scenario.gang("g", own("a", pods=1, gpus=1))
    problem = formulate(scenario.snapshot(), scenario.policy)
    assert not problem.exact
    assert not problem.eligible.any()
    assert problem.relaxation is not None
    assert problem.relaxation.eligible.any()
