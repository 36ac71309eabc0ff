"""What the soak asks: honest questions, questions that grow without end, and nonsense."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from placement.v1 import ComputePlacementRequest, PodGang, cluster_pb2, placement_service_pb2

GPU = "nvidia.com/gpu"

#: Numbers at which programs stumble.
_NUMBERS = (0, 1, -1, 7, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63))
_TEXTS = ("", "a", "nodes/n0", "x" * 300, "\x00\n\x1b[31m", "\u00e9" * 50, "namespaces/ml/pods/p")


def honest(rng: random.Random, *, nodes: int = 24, gangs: int = 6) -> ComputePlacementRequest:
    """Racks of nodes with GPUs, and gangs of which some fit."""
    request = ComputePlacementRequest(label="soak")
    for i in range(nodes):
        node = request.snapshot.nodes.add(name=f"nodes/n{i}")
        node.labels.update({"kubernetes.io/hostname": f"n{i}", "rack": f"r{i // 8}"})
        node.allocatable.extended[GPU] = 8
        node.allocatable.pod_count = 110
    for i in range(gangs):
        _gang(request, f"g{i}", pods=rng.randint(1, 12), gpus=rng.choice((1, 2, 4, 8, 9)))
    request.time_limit.FromMilliseconds(rng.choice((300, 500, 1000, 2000)))
    return request


def _gang(request: ComputePlacementRequest, name: str, *, pods: int, gpus: int) -> PodGang:
    gang = request.gangs.add(name=f"namespaces/ml/podgangs/{name}")
    group = gang.groups.add(name="worker", min_replicas=pods)
    pod_set = group.pod_sets.add()
    pod_set.template.requests.extended[GPU] = gpus
    pod_set.template.requests.pod_count = 1
    for n in range(pods):
        pod_set.pods.add(name=f"namespaces/ml/pods/{name}-{n}")
    gang.packing_scopes.add(name="all", groups=["worker"], preferred_level="rack")
    return gang


# --- Shapes that grow ---


def own_selectors(rng: random.Random, size: int) -> ComputePlacementRequest:
    """Each pod selects nodes in its own way."""
    request = honest(rng, nodes=size, gangs=0)
    for i in range(size // 2):
        gang = _gang(request, f"g{i}", pods=1, gpus=1)
        gang.groups[0].pod_sets[0].template.node_selector[f"label-{i}"] = str(i)
        gang.groups[0].min_replicas = rng.randint(0, 1)
    return request


def many_gangs(rng: random.Random, size: int) -> ComputePlacementRequest:
    """Nearly all of them wait, and each wants to know why."""
    return honest(rng, nodes=size, gangs=size // 4)


def priorities(rng: random.Random, size: int) -> ComputePlacementRequest:
    """Each gang has a priority of its own."""
    request = honest(rng, gangs=size)
    for i, gang in enumerate(request.gangs):
        gang.priority = i
    return request


def resource_names(rng: random.Random, size: int) -> ComputePlacementRequest:
    request = honest(rng, nodes=size)
    for i, node in enumerate(request.snapshot.nodes):
        node.allocatable.extended[f"example.com/r{i}"] = rng.randint(0, 3)
    return request


def host_ports(rng: random.Random, size: int) -> ComputePlacementRequest:
    request = honest(rng, nodes=size)
    for i, gang in enumerate(request.gangs):
        template = gang.groups[0].pod_sets[0].template
        for port in range(1, min(size * 4, 10_000)):
            template.host_ports.add(port=(port * 7 + i) % 65535 + 1, protocol="TCP")
    return request


def many_groups(rng: random.Random, size: int) -> ComputePlacementRequest:
    """Groups and scopes without end in one gang, some of them empty."""
    request = honest(rng)
    gang = request.gangs[0]
    for i in range(size):
        gang.groups.add(name=f"empty-{i}")
        gang.packing_scopes.add(name=f"s{i}", groups=[f"empty-{i}"], required_level="rack")
    return request


def many_levels(rng: random.Random, size: int) -> ComputePlacementRequest:
    request = honest(rng, gangs=min(size, 500))
    for i, gang in enumerate(request.gangs):
        gang.packing_scopes[0].required_level = f"level-{i}"
        for n, node in enumerate(request.snapshot.nodes):
            node.labels[f"level-{i}"] = str(n % (i + 1))
    return request


def rules_between_pods(rng: random.Random, size: int) -> ComputePlacementRequest:
    request = honest(rng, nodes=size, gangs=min(size // 8, 200))
    for i, gang in enumerate(request.gangs):
        template = gang.groups[0].pod_sets[0].template
        template.labels["app"] = f"a{i % 7}"
        term = template.required_anti_affinity.add(topology_key="kubernetes.io/hostname")
        term.selector.match_labels["app"] = f"a{i % 7}"
        spread = template.spread_constraints.add(max_skew=1, topology_key="rack")
        spread.selector.match_labels["app"] = f"a{i % 5}"
    return request


def running_pods(rng: random.Random, size: int) -> ComputePlacementRequest:
    request = rules_between_pods(rng, size)
    for i in range(size * 2):
        pod = request.snapshot.pods.add(
            name=f"namespaces/ml/pods/run-{i}", node=f"nodes/n{rng.randrange(size)}"
        )
        pod.labels["app"] = f"a{i % 7}"
        term = pod.required_anti_affinity.add(topology_key="rack")
        term.selector.match_labels["app"] = f"a{i % 3}"
    return request


def extras(rng: random.Random, size: int) -> ComputePlacementRequest:
    request = honest(rng, nodes=size, gangs=0)
    for i in range(8):
        gang = _gang(request, f"g{i}", pods=size, gpus=1)
        gang.groups[0].min_replicas = 1
    return request


def queues(rng: random.Random, size: int) -> ComputePlacementRequest:
    """A deep queue over many; each gang asks in another."""
    request = honest(rng, nodes=size, gangs=min(size // 4, 300))
    for i in range(size):
        parent = f"queues/q{i - 1}" if 0 < i < 100 else "queues/q0" if i else ""
        queue = request.snapshot.queues.add(name=f"queues/q{i}", parent=parent)
        queue.limit[GPU] = rng.randint(0, size)
        queue.guaranteed[GPU] = rng.randint(0, 8)
        queue.used[GPU] = rng.randint(0, 8)
    for gang in request.gangs:
        gang.queue = f"queues/q{rng.randrange(size)}"
    return request


def reservations(rng: random.Random, size: int) -> ComputePlacementRequest:
    request = honest(rng, nodes=size, gangs=min(size // 4, 300))
    for i in range(size):
        held = request.snapshot.reservations.add(
            name=f"reservations/r{i}",
            node=f"nodes/n{rng.randrange(size)}",
            restricted=rng.random() < 0.5,
            allocate_once=rng.random() < 0.5,
        )
        held.held.extended[GPU] = 1
        owner = held.owners.add()
        if rng.random() < 0.5:
            owner.selector.match_labels["app"] = f"a{i % 9}"
        else:
            owner.gang = rng.choice(request.gangs).name
    for i, gang in enumerate(request.gangs):
        template = gang.groups[0].pod_sets[0].template
        template.labels["app"] = f"a{i % 9}"
        if i % 5 == 0:
            template.required_reservation.name = f"reservations/r{rng.randrange(size)}"
    return request


def evictions(rng: random.Random, size: int) -> ComputePlacementRequest:
    """A full cluster of running gangs, budgets over them, and gangs that may push them out."""
    request = honest(rng, nodes=size, gangs=min(size // 20 + 1, 40))
    for gang in request.gangs:
        gang.priority = rng.randint(1, 3)
    request.policy.eviction = rng.choice(
        (
            placement_service_pb2.EVICTION_POLICY_PREEMPT,
            placement_service_pb2.EVICTION_POLICY_RECLAIM,
            placement_service_pb2.EVICTION_POLICY_REPACK,
        )
    )
    for i in range(size):
        node = request.snapshot.nodes[i]
        node.requested.extended[GPU] = 8
        node.requested.pod_count = 2
        gang = request.gangs.add(name=f"namespaces/ml/podgangs/run-{i}", priority=rng.randint(0, 2))
        gang.start_time.FromSeconds(1_700_000_000 + i)
        group = gang.groups.add(name="worker", min_replicas=rng.randint(1, 2))
        pod_set = group.pod_sets.add()
        pod_set.template.requests.extended[GPU] = 4
        pod_set.template.requests.pod_count = 1
        pod_set.template.labels["app"] = f"a{i % 9}"
        for k in range(2):
            pod_set.bound_pods.add(name=f"namespaces/ml/pods/run-{i}-{k}", node=f"nodes/n{i}")
            pod = request.snapshot.pods.add(
                name=f"namespaces/ml/pods/run-{i}-{k}", node=f"nodes/n{i}"
            )
            pod.labels["app"] = f"a{i % 9}"
    for i in range(min(size, 9)):
        budget = request.snapshot.disruption_budgets.add(
            name=f"namespaces/ml/poddisruptionbudgets/b{i}", allowed=rng.randint(0, 4)
        )
        budget.selector.match_labels["app"] = f"a{i}"
    return request


def devices(rng: random.Random, size: int) -> ComputePlacementRequest:
    """GPUs by number, partitions of them, and pods of shares."""
    request = honest(rng, nodes=size, gangs=min(size // 4, 300))
    for node in request.snapshot.nodes:
        for i in range(8):
            node.devices.add(index=i, used_milli=rng.choice((0, 0, 0, 300)), memory_bytes=80 << 30)
        for width in (2, 4, 8):
            for first in range(0, 8, width):
                score = rng.randrange(2) if width == 2 else 0
                node.partitions.add(devices=range(first, first + width), score=score)
        node.partition_policy = rng.choice(
            (cluster_pb2.PARTITION_POLICY_PREFER, cluster_pb2.PARTITION_POLICY_HONOR)
        )
    for i, gang in enumerate(request.gangs):
        template = gang.groups[0].pod_sets[0].template
        if i % 3 == 0:
            template.requests.extended.clear()
            template.device_share.compute_milli = rng.choice((100, 250, 300, 500))
            template.device_share.count = 1
        elif i % 3 == 1 and template.requests.extended.get("nvidia.com/gpu"):
            template.required_partition.best_score = rng.random() < 0.5
            template.required_partition.SetInParent()
    return request


SHAPES: tuple[Callable[[random.Random, int], ComputePlacementRequest], ...] = (
    own_selectors,
    many_gangs,
    priorities,
    resource_names,
    host_ports,
    many_groups,
    many_levels,
    rules_between_pods,
    running_pods,
    extras,
    queues,
    reservations,
    evictions,
    devices,
)


# --- Nonsense ---


def mutated(rng: random.Random, request: ComputePlacementRequest) -> ComputePlacementRequest:
    """The same request with some fields changed, doubled, emptied or filled."""
    for _ in range(rng.randint(1, 4)):
        message: Message = request
        while True:
            field = rng.choice(message.DESCRIPTOR.fields)
            children = _messages(message, field)
            if not children or rng.random() < 0.2:
                _change(rng, message, field)
                break
            message = rng.choice(children)
    if not 0 < request.time_limit.ToMilliseconds() < 3000:
        request.time_limit.FromMilliseconds(500)
    return request


def _messages(parent: Message, field: Any) -> list[Any]:
    if field.message_type is None or field.message_type.GetOptions().map_entry:
        return []
    value: Any = getattr(parent, field.name)
    if field.is_repeated:
        return list(value[:50])
    return [value] if parent.HasField(field.name) or field.name != "time_limit" else []


def _change(rng: random.Random, message: Message, field: Any) -> None:
    value: Any = getattr(message, field.name)
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        key = rng.choice(_TEXTS)
        kind = field.message_type.fields_by_name["value"]
        if kind.message_type is None:
            value[key] = _scalar(rng, kind)
    elif field.is_repeated and field.message_type is not None:
        if value and rng.random() < 0.7:
            for _ in range(rng.choice((1, 2, 50))):
                value.add().CopyFrom(rng.choice(value[:50]))
        else:
            value.add()
    elif field.is_repeated:
        value.append(_scalar(rng, field))
    elif field.message_type is not None:
        value.SetInParent()
    else:
        setattr(message, field.name, _scalar(rng, field))


def _scalar(rng: random.Random, field: FieldDescriptor) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = rng.choice(_TEXTS)
            return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            return rng.choice((0, 1, 2, 3, 99))
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return rng.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
        case FieldDescriptor.CPPTYPE_INT32:
            return max(-(2**31), min(2**31 - 1, rng.choice(_NUMBERS)))
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return rng.choice((0, 1, 2**31 - 1))
        case _:
            return rng.choice(_NUMBERS)


def torn(rng: random.Random, content: bytes) -> bytes:
    """The same bytes with some changed, lost, or come again."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(4):
            case 0 if data:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 20))
            case _:
                data[at:at] = data[at : at + 200]
    return bytes(data)
