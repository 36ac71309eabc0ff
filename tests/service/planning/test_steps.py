"""Moves in an order in which every pod has room."""

from __future__ import annotations

from placement_service.entities.planning import Move
from placement_service.entities.request import (
    BoundPod,
    Node,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Snapshot,
)
from placement_service.planning.steps import in_steps

GPU = "nvidia.com/gpu"


def cluster(**nodes: str) -> Snapshot:
    """Nodes of 8 GPUs, each with a gang of that name on it that takes all of them, "" for none."""
    template = PodTemplate({GPU: 8})
    gangs = [
        PodGang(
            f"namespaces/ml/podgangs/{gang}",
            (PodGroup("w", 1, (PodSet(template, (), (BoundPod(gang, f"nodes/{name}"),)),)),),
        )
        for name, gang in nodes.items()
        if gang
    ]
    there = (
        Node(f"nodes/{name}", {}, {GPU: 8}, {GPU: 8} if gang else {})
        for name, gang in nodes.items()
    )
    return Snapshot(tuple(there), tuple(gangs))


def test_a_pod_waits_for_the_room_that_another_leaves() -> None:
    moves = in_steps(cluster(n1="a", n2="b", n3=""), {"a": "nodes/n2", "b": "nodes/n3"})
    assert moves == (
        Move(1, "b", "namespaces/ml/podgangs/b", "nodes/n2", "nodes/n3"),
        Move(2, "a", "namespaces/ml/podgangs/a", "nodes/n1", "nodes/n2"),
    )


def test_pods_that_wait_for_each_other_cannot_move() -> None:
    assert in_steps(cluster(n1="a", n2="b"), {"a": "nodes/n2", "b": "nodes/n1"}) is None
