"""What if: a request as it would be if nodes or gangs were different. Each change is a function
from a request to a new one; the old one does not change. All of them raise ValueError, with the
nearest name, for what does not exist.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

from placement.near_names import did_you_mean
from placement.planning.gpus import GPUS, is_gpu
from placement.planning.levels import HOSTNAME, domains, finer
from placement.planning.selectors import Selector
from placement.pod_templates import put_templates_inside
from placement.v1 import (
    BoundPod,
    ComputePlacementRequest,
    Node,
    Pod,
    PodGang,
    PodTemplate,
    Resources,
)

#: Taints that Kubernetes puts on nodes that are closed or in trouble.
_TROUBLE = "node.kubernetes.io/"


def copy_of(request: ComputePlacementRequest) -> ComputePlacementRequest:
    """A request of its own with the same content, every template in its pod sets."""
    new = ComputePlacementRequest()
    new.CopyFrom(request)
    put_templates_inside(new)
    return new


def find_gang(request: ComputePlacementRequest, name: str) -> PodGang:
    """The gang of that name, ``namespaces/{namespace}/podgangs/{podgang}``."""
    for gang in request.gangs:
        if gang.name == name:
            return gang
    raise ValueError(_missing("gang", _short(name), (_short(g.name) for g in request.gangs)))


def with_priority(
    request: ComputePlacementRequest, name: str, priority: int
) -> ComputePlacementRequest:
    """The gang has another priority."""
    new = copy_of(request)
    find_gang(new, name).priority = priority
    return new


def with_gpu_limit(
    request: ComputePlacementRequest, name: str, gpus: int
) -> ComputePlacementRequest:
    """The queue ``queues/{queue}`` may run so many GPUs, of whatever kind."""
    new = copy_of(request)
    for queue in new.snapshot.queues:
        if queue.name == name:
            for resource in [r for r in queue.limit if is_gpu(r, request.policy)]:
                del queue.limit[resource]
            queue.limit[GPUS] = gpus
            return new
    known = (queue.name.removeprefix("queues/") for queue in request.snapshot.queues)
    raise ValueError(_missing("queue", name.removeprefix("queues/"), known))


def matching(request: ComputePlacementRequest, selector: Selector) -> frozenset[str]:
    """Names of the nodes that a selector matches; at least one."""
    labels = {
        node.name: {HOSTNAME: node.name.removeprefix("nodes/"), **node.labels}
        for node in request.snapshot.nodes
    }
    found = frozenset(name for name, mine in labels.items() if selector(mine))
    if found:
        return found
    for key, values in selector.wanted:
        if not any(key in mine for mine in labels.values()):
            raise ValueError(_missing("node label", key, {k for m in labels.values() for k in m}))
        there = {mine[key] for mine in labels.values() if key in mine}
        if values and there.isdisjoint(values):
            raise ValueError(_missing(f"node with {key}", values[0], there))
    raise ValueError(f"no node matches {selector.text}")


def cordoned(request: ComputePlacementRequest, nodes: Collection[str]) -> ComputePlacementRequest:
    """These nodes get no new pods."""
    new = copy_of(request)
    for node in new.snapshot.nodes:
        node.unschedulable = node.unschedulable or node.name in nodes
    return new


def drained(request: ComputePlacementRequest, nodes: Collection[str]) -> ComputePlacementRequest:
    """These nodes are closed, and the pods of gangs that run there wait again."""
    for gang in request.gangs:
        if any(pod.node in nodes for group in gang.groups for pod in group.bound_pods):
            raise ValueError(
                f"{_short(gang.name)} cannot be drained: what its running pods ask for is not part"
                " of the question"
            )
    leaving = {pod.name for gang in request.gangs for pod in bound_pods(gang) if pod.node in nodes}
    return released(cordoned(request, nodes), leaving)


def released(
    request: ComputePlacementRequest, pods: Collection[str], *, give_back: bool = True
) -> ComputePlacementRequest:
    """These running pods wait again. Without `give_back` they still hold what they have."""
    new = copy_of(request)
    if give_back:
        _release(new, pods)
    for gang in new.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                gone = [pod for pod in pod_set.bound_pods if pod.name in pods]
                pod_set.pods.extend(Pod(name=pod.name) for pod in gone)
                keep(pod_set.bound_pods, lambda pod: pod.name not in pods)
    keep(new.snapshot.pods, lambda pod: pod.name not in pods)
    return new


def without(request: ComputePlacementRequest, *names: str) -> ComputePlacementRequest:
    """The request without these gangs and their pods."""
    new = copy_of(request)
    gangs = [find_gang(new, name) for name in names]
    for gang in gangs:
        for group in gang.groups:
            if group.bound_pods:
                raise ValueError(
                    f"{_short(gang.name)} cannot be left out: what its running pods ask for"
                    " is not part of the question"
                )
    _release(new, {pod.name for gang in gangs for pod in bound_pods(gang)})
    keep(new.gangs, lambda gang: gang.name not in names)
    for gang in new.gangs:
        if gang.base_gang in names:
            gang.base_gang = ""
    return new


def with_nodes(
    request: ComputePlacementRequest, counts: Mapping[str, int]
) -> ComputePlacementRequest:
    """For each node of `counts` so many further ones with its labels and allocatable, empty
    and healthy."""
    new = copy_of(request)
    models = {node.name: node for node in request.snapshot.nodes}
    names = set(models)
    for like, count in counts.items():
        if like not in models:
            known = (name.removeprefix("nodes/") for name in models)
            raise ValueError(_missing("node", like.removeprefix("nodes/"), known))
        for number in range(count):
            name = _free_name(f"{like}-added-{number}", names)
            new.snapshot.nodes.append(_twin(models[like], name, {}))
    return new


def with_domains(
    request: ComputePlacementRequest, level: str, like: str, count: int, *, levels: Sequence[str]
) -> ComputePlacementRequest:
    """So many further domains of a level like the domain `like`, empty and healthy, in its parents.

    `levels` are all levels; those inside `level` get domains of their own.
    """
    there = domains(request, level)
    if not there:
        known = {key for node in request.snapshot.nodes for key in node.labels}
        raise ValueError(_missing("node label", level, known))
    if like not in there:
        raise ValueError(_missing(level, like, there))
    new = copy_of(request)
    names = {node.name for node in new.snapshot.nodes}
    own = [key for key in (level, *finer(request, level, levels)) if key != HOSTNAME]
    taken = {
        (key, node.labels[key])
        for node in request.snapshot.nodes
        for key in own
        if key in node.labels
    }
    mine = {(key, model.labels[key]) for model in there[like] for key in own if key in model.labels}
    suffixes = (f"-added-{number}" for number in itertools.count())
    free = (s for s in suffixes if taken.isdisjoint((key, value + s) for key, value in mine))
    for suffix in itertools.islice(free, count):
        for model in there[like]:
            values = {key: model.labels[key] + suffix for key in own if key in model.labels}
            name = _free_name(model.name + suffix, names)
            new.snapshot.nodes.append(_twin(model, name, values))
    return new


def bound_pods(gang: PodGang) -> list[BoundPod]:
    """The running pods of a gang whose requests are known."""
    return [pod for group in gang.groups for s in group.pod_sets for pod in s.bound_pods]


def holds(pod: BoundPod, template: PodTemplate) -> Resources:
    """What a running pod holds of its node."""
    return pod.held if pod.HasField("held") else template.requests


def _release(request: ComputePlacementRequest, pods: Collection[str]) -> None:
    """Give back what these running pods hold of nodes and reservations."""
    if not pods:
        return
    nodes = {node.name: node for node in request.snapshot.nodes}
    reservations = {one.name: one for one in request.snapshot.reservations}
    staying: set[tuple[str, str]] = set()
    left: set[str] = set()
    for gang in request.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                for pod in pod_set.bound_pods:
                    if pod.name not in pods:
                        staying.add((pod.node, pod_set.template.compute_domain))
                        continue
                    left.add(pod.node)
                    node = nodes.get(pod.node)
                    if node is not None:
                        _leave(node, pod, pod_set.template)
                    if pod.reservation in reservations:
                        one = reservations[pod.reservation]
                        add(one.held, holds(pod, pod_set.template), 1)
                        back = _names(one.held)
                        kept = [name for name in one.used_up if name not in back]
                        del one.used_up[:]
                        one.used_up.extend(kept)
    for node in nodes.values():
        known = node.compute_domain_pods
        if node.name in left and not known and (node.name, node.compute_domain) not in staying:
            node.compute_domain = ""
    keep(request.snapshot.pods, lambda pod: pod.name not in pods)


def occupy(
    request: ComputePlacementRequest, node: Node, pod: BoundPod, template: PodTemplate
) -> None:
    """Give a pod its room on a node of the request, or in a reservation there."""
    add(node.requested, template.requests, 1)
    _use_devices(node, pod, template, 1)
    node.host_ports.extend(template.host_ports)
    if template.compute_domain:
        # Where pods of the domain run that are not counted, it stays anyway.
        counted = node.compute_domain_pods or not node.compute_domain
        node.compute_domain = template.compute_domain
        node.compute_domain_pods += 1 if counted else 0
    mine = [one for one in request.snapshot.reservations if one.name == pod.reservation]
    for reservation in mine:
        before = _names(reservation.held)
        add(reservation.held, template.requests, -1)
        if reservation.restricted:
            reservation.used_up.extend(sorted(before - _names(reservation.held)))
    if any(reservation.allocate_once for reservation in mine):
        # What it leaves over is free.
        keep(request.snapshot.reservations, lambda one: one.name != pod.reservation)
        pod.reservation = ""


def _leave(node: Node, pod: BoundPod, template: PodTemplate) -> None:
    add(node.requested, holds(pod, template), -1)
    _use_devices(node, pod, template, -1)
    for port in template.host_ports:
        if port in node.host_ports:
            node.host_ports.remove(port)
    if node.compute_domain_pods and template.compute_domain == node.compute_domain:
        node.compute_domain_pods -= 1
        if not node.compute_domain_pods:
            node.compute_domain = ""


def _use_devices(node: Node, pod: BoundPod, template: PodTemplate, sign: int) -> None:
    share = template.device_share
    by_index = {device.index: device for device in node.devices}
    for index in pod.devices:
        if device := by_index.get(index):
            whole = not template.HasField("device_share")
            compute = 1000 if whole else share.compute_milli
            memory = 1000 if whole else share.memory_milli
            if not memory and device.memory_bytes:
                memory = -(-1000 * share.memory_bytes // device.memory_bytes)
            device.used_milli = max(0, device.used_milli + sign * compute)
            device.used_memory_milli = max(0, device.used_memory_milli + sign * memory)


def add(total: Resources, amount: Resources, sign: int) -> None:
    """Add what one pod asks for, or with `sign` -1 take it away; nothing falls below zero."""
    total.cpu_millis = max(0, total.cpu_millis + sign * amount.cpu_millis)
    total.memory_bytes = max(0, total.memory_bytes + sign * amount.memory_bytes)
    total.ephemeral_storage_bytes = max(
        0, total.ephemeral_storage_bytes + sign * amount.ephemeral_storage_bytes
    )
    total.pod_count = max(0, total.pod_count + sign * max(1, amount.pod_count))
    for name, units in amount.extended.items():
        total.extended[name] = max(0, total.extended.get(name, 0) + sign * units)


def _names(resources: Resources) -> set[str]:
    """The resources of which there are some."""
    named = {
        "cpu": resources.cpu_millis,
        "memory": resources.memory_bytes,
        "ephemeral-storage": resources.ephemeral_storage_bytes,
        **resources.extended,
    }
    return {name for name, amount in named.items() if amount}


def _twin(model: Node, name: str, values: Mapping[str, str]) -> Node:
    """An empty, healthy node like `model` with other values of some labels."""
    node = Node()
    node.CopyFrom(model)
    node.name = name
    node.labels.update(values)
    if HOSTNAME in node.labels:
        node.labels[HOSTNAME] = name.removeprefix("nodes/")
    node.ClearField("requested")
    node.ClearField("host_ports")
    node.unschedulable = node.not_ready = False
    node.compute_domain = node.closed_because = ""
    node.compute_domain_pods = 0
    keep(node.taints, lambda taint: not taint.key.startswith(_TROUBLE))
    for device in node.devices:
        device.unhealthy = False
        device.used_milli = device.used_memory_milli = 0
    return node


def _free_name(wanted: str, taken: set[str]) -> str:
    name = wanted
    while name in taken:
        name += "x"
    taken.add(name)
    return name


def keep(items, wanted) -> None:  # type: ignore[no-untyped-def] # repeated fields have no common type
    """Leave only wanted elements in a repeated field."""
    kept = [item for item in items if wanted(item)]
    if len(kept) < len(items):
        del items[:]
        items.extend(kept)


def _short(name: str) -> str:
    """``namespace/name`` of ``namespaces/{namespace}/podgangs/{podgang}``."""
    parts = name.split("/")
    return f"{parts[1]}/{parts[3]}" if len(parts) == 4 else name


def _missing(what: str, name: str, known: Iterable[str]) -> str:
    return f"there is no {what} {name}{did_you_mean(name, known)}"
