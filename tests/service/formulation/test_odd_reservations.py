"""Reservations that hold more than there is, and restricted ones that have used up a resource."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.request import CPU
from tests.drawing import GPU
from tests.scenario import Group, Scenario


def with_more(scenario: Scenario, **amounts: int) -> Scenario:
    """The last reservation holds so much besides, or nothing of it any more."""
    *others, last = scenario.reservations
    last = replace(last, held={**last.held, **amounts})
    return replace(scenario, reservations=(*others, last))


#: Three GPUs are left of the four that are held for one pod.
ONCE = Scenario("x1=3/8").hold("once", "x1", 4, "own", allocate_once=True)


def test_nobody_else_has_any_of_what_is_not_enough_for_a_reservation() -> None:
    ONCE.gang("a", pods=1, gpus=1).place().expect(placed=())


def test_with_its_pod_the_rest_is_free_for_all() -> None:
    """Together they have what is there: all that is held ends with the one pod."""
    scenario = ONCE.gang("own", Group("own", pods=1, gpus=2)).gang("a", pods=1, gpus=1)
    scenario.place().expect(placed=("own", "a"), admitted=3)


def test_its_pod_has_no_more_than_there_is() -> None:
    ONCE.gang("own", Group("own", pods=1, gpus=4)).place().expect(placed=())


def test_another_reservation_beside_it_waits_until_it_ends() -> None:
    scenario = ONCE.hold("held", "x1", 1, "others")
    other = Group("others", pods=1, gpus=1)
    scenario.gang("b", other).place().expect(placed=())
    both = scenario.gang("own", Group("own", pods=1, gpus=2)).gang("b", other)
    both.place().expect(placed=("own", "b"))


def test_what_a_restricted_one_has_used_up_keeps_pods_out_that_ask_for_it() -> None:
    """Koordinator: what both name comes from the reservation alone."""
    scenario = Scenario("x1=8").hold("held", "x1", 0, "own", restricted=True)
    cores = with_more(scenario, **{CPU: 4})
    spent = with_more(cores, **{GPU: 0})
    one = Group("own", pods=1, gpus=1, asks={"requests": {GPU: 1, CPU: 4, "pods": 1}})
    for held, placed in ((cores, ("a",)), (spent, ())):
        nodes = replace(held.nodes[0], allocatable={GPU: 8, CPU: 4, "pods": 110})
        replace(held, nodes=(nodes,)).gang("a", one).place().expect(placed=placed)
