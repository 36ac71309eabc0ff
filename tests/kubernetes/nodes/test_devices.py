"""GPUs of nodes one by one, partitions, and shares of GPUs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import (
    Body,
    container,
    gang,
    group,
    node,
    only_gang,
    pod,
    problems,
    request,
    said,
    template,
    thing,
    translated,
)

KOORD = "scheduling.koordinator.sh/"
GIB = 1 << 30


def device(name: str = "n1", *gpus: Body, annotations: Body | None = None, **more: Any) -> Body:
    entries = [{"type": "gpu", "minor": i, "health": True, **g} for i, g in enumerate(gpus)]
    entries += more.pop("others", [])
    return thing(
        "Device", f"{KOORD.rstrip('/')}/v1alpha1", name,
        metadata={"annotations": annotations or {}, **more}, spec={"devices": entries},
    )  # fmt: skip


def given(*minors: int, core: int = 100) -> Body:
    resources = {"koordinator.sh/gpu-core": str(core), "koordinator.sh/gpu-memory-ratio": str(core)}
    return {f"{KOORD}device-allocated": json.dumps(
        {"gpu": [{"minor": m, "resources": resources} for m in minors]})}  # fmt: skip


def running(name: str, notes: Body | None = None, **requests: str) -> Body:
    return pod(
        name, nodeName="n1", phase="Running", metadata={"annotations": notes or {}},
        containers=[container(**(requests or {"gpu": "1"}))],
    )  # fmt: skip


def only_node(*bodies: Body) -> v1.Node:
    (found,) = request(*bodies).snapshot.nodes
    return found


def used(sent: v1.Node) -> list[tuple[int, int]]:
    return [(d.used_milli, d.used_memory_milli) for d in sent.devices]


def test_a_device_object_lists_the_gpus_of_its_node() -> None:
    place = {"nodeID": 1, "pcieID": "7"}
    memory = {"koordinator.sh/gpu-memory": "80Gi"}
    nic = {"type": "rdma", "minor": 0, "health": True, "topology": {"pcieID": "7"}}
    sent = only_node(
        node("n1"), device("n1", {"topology": place, "resources": memory}, {"health": False},
                           others=[nic]),
    )  # fmt: skip
    whole, broken = sent.devices
    assert whole == v1.Device(index=0, numa_node=1, pcie_switch="7", memory_bytes=80 * GIB, nics=1)
    assert (broken.unhealthy, broken.numa_node, broken.nics) == (True, -1, 0)


def test_what_pods_have_is_in_use_and_known_of_members() -> None:
    sent = request(
        node("n1"), device("n1", {}, {}, {}), running("a", given(1)),
        running("b", given(2, core=30)), gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    assert used(sent.snapshot.nodes[0]) == [(0, 0), (1000, 1000), (300, 300)]
    assert list(sent.gangs[0].groups[0].pod_sets[0].bound_pods[0].devices) == [1]


def test_partitions_come_from_the_table_of_the_device() -> None:
    table = {"1": [{"minors": [0]}], "2": [{"minors": [1, 0]}], "4": [{"minors": [0, 1, 2, 3]}]}
    sent = only_node(
        node("n1", labels={"node.koordinator.sh/gpu-partition-policy": "Honor"}),
        device("n1", {}, {}, annotations={f"{KOORD}gpu-partitions": json.dumps(table)}),
    )
    # Two GPUs are there: the partition of four is none of this node.
    assert [list(p.devices) for p in sent.partitions] == [[0], [0, 1]]
    assert sent.partition_policy == v1.PartitionPolicy.PARTITION_POLICY_HONOR


@pytest.mark.parametrize(("model", "count"), [("NVIDIA-H100-80GB", 15), ("H20", 15), ("A100", 0)])
def test_known_models_have_the_partitions_of_their_board(model: str, count: int) -> None:
    sent = only_node(
        node("n1", labels={"node.koordinator.sh/gpu-model": model}), device("n1", *[{}] * 8)
    )
    assert len(sent.partitions) == count
    assert sent.partition_policy == v1.PartitionPolicy.PARTITION_POLICY_PREFER


def test_a_pod_of_which_nothing_is_known_takes_the_first_partition_and_is_said() -> None:
    translation = translated(
        node("n1", labels={"node.koordinator.sh/gpu-model": "H100"}), device("n1", *[{}] * 8),
        running("known", given(1)), running("a", gpu="2"), running("b", gpu="1"),
    )  # fmt: skip
    taken = [bool(m) for m, _ in used(translation.request.snapshot.nodes[0])]
    assert taken == [True, True, True, True, False, False, False, False]
    assert any("nothing says which GPUs pod ml/a and 1 more have" in w
               for w in said(translation.warnings))  # fmt: skip


SHARE = {
    "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "60",
}  # fmt: skip


def share(spec: Body | None = None, notes: Body | None = None) -> v1.PodTemplate:
    containers = [{"name": "m", "resources": {"requests": spec or {}}}]
    metadata = {"annotations": notes or {}}
    return template(device("n1", {}), containers=containers, metadata=metadata)


@pytest.mark.parametrize(
    ("spec", "notes", "want"),
    [
        (SHARE, {}, v1.DeviceShare(compute_milli=500, memory_milli=600, count=1)),
        (
            {"koordinator.sh/gpu": "50"},
            {},
            v1.DeviceShare(compute_milli=500, memory_milli=500, count=1),
        ),
        (
            {"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory-ratio": "150"},
            {},
            v1.DeviceShare(memory_milli=750, count=2),
        ),
        (
            {"koordinator.sh/gpu-memory": "10Gi"},
            {},
            v1.DeviceShare(memory_bytes=10 * GIB, count=1),
        ),
        (
            {},
            {"gpu-fraction": "0.3334"},
            v1.DeviceShare(compute_milli=334, memory_milli=334, count=1),
        ),
        (
            {},
            {"gpu-memory": "1024", "gpu-fraction-num-devices": "2"},
            v1.DeviceShare(memory_bytes=GIB, count=2),
        ),
    ],
)
def test_shares_of_both_schedulers(spec: Body, notes: Body, want: v1.DeviceShare) -> None:
    made = share(spec, notes)
    assert made.device_share == want
    assert not made.requests.extended


def test_whole_hundreds_are_whole_gpus() -> None:
    made = share({"koordinator.sh/gpu": "200"})
    assert (dict(made.requests.extended), made.HasField("device_share")) == (
        {"nvidia.com/gpu": 2}, False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "notes", "want"),
    [
        ({"koordinator.sh/gpu-core": "150"}, {}, "requests[koordinator.sh/gpu-core]"),
        ({}, {"gpu-fraction": "1.5"}, "metadata.annotations[gpu-fraction]"),
        ({}, {"gpu-fraction": "half"}, "metadata.annotations[gpu-fraction]"),
        ({}, {"gpu-fraction": "nan"}, "metadata.annotations[gpu-fraction]"),
        ({}, {"gpu-fraction": "0.5", "gpu-memory": "1"}, "metadata.annotations[gpu-fraction]"),
        (
            {},
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1e9"},
            "metadata.annotations[gpu-fraction-num-devices]",
        ),
    ],
)
def test_a_share_that_makes_no_sense_refuses_the_gang(spec: Body, notes: Body, want: str) -> None:
    odd = pod("a", containers=[{"name": "m", "resources": {"requests": spec}}],
              metadata={"annotations": notes})  # fmt: skip
    (refused,) = only_gang(node(), odd, gang(podgroups=[group("w", "a")])).unsupported
    assert refused.startswith(f"pod ml/a: {want}")


def fraction(name: str, gang_id: str = "", part: str = "0.5", **spec: Any) -> Body:
    labels = {"runai-gpu-group": gang_id} if gang_id else {}
    return pod(name, labels=labels, metadata={"annotations": {"gpu-fraction": part}},
               containers=[container(cpu="1")], **spec)  # fmt: skip


def test_a_running_share_holds_its_part_though_no_gpu_is_requested() -> None:
    sent = only_node(node("n1"), fraction("a", nodeName="n1", phase="Running"))
    assert used(sent) == [(500, 500)] + [(0, 0)] * 7


def test_shares_of_one_group_are_on_one_gpu_and_its_holder_takes_no_other() -> None:
    holder = pod("hold", labels={"runai-gpu-group": "x"}, nodeName="n1",
                 metadata={"namespace": "kai-resource-reservation"})  # fmt: skip
    sent = only_node(
        node("n1"), holder, fraction("a", "x", "0.25", nodeName="n1"),
        fraction("b", "x", nodeName="n1"), fraction("c", "y", nodeName="n1"),
    )  # fmt: skip
    assert used(sent)[:3] == [(750, 750), (500, 500), (0, 0)]


def test_a_share_that_kai_has_decided_about_is_on_the_gpu_of_its_request() -> None:
    """Its label comes when it is bound."""
    request = {
        "apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": "b", "namespace": "ml"},
        "spec": {"podName": "b", "selectedNode": "n1", "selectedGPUGroups": ["x"]},
    }  # fmt: skip
    translation = translated(
        node("n1"), fraction("a", "x", "0.25", nodeName="n1"), fraction("b"), request
    )
    assert used(translation.request.snapshot.nodes[0])[:2] == [(750, 750), (0, 0)]
    assert translation.gpu_groups == {"n1": {0: "x"}}


def test_a_share_of_several_gpus_is_in_a_group_on_each() -> None:
    several = pod(
        "a", labels={f"runai-gpu-group/{g}": g for g in ("x", "y")}, nodeName="n1",
        metadata={"annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}},
        containers=[container(cpu="1")],
    )  # fmt: skip
    translation = translated(node("n1"), several, fraction("b", "y", "0.25", nodeName="n1"))
    sent = translation.request.snapshot.nodes[0]
    assert used(sent)[:3] == [(500, 500), (750, 750), (0, 0)]
    assert translation.gpu_groups == {"n1": {0: "x", 1: "y"}}


def test_members_that_share_a_gpu_or_have_some_to_themselves_are_told_with_them() -> None:
    """So that they may give way: without a Device object any GPU that is theirs alone will do."""
    sent = request(
        node("n1"), pod("whole", nodeName="n1", phase="Running"),
        fraction("a", "x", nodeName="n1", phase="Running"),
        fraction("b", "x", nodeName="n1", phase="Running"),
        fraction("c", nodeName="n1", phase="Running"),
        gang(podgroups=[group("w", "a", "b", "c", "whole")]),
    )  # fmt: skip
    (told,) = sent.gangs[0].groups
    given = {b.name[-1]: list(b.devices) for s in told.pod_sets for b in s.bound_pods}
    # Nothing says on which GPU the share without a group is.
    assert given == {"a": [0], "b": [0], "c": [], "e": [1]}


@pytest.mark.parametrize(
    ("gpus", "shares", "want"), [(8, 1, [[0]]), (1, 2, [[0], [0]]), (8, 2, [[], []])]
)
def test_a_share_without_a_group_is_told_where_it_can_lie_in_one_way_only(
    gpus: int, shares: int, want: list[list[int]]
) -> None:
    """Two of them may have one GPU of many, or two."""
    names = [f"p{i}" for i in range(shares)]
    sent = request(
        node("n1", allocatable={"cpu": "8", "nvidia.com/gpu": str(gpus)}),
        *(fraction(n, nodeName="n1", phase="Running") for n in names),
        gang(podgroups=[group("w", *names)]),
    )  # fmt: skip
    (told,) = sent.gangs[0].groups
    assert [list(b.devices) for s in told.pod_sets for b in s.bound_pods] == want


def test_who_waits_for_a_share_is_shown_the_gpus_of_every_node() -> None:
    labels = {"nvidia.com/gpu.memory": "81920"}
    sent = request(
        node("n1", labels=labels), node("n2"), pod("whole", nodeName="n1"), fraction("a"),
        gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    first, second = sent.snapshot.nodes
    assert used(first)[:2] == [(1000, 1000), (0, 0)]
    assert first.devices[0].memory_bytes == 80 * GIB
    assert len(second.devices) == 8


def test_without_shares_and_device_objects_gpus_are_only_counted() -> None:
    assert not only_node(node("n1"), pod("a", nodeName="n1")).devices


def test_a_share_that_cannot_be_counted_closes_its_node() -> None:
    translation = translated(node("n1"), fraction("a", part="all", nodeName="n1"))
    assert translation.request.snapshot.nodes[0].unschedulable
    assert any("Node n1: is closed for new pods: pod ml/a holds" in w
               for w in said(translation.warnings))  # fmt: skip


def test_gpus_and_network_devices_on_one_switch() -> None:
    joint = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
    for gpus, want in ({"nvidia.com/gpu": "2"}, 2), ({"koordinator.sh/gpu": "50"}, 2), ({}, 0):
        asked = {"koordinator.sh/rdma": "200", **gpus}
        made = template(
            containers=[{"name": "m", "resources": {"requests": asked}}],
            metadata={"annotations": {f"{KOORD}device-joint-allocate": json.dumps(joint)}},
        )
        # A pod without GPUs has no switch of GPUs.
        assert made.same_pcie_nics == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"allocatePolicy": "Restricted"}, v1.RequiredPartition(best_score=True)),
        ({"ringBusBandwidth": "200Gi"}, v1.RequiredPartition(ring_bandwidth=200 * GIB)),
        ({"allocatePolicy": "BestEffort"}, None),
    ],
)
def test_a_pod_of_whole_gpus_may_insist_on_a_partition(
    spec: Body, want: v1.RequiredPartition | None
) -> None:
    annotated = {"annotations": {f"{KOORD}gpu-partition-spec": json.dumps(spec)}}
    made = template(containers=[container(gpu="2")], metadata=annotated)
    assert made.HasField("required_partition") == (want is not None)
    assert made.required_partition == (want or v1.RequiredPartition())
    share = {"resources": {"requests": {"koordinator.sh/gpu": "50"}}}
    assert not template(containers=[{"name": "m", **share}], metadata=annotated).HasField(
        "required_partition"
    )


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (
            "gpu-partition-spec",
            {"allocatePolicy": "restricted"},
            (".allocatePolicy", "must be one of Restricted, BestEffort, not restricted"),
        ),
        ("device-allocate-hint", {"gpu": ["NUMANode"]}, (".gpu", "must be a mapping, not a list")),
    ],
)
def test_what_annotations_say_in_another_form_is_a_problem(
    annotation: str, value: Body, told: tuple[str, str]
) -> None:
    picky = pod("a", metadata={"annotations": {KOORD + annotation: json.dumps(value)}})
    field = f"metadata.annotations[{KOORD}{annotation}]"
    assert problems(node(), picky) == [("Pod ml/a", f"{field}{told[0]}", told[1])]


def test_partitions_have_scores_and_bandwidths() -> None:
    entry = {"minors": [0, 1], "allocationScore": 3, "ringBusBandwidth": "400Gi"}
    table = {f"{KOORD}gpu-partitions": json.dumps({"2": [entry]})}
    (part,) = only_node(node("n1"), device("n1", {}, {}, annotations=table)).partitions
    assert (part.score, part.ring_bandwidth) == (3, 400 * GIB)
    entry |= {"allocationScore": "much", "ringBusBandwidth": "fast"}
    table = {f"{KOORD}gpu-partitions": json.dumps({"2": [entry]})}
    fields = [field for _, field, _ in problems(device("n1", {}, {}, annotations=table))]
    assert [field.rpartition(".")[2] for field in fields] == ["allocationScore", "ringBusBandwidth"]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("device-allocate-hint", {"gpu": {"requiredTopologyScope": "NUMANode"}}),
        ("device-allocate-hint", {"rdma": {"allocateStrategy": "ApplyForAll"}}),
        ("device-allocate-hint", {"rdma": {"vfSelector": {"matchLabels": {"a": "b"}}}}),
        ("device-allocate-hint", {"gpu": {"requiredTopologyScop": "NUMANode"}}),
        ("device-joint-allocate", {"deviceTypes": ["gpu", "fpga"], "requiredScope": "SamePCIe"}),
    ],
)
def test_what_is_asked_of_single_devices_beyond_that_is_refused(
    annotation: str, value: Body
) -> None:
    picky = pod("a", metadata={"annotations": {KOORD + annotation: json.dumps(value)}})
    (refused,) = only_gang(node(), picky, gang(podgroups=[group("w", "a")])).unsupported
    assert KOORD + annotation in refused


def test_what_cannot_be_meant_of_partitions_and_devices_is_told() -> None:
    table = {f"{KOORD}gpu-partitions": json.dumps({"2": [{"minors": [0, 7]}]})}
    policy = {"node.koordinator.sh/gpu-partition-policy": "honor"}
    wrong = device("n1", {}, {}, annotations=table, labels=policy)
    idle = gang(podgroups=[group("w", least=0)])
    assert said(translated(node("n1"), wrong, device("n7", {}), idle).warnings) == (
        f"Device n1: metadata.annotations[{KOORD}gpu-partitions]:"
        " GPU 7 of a partition is not there: the partition is left out",
        "Device n1: metadata.labels[node.koordinator.sh/gpu-partition-policy]:"
        " must be one of Honor, Prefer, not honor: taken as Prefer",
        "1 Device of nodes that are not in the input, first Device n7",
    )
    (one,) = said(translated(node("n1", labels=policy), device("n1", {}), idle).warnings)
    assert one.startswith("Node n1: metadata.labels[node.koordinator.sh/gpu-partition-policy]: ")
    table = {f"{KOORD}gpu-partitions": json.dumps({"4": [{"minors": [0, 1]}]})}
    (problem,) = problems(node("n1"), device("n1", {}, {}, annotations=table))
    assert problem[2] == "must be 4 GPUs, as the key says, not 2"


def test_devices_that_are_not_as_they_should_be_are_problems() -> None:
    table = {f"{KOORD}gpu-partitions": '{"2": [{"minors": "all"}], "4": 3}'}
    lost = {"topology": {"pcieID": ["0"]}}
    found = problems(device("n1", lost, {"minor": 0}, {"minor": -1}, annotations=table))
    assert [field for _, field, _ in found] == [
        "spec.devices[0].topology.pcieID",
        "spec.devices[1].minor",
        "spec.devices[2].minor",
        "spec.devices[2].minor",
        f"metadata.annotations[{KOORD}gpu-partitions].2[0].minors",
        f"metadata.annotations[{KOORD}gpu-partitions].4",
    ]


def test_a_node_that_counts_gpus_in_hundredths_only_has_whole_ones() -> None:
    sent = only_node(node("n1", allocatable={"koordinator.sh/gpu-core": "400", "cpu": "1"}))
    assert sent.allocatable.extended["nvidia.com/gpu"] == 4


def test_pods_that_ask_for_resources_of_koordinator_keep_to_nodes_that_it_manages() -> None:
    core = "koordinator.sh/gpu-core"
    nodes = (
        node("plain", allocatable={"nvidia.com/gpu": "8"}),
        node("listed", allocatable={"nvidia.com/gpu": "1"}),
        node("counted", allocatable={"nvidia.com/gpu": "1", core: "100"}),
    )
    sent = request(
        *nodes, device("listed", {}),
        pod("a", containers=[container(**{core: "60"})]), gang(podgroups=[group("w", "a")]),
    )  # fmt: skip
    (pod_set,) = sent.gangs[0].groups[0].pod_sets
    asked = pod_set.template.requests.extended[core]
    room = [one.allocatable.extended.get(core, 0) for one in sent.snapshot.nodes]
    assert (asked, room[0], room[1] >= asked, room[2]) == (60, 0, True, 100)
