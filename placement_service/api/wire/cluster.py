"""The cluster: nodes with their devices, running pods, queues, reservations, budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placement.v1 import cluster_pb2
from placement_service.api.validation.names import namespace_in
from placement_service.api.wire.parts import (
    Found,
    add_violations,
    affinity_term_to_proto,
    effect_to_proto,
    host_port_to_proto,
    parse_affinity_terms,
    parse_host_ports,
    parse_resources,
    parse_selector,
    parse_taints,
    resources_to_proto,
    selector_to_proto,
    unspecified,
)
from placement_service.entities.devices import Device, DevicePartition, PartitionPolicy
from placement_service.entities.errors import Violation
from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import Queue
from placement_service.entities.request import (
    DEFAULT_POD_LIMIT,
    HOSTNAME,
    PODS,
    Node,
    Resources,
    RunningPod,
)
from placement_service.entities.reservations import Reservation, ReservationOwner

PARTITION_POLICIES: Mapping[cluster_pb2.PartitionPolicy, PartitionPolicy] = {
    cluster_pb2.PARTITION_POLICY_UNSPECIFIED: PartitionPolicy.PREFER,
    cluster_pb2.PARTITION_POLICY_PREFER: PartitionPolicy.PREFER,
    cluster_pb2.PARTITION_POLICY_HONOR: PartitionPolicy.HONOR,
}


def parse_nodes(
    messages: Iterable[cluster_pb2.Node], violations: list[Violation]
) -> Iterable[Node]:
    # Machines come in few kinds: equal resources become one object, found by
    # their bytes, which is several times faster than reading them again.
    kinds: dict[tuple[str, bytes], tuple[Resources, Found]] = {}
    for i, message in enumerate(messages):
        found: Found = []
        name = message.name
        labels = dict(message.labels)
        if HOSTNAME not in labels:
            labels[HOSTNAME] = name.removeprefix("nodes/")
        amounts = []
        for field, part in (
            ("allocatable", message.allocatable),
            ("requested", message.requested),
        ):
            key = (field, part.SerializeToString(deterministic=True))
            known = kinds.get(key)
            if known is None:
                problems: Found = []
                resources = parse_resources(part, problems)
                if field == "allocatable" and not resources.get(PODS):
                    resources[PODS] = DEFAULT_POD_LIMIT
                known = kinds[key] = (resources, problems)
            amounts.append(known[0])
            found.extend((f"{field}.{path}", what) for path, what in known[1])
        allocatable, requested = amounts
        yield Node(
            name=name,
            labels=labels,
            allocatable=allocatable,
            requested=requested,
            taints=parse_taints(message.taints, found) if message.taints else (),
            unschedulable=message.unschedulable,
            ready=not message.not_ready,
            host_ports=parse_host_ports(message.host_ports) if message.host_ports else (),
            devices=tuple(map(_parse_device, message.devices)) if message.devices else (),
            partitions=tuple(DevicePartition(tuple(p.devices)) for p in message.partitions)
            if message.partitions
            else (),
            partition_policy=_parse_partition_policy(message.partition_policy, found),
            compute_domain=message.compute_domain,
        )
        if found:
            add_violations(violations, f"snapshot.nodes[{i}]", found)


def node_to_proto(node: Node) -> cluster_pb2.Node:
    return cluster_pb2.Node(
        name=node.name,
        labels=node.labels,
        allocatable=resources_to_proto(node.allocatable),
        requested=resources_to_proto(node.requested),
        taints=[
            cluster_pb2.Taint(key=t.key, value=t.value, effect=effect_to_proto(t.effect))
            for t in node.taints
        ],
        unschedulable=node.unschedulable,
        not_ready=not node.ready,
        host_ports=map(host_port_to_proto, node.host_ports),
        devices=map(_device_to_proto, node.devices),
        partitions=[cluster_pb2.DevicePartition(devices=p.devices) for p in node.partitions],
        partition_policy=cluster_pb2.PARTITION_POLICY_HONOR
        if node.partition_policy is PartitionPolicy.HONOR
        else cluster_pb2.PARTITION_POLICY_PREFER,
        compute_domain=node.compute_domain,
    )


def _parse_device(message: cluster_pb2.Device) -> Device:
    return Device(
        index=message.index,
        healthy=not message.unhealthy,
        used_milli=message.used_milli,
        used_memory_milli=message.used_memory_milli,
        memory_bytes=message.memory_bytes,
        numa_node=message.numa_node,
        pcie_switch=message.pcie_switch,
        nics=message.nics,
    )


def _device_to_proto(device: Device) -> cluster_pb2.Device:
    return cluster_pb2.Device(
        index=device.index,
        unhealthy=not device.healthy,
        used_milli=device.used_milli,
        used_memory_milli=device.used_memory_milli,
        memory_bytes=device.memory_bytes,
        numa_node=device.numa_node,
        pcie_switch=device.pcie_switch,
        nics=device.nics,
    )


def _parse_partition_policy(number: cluster_pb2.PartitionPolicy, found: Found) -> PartitionPolicy:
    policy = PARTITION_POLICIES.get(number)
    if policy is None:
        found.append(("partition_policy", unspecified(number)))
        return PartitionPolicy.PREFER
    return policy


def parse_running_pods(
    messages: Iterable[cluster_pb2.RunningPod], violations: list[Violation]
) -> Iterable[RunningPod]:
    for i, message in enumerate(messages):
        found: Found = []
        terms = message.required_anti_affinity
        yield RunningPod(
            name=message.name,
            node=message.node,
            labels=dict(message.labels),
            required_anti_affinity=parse_affinity_terms(
                terms, "required_anti_affinity", namespace_in(message.name), found
            )
            if terms
            else (),
        )
        if found:
            add_violations(violations, f"snapshot.pods[{i}]", found)


def running_pod_to_proto(pod: RunningPod) -> cluster_pb2.RunningPod:
    return cluster_pb2.RunningPod(
        name=pod.name,
        node=pod.node,
        labels=pod.labels,
        required_anti_affinity=map(affinity_term_to_proto, pod.required_anti_affinity),
    )


def parse_queues(messages: Iterable[cluster_pb2.Queue]) -> Iterable[Queue]:
    for message in messages:
        yield Queue(
            name=message.name,
            parent=message.parent,
            limit=dict(message.limit),
            guaranteed=dict(message.guaranteed),
            used=dict(message.used),
            used_not_preemptible=dict(message.used_not_preemptible),
        )


def queue_to_proto(queue: Queue) -> cluster_pb2.Queue:
    return cluster_pb2.Queue(
        name=queue.name,
        parent=queue.parent,
        limit=queue.limit,
        guaranteed=queue.guaranteed,
        used=queue.used,
        used_not_preemptible=queue.used_not_preemptible,
    )


def parse_reservations(
    messages: Iterable[cluster_pb2.Reservation], violations: list[Violation]
) -> Iterable[Reservation]:
    for i, message in enumerate(messages):
        held_found: Found = []
        held = parse_resources(message.held, held_found)
        found = [(f"held.{path}", what) for path, what in held_found]
        yield Reservation(
            name=message.name,
            node=message.node,
            held=held,
            owners=tuple(
                ReservationOwner(
                    gang=owner.gang,
                    pod=owner.pod,
                    namespace=owner.namespace,
                    selector=parse_selector(owner.selector, f"owners[{n}].selector", found)
                    if owner.HasField("selector")
                    else None,
                )
                for n, owner in enumerate(message.owners)
            ),
            restricted=message.restricted,
            allocate_once=message.allocate_once,
            labels=dict(message.labels),
            closed=message.closed,
            devices=tuple(message.devices),
        )
        if found:
            add_violations(violations, f"snapshot.reservations[{i}]", found)


def reservation_to_proto(reservation: Reservation) -> cluster_pb2.Reservation:
    return cluster_pb2.Reservation(
        name=reservation.name,
        node=reservation.node,
        held=resources_to_proto(reservation.held),
        owners=[
            cluster_pb2.ReservationOwner(
                gang=owner.gang,
                pod=owner.pod,
                namespace=owner.namespace,
                selector=selector_to_proto(owner.selector),
            )
            for owner in reservation.owners
        ],
        restricted=reservation.restricted,
        allocate_once=reservation.allocate_once,
        labels=reservation.labels,
        closed=reservation.closed,
        devices=reservation.devices,
    )


def parse_disruption_budgets(
    messages: Iterable[cluster_pb2.DisruptionBudget], violations: list[Violation]
) -> Iterable[DisruptionBudget]:
    for i, message in enumerate(messages):
        found: Found = []
        yield DisruptionBudget(
            name=message.name,
            selector=parse_selector(message.selector, "selector", found)
            if message.HasField("selector")
            else None,
            allowed=message.allowed,
        )
        if found:
            add_violations(violations, f"snapshot.disruption_budgets[{i}]", found)


def disruption_budget_to_proto(budget: DisruptionBudget) -> cluster_pb2.DisruptionBudget:
    return cluster_pb2.DisruptionBudget(
        name=budget.name, selector=selector_to_proto(budget.selector), allowed=budget.allowed
    )
