"""What devices are asked for and where: pods that come, and running pods that may go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from placement_service.entities.node import Node
from placement_service.entities.request import BoundPod, PodGang, PodSet, Policy, Snapshot
from placement_service.formulation.devices.boards import without
from placement_service.formulation.devices.device_blocks import gpus_differ, partitions_count
from placement_service.formulation.devices.homes import HomePod, SetKey
from placement_service.formulation.devices.wants import (
    Want,
    requires_partition,
    want_of,
    wants_network,
)
from placement_service.formulation.prepared import Prepared


@dataclass(frozen=True, slots=True)
class DeviceQuestion:
    """`nodes` that list devices have all that running pods may leave; `insists`: some pod insists
    on a partition, `networked`: some pod wants network devices.
    """

    snapshot: Snapshot
    policy: Policy
    nodes: dict[str, Node]
    homes: Mapping[str, tuple[HomePod, ...]]
    moves: bool
    insists: bool
    networked: bool

    @property
    def apart(self) -> Mapping[str, tuple[HomePod, ...]]:
        """The running pods for which it matters which devices they have.

        Where pods move one that has whole devices is like one that comes, unless its GPUs differ.
        """
        if not self.moves:
            return self.homes
        unlike = {
            name: tuple(p for p in pods if not p.want.whole or self._gpus_differ(name))
            for name, pods in self.homes.items()
        }
        return {name: pods for name, pods in unlike.items() if pods}

    def partitions_count(self, name: str) -> bool:
        """Whether it matters which GPUs of a node a pod of whole ones has."""
        return partitions_count(self.nodes[name], required=self.insists)

    def _gpus_differ(self, name: str) -> bool:
        node = self.nodes[name]
        return gpus_differ(node, required=self.insists, networked=self.networked)

    @property
    def gangs_at_home(self) -> frozenset[int]:
        return frozenset(pod.key[0] for pods in self.homes.values() for pod in pods)

    @property
    def wants(self) -> list[Want]:
        """What pods without devices want, the largest first."""
        at_home = {pod.key for pods in self.homes.values() for pod in pods}
        found = {
            want
            for key, s in sets(self.snapshot)
            if s.pods and (self.moves or key not in at_home)
            if (want := want_of(s.template, self.policy)) is not None
        }
        return sorted(found, key=lambda w: (w.whole, *w), reverse=True)


def device_question(opened: Prepared, request: Snapshot, policy: Policy) -> DeviceQuestion:
    """The question that a snapshot with open gangs puts."""
    snapshot = opened.snapshot
    running: dict[str, tuple[BoundPod, Want | None]] = {}
    if opened.homes:
        running = {
            pod.name: (pod, want_of(s.template, policy))
            for gang in request.gangs
            for group in gang.groups
            for s in group.pod_sets
            for pod in s.bound_pods
        }
    homes: defaultdict[str, dict[str, HomePod]] = defaultdict(dict)
    columns = snapshot.columns
    lists = columns.parts.where(lambda parts: parts.devices)
    for home in opened.homes:
        if lists[home.node]:
            key = SetKey(home.gang, home.group, home.pod_set)
            name = columns.names[home.node]
            whole = goes_whole(request.gangs[home.gang])
            for other in snapshot.gangs[home.gang].groups[home.group].pod_sets[home.pod_set].pods:
                pod, want = running[other.name]
                if pod.node == name and pod.devices and want is not None:
                    tie = home.gang if whole else pod.name
                    homes[name][pod.name] = HomePod(key, pod.devices, want, tie)
    frozen = {name: tuple(pods.values()) for name, pods in homes.items()}
    nodes = {
        columns.names[i]: without(
            columns[i], ((pod.devices, pod.want) for pod in frozen.get(columns.names[i], ()))
        )
        for i in np.flatnonzero(lists).tolist()
    }
    insists, networked = requires_partition(snapshot), wants_network(snapshot)
    return DeviceQuestion(snapshot, policy, nodes, frozen, opened.moves, insists, networked)


def goes_whole(gang: PodGang) -> bool:
    """Whether a running gang can only go whole."""
    return all(g.min_replicas >= g.running_count and not g.pending_count for g in gang.groups)


def sets(snapshot: Snapshot) -> Iterable[tuple[SetKey, PodSet]]:
    """The pod sets of a snapshot."""
    return (
        (SetKey(g, r, i), s)
        for g, gang in enumerate(snapshot.gangs)
        for r, group in enumerate(gang.groups)
        for i, s in enumerate(group.pod_sets)
    )
