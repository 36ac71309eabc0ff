"""Running gangs as the engine decides about them, and the room that they leave."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from placement_service.entities.node import HostPort
from placement_service.entities.nodes import KindColumn, Nodes, Parts
from placement_service.entities.request import (
    BoundPod,
    PackingScope,
    PodGang,
    PodGroup,
    PodSet,
    Resources,
    RunningPod,
    Snapshot,
)
from placement_service.formulation.arrays import Ints

#: The priority of gangs that have to run after the plan: above all others.
MUST_RUN = 2**31

#: Ends the name of the group that holds the waiting pods of a group that may be moved.
WAITING = " (waiting)"


#: Ends the name of the gang that holds the running pods of another (see `running_parts`).
RUNNING = " (running)"


#: Ends the name of a gang that may take the place of another (see `beginning_anew`).
ANEW = " (anew)"


#: Ends the name of the gang that is another one the other way round (see `reclaim_ways`).
OTHERWISE = " (otherwise)"


def part_name(name: str) -> str:
    """The name of the gang that holds the running pods of another."""
    return name + RUNNING


def is_part(name: str) -> bool:
    """Whether a gang of that name holds the running pods of another."""
    return name.endswith(RUNNING)


def anew_name(name: str) -> str:
    """The name of a gang where it begins anew."""
    return name + ANEW


def is_anew(name: str) -> bool:
    """Whether a gang of that name is another one that begins anew."""
    return name.endswith(ANEW)


def otherwise_name(name: str) -> str:
    """The name of a gang the other way round."""
    return name + OTHERWISE


def is_otherwise(name: str) -> bool:
    """Whether a gang of that name is another one the other way round."""
    return name.endswith(OTHERWISE)


def whole_name(name: str) -> str:
    """The name that a gang has in the request."""
    return name.removesuffix(RUNNING).removesuffix(ANEW).removesuffix(OTHERWISE)


def has_extras(gang: PodGang) -> bool:
    """Whether more pods of some group run than its minimum."""
    return any(group.running_count > group.min_replicas for group in gang.groups)


def waiting_group(group: PodGroup) -> PodGroup:
    """The pods of a group that wait beyond its minimum, as a group of their own."""
    sets = tuple(replace(s, bound_pods=()) for s in group.pod_sets if s.pods)
    return replace(group, name=group.name + WAITING, pod_sets=sets, min_replicas=0)


def stays_in_place(gang: PodGang, *, moves: bool) -> bool:
    """Whether no pod of a gang can get a node that it is not on."""
    return not moves and not any(group.pending_count for group in gang.groups)


def opened(
    gang: PodGang,
    groups: Sequence[PodGroup],
    priority: int,
    *,
    moves: bool,
    base: str = "",
    near: str = "",
) -> PodGang:
    """The gang with other groups, open to decision.

    `base` is the gang that it is based on in the problem, and `near` the level at which others of
    its set should be near it although none of its own pods can get another node.
    """
    renamed: defaultdict[str, list[str]] = defaultdict(list)
    for group in groups:
        renamed[group.name.removesuffix(WAITING)].append(group.name)
    scopes: tuple[PackingScope, ...] = ()
    previous: tuple[str, ...] = ()
    if not stays_in_place(gang, moves=moves):
        previous = () if moves else gang.previous_nodes
        # Where moved pods run again costs nothing.
        scopes = tuple(
            replace(
                scope,
                groups=tuple(n for g in scope.groups for n in renamed[g]),
                preferred_level="" if moves else scope.preferred_level,
            )
            for scope in gang.packing_scopes
        )
    elif near:
        everywhere = tuple(group.name for group in groups)
        scopes = (PackingScope("", everywhere, preferred_level=near),)
    return replace(
        gang,
        groups=tuple(groups),
        packing_scopes=scopes,
        priority=priority,
        base_gang=base,
        # It would keep new pods out, and there are none.
        uninitialized=False,
        previous_nodes=previous,
    )


def others(snapshot: Snapshot, chosen: frozenset[int]) -> tuple[RunningPod, ...]:
    """The running pods except those of open gangs, which count as pods to place now."""
    mine = {
        pod.name for i in chosen for group in snapshot.gangs[i].groups for pod in group.running_pods
    }
    return tuple(pod for pod in snapshot.running_pods if pod.name not in mine)


class Freed:
    """What running pods leave on their nodes when they go: room, host ports, ComputeDomains."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        #: What pods hold, told by its identity, and the nodes of those that hold it.
        self._held: dict[int, tuple[Resources, list[int]]] = {}
        self._resources: set[str] = set()
        #: By resource what is left on each node, of those that were asked for.
        self._amounts: dict[str, Ints] = {}
        self._ports: defaultdict[int, set[HostPort]] = defaultdict(set)
        #: By node and ComputeDomain the pods that leave it.
        self._of_domain: Counter[tuple[int, str]] = Counter()

    def add(self, pod_set: PodSet, pods: Iterable[BoundPod]) -> None:
        """These running pods of a set go; those on nodes that are not there leave nothing."""
        template, row_of = pod_set.template, self._nodes.row_of
        plain = not (template.host_ports or template.compute_domain)
        self._amounts.clear()
        for pod in pods:
            row = row_of.get(pod.node)
            if row is None:
                continue
            held = pod.holds(template)
            known = self._held.get(id(held))
            if known is None:
                known = self._held[id(held)] = held, []
                self._resources.update(held)
            known[1].append(row)
            if plain:
                continue
            if template.host_ports:
                self._ports[row].update(template.host_ports)
            if template.compute_domain:
                self._of_domain[row, template.compute_domain] += 1

    @property
    def resources(self) -> list[str]:
        return sorted(self._resources)

    def of(self, resource: str) -> Ints:
        """What is left of a resource on each node [N]."""
        found = self._amounts.get(resource)
        if found is None:
            found = self._amounts[resource] = np.zeros(len(self._nodes), np.int64)
            for held, rows in self._held.values():
                if resource in held:
                    np.add.at(found, rows, held[resource])
        return found

    def nodes(self) -> Nodes:
        """The nodes when all that go have gone."""
        nothing = np.zeros(len(self._nodes), np.int64)
        requested = dict(self._nodes.requested)
        for resource in self.resources:
            requested[resource] = requested.get(resource, nothing) - self.of(resource)
        return replace(self._nodes, requested=requested, parts=self._parts())

    def _parts(self) -> KindColumn[Parts]:
        """What nodes have, without the ports and ComputeDomains that end."""
        parts = self._nodes.parts
        ends = {
            row
            for (row, domain), pods in self._of_domain.items()
            if parts[row].compute_domain == domain and 0 < parts[row].compute_domain_pods <= pods
        }
        if not self._ports and not ends:
            return parts
        kinds, number = list(parts.kinds), parts.number.copy()
        found: dict[tuple[int, frozenset[HostPort], bool], int] = {}
        for row in sorted({*self._ports, *ends}):
            free = frozenset(self._ports.get(row, ()))
            key = int(number[row]), free, row in ends
            if key not in found:
                found[key] = len(kinds)
                left = kinds[key[0]]
                ports = tuple(port for port in left.host_ports if port not in free)
                left = left._replace(host_ports=ports)
                if row in ends:
                    left = left._replace(compute_domain="", compute_domain_pods=0)
                kinds.append(left)
            number[row] = found[key]
        return KindColumn(tuple(kinds), number)


def may_come_again(gang: PodGang) -> bool:
    """Whether all that the running pods of a gang ask for can be honoured."""
    sets = (s for group in gang.groups for s in group.pod_sets if s.bound_pods)
    return not any(s.template.unsupported for s in sets)
