"""The cluster after a plan, read off the raw snapshot: what `verify` and `score` look at.

It exists so that both judges read bindings in one and the same way, and shares
no code with the engine that made them. It judges nothing: bindings that name
an unknown pod or node, or a pod for the second time, are left out here and
reported by `verify`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement_service.entities.request import (
    Binding,
    Node,
    PodGang,
    PodGroup,
    PodTemplate,
    Snapshot,
    namespace_of,
)
from placement_service.entities.selectors import Labels


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod that the plan binds."""

    name: str
    template: PodTemplate
    node: Node

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)

    @property
    def labels(self) -> Labels:
        return self.template.labels


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """One group after the plan: its new pods beside those that already run."""

    group: PodGroup
    new: tuple[NewPod, ...] = ()

    @property
    def count(self) -> int:
        """Pods that run after the plan."""
        return self.group.running_count + len(self.new)

    @property
    def has_minimum(self) -> bool:
        return self.count >= self.group.min_replicas

    @property
    def extra(self) -> int:
        """New pods beyond what the minimum was missing."""
        return max(0, len(self.new) - self.group.missing)


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
    def has_new(self) -> bool:
        return any(g.new for g in self.groups)

    def node_names(self, groups: Sequence[str]) -> set[str]:
        """Names of the nodes under the pods of these groups, running and new.

        A running pod's node may be one that the snapshot does not know.
        """
        return {
            name
            for outcome in self.groups
            if outcome.group.name in groups
            for name in (
                *(pod.node for pod in outcome.group.running_pods),
                *(pod.node.name for pod in outcome.new),
            )
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The whole cluster after the plan; `gangs` in the snapshot's order."""

    snapshot: Snapshot
    nodes: Mapping[str, Node]
    gangs: tuple[GangOutcome, ...]

    def domain(self, node: str, level: str) -> str | None:
        """A node's domain at a level; None without label or for an unknown node."""
        known = self.nodes.get(node)
        return None if known is None else known.labels.get(level)

    @property
    def new(self) -> tuple[NewPod, ...]:
        return tuple(pod for gang in self.gangs for pod in gang.new)


def read(snapshot: Snapshot, bindings: Sequence[Binding]) -> Outcome:
    """What runs where once every binding of a known pod and node is applied."""
    nodes = {node.name: node for node in snapshot.nodes}
    target: dict[str, Node] = {}
    for binding in bindings:
        node = nodes.get(binding.node)
        if node is not None:
            target.setdefault(binding.pod, node)
    gangs = []
    for gang in snapshot.gangs:
        groups = []
        for group in gang.groups:
            new = tuple(
                NewPod(pod.name, pod_set.template, target[pod.name])
                for pod_set in group.pod_sets
                for pod in pod_set.pods
                if pod.name in target
            )
            groups.append(GroupOutcome(group, new))
        gangs.append(GangOutcome(gang, tuple(groups)))
    return Outcome(snapshot, nodes, tuple(gangs))
