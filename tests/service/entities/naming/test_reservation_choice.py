"""Who may use which reservations of a node, and the first choice that leaves room for all."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from placement_service.entities.naming.reservation_choice import BoundHere, Choices
from placement_service.entities.request import PODS, PodTemplate
from placement_service.entities.reservations import (
    Reservation,
    ReservationOwner,
    ReservationSelector,
)
from placement_service.entities.selectors import LabelSelector
from tests.service.questions import GPU

OWN = (ReservationOwner(selector=LabelSelector((("app", "own"),))),)


def held(gpus: int, name: str = "r", **fields: object) -> Reservation:
    return Reservation(f"reservations/{name}", "nodes/n", {GPU: gpus}, **{"owners": OWN, **fields})  # type: ignore[arg-type]


def pod(binding: int, gpus: int, app: str = "own", **fields: object) -> BoundHere:
    template = PodTemplate({GPU: gpus, PODS: 1}, {"app": app}, **fields)  # type: ignore[arg-type]
    name = f"namespaces/ml/pods/p{binding}"
    return BoundHere(binding, name, "namespaces/ml/podgangs/g", "ml", template)


def chosen(
    room: int, reservations: list[Reservation], *pods: BoundHere
) -> Mapping[int, str] | None:
    """The short names of the reservations by bindings."""
    users = Choices(pods, reservations, {GPU: room}).first_that_fits()
    return users and {b: name.removeprefix("reservations/") for b, name in users.items()}


def requires(name: str) -> ReservationSelector:
    return ReservationSelector(f"reservations/{name}")


@pytest.mark.parametrize(
    ("one", "reservation", "owns"),
    [
        (pod(0, 1), held(1), True),
        (pod(0, 1, "other"), held(1), False),
        (pod(0, 1, ignores_reservations=True), held(1), False),
        (pod(0, 1), held(1, closed=True), False),
        (pod(0, 1, required_reservation=requires("r")), held(1), True),
        (pod(0, 1, required_reservation=requires("another")), held(1), False),
    ],
)
def test_who_owns_a_reservation(one: BoundHere, reservation: Reservation, owns: bool) -> None:
    assert one.owns(reservation) is owns


def test_a_pod_in_one_reservation_need_not_be_in_another_with_room_as_well() -> None:
    assert chosen(2, [held(1), held(1, "s")], pod(0, 1)) == {0: "r"}


def test_the_room_of_a_reservation_of_others_is_left_alone() -> None:
    assert chosen(2, [held(1, owners=())], pod(0, 1)) == {}
    assert chosen(1, [held(1, owners=())], pod(0, 1)) is None


def test_a_pod_does_not_run_beside_a_reservation_that_has_room_for_it() -> None:
    """Even where the node has room for both."""
    assert chosen(8, [held(2)], pod(0, 1), pod(1, 1)) == {0: "r", 1: "r"}


def test_a_restricted_reservation_gives_no_more_than_it_holds() -> None:
    restricted = held(2, restricted=True)
    assert chosen(8, [restricted], pod(0, 2), pod(1, 1)) == {0: "r"}
    assert chosen(8, [restricted], pod(0, 3)) == {}
    assert chosen(8, [held(2)], pod(0, 3)) == {0: "r"}


def test_one_that_serves_once_holds_nothing_after_it() -> None:
    once = held(4, allocate_once=True)
    assert chosen(2, [once], pod(0, 1), pod(1, 1)) == {0: "r"}
    assert chosen(2, [held(4)], pod(0, 1), pod(1, 1)) is None


def test_a_pod_that_requires_a_reservation_uses_one_or_does_not_fit() -> None:
    once = held(1, allocate_once=True)
    required = pod(1, 1, required_reservation=requires("r"))
    assert chosen(8, [once], pod(0, 1), required) == {1: "r"}
    assert chosen(8, [], required) is None


def test_pods_that_ignore_reservations_have_no_claim_on_the_room_of_the_others() -> None:
    """What these ask for is not counted beside what is held, either."""
    blind = pod(1, 3, ignores_reservations=True)
    assert chosen(1, [held(1)], pod(0, 1), blind) == {0: "r"}
