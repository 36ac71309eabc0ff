"""What a plan leaves free: GPUs, and whole domains of each level.

Only whole GPUs and MIG devices are counted. What is closed for new pods is not free, nor is a GPU
of which a pod has a share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from placement.planning.changes import holds
from placement.planning.gpus import gpus_in
from placement.planning.levels import domains, levels_of
from placement.planning.shared_gpus import shared_gpus
from placement.v1 import ComputePlacementRequest, Placement


@dataclass(frozen=True, slots=True)
class Room:
    """GPUs of the cluster, those `free` after a plan, and by level how many domains with GPUs
    are free as a whole. `asked` are the GPUs of each gang's new pods, by resource name."""

    gpus: int
    free: int
    domains: Mapping[str, int]
    asked: Mapping[str, int]


def room_after(
    request: ComputePlacementRequest, placement: Placement, levels: Iterable[str] = ()
) -> Room:
    """What is free after the plan; `levels` are counted besides those that gangs name."""
    policy = request.policy
    each: dict[str, int] = {}
    left: dict[str, int] = {}
    for gang in request.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                amount = gpus_in(pod_set.template.requests, policy)
                each.update((pod.name, amount) for pod in pod_set.pods)
                each.update((pod.name, amount) for pod in pod_set.bound_pods)
                left.update(
                    (pod.name, gpus_in(holds(pod, pod_set.template), policy))
                    for pod in pod_set.bound_pods
                )
    there = {node.name: gpus_in(node.allocatable, policy) for node in request.snapshot.nodes}
    used = Counter({node.name: gpus_in(node.requested, policy) for node in request.snapshot.nodes})
    asked = Counter[str]()
    for binding in placement.bindings:
        used[binding.node] += each.get(binding.pod, 0)
        asked[binding.gang] += each.get(binding.pod, 0)
    for eviction in placement.evictions:
        used[eviction.node] -= left.get(eviction.pod, 0)
        if eviction.to_node:
            used[eviction.to_node] += each.get(eviction.pod, 0)
    used.update(shared_gpus(request, placement))
    opened = {n.name for n in request.snapshot.nodes if not (n.unschedulable or n.not_ready)}
    empty = {name for name in opened if not used[name]}

    def is_free(names: list[str]) -> bool:
        return any(there[name] for name in names) and empty.issuperset(names)

    free_domains = {
        level: sum(is_free([n.name for n in nodes]) for nodes in domains(request, level).values())
        for level in levels_of(request, levels)
    }
    free = sum(max(0, there[name] - used[name]) for name in opened)
    return Room(sum(there.values()), free, free_domains, asked)
