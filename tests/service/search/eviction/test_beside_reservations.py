"""Victims and reservations on one node: what is best is proven where columns say it all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import PodGang, Snapshot
from placement_service.entities.reservations import (
    Reservation,
    ReservationOwner,
    ReservationSelector,
)
from placement_service.formulation.formulate import formulate
from tests.brute import optimum
from tests.service.evictions import PREEMPT, cluster, running, urgent
from tests.service.questions import GPU, gang
from tests.service.search.answering import answer


def question(*gangs: PodGang, allocate_once: bool = False) -> Snapshot:
    """Of eight GPUs four are held for gang "owner", and four are those of a gang that may go."""
    held = Reservation(
        "reservations/r",
        "nodes/n0",
        {GPU: 4},
        (ReservationOwner("namespaces/ml/podgangs/owner"),),
        allocate_once=allocate_once,
    )
    return replace(cluster(running("old", "n0"), *gangs, used=4), reservations=(held,))


def owner(gpus: int, priority: int = 0) -> PodGang:
    return replace(gang("owner", pods=1, gpus=gpus), priority=priority)


@pytest.mark.parametrize(
    ("gangs", "placed"),
    [
        pytest.param((owner(4), urgent(4)), ["owner", "urgent"], id="each takes its room"),
        pytest.param((owner(8), urgent(4)), ["urgent"], id="the owner may not evict"),
        pytest.param((owner(8, 100), urgent(4, 50)), ["owner"], id="the owner may"),
    ],
)
def test_the_best_beside_a_reservation_is_proven(
    gangs: tuple[PodGang, ...], placed: list[str]
) -> None:
    result = answer(question(*gangs), PREEMPT)
    assert [b.gang.rpartition("/")[2] for b in result.bindings] == placed
    assert result.solution.proven


@pytest.mark.parametrize("allocate_once", [False, True])
def test_bounds_hold_where_more_is_left_than_columns_say(*, allocate_once: bool) -> None:
    """What the owner leaves of a reservation for one pod serves the gang that may not evict."""
    waits = (owner(1, 100), urgent(4, 50), gang("late", pods=1, gpus=3))
    asked = question(*waits, allocate_once=allocate_once)
    best = optimum(asked, PREEMPT)
    for tier in answer(asked, PREEMPT).solution.tiers:
        if tier.bound is not None and tier.name.value == "admitted":
            assert tier.bound >= best.value(tier.name)


def requiring(used: str = "") -> PodGang:
    """A gang that runs and requires the reservation, which its pod uses or not."""
    old = running("old", "n0")
    (group,) = old.groups
    (pods,) = group.pod_sets
    template = replace(pods.template, required_reservation=ReservationSelector("reservations/r"))
    runs = tuple(replace(pod, reservation=used) for pod in pods.bound_pods)
    some = replace(pods, template=template, bound_pods=runs)
    return replace(old, groups=(replace(group, pod_sets=(some,)),))


def test_a_gang_whose_required_reservation_is_gone_gives_way() -> None:
    result = answer(cluster(requiring(), urgent(8), used=4), PREEMPT)
    assert [b.gang.rpartition("/")[2] for b in result.bindings] == ["urgent"]
    assert result.solution.proven


def test_its_pods_may_stay_at_home() -> None:
    problem = formulate(cluster(requiring(), urgent(4), used=4), PREEMPT)
    (old,) = (gang for gang in problem.gangs if gang.home)
    (home,) = old.home
    assert problem.eligible[old.demands[home.demand].pod_class, home.node]


def test_it_stays_where_there_is_room_beside_it() -> None:
    result = answer(cluster(requiring(), urgent(4), used=4), PREEMPT)
    assert [b.gang.rpartition("/")[2] for b in result.bindings] == ["urgent"]
    assert not result.evictions
    assert result.solution.proven


@pytest.mark.parametrize("used", ["", "reservations/r"], ids=["outside", "in it"])
@pytest.mark.parametrize("gpus", [4, 8])
def test_one_whose_required_reservation_is_there_gives_way_or_not(used: str, gpus: int) -> None:
    old = requiring(used)
    held = Reservation("reservations/r", "nodes/n0", {GPU: 4}, (ReservationOwner(gang=old.name),))
    asked = replace(cluster(old, urgent(gpus), used=4), reservations=(held,))
    best, result = optimum(asked, PREEMPT), answer(asked, PREEMPT)
    for tier in result.solution.tiers:
        if not tier.name.provable:
            continue
        assert tier.value == best.value(tier.name)
        if tier.bound is not None:
            assert (tier.bound <= tier.value) if tier.name.minimize else (tier.bound >= tier.value)
