"""What is written on pods about their devices, as Koordinator's agents read it."""

from __future__ import annotations

import json
from typing import Any

from controller.advice.advice import Advice, read_advice
from controller.binding.apply import Binding, plans
from controller.binding.device_notes import DeviceNotes
from controller.cluster.cache import ClusterCache
from placement import v1
from placement.advice_marks import ADVICE
from placement.kubernetes.nodes.device_annotations import ALLOCATED
from tests.controller.bodies import OURS, pod

BOARD = {
    "spec": {
        "devices": [
            *(
                {"type": "gpu", "minor": i, "id": f"GPU-{i}", "topology": {"pcieID": str(i // 2)}}
                for i in range(4)
            ),
            {"type": "rdma", "minor": 0, "id": "0000:09", "topology": {"pcieID": "0"}},
            {"type": "rdma", "minor": 1, "health": False, "topology": {"pcieID": "1"}},
            {"type": "rdma", "minor": 2, "topology": {"pcieID": "1"}},
            {"type": "rdma", "minor": 3, "topology": {"pcieID": "1"}},
        ]
    }
}


def noted(
    template: v1.PodTemplate, *devices: int, node: str = "n1", pods: Any = None
) -> dict[str, Any]:
    """What the pod of a binding gets, as JSON."""
    gang = v1.PodGang(name="namespaces/ml/podgangs/g")
    pod_set = gang.groups.add().pod_sets.add(template=template)
    pod_set.pods.add(name="namespaces/ml/pods/a")
    listing = v1.Node(name="nodes/n1")
    listing.devices.extend(v1.Device(index=i, memory_bytes=80 << 30) for i in range(4))
    request = v1.ComputePlacementRequest(gangs=[gang], snapshot={"nodes": [listing]})
    notes = DeviceNotes(request, {("", "n1"): BOARD}, pods or {})
    binding = v1.Binding(pod="namespaces/ml/pods/a", node=f"nodes/{node}", devices=devices)
    found = dict(notes.of(binding))
    return json.loads(found[ALLOCATED]) if found else {}


def test_whole_gpus_are_named_with_all_of_them() -> None:
    whole = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    assert noted(v1.PodTemplate(), 2, 3) == {
        "gpu": [
            {"minor": 2, "resources": whole, "id": "GPU-2"},
            {"minor": 3, "resources": whole, "id": "GPU-3"},
        ]
    }


def test_shares_are_named_in_hundredths() -> None:
    share = v1.DeviceShare(compute_milli=255, memory_bytes=20 << 30, count=1)
    ((gpu,),) = noted(v1.PodTemplate(device_share=share), 1).values()
    want = {"koordinator.sh/gpu-core": "26", "koordinator.sh/gpu-memory-ratio": "25"}
    assert gpu["resources"] == want


def test_network_devices_are_free_ones_on_the_switches_of_the_gpus() -> None:
    """One of each switch first; what another pod has, or is broken, is not given."""
    other = {
        "metadata": {"annotations": {ALLOCATED: '{"rdma": [{"minor": 2}]}'}},
        "spec": {"nodeName": "n1"},
    }
    both = noted(v1.PodTemplate(same_pcie_nics=2), 1, 2, pods={("ml", "x"): other})
    assert [one["minor"] for one in both["rdma"]] == [0, 3]
    assert both["rdma"][0] == {
        "minor": 0,
        "resources": {"koordinator.sh/rdma": "100"},
        "id": "0000:09",
    }
    assert [one["minor"] for one in noted(v1.PodTemplate(same_pcie_nics=2), 2)["rdma"]] == [2, 3]


def test_where_no_device_object_is_nothing_is_written() -> None:
    assert noted(v1.PodTemplate(), 0, node="n2") == {}
    assert noted(v1.PodTemplate()) == {}


def test_a_pod_that_we_bound_shows_its_devices_before_a_watch_does() -> None:
    cache = ClusterCache(OURS)
    cache.observe("Pod", pod("a"))
    uid = pod("a")["metadata"]["uid"]
    cache.assume(("ml", "a"), uid, "n1", ((ALLOCATED, "{}"),))
    found = cache.view().pods["ml", "a"]
    assert found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["annotations"][ALLOCATED] == "{}"


def test_plans_carry_the_notes_of_their_bindings() -> None:
    placement = v1.Placement(
        bindings=[
            v1.Binding(pod="namespaces/ml/pods/a", node="nodes/n1", gang="namespaces/ml/podgangs/g")
        ]
    )
    (plan,) = plans(placement, [("ml", "g")], {}, {}, lambda binding: (("key", binding.node),))
    assert plan.bindings[0].notes == (("key", "nodes/n1"),)


def test_advice_remembers_the_devices_and_nothing_else_that_pods_say() -> None:
    notes = ((ALLOCATED, "{}"), ("other", "x"))
    binding = Binding(("ml", "a"), "1", "n1", notes)
    advice = Advice("0" * 16, ("ml", "g"), "koordinator-hints", (binding,), 1.0, 1)
    there = {
        "metadata": {
            "namespace": "ml",
            "name": "a",
            "uid": "1",
            "annotations": {ADVICE: advice.annotation(binding)},
        }
    }
    (found,) = read_advice({("ml", "a"): there}).values()
    assert found.bindings == (Binding(("ml", "a"), "1", "n1", notes[:1]),)
