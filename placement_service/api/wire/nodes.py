"""Nodes: columns from a message, and a message from one node.

What is alike on many nodes is read once, see `slices`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from operator import methodcaller
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from placement.v1 import cluster_pb2
from placement_service.api import size
from placement_service.api.validation.parts import RESOURCE_FIELDS
from placement_service.api.wire.parts import (
    Found,
    effect_to_proto,
    has_own_field,
    host_port_to_proto,
    parse_host_ports,
    parse_resources,
    parse_taints,
    resources_to_proto,
    unspecified,
)
from placement_service.api.wire.slices import NodeSlices, Slices
from placement_service.entities.devices import Device, DevicePartition, PartitionPolicy
from placement_service.entities.errors import Violation
from placement_service.entities.node import (
    CPU,
    DEFAULT_POD_LIMIT,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    MEMORY,
    PODS,
    Node,
    Resources,
    Taint,
)
from placement_service.entities.nodes import Ints, KindColumn, Nodes, Parts
from placement_service.entities.selectors import Labels

PARTITION_POLICIES: Mapping[cluster_pb2.PartitionPolicy, PartitionPolicy] = {
    cluster_pb2.PARTITION_POLICY_UNSPECIFIED: PartitionPolicy.PREFER,
    cluster_pb2.PARTITION_POLICY_PREFER: PartitionPolicy.PREFER,
    cluster_pb2.PARTITION_POLICY_HONOR: PartitionPolicy.HONOR,
}

#: How the hostname label of a node begins on the wire: its key, and the tag of its value.
_HOSTNAME = b"\n\x16" + HOSTNAME.encode() + b"\x12"

#: Below this a length takes one byte.
_SHORT = 128

#: The same with the length of the value.
_BEGINS = tuple(b"%b%c" % (_HOSTNAME, size) for size in range(_SHORT))

#: The fields of a message of resources, by what they are called in values.
_FIELDS = (
    (CPU, "cpu_millis"),
    (MEMORY, "memory_bytes"),
    (EPHEMERAL_STORAGE, "ephemeral_storage_bytes"),
    (PODS, "pod_count"),
)

_S = TypeVar("_S", bound=Hashable)
_T = TypeVar("_T")


class _Problem(NamedTuple):
    """What is wrong with a node; `path` is relative to it."""

    node: int
    path: str
    what: str


class _Column(Generic[_S]):
    """A slice of each node: every different one is read once."""

    def __init__(self, slices: Sequence[_S]) -> None:
        self.slices = tuple(dict.fromkeys(slices))
        numbers = {content: k for k, content in enumerate(self.slices)}
        self.number: Ints = np.fromiter(map(numbers.__getitem__, slices), np.int64, len(slices))
        self._found: list[tuple[int, Found]] = []

    def total(self, measure: Callable[[_S], int]) -> int:
        """The sum over all nodes of what a slice measures."""
        sizes = np.array([measure(content) for content in self.slices], dtype=np.int64)
        return int(sizes[self.number].sum())

    def read(self, parse: Callable[[_S, Found], _T]) -> KindColumn[_T]:
        """The values in the slices; problems with them are reported on the way."""
        kinds = []
        for k, content in enumerate(self.slices):
            found: Found = []
            kinds.append(parse(content, found))
            if found:
                self.report(k, found)
        return KindColumn(tuple(kinds), self.number)

    def report(self, kind: int, found: Found) -> None:
        """Notes what is wrong with a slice."""
        self._found.append((kind, found))

    def problems(self, prefix: str = "") -> Iterator[_Problem]:
        for k, found in self._found:
            for i in np.flatnonzero(self.number == k).tolist():
                yield from (_Problem(i, prefix + path, what) for path, what in found)


def parse_nodes(content: bytes, violations: list[Violation]) -> Nodes:
    """The nodes of a snapshot in its canonical encoding, in its order.

    Raises InvalidRequest when they use more different resources than there is room for.
    """
    slices = Slices(content)
    nodes = slices.nodes
    names = [node.name for node in nodes]
    labels = _Column(_label_slices(nodes, names))
    allocatable = _Column([node.allocatable for node in nodes])
    requested = _Column([node.requested for node in nodes])
    taints = _Column([tuple(node.taints) if node.taints else () for node in nodes])
    parts = _Column(_part_slices(slices))
    size.check_node_parts(
        devices=parts.total(lambda part: len(part[1])),
        host_ports=parts.total(lambda part: len(part[0])),
        taints=taints.total(len),
    )
    columns = Nodes(
        tuple(names),
        labels.read(_Labels().parse),
        allocatable.read(_parse_allocatable),
        _amounts(requested),
        taints.read(_parse_taints),
        np.array([node.unschedulable or bool(node.closed_because) for node in nodes], dtype=bool),
        np.array([not node.not_ready for node in nodes], dtype=bool),
        parts.read(_parse_parts),
    )
    problems = sorted(
        chain(
            allocatable.problems("allocatable."),
            requested.problems("requested."),
            taints.problems(),
            parts.problems(),
        ),
        key=lambda problem: problem.node,
    )
    violations += [Violation(f"snapshot.nodes[{i}].{path}", what) for i, path, what in problems]
    return columns


def _label_slices(nodes: Sequence[NodeSlices], names: Sequence[str]) -> list[tuple[bytes, ...]]:
    """The entries of each node's labels, less the hostname where it is the node's own name.

    With it, no two nodes would have the same.
    """
    found = []
    last = 0
    for node, own in zip(nodes, _own_entries(names), strict=True):
        entries = node.labels[:]
        # Nodes have much the same keys, in one order.
        if last >= len(entries) or entries[last] != own:
            if own not in entries:
                found.append(tuple(entries))
                continue
            last = entries.index(own)
        del entries[last]
        found.append(tuple(entries))
    return found


def _own_entries(names: Sequence[str]) -> Iterator[bytes]:
    """The hostname labels of nodes on the wire, where they are the nodes' own names."""
    for name in names:
        own = name.removeprefix("nodes/").encode()
        # No entry is empty.
        yield _BEGINS[len(own)] + own if len(own) < _SHORT else b""


class _Labels:
    """Reads labels entry by entry; a rack's label stands on all its nodes."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, str]] = {}

    def parse(self, entries: tuple[bytes, ...], found: Found) -> Labels:
        del found  # Any text may be a label.
        return dict(map(self._parse_entry, entries))

    def _parse_entry(self, entry: bytes) -> tuple[str, str]:
        known = self._known.get(entry)
        if known is None:
            message = cluster_pb2.Node.LabelsEntry.FromString(entry)
            known = self._known[entry] = (message.key, message.value)
        return known


def _parse_allocatable(content: bytes, found: Found) -> Resources:
    resources = parse_resources(cluster_pb2.Resources.FromString(content), found)
    if not resources.get(PODS):
        resources[PODS] = DEFAULT_POD_LIMIT
    return resources


def _amounts(column: _Column[bytes]) -> dict[str, Ints]:
    """Amounts by resource and node: on a busy cluster no two nodes have the same."""
    messages = [cluster_pb2.Resources.FromString(content) for content in column.slices]
    by_kind: dict[str, Ints] = {}
    for name, field in _FIELDS:
        own = np.array([getattr(message, field) for message in messages], dtype=np.int64)
        if own.any():
            by_kind[name] = own
    extended = [message.extended for message in messages]
    names = sorted({name for amounts in extended for name in amounts} - RESOURCE_FIELDS.keys())
    size.check_amounts(len(column.number), len(names) + len(by_kind))
    by_kind |= {name: np.zeros(len(messages), dtype=np.int64) for name in names}
    for k, amounts in enumerate(extended):
        for name, amount in amounts.items():
            if name in RESOURCE_FIELDS:
                column.report(k, [has_own_field(name)])
            else:
                by_kind[name][k] = amount
    return {name: amounts[column.number] for name, amounts in by_kind.items()}


def _parse_taints(contents: tuple[bytes, ...], found: Found) -> tuple[Taint, ...]:
    return parse_taints(map(cluster_pb2.Taint.FromString, contents), found)


#: The rare parts of a node, as slices.
_PartSlices = tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...], int, str, int, str]


def _part_slices(slices: Slices) -> list[_PartSlices]:
    nodes = slices.nodes
    if any(
        any(map(methodcaller("HasField", part), nodes))
        for part in ("host_ports", "devices", "partitions")
    ):
        return [
            (
                tuple(part.host_ports),
                tuple(part.devices),
                tuple(part.partitions),
                part.partition_policy,
                part.compute_domain,
                part.compute_domain_pods,
                part.closed_because,
            )
            for part in slices.parts()
        ]
    policies = [node.partition_policy for node in nodes]
    domains = [node.compute_domain for node in nodes]
    pods = [node.compute_domain_pods for node in nodes]
    reasons = [node.closed_because for node in nodes]
    return [((), (), (), *rest) for rest in zip(policies, domains, pods, reasons, strict=True)]


def _parse_parts(content: _PartSlices, found: Found) -> Parts:
    host_ports, devices, partitions, policy, compute_domain, pods, closed_because = content
    parsed = map(cluster_pb2.DevicePartition.FromString, partitions)
    return Parts(
        parse_host_ports(map(cluster_pb2.HostPort.FromString, host_ports)),
        tuple([_parse_device(cluster_pb2.Device.FromString(one)) for one in devices]),
        tuple([DevicePartition(tuple(p.devices), p.score, p.ring_bandwidth) for p in parsed]),
        _parse_partition_policy(policy, found),
        compute_domain,
        pods,
        closed_because,
    )


def _parse_partition_policy(number: int, found: Found) -> PartitionPolicy:
    for known, policy in PARTITION_POLICIES.items():
        if known == number:
            return policy
    found.append(("partition_policy", unspecified(number)))
    return PartitionPolicy.PREFER


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
        partitions=[
            cluster_pb2.DevicePartition(
                devices=p.devices, score=p.score, ring_bandwidth=p.ring_bandwidth
            )
            for p in node.partitions
        ],
        partition_policy=cluster_pb2.PARTITION_POLICY_HONOR
        if node.partition_policy is PartitionPolicy.HONOR
        else cluster_pb2.PARTITION_POLICY_PREFER,
        compute_domain=node.compute_domain,
        compute_domain_pods=node.compute_domain_pods,
        closed_because=node.closed_because,
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
