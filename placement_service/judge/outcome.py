"""The cluster after a plan, read off the raw snapshot: what `verify` and `score` look at.

It exists so that both judges read a plan in one and the same way, and shares no
code with the engine that made it. It judges nothing: bindings that name an
unknown pod or node, or a pod for the second time, are left out here, as are
evictions of pods that do not run in a pod set; `verify` reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.nodes import Nodes
from placement_service.entities.request import (
    Binding,
    BoundPod,
    Node,
    PodGang,
    PodGroup,
    PodTemplate,
    Snapshot,
    namespace_of,
)
from placement_service.entities.selectors import Labels
from placement_service.judge.domains import Domains


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod that the plan puts on a node: one that it binds, or one that it moves there.

    `devices` and `reservation` are what the plan says it gets.
    """

    name: str
    template: PodTemplate
    node: Node
    gang: PodGang
    devices: tuple[int, ...] = ()
    reservation: str = ""
    moved: bool = False

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)

    @property
    def labels(self) -> Labels:
        return self.template.labels


@dataclass(frozen=True, slots=True)
class EvictedPod:
    """A running pod that the plan takes off its node, to be moved or not."""

    pod: BoundPod
    template: PodTemplate
    gang: PodGang
    eviction: Eviction

    @property
    def moves(self) -> bool:
        return self.eviction.kind is EvictionKind.MOVE


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """One group after the plan: its new pods, and those of its running pods that go."""

    group: PodGroup
    new: tuple[NewPod, ...] = ()
    evicted: tuple[EvictedPod, ...] = ()

    @property
    def undisturbed(self) -> int:
        """Pods that run on where they are."""
        return self.group.running_count - len(self.evicted)

    @property
    def count(self) -> int:
        """Pods that run after the plan."""
        return self.undisturbed + len(self.new)

    @property
    def has_minimum(self) -> bool:
        return self.count >= self.group.min_replicas

    @property
    def bound(self) -> int:
        """Pods that the plan binds, moved ones not among them."""
        return sum(not pod.moved for pod in self.new)

    @property
    def extra(self) -> int:
        """Pods beyond the minimum that run after the plan, less those that ran before.

        An extra that has to go counts as one less.
        """
        before = max(0, self.group.running_count - self.group.min_replicas)
        return max(0, self.count - self.group.min_replicas) - before


@dataclass(frozen=True, slots=True)
class GangOutcome:
    """One gang after the plan; `groups` in the gang's order."""

    gang: PodGang
    groups: tuple[GroupOutcome, ...]

    @property
    def placed(self) -> bool:
        return all(g.has_minimum for g in self.groups)

    @property
    def new(self) -> tuple[NewPod, ...]:
        return tuple(pod for g in self.groups for pod in g.new)

    @property
    def evicted(self) -> tuple[EvictedPod, ...]:
        return tuple(pod for g in self.groups for pod in g.evicted)

    @property
    def has_new(self) -> bool:
        return any(g.new for g in self.groups)

    @property
    def has_bound(self) -> bool:
        return any(g.bound for g in self.groups)

    def node_names(self, groups: Sequence[str]) -> set[str]:
        """Names of the nodes under the pods of these groups, running and new.

        A running pod's node may be one that the snapshot does not know.
        """
        wanted = set(groups)
        return {
            name
            for outcome in self.groups
            if outcome.group.name in wanted
            for name in (*_undisturbed_nodes(outcome), *(pod.node.name for pod in outcome.new))
        }


def _undisturbed_nodes(outcome: GroupOutcome) -> Iterator[str]:
    gone = {evicted.pod.name for evicted in outcome.evicted}
    return (pod.node for pod in outcome.group.running_pods if pod.name not in gone)


class NodesByName(Mapping[str, Node]):
    """The nodes of a snapshot by name, as values that are made when they are asked for."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._made: dict[str, Node] = {}

    def __getitem__(self, name: str) -> Node:
        node = self._made.get(name)
        if node is None:
            node = self._made[name] = self._nodes[self._nodes.row_of[name]]
        return node

    def __contains__(self, name: object) -> bool:
        return name in self._nodes.row_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes.names)

    def __len__(self) -> int:
        return len(self._nodes)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The whole cluster after the plan; `gangs` in the snapshot's order."""

    snapshot: Snapshot
    nodes: Mapping[str, Node]
    domains: Domains
    gangs: tuple[GangOutcome, ...]

    def domain(self, node: str, level: str) -> str | None:
        """A node's domain at a level; None without label or for an unknown node."""
        known = self.nodes.get(node)
        return None if known is None else known.labels.get(level)

    @property
    def new(self) -> tuple[NewPod, ...]:
        return tuple(pod for gang in self.gangs for pod in gang.new)

    @property
    def evicted(self) -> tuple[EvictedPod, ...]:
        return tuple(pod for gang in self.gangs for pod in gang.evicted)


def read(
    snapshot: Snapshot, bindings: Sequence[Binding], evictions: Sequence[Eviction] = ()
) -> Outcome:
    """What runs where once every binding to a known node and every eviction is applied."""
    nodes = NodesByName(snapshot.columns)
    target: dict[str, Binding] = {}
    for binding in bindings:
        if binding.node in nodes:
            target.setdefault(binding.pod, binding)
    leaves: dict[str, Eviction] = {}
    for eviction in evictions:
        leaves.setdefault(eviction.pod, eviction)
    return Outcome(
        snapshot,
        nodes,
        Domains(snapshot.columns),
        tuple(
            GangOutcome(
                gang, tuple(_group(gang, group, nodes, target, leaves) for group in gang.groups)
            )
            for gang in snapshot.gangs
        ),
    )


def _group(
    gang: PodGang,
    group: PodGroup,
    nodes: Mapping[str, Node],
    target: Mapping[str, Binding],
    leaves: Mapping[str, Eviction],
) -> GroupOutcome:
    new: list[NewPod] = []
    evicted: list[EvictedPod] = []
    for pod_set in group.pod_sets:
        template = pod_set.template
        for pod in pod_set.pods:
            if pod.name in target:
                b = target[pod.name]
                new.append(
                    NewPod(pod.name, template, nodes[b.node], gang, b.devices, b.reservation)
                )
        for bound in pod_set.bound_pods if leaves else ():
            if bound.name in leaves:
                e = leaves[bound.name]
                evicted.append(EvictedPod(bound, template, gang, e))
                if e.kind is EvictionKind.MOVE and e.to_node in nodes:
                    to = nodes[e.to_node]
                    new.append(NewPod(bound.name, template, to, gang, e.to_devices, moved=True))
    return GroupOutcome(group, tuple(new), tuple(evicted))
