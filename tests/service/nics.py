"""Nodes with network devices, fast ones and others, and pods that ask for these or hold them."""

from __future__ import annotations

from collections.abc import Mapping

from placement_service.entities.request import (
    HOSTNAME,
    PODS,
    BoundPod,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
)

NIC = "claims.resource.k8s.io/nic"
FAST = f"{NIC}.fast"
ANY = {NIC: 1, PODS: 1}
A_FAST_ONE = {NIC: 1, FAST: 1, PODS: 1}


def node(name: str, *held: Mapping[str, int], fast: int = 0, slow: int = 0) -> Node:
    """A node with network devices, of which pods hold some."""
    used = {r: sum(one.get(r, 0) for one in held) for r in (NIC, FAST, PODS)}
    allocatable = {NIC: fast + slow, FAST: fast, PODS: 110}
    return Node(f"nodes/{name}", {HOSTNAME: name}, allocatable, used)


def runs(
    name: str,
    *pods: tuple[str, Mapping[str, int] | None],
    asked: Mapping[str, int] = ANY,
    minimum: int | None = None,
    unsupported: tuple[str, ...] = (),
) -> PodGang:
    """A gang of pods on these nodes, of which each holds so much, or what it asks for."""
    bound = tuple(
        BoundPod(f"namespaces/ml/pods/{name}-{i}", f"nodes/{on}", held=held)
        for i, (on, held) in enumerate(pods)
    )
    sets = (PodSet(PodTemplate(asked, unsupported=unsupported), (), bound),)
    least = len(pods) if minimum is None else minimum
    return PodGang(f"namespaces/ml/podgangs/{name}", (PodGroup("w", least, sets),))


def waits(name: str, pods: int = 1, asked: Mapping[str, int] = A_FAST_ONE) -> PodGang:
    names = tuple(Pod(f"namespaces/ml/pods/{name}-{i}") for i in range(pods))
    group = PodGroup("w", pods, (PodSet(PodTemplate(asked), names),))
    return PodGang(f"namespaces/ml/podgangs/{name}", (group,), 10)
