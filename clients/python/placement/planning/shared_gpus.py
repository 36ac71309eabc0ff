"""GPUs that pods share: in use, though no pod asks for a whole one.

Only nodes that list their GPUs have shared ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from placement.planning.gpus import whole_gpus_in
from placement.v1 import BoundPod, ComputePlacementRequest, Device, Placement, PodTemplate


def shared_gpus(request: ComputePlacementRequest, placement: Placement) -> Counter[str]:
    """For each node, how many GPUs are in use by shares alone after a plan."""
    policy = request.policy
    nodes = [node for node in request.snapshot.nodes if node.devices]
    if not nodes:
        return Counter()
    devices = {node.name: {device.index: device for device in node.devices} for node in nodes}
    #: What is in use of each GPU, in thousandths of its compute and its memory together.
    used = {
        name: Counter({index: d.used_milli + d.used_memory_milli for index, d in of.items()})
        for name, of in devices.items()
    }
    whole = Counter({node.name: whole_gpus_in(node.requested, policy) for node in nodes})
    each: dict[str, int] = {}
    for gang in request.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                amount = whole_gpus_in(pod_set.template.requests, policy)
                each.update((pod.name, amount) for pod in pod_set.pods)
                each.update((pod.name, amount) for pod in pod_set.bound_pods)
    bound = {pod.name: (pod, template) for pod, template in _bound(request)}
    given = defaultdict[str, set[int]](set)
    for eviction in placement.evictions:
        if eviction.pod in bound and eviction.node in used:
            pod, template = bound[eviction.pod]
            for index in pod.devices:
                device = devices[eviction.node].get(index, Device())
                used[eviction.node][index] -= _thousandths(template, device)
            whole[eviction.node] -= each[eviction.pod]
        whole[eviction.to_node] += each.get(eviction.pod, 0)
        given[eviction.to_node].update(eviction.to_devices)
    for binding in placement.bindings:
        whole[binding.node] += each.get(binding.pod, 0)
        given[binding.node].update(binding.devices)
    return Counter(
        {
            name: max(
                0, len(given[name] | {i for i, milli in of.items() if milli > 0}) - whole[name]
            )
            for name, of in used.items()
        }
    )


def _bound(request: ComputePlacementRequest) -> Iterator[tuple[BoundPod, PodTemplate]]:
    for gang in request.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                yield from ((pod, pod_set.template) for pod in pod_set.bound_pods)


def _thousandths(template: PodTemplate, device: Device) -> int:
    """What a pod has of a GPU."""
    if not template.HasField("device_share"):
        return 2000
    share = template.device_share
    memory = share.memory_milli
    if not memory and device.memory_bytes:
        memory = -(-1000 * share.memory_bytes // device.memory_bytes)
    return share.compute_milli + memory
