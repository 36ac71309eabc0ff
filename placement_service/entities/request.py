"""The question as plain immutable values: what is there and what is asked. This module only names
things. It knows neither messages nor the solver. Names are resource names as on the wire, for
example ``nodes/gpu-017``. Amounts are integers: CPU in thousandths of a core, memory and storage in
bytes, everything else in units. Times are whole seconds since 1970, durations whole seconds. Nodes,
queues, reservations, devices, evictions and selectors have modules of their own beside this one;
what a node is made of is offered here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, cast

from placement_service.entities.devices import DeviceShare, RequiredPartition
from placement_service.entities.eviction import DisruptionBudget, EvictionPolicy
from placement_service.entities.node import CPU as CPU
from placement_service.entities.node import DEFAULT_POD_LIMIT as DEFAULT_POD_LIMIT
from placement_service.entities.node import EPHEMERAL_STORAGE as EPHEMERAL_STORAGE
from placement_service.entities.node import HOSTNAME as HOSTNAME
from placement_service.entities.node import MEMORY as MEMORY
from placement_service.entities.node import PODS as PODS
from placement_service.entities.node import Effect as Effect
from placement_service.entities.node import HostPort as HostPort
from placement_service.entities.node import Node as Node
from placement_service.entities.node import Resources as Resources
from placement_service.entities.node import Taint as Taint
from placement_service.entities.nodes import Nodes
from placement_service.entities.queues import Queue
from placement_service.entities.reservations import Reservation, ReservationSelector
from placement_service.entities.selectors import Labels, LabelSelector, NodeSelectorTerm

DEFAULT_GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")

#: The prefix of resources that are slices of a GPU:
#: ``nvidia.com/mig-{slices}g.{memory}gb``.
MIG = "nvidia.com/mig-"
#: Compute slices of a whole GPU.
MIG_SLICES = 7


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
class RunningPod:
    """A pod that runs on a node, of a gang or not, as rules about other pods see it. The room that
    it takes is counted at its node.
    """

    name: str
    node: str
    labels: Labels = field(default_factory=dict)
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """What a pod asks of a node. `requests` always count the pod itself.

    `name` is its key in the request, "" where it stands in the pod set: messages need it.
    """

    requests: Resources
    labels: Labels = field(default_factory=dict)
    node_selector: tuple[tuple[str, str], ...] = ()
    required_node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    required_affinity: tuple[PodAffinityTerm, ...] = ()
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    #: Part of some GPUs; None means whole GPUs, as in `requests`.
    device_share: DeviceShare | None = None
    same_pcie_nics: int = 0
    compute_domain: str = ""
    required_reservation: ReservationSelector | None = None
    ignores_reservations: bool = False
    required_partition: RequiredPartition | None = None
    #: What it asks for besides and nobody can honour.
    unsupported: tuple[str, ...] = ()
    name: str = field(default="", compare=False)

    def __hash__(self) -> int:
        # Equal templates count as one, wherever they come from; equal ones have equal amounts and
        # labels.
        return hash(
            (
                frozenset(self.requests.items()),
                frozenset(self.labels.items()),
                self.node_selector,
                self.required_node_affinity,
                self.tolerations,
            )
        )

    def selects(self, node: Node) -> bool:
        """Whether node selector and required node affinity accept the node."""
        if any(node.labels.get(k) != v for k, v in self.node_selector):
            return False
        terms = self.required_node_affinity
        return terms is None or any(term.matches(node.short_name, node.labels) for term in terms)

    def tolerates(self, node: Node) -> bool:
        """Whether the node's hard taints are all tolerated."""
        return all(
            taint.effect is Effect.PREFER_NO_SCHEDULE
            or any(t.tolerates(taint) for t in self.tolerations)
            for taint in node.taints
        )


class Pod(NamedTuple):
    """`rank` is its place among the pods of its set; None leaves that to its name."""

    name: str
    uid: str = ""
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod of a gang that runs.

    `reservation` that it uses, "" for none; `devices` of its node that it
    uses, where they are known. `held` is what it holds of its node, the pod itself included, where
    that is not what its template asks for.
    """

    name: str
    node: str
    reservation: str = ""
    devices: tuple[int, ...] = ()
    held: Resources | None = field(default=None, hash=False)

    def holds(self, template: PodTemplate) -> Resources:
        """What comes free on its node when it goes."""
        return template.requests if self.held is None else self.held


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods that ask for the same: `pods` wait, `bound_pods` run and may be evicted."""

    template: PodTemplate
    pods: tuple[Pod, ...]
    bound_pods: tuple[BoundPod, ...] = ()


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The pods of one role.

    `fixed_pods` run, and the request does not say what they ask for, so they stay where they are.
    `running_pods` are these and the running pods of the sets.
    """

    name: str
    min_replicas: int
    pod_sets: tuple[PodSet, ...] = ()
    fixed_pods: tuple[BoundPod, ...] = ()
    gated_count: int = 0
    #: How many pods run, and how many wait: both are asked for often.
    running_count: int = field(init=False, repr=False, compare=False)
    pending_count: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        running = pending = 0
        for s in self.pod_sets:
            running += len(s.bound_pods)
            pending += len(s.pods)
        object.__setattr__(self, "running_count", len(self.fixed_pods) + running)
        object.__setattr__(self, "pending_count", pending)

    @property
    def running_pods(self) -> tuple[BoundPod, ...]:
        """Every pod of the group that runs."""
        told = [pod for s in self.pod_sets for pod in s.bound_pods]
        return (*self.fixed_pods, *told) if told else self.fixed_pods

    @property
    def missing(self) -> int:
        """How many pods must be placed for the minimum to hold."""
        return max(0, self.min_replicas - self.running_count)


@dataclass(frozen=True, slots=True)
class PackingScope:
    """Groups (by name, never empty) that share a domain; empty level: none."""

    name: str
    groups: tuple[str, ...]
    required_level: str = ""
    preferred_level: str = ""


@dataclass(frozen=True, slots=True)
class PodGang:
    """Pods that run together or not at all.

    `created` None: it has just arrived. `start` None: it does not run, or it is
    not known since when. The volumes of `volume_claims` tie pods to nodes. `reclaims_later`: others
    of its priority come before it where not all may reclaim.
    """

    name: str
    groups: tuple[PodGroup, ...]
    priority: int = 0
    packing_scopes: tuple[PackingScope, ...] = ()
    base_gang: str = ""
    uninitialized: bool = False
    previous_nodes: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    created: int | None = None
    queue: str = ""
    not_preemptible: bool = False
    start: int | None = None
    minimum_run_time: int = 0
    minimum_run_time_before_reclaim: int = 0
    never_preempts: bool = False
    volume_claims: tuple[str, ...] = ()
    reclaims_later: bool = False

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)

    @property
    def refusals(self) -> tuple[str, ...]:
        """What it uses, or pods of it that wait ask for, and nobody can honour."""
        sets = (s for group in self.groups for s in group.pod_sets if s.pods)
        words = [word for s in sets for word in s.template.unsupported]
        return tuple(dict.fromkeys((*self.unsupported, *words))) if words else self.unsupported

    @property
    def is_pending(self) -> bool:
        """Whether some group has fewer pods than its minimum."""
        return any([g.min_replicas > g.running_count for g in self.groups])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is there and which gangs wait; `as_of` None: no gang has waited yet.

    `nodes` are kept as columns, whatever sequence is given.
    """

    nodes: Sequence[Node]
    gangs: tuple[PodGang, ...]
    running_pods: tuple[RunningPod, ...] = ()
    revision: str = ""
    as_of: int | None = None
    queues: tuple[Queue, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.nodes, Nodes):
            object.__setattr__(self, "nodes", Nodes.of(self.nodes))

    @property
    def columns(self) -> Nodes:
        """The nodes as columns."""
        return cast("Nodes", self.nodes)


class Binding(NamedTuple):
    """One pod on one node: the unit of every answer.

    `devices` of the node that the pod gets, where the node lists any, and the
    `reservation` that it uses, "" for none.
    """

    pod: str
    node: str
    gang: str
    group: str
    uid: str = ""
    devices: tuple[int, ...] = ()
    reservation: str = ""


class ExtrasPolicy(Enum):
    """When extras are placed."""

    #: No extra takes room that any minimum could use.
    AFTER_MINIMUMS = "AFTER_MINIMUMS"
    #: The extras of a priority come before the minimums of lower ones.
    WITH_PRIORITY = "WITH_PRIORITY"


class Tolerance(NamedTuple):
    """The share of a tier's best value that later tiers may give up, from 0 to 1."""

    tier: str
    share: float


@dataclass(frozen=True, slots=True)
class Policy:
    """The caller's choices; `starvation_after` None means never."""

    gpu_resources: tuple[str, ...] = DEFAULT_GPU_RESOURCES
    deterministic: bool = False
    eviction: EvictionPolicy = EvictionPolicy.NONE
    starvation_after: int | None = None
    tolerances: tuple[Tolerance, ...] = ()
    extras: ExtrasPolicy = ExtrasPolicy.AFTER_MINIMUMS
    #: The same, to look names up in: there may be thousands.
    _gpu_names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_gpu_names", frozenset(self.gpu_resources))

    def whole_gpus(self, resources: Resources) -> int:
        return sum(resources[name] for name in resources.keys() & self._gpu_names)

    def has_gpus(self, template: PodTemplate) -> bool:
        """Whether a pod asks for GPUs, or for a part of one."""
        return template.device_share is not None or self.gpus(template.requests) > 0

    def milli_gpus(self, template: PodTemplate) -> int:
        """What a pod asks for in thousandths of a GPU; a MIG device or share is at least one
        thousandth.

        A MIG device counts its compute slices, of which a GPU has seven.
        """
        total = 0
        for name, count in template.requests.items():
            if name in self._gpu_names:
                total += 1000 * count
            if name.startswith(MIG):
                total += count * max(1, 1000 * min(_slices(name), MIG_SLICES) // MIG_SLICES)
        share = template.device_share
        if share is not None:
            total += share.count * max(1, share.compute_milli, share.memory_milli)
        return total

    def gpus(self, resources: Resources) -> int:
        """Whole GPUs, and slices of them (MIG), each of which counts as one."""
        total = 0
        for name, amount in resources.items():
            if name in self._gpu_names or name.startswith(MIG):
                total += amount
        return total

    def tolerance(self, tier: str) -> float:
        """The share of a tier that later tiers may give up; 0 by default."""
        return next((t.share for t in self.tolerances if t.tier == tier), 0.0)


@dataclass(frozen=True, slots=True)
class Request:
    """A whole question."""

    snapshot: Snapshot
    policy: Policy = field(default_factory=Policy)
    time_limit_seconds: float | None = None
    previous: tuple[Binding, ...] = ()
    validate_only: bool = False
    label: str = ""


def _slices(resource: str) -> int:
    """The compute slices in the name of a MIG resource, 0 where the name does not say."""
    digits = resource.removeprefix(MIG).partition("g")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 3 else 0


def namespace_of(name: str) -> str:
    """The namespace in a resource name ``namespaces/{namespace}/...``."""
    return name.split("/", 2)[1]
