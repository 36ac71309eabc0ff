"""One node: what it has, what is in use there, and what keeps pods away from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from placement_service.entities.devices import Device, DevicePartition, PartitionPolicy
from placement_service.entities.selectors import Labels

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

HOSTNAME = "kubernetes.io/hostname"

#: The kubelet's default limit of pods on a node.
DEFAULT_POD_LIMIT = 110

#: Resource name to amount. Absent means zero.
Resources = Mapping[str, int]


class Effect(Enum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class HostPort:
    """`protocol` is never empty; `host_ip` is empty for all addresses."""

    port: int
    protocol: str = "TCP"
    host_ip: str = ""

    def conflicts(self, other: HostPort) -> bool:
        return (self.port, self.protocol) == (other.port, other.protocol) and (
            not self.host_ip or not other.host_ip or self.host_ip == other.host_ip
        )


@dataclass(frozen=True, slots=True)
class Node:
    """`labels` always hold the hostname label."""

    name: str
    labels: Labels = field(default_factory=dict)
    allocatable: Resources = field(default_factory=dict)
    requested: Resources = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    host_ports: tuple[HostPort, ...] = ()
    #: Its GPUs one by one; none means that only their number matters.
    devices: tuple[Device, ...] = ()
    #: What a pod of several whole GPUs may get; none means any of them.
    partitions: tuple[DevicePartition, ...] = ()
    partition_policy: PartitionPolicy = PartitionPolicy.PREFER
    #: The ComputeDomain that the node serves now, "" for none.
    compute_domain: str = ""
    #: How many pods of it run there, 0 where that is not known: it ends with the last of them.
    compute_domain_pods: int = 0
    #: Why it is not known what is left here, "" where it is; else the node is unschedulable, too.
    closed_because: str = ""

    @property
    def short_name(self) -> str:
        """The Kubernetes name: without the ``nodes/`` in front."""
        return self.name.removeprefix("nodes/")

    def free(self, resource: str) -> int:
        """What is left of a resource; may be negative on an overfull node.

        A node that says nothing of ephemeral storage is not limited in it.
        """
        if resource == EPHEMERAL_STORAGE and not self.allocatable.get(resource):
            return 2**62
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)
