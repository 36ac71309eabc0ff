"""Moves in an order in which every pod has room before it leaves.

The moves of one step have room when all earlier steps are done, while they still hold the
room that they leave. A gang moves in one step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from placement.planning.changes import add
from placement.v1 import BoundPod, ComputePlacementRequest, Node, Placement, PodTemplate, Resources


@dataclass(frozen=True, slots=True)
class Move:
    """One pod; names as in the API."""

    step: int
    pod: str
    gang: str
    from_node: str
    to_node: str


@dataclass(frozen=True, slots=True)
class _Leaving:
    pod: BoundPod
    template: PodTemplate
    to_node: str


def in_steps(request: ComputePlacementRequest, plan: Placement) -> tuple[Move, ...] | None:
    """The moves from what runs in `request` to what `plan` binds; None when none may begin."""
    target = {binding.pod: binding.node for binding in plan.bindings}
    waiting: dict[str, list[_Leaving]] = defaultdict(list)
    for one in request.gangs:
        for group in one.groups:
            for pod_set in group.pod_sets:
                for pod in pod_set.bound_pods:
                    if pod.name in target:
                        leaving = _Leaving(pod, pod_set.template, target[pod.name])
                        waiting[one.name].append(leaving)
    nodes = {node.name: node for node in request.snapshot.nodes}
    used = {}
    for name, node in nodes.items():
        used[name] = Resources()
        used[name].CopyFrom(node.requested)
    moves: list[Move] = []
    step = 0
    while waiting:
        step += 1
        going = []
        for gang, pods in waiting.items():
            arrived = _arrive(pods, used, nodes)
            if arrived:
                going.append(gang)
        if not going:
            return None
        for gang in going:
            for left in waiting.pop(gang):
                if left.pod.node in used:
                    add(used[left.pod.node], left.template.requests, -1)
                moves.append(Move(step, left.pod.name, gang, left.pod.node, left.to_node))
    return tuple(moves)


def _arrive(pods: list[_Leaving], used: Mapping[str, Resources], nodes: Mapping[str, Node]) -> bool:
    """Count the pods on their new nodes if all of them have room there."""
    after: dict[str, Resources] = {}
    for one in pods:
        if one.to_node not in after:
            after[one.to_node] = Resources()
            after[one.to_node].CopyFrom(used[one.to_node])
        add(after[one.to_node], one.template.requests, 1)
    if not all(_holds(nodes[name].allocatable, total) for name, total in after.items()):
        return False
    for name, total in after.items():
        used[name].CopyFrom(total)
    return True


def _holds(allocatable: Resources, used: Resources) -> bool:
    return (
        used.cpu_millis <= allocatable.cpu_millis
        and used.memory_bytes <= allocatable.memory_bytes
        and (
            not allocatable.ephemeral_storage_bytes
            or used.ephemeral_storage_bytes <= allocatable.ephemeral_storage_bytes
        )
        and used.pod_count <= (allocatable.pod_count or 110)
        and all(
            amount <= allocatable.extended.get(name, 0) for name, amount in used.extended.items()
        )
    )
