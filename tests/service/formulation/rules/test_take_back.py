"""Reservations that hold again what their pods used, once these have gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.request import BoundPod, PodGang, Snapshot
from placement_service.entities.reservations import Reservation, ReservationOwner
from placement_service.formulation.rules.reservations import MOST_TAKING_BACK, take_back
from tests.service.evictions import running
from tests.service.questions import node


def user(number: int, *reservations: str) -> PodGang:
    """A gang whose pods use reservations."""
    one = running(f"g{number}", "n0")
    (group,) = one.groups
    pods = tuple(
        BoundPod(f"namespaces/ml/pods/g{number}-{i}", "nodes/n0", reservation=name)
        for i, name in enumerate(reservations)
    )
    sets = (replace(group.pod_sets[0], bound_pods=pods),)
    return replace(one, groups=(replace(group, pod_sets=sets),))


def reservation(number: int, **more: Any) -> Reservation:
    return Reservation(f"reservations/r{number}", f"nodes/n{number}", **more)


def taking_back(*reservations: Reservation, uses: tuple[str, ...] = ("reservations/r0",)) -> int:
    """How many of them take back."""
    nodes = tuple(node(f"n{i}") for i in range(9))
    found = take_back(Snapshot(nodes, (user(0, *uses),), reservations=reservations))
    assert found <= set(uses)
    return len(found)


BY_NAME = ReservationOwner(pod="g0-0")
BY_GANG = ReservationOwner(gang="g0")


@pytest.mark.parametrize(
    ("changes", "takes"),
    [
        pytest.param({}, True, id="plain"),
        pytest.param({"owners": (BY_NAME, BY_GANG)}, True, id="not by name alone"),
        pytest.param({"owners": (BY_NAME,)}, False, id="by name"),
        pytest.param({"restricted": True}, False, id="restricted"),
        pytest.param({"allocate_once": True}, False, id="for one pod"),
        pytest.param({"closed": True}, False, id="closed"),
        pytest.param({"devices": (1,)}, False, id="of devices"),
    ],
)
def test_only_those_take_back_that_may_be_topped_up(changes: dict[str, Any], takes: bool) -> None:
    assert taking_back(reservation(0, **changes)) == takes


def test_one_that_nobody_uses_has_nothing_to_take_back() -> None:
    assert taking_back(reservation(0), reservation(1)) == 1
    assert taking_back(reservation(0), uses=("",)) == 0


def test_beside_another_on_its_node_none_takes_back() -> None:
    beside = replace(reservation(1), node="nodes/n0")
    assert taking_back(reservation(0), beside) == 0


@pytest.mark.parametrize(
    ("count", "takes"), [(MOST_TAKING_BACK, MOST_TAKING_BACK), (MOST_TAKING_BACK + 1, 0)]
)
def test_of_many_none_takes_back(count: int, takes: int) -> None:
    """Each is a room of its own, which makes the question larger."""
    several = [reservation(i) for i in range(count)]
    assert taking_back(*several, uses=tuple(one.name for one in several)) == takes
