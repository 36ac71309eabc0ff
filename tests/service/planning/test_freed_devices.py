"""Which GPUs come free on which nodes when somebody leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from placement_service.entities.devices import Device, DeviceShare, PartitionPolicy
from placement_service.entities.request import (
    PODS,
    Node,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.devices.wants import ALL, NONE, Load, Want, want_of
from placement_service.formulation.planning_questions import Devices, DeviceWant
from placement_service.planning.freed_devices import freed_devices
from placement_service.planning.leavers import Leavers
from tests.service.boards import board, near, picky, share, shared
from tests.service.evictions import running, urgent
from tests.service.questions import GPU, node

HALF = Load(500, 500)
ONE_GPU = PodTemplate({GPU: 1, PODS: 1})


def uses(
    name: str, template: PodTemplate, *devices: tuple[int, ...], on: str = "h0", minimum: int = 1
) -> PodGang:
    """A gang of low priority with a pod for each set of devices."""
    one = running(name, *[on] * len(devices), minimum=minimum)
    (group,) = one.groups
    pods = tuple(
        replace(pod, devices=mine)
        for pod, mine in zip(group.pod_sets[0].bound_pods, devices, strict=True)
    )
    sets = (replace(group.pod_sets[0], template=template, bound_pods=pods),)
    return replace(one, groups=(replace(group, pod_sets=sets),))


def found(
    nodes: Sequence[Node],
    gangs: Sequence[PodGang],
    *coming: PodTemplate | None,
    able: bool = True,
    staying: Mapping[int, Sequence[tuple[Want, int]]] | None = None,
) -> list[Devices]:
    leavers = Leavers(Snapshot(tuple(nodes), (*gangs, urgent())), urgent())
    wants = [None if one is None else want_of(one, Policy()) for one in coming]
    everywhere = np.full((len(wants), len(nodes)), able)
    return list(freed_devices(leavers, Policy(), wants, everywhere, staying or {}))


def given(devices: Devices) -> set[tuple[int, int, Load]]:
    """By leaver and device."""
    return {(v, i, Load(compute, memory)) for v, i, compute, memory in devices.given}


def test_shares_come_free_one_by_one_of_extras_and_together_of_a_gang() -> None:
    """One of three halves stays, or the whole gang goes."""
    gangs = [uses("low", share(500), (0,), (0,), (1,), minimum=2)]
    (devices,) = found([shared(1000, 500, 0)], gangs, share(500))
    assert devices.node == 0
    assert devices.left == (NONE, HALF, ALL)
    assert given(devices) == {(0, 0, ALL), (0, 1, HALF), (1, 0, HALF), (2, 1, HALF)}
    assert devices.wants == (DeviceWant(0, 0, 1, (HALF,) * 3, None),)


@pytest.mark.parametrize(
    ("coming", "able"),
    [
        pytest.param(share(500), False, id="on no such node"),
        pytest.param(None, True, id="that wants no devices"),
    ],
)
def test_nobody_is_told_who_may_not_come(coming: PodTemplate | None, able: bool) -> None:
    staying = {0: [(Want(1, 500, 500, whole=False), 1)]}
    gangs = [uses("low", share(500), (0,))]
    assert found([shared(500)], gangs, coming, able=able, staying=staying) == []


def test_what_stays_of_the_plan_takes_devices_too() -> None:
    staying = {0: [(Want(1), 2)]}
    gangs = [uses("low", share(500), (0,))]
    (devices,) = found([shared(500, 0)], gangs, None, share(500), staying=staying)
    assert devices.wants == (
        DeviceWant(1, 0, 1, (HALF,) * 2, None),
        DeviceWant(-1, 2, 1, (ALL,) * 2, None),
    )


def test_where_only_the_number_of_whole_gpus_matters_it_is_counted_elsewhere() -> None:
    gangs = [uses("low", ONE_GPU, (0,))]
    assert found([shared(1000, 0)], gangs, ONE_GPU) == []
    assert found([board(0, policy=PartitionPolicy.PREFER)], gangs, ONE_GPU) == []
    # Here it does not tell what fits.
    for there, coming in (
        (shared(1000, 500), ONE_GPU),
        (shared(1000, 0), share(500)),
        (board(0), ONE_GPU),
        (board(0, policy=PartitionPolicy.PREFER), picky(1)),
    ):
        assert found([there], gangs, coming)
    some = [uses("part", share(500), (0,)), uses("whole", ONE_GPU, (1,))]
    assert found([shared(1000, 1000)], some, ONE_GPU)


def test_only_devices_that_are_known_come_free() -> None:
    """Of three pods one runs elsewhere, one does not say on which, and one wants none."""
    there = shared(500, 500)
    gangs = [
        uses("elsewhere", share(500), (0,), on="other"),
        uses("unsaid", share(500), ()),
        uses("plain", PodTemplate({PODS: 1}), (1,)),
    ]
    assert found([there], gangs, share(500)) == []
    (devices,) = found([there], [*gangs, uses("low", share(500), (1,))], share(500))
    assert given(devices) == {(3, 1, HALF)}


def test_a_gpu_that_is_ill_comes_free_for_nobody() -> None:
    there = node("h0", gpus=2)
    there = replace(there, devices=(Device(0, healthy=False), Device(1)))
    (devices,) = found([there], [uses("low", share(500), (0, 1))], share(500))
    assert given(devices) == {(0, 1, HALF)}
    assert devices.left == (NONE, ALL)


def test_who_may_not_leave_gives_nothing() -> None:
    stays = replace(uses("high", share(500), (0,)), priority=200)
    (devices,) = found([shared(500, 500)], [stays, uses("low", share(500), (1,))], share(500))
    assert given(devices) == {(0, 1, HALF)}


def test_memory_counts_by_the_memory_of_the_device() -> None:
    """A share in bytes of a device of unknown size may be all of it."""
    some = PodTemplate({PODS: 1}, device_share=DeviceShare(250, memory_bytes=20))
    there = node("h0", gpus=2)
    known = replace(there, devices=(Device(0, memory_bytes=80), Device(1, memory_bytes=40)))
    (devices,) = found([known], [uses("low", some, (0, 1))], some)
    assert given(devices) == {(0, 0, Load(250, 250)), (0, 1, Load(250, 500))}
    assert devices.wants == (DeviceWant(0, 0, 1, (Load(250, 250), Load(250, 500)), None),)
    unknown = replace(there, devices=(Device(0, memory_bytes=80), Device(1)))
    (devices,) = found([unknown], [uses("low", some, (1,))], some)
    assert given(devices) == {(0, 1, ALL)}
    # What it takes there is not known.
    assert devices.wants == ()


def test_whole_gpus_are_taken_as_partitions_where_these_are_honoured() -> None:
    gangs = [uses("low", ONE_GPU, (0,))]
    (devices,) = found([board(0)], gangs, PodTemplate({GPU: 4, PODS: 1}), share(500))
    assert [one.partitions for one in devices.wants] == [((0, 1, 2, 3), (4, 5, 6, 7)), None]


def test_who_insists_gets_only_partitions_that_are_good_enough() -> None:
    plain = board(0, policy=PartitionPolicy.PREFER)
    best = (*plain.partitions[:8], replace(plain.partitions[8], score=1), *plain.partitions[9:])
    there = replace(plain, partitions=best)
    gangs = [uses("low", ONE_GPU, (0,))]
    (devices,) = found([there], gangs, picky(2), PodTemplate({GPU: 2, PODS: 1}))
    assert [one.partitions for one in devices.wants] == [((0, 1),), None]
    (devices,) = found([there], gangs, picky(8))
    assert [one.partitions for one in devices.wants] == [(tuple(range(8)),)]
    # One with a device that the node does not list is none.
    less = replace(there, devices=there.devices[1:])
    (devices,) = found([less], [uses("low", ONE_GPU, (2,))], picky(2))
    assert [one.partitions for one in devices.wants] == [()]


def test_network_devices_are_left_out() -> None:
    """What is left to say of a pod that wants nothing else is nothing."""
    gangs = [uses("low", ONE_GPU, (0,))]
    assert found([board(0)], gangs, near(0, 1)) == []
    (devices,) = found([board(0)], gangs, near(0, 1), near(1, 1))
    assert [one.demand for one in devices.wants] == [1]


def test_devices_have_names_of_their_own() -> None:
    """Partitions and pods call them by index, the question by place."""
    plain = board(0)
    there = replace(plain, devices=tuple(reversed(plain.devices)))
    (devices,) = found([there], [uses("low", ONE_GPU, (0,))], PodTemplate({GPU: 4, PODS: 1}))
    assert given(devices) == {(0, 7, ALL)}
    assert devices.wants[0].partitions == ((7, 6, 5, 4), (3, 2, 1, 0))
