"""What pods take of their queue that run without being part of the request, as the service counts
it where they are (`placement_service.formulation.rules.queues.pod_amount`)."""

from __future__ import annotations

import pytest

from placement import v1
from placement.kubernetes.queue_use import count_left_out

GIB = 1 << 30


def request(*sizes: int, **used: int) -> v1.ComputePlacementRequest:
    """A queue of GPUs, and a node for each size of devices in GiB; 0 is not known."""
    snapshot = v1.ClusterSnapshot(
        nodes=[v1.Node(devices=[v1.Device(memory_bytes=size * GIB)]) for size in sizes],
        queues=[v1.Queue(name="queues/q", limit={"gpus": 8}, used=used)],
    )
    return v1.ComputePlacementRequest(snapshot=snapshot)


def runs(template: v1.PodTemplate, pods: int = 1) -> v1.PodGang:
    bound = [v1.BoundPod(name=f"p{i}") for i in range(pods)]
    group = v1.PodGroup(pod_sets=[v1.PodSet(template=template, bound_pods=bound)])
    return v1.PodGang(queue="queues/q", groups=[group])


def asks(**share: int) -> v1.PodTemplate:
    return v1.PodTemplate(device_share=v1.DeviceShare(**share))


def extended(**amounts: int) -> v1.PodTemplate:
    names = {
        "nvidia": "nvidia.com/gpu",
        "amd": "amd.com/gpu",
        "intel": "gpu.intel.com/xe",
        "mig": "nvidia.com/mig-1g.10gb",
        "nic": "example.com/nic",
    }
    requests = {names[key]: amount for key, amount in amounts.items()}
    return v1.PodTemplate(requests=v1.Resources(extended=requests))


TAKES = {
    "GPUs of all makers": (extended(nvidia=1, amd=2, intel=1, nic=7), {"gpus": 4}),
    "slices as a GPU each": (extended(mig=2), {"gpus": 2}),
    "no GPUs": (extended(nic=1), {}),
    "the larger of compute and memory": (
        asks(compute_milli=100, memory_milli=600),
        {"gpus": 0, "milligpus": 600},
    ),
    "a share of several devices": (asks(compute_milli=700, count=3), {"gpus": 2, "milligpus": 100}),
    "bytes of the smallest device": (
        asks(memory_bytes=10 * GIB),
        {"gpus": 0, "milligpus": 250},
    ),
    "rounded up": (asks(memory_bytes=10 * GIB + 1), {"gpus": 0, "milligpus": 251}),
}


@pytest.mark.parametrize(("template", "want"), TAKES.values(), ids=TAKES)
def test_a_pod_takes_of_its_queue(template: v1.PodTemplate, want: dict[str, int]) -> None:
    there = request(80, 0, 40)
    count_left_out(there, [runs(template)])
    assert there.snapshot.queues[0].used == want


def test_parts_of_gpus_add_up_to_whole_ones() -> None:
    there = request(gpus=1, milligpus=600)
    count_left_out(there, [runs(asks(compute_milli=200), pods=2)])
    assert there.snapshot.queues[0].used == {"gpus": 2, "milligpus": 0}


def test_gpus_are_those_that_the_policy_names() -> None:
    there = request()
    there.policy.gpu_resources.append("example.com/nic")
    count_left_out(there, [runs(extended(nvidia=1, nic=7))])
    assert there.snapshot.queues[0].used == {"gpus": 7}
