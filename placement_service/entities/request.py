"""The question as plain immutable values: what is there and what is asked.

This module only names things. It knows neither the wire (see `wire`) nor the
solver (see `problem`). Names are resource names as on the wire, for example
``nodes/gpu-017``. Amounts are integers: CPU in thousandths of a core, memory
and storage in bytes, everything else in units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

HOSTNAME = "kubernetes.io/hostname"

#: The kubelet's default limit of pods on a node.
DEFAULT_POD_LIMIT = 110

DEFAULT_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")

Labels = Mapping[str, str]
#: Resource name to amount. Absent means zero.
Resources = Mapping[str, int]


class Operator(Enum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


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
class Toleration:
    """Matches taints; `effect` None matches every effect, empty `key` every key."""

    key: str
    exists: bool
    value: str
    effect: Effect | None

    def tolerates(self, taint: Taint) -> bool:
        """As in Kubernetes: effect, then key, then value unless `exists`."""
        if self.effect is not None and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.exists:
            return True
        return bool(self.key) and self.value == taint.value


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether labels meet this requirement, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                try:
                    have, want = int(value or ""), int(self.values[0])
                except ValueError:
                    return False
                return have > want if self.operator is Operator.GT else have < want


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All parts must hold. The empty selector matches everything."""

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(labels.get(k) == v for k, v in self.match_labels) and all(
            e.matches(labels) for e in self.match_expressions
        )


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Matches when all parts do; without any part it matches no node."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()

    def matches(self, node: Node) -> bool:
        if not self.match_expressions and not self.match_fields:
            return False
        fields = {"metadata.name": node.short_name}
        return all(e.matches(node.labels) for e in self.match_expressions) and all(
            e.matches(fields) for e in self.match_fields
        )


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """Other pods, named by labels and namespaces, near or far in a topology.

    `selector` None matches no pod. `namespaces` is already resolved: it is
    never empty unless `all_namespaces` is true.
    """

    selector: LabelSelector | None
    topology_key: str
    namespaces: tuple[str, ...]
    all_namespaces: bool = False

    def matches(self, namespace: str, labels: Labels) -> bool:
        if self.selector is None:
            return False
        if not self.all_namespaces and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """At most `max_skew` more matching pods in a domain than in the emptiest."""

    max_skew: int
    topology_key: str
    selector: LabelSelector | None
    namespace: str
    min_domains: int = 1
    ignore_node_affinity: bool = False
    honor_taints: bool = False

    def matches(self, namespace: str, labels: Labels) -> bool:
        return namespace == self.namespace and (
            self.selector is not None and self.selector.matches(labels)
        )


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


@dataclass(frozen=True, slots=True)
class RunningPod:
    name: str
    node: str
    labels: Labels = field(default_factory=dict)
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What a pod asks of a node. `requests` always count the pod itself."""

    requests: Resources
    labels: Labels = field(default_factory=dict)
    node_selector: tuple[tuple[str, str], ...] = ()
    required_node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    required_affinity: tuple[PodAffinityTerm, ...] = ()
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()

    def selects(self, node: Node) -> bool:
        """Whether node selector and required node affinity accept the node."""
        if any(node.labels.get(k) != v for k, v in self.node_selector):
            return False
        terms = self.required_node_affinity
        return terms is None or any(term.matches(node) for term in terms)

    def tolerates(self, node: Node) -> bool:
        """Whether the node's hard taints are all tolerated."""
        return all(
            taint.effect is Effect.PREFER_NO_SCHEDULE
            or any(t.tolerates(taint) for t in self.tolerations)
            for taint in node.taints
        )


@dataclass(frozen=True, slots=True)
class Pod:
    """`rank` is its place among the pods of its set; None leaves that to its name."""

    name: str
    uid: str = ""
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that ask for the same."""

    template: PodTemplate
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class BoundPod:
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class PodGroup:
    name: str
    min_replicas: int
    pod_sets: tuple[PodSet, ...] = ()
    bound_pods: tuple[BoundPod, ...] = ()
    gated_count: int = 0

    @property
    def pending_count(self) -> int:
        return sum(len(s.pods) for s in self.pod_sets)

    @property
    def missing(self) -> int:
        """How many pods must be placed for the minimum to hold."""
        return max(0, self.min_replicas - len(self.bound_pods))


@dataclass(frozen=True, slots=True)
class PackingScope:
    """Groups (by name, never empty) that share a domain; empty level: none."""

    name: str
    groups: tuple[str, ...]
    required_level: str = ""
    preferred_level: str = ""


@dataclass(frozen=True, slots=True)
class PodGang:
    name: str
    groups: tuple[PodGroup, ...]
    priority: int = 0
    packing_scopes: tuple[PackingScope, ...] = ()
    base_gang: str = ""
    uninitialized: bool = False
    previous_nodes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)

    @property
    def is_pending(self) -> bool:
        """Whether some group is below its minimum."""
        return any(g.missing for g in self.groups)


@dataclass(frozen=True, slots=True)
class Snapshot:
    nodes: tuple[Node, ...]
    gangs: tuple[PodGang, ...]
    running_pods: tuple[RunningPod, ...] = ()
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """One pod on one node: the unit of every answer."""

    pod: str
    node: str
    gang: str
    group: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    gpu_resources: tuple[str, ...] = DEFAULT_GPU_RESOURCES
    deterministic: bool = False

    def gpus(self, resources: Resources) -> int:
        return sum(resources.get(name, 0) for name in self.gpu_resources)


@dataclass(frozen=True, slots=True)
class Request:
    """A whole question."""

    snapshot: Snapshot
    policy: Policy = field(default_factory=Policy)
    time_limit_seconds: float | None = None
    previous: tuple[Binding, ...] = ()
    validate_only: bool = False
    label: str = ""


def namespace_of(name: str) -> str:
    """The namespace in a resource name ``namespaces/{namespace}/...``."""
    return name.split("/", 2)[1]
