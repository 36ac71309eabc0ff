"""Small questions for tests of what is around the engine."""

from __future__ import annotations

from dataclasses import replace

from placement.v1 import ComputePlacementRequest
from placement_service.api.wire.requests import request_to_proto
from placement_service.entities.request import (
    HOSTNAME,
    PODS,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Request,
    Snapshot,
)

GPU = "nvidia.com/gpu"


def node(name: str, *, gpus: int = 8, used: int = 0, **labels: str) -> Node:
    return Node(
        name=f"nodes/{name}",
        labels={HOSTNAME: name, **labels},
        allocatable={GPU: gpus, PODS: 110} if gpus else {PODS: 110},
        requested={GPU: used} if used else {},
    )


def gang(name: str, *, pods: int, gpus: int, minimum: int | None = None) -> PodGang:
    template = PodTemplate({GPU: gpus, PODS: 1})
    names = tuple(Pod(f"namespaces/ml/pods/{name}-{i}", f"uid-{name}-{i}") for i in range(pods))
    group = PodGroup("worker", pods if minimum is None else minimum, (PodSet(template, names),))
    return PodGang(f"namespaces/ml/podgangs/{name}", (group,))


def snapshot(nodes: int = 3, gangs: tuple[PodGang, ...] | None = None) -> Snapshot:
    """Nodes with 8 GPUs each, and one gang of two pods that fits on any one of them."""
    return Snapshot(
        nodes=tuple(node(f"n{i}") for i in range(nodes)),
        gangs=(gang("train", pods=2, gpus=4),) if gangs is None else gangs,
        revision="7",
    )


def open_snapshot(nodes: int = 3, pods: int = 2) -> Snapshot:
    """A gang that fits and one that only fits without it, so that no first answer is proven."""
    return snapshot(nodes, (gang("train", pods=pods, gpus=4), left_out(nodes)))


def left_out(nodes: int) -> PodGang:
    """A gang that wants all nodes, and comes last."""
    return replace(gang("huge", pods=nodes, gpus=8), priority=-1)


def request(
    question: Snapshot | None = None,
    *,
    time_limit: float | None = 60.0,
    policy: Policy | None = None,
    label: str = "test",
) -> Request:
    return Request(
        snapshot=snapshot() if question is None else question,
        policy=policy or Policy(),
        time_limit_seconds=time_limit,
        label=label,
    )


def message(
    question: Snapshot | None = None, *, time_limit: float | None = 60.0
) -> ComputePlacementRequest:
    return request_to_proto(request(question, time_limit=time_limit))
