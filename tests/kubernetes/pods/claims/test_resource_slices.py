"""ResourceSlices: which of their devices count, and what is wrong with them."""

from __future__ import annotations

import pytest

from tests.kubernetes.build import (
    Body,
    gang,
    group,
    node,
    problems,
    request,
    said,
    translated,
)
from tests.kubernetes.pods.claims.claim_objects import device_class, devices, exactly, template

ONE_GPU = "claims.resource.k8s.io/gpu"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"pool": {"name": "p", "generation": 1, "resourceSliceCount": 2}}, "1 of 2 slices"),
        ({"nodeName": None, "allNodes": True}, "not of one node"),
    ],
)
def test_slices_that_cannot_be_counted_on_are_left_out(spec: Body, want: str) -> None:
    translation = translated(
        node("n1"), devices("n1", {}, **spec), device_class(), template("t", exactly())
    )
    assert ONE_GPU not in translation.request.snapshot.nodes[0].allocatable.extended
    assert any(want in warning for warning in said(translation.warnings))


@pytest.mark.parametrize(
    ("counts", "names", "want"),
    [
        ((1, 1), ("d0", "d1"), "has 2 slices of the pool, which says that it has 1"),
        ((2, 3), ("d0", "d1"), "do not agree on how many there are (2, 3)"),
        ((2, 2), ("d0", "d0"), "device d0 is in several of its slices"),
    ],
)
def test_a_pool_that_is_not_consistent_serves_nobody(
    counts: tuple[int, int], names: tuple[str, str], want: str
) -> None:
    slices = []
    for i, (count, name) in enumerate(zip(counts, names, strict=True)):
        pool = {"name": "p", "generation": 1, "resourceSliceCount": count}
        one = devices("n1", {}, pool=pool, devices=[{"name": name}])
        one["metadata"]["name"] = f"s{i}"
        slices.append(one)
    translation = translated(node("n1"), *slices, device_class(), template("t", exactly()))
    assert ONE_GPU not in translation.request.snapshot.nodes[0].allocatable.extended
    assert want in " ".join(said(translation.warnings))


def test_slices_of_nodes_that_are_not_there_are_told_once() -> None:
    away = [devices(name, {}) for name in ("n7", "n8")]
    assert said(translated(node("n1"), *away, gang(podgroups=[group("w", least=0)])).warnings) == (
        "ResourceSlice slice-n7: spec.nodeName: Node n7 is not in the input (1 more like it)",
    )


def test_a_slice_of_a_node_that_is_no_name_is_an_error() -> None:
    assert problems(node("n1"), devices("n1", {}, nodeName=["n1"])) == [
        ("ResourceSlice slice-n1", "spec.nodeName", "must be a string, not a list")
    ]


def test_mistakes_of_devices_and_of_tolerations_are_named() -> None:
    slices = devices("n1", {}, {})
    slices["spec"]["devices"] = [
        {"name": "d0", "attributes": {"a": "H100", "b": {"int": "3"}, "c": {}}},
        {"name": "d0", "attributes": [], "capacity": {"memory": {"value": "80Gb"}}},
        {"name": "d1", "taints": [{"effect": "NoSchdule"}]},
    ]
    tolerations = [
        {"key": "a", "operator": "Exists", "value": "b"},
        {"operator": "Equal", "effect": "Never"},
    ]
    asked = "spec.spec.devices.requests[0].exactly.tolerations"
    at = "spec.devices"
    effects = "must be one of NoSchedule, NoExecute, None, not"
    assert problems(
        node("n1"), slices, device_class(), template("t", exactly(tolerations=tolerations))
    ) == [
        ("ResourceSlice slice-n1", f"{at}[0].attributes[a]", "must be a mapping, not H100"),
        (
            "ResourceSlice slice-n1",
            f"{at}[0].attributes[b].int",
            "must be a whole number, not 3; leave out its quotes",
        ),
        (
            "ResourceSlice slice-n1",
            f"{at}[0].attributes[c]",
            "must hold one of int, bool, string, version",
        ),
        ("ResourceSlice slice-n1", f"{at}[1].name", "d0 is there more than once"),
        ("ResourceSlice slice-n1", f"{at}[1].attributes", "must be a mapping, not a list"),
        ("ResourceSlice slice-n1", f"{at}[1].capacity[memory]", "'80Gb' is not a quantity"),
        ("ResourceSlice slice-n1", f"{at}[2].taints[0].key", "is missing"),
        ("ResourceSlice slice-n1", f"{at}[2].taints[0].effect", f"{effects} NoSchdule"),
        (
            "ResourceClaimTemplate ml/t",
            f"{asked}[0].value",
            "must be empty when the operator is Exists",
        ),
        (
            "ResourceClaimTemplate ml/t",
            f"{asked}[1].operator",
            "must be Exists when the key is empty",
        ),
        ("ResourceClaimTemplate ml/t", f"{asked}[1].effect", f"{effects} Never"),
    ]


def test_only_the_newest_generation_counts() -> None:
    pool = {"name": "p", "resourceSliceCount": 1}
    old = devices("n1", {}, {}, {}, pool={**pool, "generation": 1})
    old["metadata"]["name"] = "old"
    sent = request(
        node("n1"), old, devices("n1", {}, pool={**pool, "generation": 2}), device_class(),
        template("t", exactly()),
    )  # fmt: skip
    assert sent.snapshot.nodes[0].allocatable.extended[ONE_GPU] == 1


def test_shared_devices_are_left_out_with_a_warning() -> None:
    slices = devices("n1", {}, {})
    slices["spec"]["devices"][1]["allowMultipleAllocations"] = True
    translation = translated(node("n1"), slices, device_class(), template("t", exactly()))
    assert translation.request.snapshot.nodes[0].allocatable.extended[ONE_GPU] == 1
    assert "devices with allowMultipleAllocations" in " ".join(said(translation.warnings))


@pytest.mark.parametrize(
    ("toleration", "count"),
    [
        ({}, 1),
        ({"key": "k", "operator": "Exists"}, 2),
        ({"key": "k", "value": "v"}, 2),
        ({"key": "k", "value": "w"}, 1),
        ({"operator": "Exists", "effect": "NoExecute"}, 1),
    ],
)
def test_devices_with_taints_are_for_those_who_tolerate_them(toleration: Body, count: int) -> None:
    slices = devices("n1", {}, {})
    slices["spec"]["devices"][0]["taints"] = [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    tolerations = [toleration] if toleration else []
    sent = request(
        node("n1"), slices, device_class(), template("t", exactly(tolerations=tolerations))
    )
    assert sent.snapshot.nodes[0].allocatable.extended[ONE_GPU] == count
