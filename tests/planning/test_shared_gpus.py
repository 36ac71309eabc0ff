"""GPUs of which somebody has a share are not free."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from placement import v1
from placement.cli.plan.picture import compose
from placement.cli.plan.summary import summarize
from placement.planning.room import room_after
from placement.planning.shared_gpus import shared_gpus
from tests.planning.clusters import HOST, gang, node, request

HALF = v1.DeviceShare(compute_milli=500, count=1)


def listed(name: str, used: Mapping[int, int], *, whole: int = 0, gpus: int = 4) -> v1.Node:
    """A node that lists its GPUs; some of them are in use so far, `whole` of them by pods of
    whole ones."""
    made = node(name, gpus=gpus, used=whole)
    made.devices.extend(v1.Device(index=i, used_milli=used.get(i, 0)) for i in range(gpus))
    return made


def sharing(name: str, *, on: tuple[str, int] | None = None) -> v1.PodGang:
    """A gang of one pod that takes half of a GPU, and may run on one already."""
    made = gang(name, 0 if on else 1, gpus=0, on=[on[0]] if on else [])
    (pods,) = made.groups[0].pod_sets
    pods.template.ClearField("requests")
    pods.template.device_share.CopyFrom(HALF)
    if on:
        pods.bound_pods[0].devices.append(on[1])
    return made


def bound(name: str, at: str, *devices: int) -> v1.Placement:
    binding = v1.Binding(
        pod=f"namespaces/ml/pods/{name}-0",
        node=f"nodes/{at}",
        gang=f"namespaces/ml/podgangs/{name}",
        devices=devices,
    )
    return v1.Placement(bindings=[binding])


@pytest.mark.parametrize(
    ("plan", "shared", "free"),
    [
        pytest.param(v1.Placement(), 1, 1, id="before"),
        pytest.param(bound("s", "a", 0), 1, 1, id="a share beside another"),
        pytest.param(bound("s", "a", 3), 2, 0, id="a share of a GPU of its own"),
        pytest.param(bound("w", "a", 3), 1, 0, id="a whole one"),
    ],
)
def test_a_shared_gpu_is_not_free(plan: v1.Placement, shared: int, free: int) -> None:
    # GPU 0 is shared, 1 and 2 belong to pods of whole ones.
    there = listed("a", {0: 500, 1: 1000, 2: 1000}, whole=2)
    asked = request([there], [sharing("s"), gang("w", 1, gpus=1)])
    assert shared_gpus(asked, plan)["nodes/a"] == shared
    assert room_after(asked, plan).free == free
    (spot,) = compose(asked, summarize(asked, plan)).root.spots
    assert spot.free == free


def test_a_gpu_is_free_when_its_last_share_goes() -> None:
    there = [listed("a", {0: 1000, 1: 500}), listed("b", {})]
    asked = request(there, [sharing("s", on=("a", 1)), sharing("t", on=("a", 0))])
    for name, left in (("s", 1), ("t", 2)):
        gone = v1.Eviction(pod=f"namespaces/ml/pods/{name}-r0", node="nodes/a")
        assert shared_gpus(asked, v1.Placement(evictions=[gone]))["nodes/a"] == left
        gone.to_node = "nodes/b"
        gone.to_devices.append(3)
        assert shared_gpus(asked, v1.Placement(evictions=[gone])) == {
            "nodes/a": left,
            "nodes/b": 1,
        }


def test_a_node_with_a_share_is_no_free_domain() -> None:
    asked = request([listed("a", {0: 1}), listed("b", {}), node("c")], [])
    room = room_after(asked, v1.Placement())
    assert (room.gpus, room.free) == (16, 15)
    assert room_after(asked, v1.Placement(), [HOST]).domains[HOST] == 2


def test_gpus_that_no_node_lists_are_not_shared() -> None:
    assert not shared_gpus(request([node("a", used=3)], [gang("w", 1)]), bound("w", "a"))
