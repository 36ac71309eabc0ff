"""What pods on nodes that have less than is used there leave when they go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.devices import Device
from placement_service.entities.request import BoundPod, Node, PodGang, Snapshot
from placement_service.entities.reservations import Reservation
from placement_service.formulation.eviction.overbooked_nodes import without_overbooking
from placement_service.formulation.eviction.running_gangs import gangs_that_may_go
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.questions import GPU, node

#: It has lost two of the eight GPUs that are in use.
LOST = node("n0", gpus=6, used=8)


def pods_of(gang: PodGang) -> list[BoundPod]:
    return [pod for group in gang.groups for s in group.pod_sets for pod in s.bound_pods]


def held(snapshot: Snapshot, gang: int) -> list[int]:
    """The GPUs that each of its pods holds, by what it says itself."""
    return [pod.held[GPU] for pod in pods_of(snapshot.gangs[gang]) if pod.held is not None]


@pytest.mark.parametrize(("pods", "gpus", "want"), [(2, 4, [2, 4]), (8, 1, [0] * 2 + [1] * 6)])
def test_a_gang_alone_leaves_what_is_there(pods: int, gpus: int, want: list[int]) -> None:
    gang = running("one", *["n0"] * pods, gpus=gpus)
    found = without_overbooking(Snapshot((LOST,), (gang, urgent())), PREEMPT)
    assert not found.losing
    assert [
        pod.holds(gang.groups[0].pod_sets[0].template)[GPU] for pod in pods_of(found[0].gangs[0])
    ] == want
    assert found.snapshot.columns.free(GPU).tolist() == [0]


def test_a_gang_that_may_go_in_part_leaves_nothing_of_what_is_lacking() -> None:
    gang = running("one", "n0", "n0", gpus=4, minimum=1)
    found = without_overbooking(Snapshot((LOST,), (gang,)), PREEMPT)
    assert found.losing == {gang.name}
    assert held(found.snapshot, 0) == [0, 0]


def test_two_gangs_leave_nothing_of_what_is_lacking() -> None:
    gangs = running("one", "n0", gpus=4), running("other", "n0", gpus=4)
    found = without_overbooking(Snapshot((LOST,), gangs), PREEMPT)
    assert found.losing == {gang.name for gang in gangs}
    assert held(found.snapshot, 0) == held(found.snapshot, 1) == [0]


def test_a_gang_that_stays_leaves_others_what_is_there() -> None:
    stays = replace(running("stays", "n0", gpus=4), not_preemptible=True)
    gangs = running("one", "n0", gpus=4), stays
    found = without_overbooking(Snapshot((LOST,), gangs), PREEMPT)
    assert not found.losing
    assert held(found.snapshot, 0) == [2]
    assert found.snapshot.gangs[1] == stays


#: It has no whole GPUs any more, but slices of one.
OTHERS = replace(LOST, allocatable={**LOST.allocatable, GPU: 0, "nvidia.com/mig-1g.10gb": 2})


@pytest.mark.parametrize(
    ("one", "reservations"),
    [
        (LOST, (Reservation("reservations/r", "nodes/n0", {GPU: 1}),)),
        (replace(LOST, devices=tuple(map(Device, range(6)))), ()),
        (OTHERS, ()),
    ],
)
def test_other_nodes_stay_overbooked(one: Node, reservations: tuple[Reservation, ...]) -> None:
    question = Snapshot((one,), (running("one", "n0", gpus=8),), reservations=reservations)
    assert without_overbooking(question, PREEMPT).snapshot is question


def test_what_runs_on_such_a_node_may_go() -> None:
    question = Snapshot((LOST,), (running("one", "n0", gpus=8), urgent()))
    assert gangs_that_may_go(question, PREEMPT) == {0}
