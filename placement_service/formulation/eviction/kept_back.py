"""What a leaving gang frees beside room, and for whom: host ports, nodes for other ComputeDomains,
and places that it kept others out of by required anti-affinity, its own or theirs.

A pod stays at home or goes for gangs that may evict it. A pod of any other gang meets it in
both cases: if it stays it is in the way, and what comes free when it goes is not for that pod. So
nodes are closed for such pods before anything is decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.entities.node import HostPort
from placement_service.entities.nodes import of_labels
from placement_service.entities.request import PodGang, PodTemplate, RunningPod, Snapshot
from placement_service.formulation.eviction_rights import EvictionRights, Victim, Winner
from placement_service.formulation.levels import Levels


class _Holder(NamedTuple):
    """Running pods of one kind: what they hold, and the rows of their nodes."""

    ports: tuple[HostPort, ...]
    compute_domain: str
    pod: RunningPod | None
    rows: list[int]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What decides which nodes are closed; templates live as long as the snapshot."""

    winner: Winner
    namespace: str
    template: int


class KeptBack:
    """The nodes that are closed for waiting pods, because gangs hold them that may not be evicted
    for these."""

    def __init__(self, snapshot: Snapshot, chosen: Collection[int], rights: EvictionRights) -> None:
        self._rights = rights
        self._levels = Levels(snapshot.columns)
        self._row_of = snapshot.columns.row_of
        self._holders = self._all_holders(snapshot, chosen)
        self._known: dict[_Asked, frozenset[int]] = {}

    def rows(self, gang: PodGang, template: PodTemplate) -> frozenset[int]:
        """The rows of the nodes that are closed for waiting pods of a gang."""
        if not self._holders:
            return frozenset()
        asked = _Asked(self._rights.winner(gang), gang.namespace, id(template))
        if asked not in self._known:
            self._known[asked] = frozenset(
                row
                for victim, holders in self._holders.items()
                if self._rights.kind(asked.winner, victim) is None
                for holder in holders
                for row in self._closed_by(holder, gang.namespace, template)
            )
        return self._known[asked]

    def _all_holders(
        self, snapshot: Snapshot, chosen: Collection[int]
    ) -> dict[Victim, list[_Holder]]:
        sets = [s for gang in snapshot.gangs for group in gang.groups for s in group.pod_sets]
        # Without any term nobody looks at labels.
        looked_at = any(s.template.required_anti_affinity for s in sets) or any(
            pod.required_anti_affinity for pod in snapshot.running_pods
        )
        listed = {pod.name: pod for pod in snapshot.running_pods} if looked_at else {}
        found: defaultdict[Victim, dict[object, _Holder]] = defaultdict(dict)
        for index in sorted(chosen):
            gang = snapshot.gangs[index]
            victim = self._rights.victim(gang)
            for s in (s for group in gang.groups for s in group.pod_sets):
                ports, domain = s.template.host_ports, s.template.compute_domain
                for runs in s.bound_pods if looked_at or ports or domain else ():
                    pod = listed.get(runs.name)
                    alike: object = (
                        ports,
                        domain,
                        pod and (pod.namespace, of_labels(pod.labels), pod.required_anti_affinity),
                    )
                    holder = found[victim].setdefault(alike, _Holder(ports, domain, pod, []))
                    holder.rows.append(self._row_of[runs.node])
        return {victim: list(holders.values()) for victim, holders in found.items()}

    def _closed_by(self, holder: _Holder, namespace: str, template: PodTemplate) -> Iterator[int]:
        if any(one.conflicts(other) for one in template.host_ports for other in holder.ports):
            yield from holder.rows
        if template.compute_domain and holder.compute_domain not in ("", template.compute_domain):
            yield from holder.rows
        pod = holder.pod
        if pod is None:
            return
        terms = [t for t in pod.required_anti_affinity if t.matches(namespace, template.labels)]
        terms += [
            t for t in template.required_anti_affinity if t.matches(pod.namespace, pod.labels)
        ]
        for key in dict.fromkeys(term.topology_key for term in terms):
            level = self._levels[self._levels.index(key)]
            near = np.zeros(level.count + 1, dtype=bool)
            near[level.domain[holder.rows]] = True
            # Nodes without a domain stand last.
            near[-1] = False
            yield from np.flatnonzero(near[level.domain]).tolist()
