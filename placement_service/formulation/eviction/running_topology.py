"""Where running gangs are, as far as it counts for pods that wait: for required levels, and in the
tier `topology`.

The tier counts the domains of gangs and sets that get new pods, running pods included. A gang that
may be evicted keeps its wishes for that. Models count these also while nothing of it gets a new
pod, which costs nothing where all is in one domain. Else the tier gets no bound
(`KeptWishes.are_exact`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import compress

from placement_service.entities.node import HOSTNAME
from placement_service.entities.nodes import Nodes
from placement_service.entities.request import BoundPod, PackingScope, PodGang, Snapshot
from placement_service.formulation.arrays import Bools
from placement_service.formulation.gangs.packing_scopes import set_level
from placement_service.formulation.open_gangs import is_part, whole_name


@dataclass(frozen=True, slots=True)
class RunningOn:
    """Facts about the nodes that pods run on."""

    nodes: Nodes
    listing: frozenset[str]

    @classmethod
    def of(cls, nodes: Nodes) -> RunningOn:
        lists = nodes.parts.where(lambda parts: parts.devices)
        return cls(nodes, named(nodes, lists))

    def domain(self, pod: BoundPod, level: str) -> str | None:
        """The value of a label on the node of a pod; a node that is gone has none."""
        row = self.nodes.row_of.get(pod.node)
        if row is None:
            return None
        return self.nodes.labels[row].get(
            level, pod.node.removeprefix("nodes/") if level == HOSTNAME else None
        )

    def are_together(self, pods: Iterable[BoundPod], level: str) -> bool:
        """Whether pods use one place of a level at most; a node without the label is its own."""
        places = set()
        for pod in pods:
            domain = self.domain(pod, level)
            places.add(("", pod.node) if domain is None else (domain, ""))
        return len(places) <= 1


def named(nodes: Nodes, which: Bools) -> frozenset[str]:
    """The names of some nodes [N]."""
    return frozenset(compress(nodes.names, which.tolist()))


def running(gang: PodGang) -> Iterator[BoundPod]:
    """All pods of a gang that run."""
    return (pod for group in gang.groups for pod in group.running_pods)


def pending(gang: PodGang) -> Iterator[int]:
    """How many pods of each group wait."""
    return (group.pending_count for group in gang.groups)


def growing(snapshot: Snapshot) -> frozenset[str]:
    """The gangs whose pods wait; for a scaled gang also its base."""
    return frozenset(g.base_gang or g.name for g in snapshot.gangs if any(pending(g)))


def adds_topology(gang: PodGang, grows: Collection[str]) -> bool:
    """Whether where a gang runs counts for new pods: its own, or those of its set.

    `grows` is what `growing` tells.
    """
    wishes = gang.previous_nodes or any(s.preferred_level for s in gang.packing_scopes)
    return bool(wishes and any(pending(gang))) or bool(
        (gang.base_gang and whole_name(gang.base_gang) in grows)
        or (gang.name in grows and not any(pending(gang)))
    )


def keeps_its_levels(gang: PodGang, nodes: RunningOn) -> bool:
    """Whether what runs of each scope is in one domain of the level that it requires."""
    return all(_holds(scope, gang, nodes) for scope in gang.packing_scopes)


def _holds(scope: PackingScope, gang: PodGang, nodes: RunningOn) -> bool:
    """Whether the running pods of a scope are in one domain of its required level."""
    level = scope.required_level
    domains = {nodes.domain(pod, level) for pod in _running_in(scope, gang)}
    return not level or (len(domains) <= 1 and None not in domains)


def _running_in(scope: PackingScope, gang: PodGang) -> Iterator[BoundPod]:
    for group in gang.groups:
        if group.name in scope.groups:
            yield from group.running_pods


class KeptWishes:
    """What gangs that may be evicted keep of their wishes, because others of theirs wait."""

    def __init__(self, snapshot: Snapshot, chosen: Collection[int]) -> None:
        self._snapshot = snapshot
        self._grows = growing(snapshot)
        self._by_name = {gang.name: gang for gang in snapshot.gangs}
        self._open = {snapshot.gangs[i].name for i in chosen}
        self._counted = [
            gang for i in sorted(chosen) if adds_topology(gang := snapshot.gangs[i], self._grows)
        ]

    def base(self, gang: PodGang) -> str:
        """The gang that an open one is based on in the problem, "" where that says nothing."""
        base = self._by_name.get(gang.base_gang)
        if base is None:
            return ""
        if base.name in self._open:
            return base.name
        return base.name if base.name in self._grows and not base.is_pending else ""

    def level(self, gang: PodGang) -> str:
        """The level at which gangs that wait should be near an open one, "" for none."""
        return set_level(gang) if gang.name in self._grows else ""

    @property
    def are_exact(self) -> bool:
        """Whether models count as much as the tier says, in every plan."""
        if not self._counted:
            return True
        nodes = RunningOn.of(self._snapshot.columns)
        return all(self._is_exact(gang, nodes) for gang in self._counted)

    def _is_exact(self, gang: PodGang, nodes: RunningOn) -> bool:
        if is_part(gang.name):
            # Its places count with the rest of its gang, in a set also where a whole gang goes.
            whole = self._by_name[whole_name(gang.name)]
            return whole.is_pending or not set_level(self._by_name[whole.base_gang])
        if any(pending(gang)) and (
            gang.previous_nodes
            or not all(
                nodes.are_together(_running_in(scope, gang), scope.preferred_level)
                for scope in gang.packing_scopes
                if scope.preferred_level
            )
        ):
            return False
        base = self._by_name.get(whole_name(gang.base_gang) or gang.name)
        level = "" if base is None or base.name not in self._grows else set_level(base)
        if base is None or not level:
            return True
        members = (
            g for g in self._snapshot.gangs if base.name in (g.name, whole_name(g.base_gang))
        )
        return not (base.is_pending and gang is not base) and nodes.are_together(
            (pod for member in members for pod in running(member)), level
        )
