"""Nodes: what they offer, what is taken, and whether they may be used."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import Body, container, node, pod, problems, request, said, translated


def sent(*bodies: Body) -> v1.Node:
    (only,) = request(*bodies).snapshot.nodes
    return only


def test_a_node_with_everything() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    assert sent(
        node("n1", labels={"rack": "r1"}, spec={"taints": [taint], "unschedulable": True})
    ) == v1.Node(
        name="nodes/n1",
        labels={"rack": "r1", "kubernetes.io/hostname": "n1"},
        allocatable=v1.Resources(
            cpu_millis=8000, memory_bytes=64 * 2**30, extended={"nvidia.com/gpu": 8}
        ),
        taints=[v1.Taint(key="gpu", value="yes", effect=v1.TaintEffect.TAINT_EFFECT_NO_SCHEDULE)],
        unschedulable=True,
    )


def test_a_hostname_label_of_its_own_is_kept() -> None:
    assert sent(node("n1", labels={"kubernetes.io/hostname": "x"})).labels == {
        "kubernetes.io/hostname": "x"
    }


def test_a_label_without_value_is_empty() -> None:
    assert sent(node("n1", labels={"node-role.kubernetes.io/gpu": None})).labels == {
        "node-role.kubernetes.io/gpu": "",
        "kubernetes.io/hostname": "n1",
    }


def test_capacity_stands_in_for_what_is_allocatable() -> None:
    bare = node("n1")
    bare["status"] = {"capacity": {"cpu": "2"}}
    assert sent(bare).allocatable == v1.Resources(cpu_millis=2000)


def test_what_a_node_offers_rounds_down() -> None:
    assert sent(node("n1", allocatable={"cpu": "1500u", "memory": "1500m"})).allocatable == (
        v1.Resources(cpu_millis=1, memory_bytes=1)
    )


def test_what_a_node_offers_beyond_all_counting_is_capped() -> None:
    many = sent(node("n1", allocatable={"cpu": "1", "example.com/big": "9223372036854775807"}))
    assert many.allocatable.extended == {"example.com/big": 2**53}


def test_a_node_that_allocates_no_pods_is_closed() -> None:
    translation = translated(node("n1", allocatable={"cpu": "8", "pods": "0"}))
    (only,) = translation.request.snapshot.nodes
    assert (only.unschedulable, only.closed_because) == (True, "it allocates no pods")
    assert "Node n1: is closed for new pods: it allocates no pods" in said(translation.warnings)


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "MemoryPressure", "status": "False"}], True),
    ],
)
def test_a_node_is_ready_unless_it_says_otherwise(conditions: list[Any], ready: bool) -> None:
    assert sent(node("n1", conditions=conditions)).not_ready is not ready


def test_requested_sums_the_pods_that_are_bound_and_not_finished() -> None:
    deleting = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert sent(
        node("n1"),
        pod("a", nodeName="n1", phase="Running", containers=[container(cpu="1", gpu="1")]),
        pod("b", nodeName="n1", phase="Pending", containers=[container(cpu="2")]),
        pod("c", nodeName="n1", phase="Running", metadata=deleting),
        pod("done", nodeName="n1", phase="Succeeded"),
        pod("failed", nodeName="n1", phase="Failed"),
        pod("elsewhere", nodeName="n2", phase="Running"),
        pod("waiting"),
    ).requested == v1.Resources(cpu_millis=3000, pod_count=3, extended={"nvidia.com/gpu": 2})


def test_host_ports_in_use_are_listed_once() -> None:
    port = [{"ports": [{"hostPort": 80}]}]
    assert list(
        sent(
            node("n1"),
            pod("a", nodeName="n1", containers=port),
            pod("b", nodeName="n1", containers=port),
            pod("waiting", containers=port),
        ).host_ports
    ) == [v1.HostPort(port=80, protocol="TCP")]


def test_pods_on_unknown_nodes_are_warned_of() -> None:
    assert said(translated(node("n1"), pod("a", nodeName="n2")).warnings) == (
        "the input holds no PodGang",
        "1 running pod on nodes that are not in the input, first pod ml/a on n2",
    )


def test_a_status_of_a_condition_that_is_none_is_a_problem() -> None:
    """Not that the node is not ready, which would close it."""
    [(where, field, text)] = problems(node(conditions=[{"type": "Ready", "status": "true"}]))
    assert (where, field) == ("Node n1", "status.conditions[0].status")
    assert text == "must be one of True, False, Unknown, not true"


def test_every_problem_of_a_node_is_named() -> None:
    bad = node(
        "n1",
        labels={"rack": 7},
        spec={"taints": [{"effect": "NoSchedule"}, {"key": "a"}, "x"], "unschedulable": "no"},
        allocatable={"cpu": "8 cores", "nvidia.com/gpu": None},
        conditions={"Ready": True},
    )
    assert {(o, f): m for o, f, m in problems(bad, node("n2", allocatable=["x"]))} == {
        ("Node n1", "metadata.labels[rack]"): "must be a string, not 7; put it in quotes",
        ("Node n1", "spec.taints[0].key"): "is missing",
        ("Node n1", "spec.taints[1].effect"): (
            "must be one of NoSchedule, PreferNoSchedule, NoExecute, not empty"
        ),
        ("Node n1", "spec.taints[2]"): "must be a mapping, not x",
        ("Node n1", "spec.unschedulable"): "must be true or false, not no",
        ("Node n1", "status.allocatable[cpu]"): "'8 cores' is not a quantity",
        ("Node n1", "status.allocatable[nvidia.com/gpu]"): "must be a quantity, not null",
        ("Node n1", "status.conditions"): "must be a list, not a mapping",
        ("Node n2", "status.allocatable"): "must be a mapping, not a list",
    }


def test_equal_wrong_nodes_are_each_named() -> None:
    """Equal machines are read once, but each one's owner must hear of it."""
    bad = {"cpu": "x"}
    assert [
        o for o, _, _ in problems(node("n1", allocatable=bad), node("n2", allocatable=bad))
    ] == [
        "Node n1",
        "Node n2",
    ]
