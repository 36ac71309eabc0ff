"""Running pods that hold something else of their node than they ask for."""

from __future__ import annotations

from dataclasses import replace

from placement_service.entities.eviction import Eviction, EvictionKind, EvictionPolicy
from placement_service.entities.request import (
    PODS,
    Binding,
    BoundPod,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.judge.verify import verify

REPACK = Policy(eviction=EvictionPolicy.REPACK)
OLD, NEW = "namespaces/ml/podgangs/old", "namespaces/ml/podgangs/new"
POD = "namespaces/ml/pods/"


def cluster(held: dict[str, int], asked: dict[str, int], *unsupported: str) -> Snapshot:
    """A pod that runs on the only device of a node, one that waits, and a node with another."""
    template = PodTemplate({**asked, PODS: 1}, unsupported=unsupported)
    running = PodSet(template, (), (BoundPod(f"{POD}old", "nodes/a", held={**held, PODS: 1}),))
    waiting = PodSet(PodTemplate({"nic": 1, "fast": 1, PODS: 1}), (Pod(f"{POD}new"),))
    return Snapshot(
        (
            Node("nodes/a", {}, {"nic": 1, "fast": 1, PODS: 9}, {**held, PODS: 1}),
            Node("nodes/b", {}, {"nic": 1, PODS: 9}),
        ),
        (
            PodGang(OLD, (PodGroup("w", 1, (running,)),)),
            PodGang(NEW, (PodGroup("w", 1, (waiting,)),), 1),
        ),
    )


def broken(question: Snapshot, to: str = "nodes/b") -> tuple[str, ...]:
    moved = Eviction(f"{POD}old", OLD, "nodes/a", EvictionKind.MOVE, NEW, to_node=to)
    return verify(question, REPACK, (Binding(f"{POD}new", "nodes/a", NEW, "w"),), (moved,))


def test_a_pod_leaves_what_it_held_and_takes_what_it_asks_for() -> None:
    assert broken(cluster({"nic": 1, "fast": 1}, {"nic": 1})) == ()


def test_a_pod_leaves_no_more_than_it_held() -> None:
    question = cluster({"nic": 1}, {"nic": 1, "fast": 1})
    first, *_ = question.nodes
    full = replace(question, nodes=(replace(first, requested={"nic": 1, "fast": 1}),))
    (text,) = broken(full, "nodes/a")[:1]
    assert "2 new pods ask for 2 fast, 0 are free" in text


def test_what_asks_for_something_unsupported_is_not_moved() -> None:
    (text,) = broken(cluster({"nic": 1, "fast": 1}, {"nic": 1}, "spec.x"))
    assert text == f"gang {OLD} is moved but uses spec.x, which is not supported"
