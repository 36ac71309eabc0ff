"""Which pod uses which reservation, where the usual choice holds back room that pods have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.naming import reservation_choice
from placement_service.entities.naming.reservation_users import use_reservations
from placement_service.entities.request import CPU, Binding
from placement_service.entities.reservations import ReservationSelector
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from tests.scenario import Group, Scenario

#: What pods ask for that run in any reservation that is for them.
REQUIRED = {
    "required_reservation": ReservationSelector(
        terms=(NodeSelectorTerm((Requirement("team", Operator.DOES_NOT_EXIST),)),)
    )
}


def question(drawing: str) -> Scenario:
    """Two pods of three GPUs together beside "more", which holds two, and "once", without any."""
    scenario = Scenario(drawing).hold("more", "x1", 2, "own")
    scenario = scenario.hold("once", "x1", 0, "own", allocate_once=True)
    more, once = scenario.reservations
    scenario = replace(scenario, reservations=(more, replace(once, held={CPU: 1_000})))
    scenario = scenario.gang("a", Group("own", pods=1, gpus=1, cpus=1))
    return scenario.gang("b", Group("own", pods=1, gpus=2, cpus=1))


def used(bindings: tuple[Binding, ...]) -> tuple[str, ...]:
    """The short names of the reservations."""
    return tuple(b.reservation.rpartition("/")[2] for b in bindings)


def test_the_usual_choice_stays_where_there_is_room() -> None:
    scenario = question("x1=8")
    both = scenario.bind(a_own_0="x1", b_own_0="x1")
    assert used(use_reservations(scenario.snapshot(), both)) == ("more", "once")


def test_another_is_made_where_there_is_none() -> None:
    scenario = question("x1=3")
    both = scenario.bind(a_own_0="x1", b_own_0="x1")
    assert used(use_reservations(scenario.snapshot(), both)) == ("more", "more")


def test_who_requires_one_and_has_least_choice_comes_first() -> None:
    """The pods may choose among many, so that trying all choices would take too long."""
    scenario = Scenario("x1=64")
    for i in range(12):
        scenario = scenario.hold(f"r{i}", "x1", 1, "any", *(["one"] if i == 0 else []))
    once = tuple(replace(r, allocate_once=True) for r in scenario.reservations)
    scenario = replace(scenario, reservations=once)
    scenario = scenario.gang("a", Group("any", pods=11, gpus=1, asks=REQUIRED))
    scenario = scenario.gang("b", Group("one", pods=1, gpus=1, asks=REQUIRED))
    names = {f"a_any_{i}": "x1" for i in range(11)}
    found = used(use_reservations(scenario.snapshot(), scenario.bind(**names, b_one_0="x1")))
    assert found[-1] == "r0"
    assert sorted(found) == sorted(f"r{i}" for i in range(12))


def test_whoever_requires_one_has_one_if_there_is_a_choice() -> None:
    """The first would have the one that it leaves least of, without which the others are two for
    one reservation.
    """
    scenario = Scenario("x1=8").hold("r", "x1", 1, "p", "q", "s", allocate_once=True)
    scenario = scenario.hold("s", "x1", 2, "p", allocate_once=True)
    scenario = scenario.hold("t", "x1", 2, "q", "s", allocate_once=True)
    for group in "pqs":
        scenario = scenario.gang(group, Group(group, pods=1, gpus=1, asks=REQUIRED))
    pods = scenario.bind(p_p_0="x1", q_q_0="x1", s_s_0="x1")
    first, *others = used(use_reservations(scenario.snapshot(), pods))
    assert first == "s"
    assert sorted(others) == ["r", "t"]


def test_what_victims_leave_is_room() -> None:
    scenario = question("x1=2/3").gang("v", Group("w", gpus=1, told=("x1",)))
    both = scenario.bind(a_own_0="x1", b_own_0="x1")
    victims = scenario.evict(EvictionKind.PREEMPT, "a", v_w_runs_0=None)
    assert used(use_reservations(scenario.snapshot(), both, victims)) == ("more", "more")


@pytest.mark.parametrize("kind", [EvictionKind.PREEMPT, EvictionKind.RECLAIM])
def test_who_may_not_have_the_room_of_a_victim_uses_the_reservation(kind: EvictionKind) -> None:
    """Both may use "more", which is free and holds all that is; larger pods usually come first."""
    scenario = Scenario("x1=4/8").hold("more", "x1", 4, "own", restricted=True)
    scenario = scenario.gang("v", Group("w", gpus=4, told=("x1",)))
    scenario = scenario.gang("low", Group("own", pods=2, gpus=1))
    above = 1 if kind is EvictionKind.PREEMPT else 0
    scenario = scenario.gang("winner", Group("own", pods=1, gpus=4), priority=above)
    pods = scenario.bind(low_own_0="x1", low_own_1="x1", winner_own_0="x1")
    victims = scenario.evict(kind, "winner", v_w_runs_0=None)
    assert used(use_reservations(scenario.snapshot(), pods, victims)) == ("more", "more", "")


def test_who_never_preempts_uses_the_reservation() -> None:
    scenario = Scenario("x1=4/8").hold("more", "x1", 4, "own", restricted=True)
    scenario = scenario.gang("v", Group("w", gpus=4, told=("x1",)))
    scenario = scenario.gang("mild", Group("own", pods=1, gpus=1), priority=2, never_preempts=True)
    scenario = scenario.gang("winner", Group("own", pods=1, gpus=4), priority=1)
    pods = scenario.bind(mild_own_0="x1", winner_own_0="x1")
    victims = scenario.evict(EvictionKind.PREEMPT, "winner", v_w_runs_0=None)
    assert used(use_reservations(scenario.snapshot(), pods, victims)) == ("more", "")


def test_a_choice_that_fits_all_remains_where_none_fits_each() -> None:
    """The reservation is for the winner alone, so that the other one has no room."""
    scenario = Scenario("x1=4/8").hold("more", "x1", 4, "other", restricted=True)
    scenario = scenario.gang("v", Group("w", gpus=4, told=("x1",)))
    scenario = scenario.gang("low", Group("own", pods=1, gpus=1))
    scenario = scenario.gang("winner", Group("other", pods=1, gpus=3), priority=1)
    pods = scenario.bind(low_own_0="x1", winner_other_0="x1")
    victims = scenario.evict(EvictionKind.PREEMPT, "winner", v_w_runs_0=None)
    assert used(use_reservations(scenario.snapshot(), pods, victims)) == ("", "more")


@pytest.mark.parametrize("limit", ["MOST_CHOICES", "MOST_PODS"])
def test_it_stays_where_trying_takes_too_long(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(reservation_choice, limit, 1)
    scenario = question("x1=3")
    both = scenario.bind(a_own_0="x1", b_own_0="x1")
    assert used(use_reservations(scenario.snapshot(), both)) == ("more", "once")


def test_thousands_of_pods_on_a_node_are_left_as_they_are() -> None:
    """Trying goes one step deeper for each of them."""
    scenario = question("x1=3").gang("many", Group("own", pods=3000, cpus=1))
    everybody = {"a_own_0": "x1", "b_own_0": "x1"} | {f"many_own_{i}": "x1" for i in range(3000)}
    assert "more" in used(use_reservations(scenario.snapshot(), scenario.bind(**everybody)))
