"""Moves in an order in which every pod has room before it leaves.

The moves of one step have room when all earlier steps are done, while they still hold the
room that they leave. A gang moves in one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from placement_service.entities.planning import Move
from placement_service.entities.request import BoundPod, PodTemplate, Snapshot


@dataclass(frozen=True, slots=True)
class _Leaving:
    pod: BoundPod
    template: PodTemplate
    to_node: str


def in_steps(snapshot: Snapshot, target: Mapping[str, str]) -> tuple[Move, ...] | None:
    """The moves from where pods run to their target, by name; None when none may begin."""
    nodes = snapshot.columns
    waiting: dict[str, list[_Leaving]] = {}
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                for pod in pod_set.bound_pods:
                    if pod.name in target:
                        leaving = _Leaving(pod, pod_set.template, target[pod.name])
                        waiting.setdefault(gang.name, []).append(leaving)
    # Only nodes with something to do are looked at.
    touched = {n for pods in waiting.values() for one in pods for n in (one.pod.node, one.to_node)}
    free: dict[str, Counter[str]] = {}
    for name in touched & nodes.row_of.keys():
        node = nodes[nodes.row_of[name]]
        resources = {**node.allocatable, **node.requested}
        free[name] = Counter({r: node.free(r) for r in resources})
    moves: list[Move] = []
    step = 0
    while waiting:
        step += 1
        going = [gang for gang, pods in waiting.items() if _arrive(pods, free)]
        if not going:
            return None
        for gang_name in going:
            for one in waiting.pop(gang_name):
                if one.pod.node in free:
                    free[one.pod.node].update(one.template.requests)
                moves.append(Move(step, one.pod.name, gang_name, one.pod.node, one.to_node))
    return tuple(moves)


def _arrive(pods: list[_Leaving], free: dict[str, Counter[str]]) -> bool:
    """Take the room of the pods on their new nodes if all of them have room there."""
    after: dict[str, Counter[str]] = {}
    for one in pods:
        left = after.setdefault(one.to_node, Counter(free[one.to_node]))
        left.subtract(one.template.requests)
        if any(left[name] < 0 for name, amount in one.template.requests.items() if amount):
            return False
    free.update(after)
    return True
