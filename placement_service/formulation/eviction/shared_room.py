"""What running gangs leave that may be evicted, and which gangs may use it.

Which gang may use the room of which victim becomes columns of room, one for each group of gangs
that may not use all of it (`eviction_rights.Sharing`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np

from placement_service.entities.node import EPHEMERAL_STORAGE
from placement_service.entities.nodes import NO_LIMIT, KindColumn, Nodes
from placement_service.entities.request import (
    PODS,
    PodAffinityTerm,
    PodGang,
    PodTemplate,
    Resources,
    Snapshot,
)
from placement_service.entities.reservations import Reservation
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.open_gangs import Freed
from placement_service.formulation.sharing_columns import for_sharing

#: The required anti-affinity of a pod.
Terms = tuple[PodAffinityTerm, ...]

#: By the columns of room, whether the pods of a gang count in them.
Counts = tuple[bool, ...]


class SharedRoom:
    """What nodes have when all open gangs are gone, and which gangs may use it.

    For each `Sharing` of the rights there is a column a resource: it holds the room that
    the gangs of the sharing may use, and is charged with them and with the victims whose
    room it is. What others use does not count.
    """

    def __init__(
        self, snapshot: Snapshot, chosen: frozenset[int], rights: EvictionRights, *, shares: bool
    ) -> None:
        self._nodes = nodes = snapshot.columns
        beside = {nodes.row_of.get(one.node) for one in snapshot.reservations} if shares else set()
        victims = [snapshot.gangs[i] for i in sorted(chosen)]
        self._rights = rights
        self._sharings = rights.sharings(victims)
        self._freed = Freed(nodes)
        #: What victims leave that a sharing may not use.
        self._kept_back = [Freed(nodes) for _ in self._sharings]
        #: What reservations get back, by their names and of each column of room.
        self._taken_back: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for gang in victims:
            counts = self.counts(gang, opens=True)
            for s in (s for group in gang.groups for s in group.pod_sets if s.bound_pods):
                for pod in s.bound_pods:
                    if pod.reservation:
                        self._take_back(pod.reservation, pod.holds(s.template), counts)
                self._freed.add(s, s.bound_pods)
                for counted, kept_back in zip(counts, self._kept_back, strict=True):
                    if not counted:
                        apart = (p for p in s.bound_pods if nodes.row_of[p.node] not in beside)
                        kept_back.add(s, apart)
        #: Templates live as long as the snapshot, so each is told by its identity.
        self._charged: dict[tuple[int, Counts], PodTemplate] = {}
        self._at_home: dict[tuple[int, Terms], PodTemplate] = {}

    def counts(self, gang: PodGang, *, opens: bool) -> Counts:
        """The columns in which the pods of a gang count."""
        if opens:
            victim = self._rights.victim(gang)
            return tuple(victim in s.victims for s in self._sharings)
        return tuple(s.takes(gang) for s in self._sharings)

    def _take_back(self, reservation: str, held: Resources, counts: Counts) -> None:
        back = self._taken_back[reservation]
        for resource, amount in held.items():
            if resource != PODS:
                back[resource] += amount
                for k, counted in enumerate(counts):
                    back[for_sharing(resource, k)] += counted * amount

    def charged(self, template: PodTemplate, counts: Counts) -> PodTemplate:
        """The template with what it takes of each column."""
        if not any(counts):
            return template
        key = id(template), counts
        if key not in self._charged:
            requests = dict(template.requests)
            for k, counted in enumerate(counts):
                for resource in self._freed.resources if counted else ():
                    if resource in template.requests:
                        requests[for_sharing(resource, k)] = template.requests[resource]
            self._charged[key] = replace(template, requests=requests)
        return self._charged[key]

    def at_home(self, template: PodTemplate, terms: Terms, *, alone: bool) -> PodTemplate:
        """A charged template with these terms as its only rule about other pods.

        `alone`: they also say what its ComputeDomain does.
        """
        others = template.required_affinity or template.spread_constraints
        reserved = template.ignores_reservations or template.required_reservation
        same = template.required_anti_affinity == terms
        if same and not (others or reserved or template.unsupported):
            return template
        key = id(template), terms
        if key not in self._at_home:
            self._at_home[key] = replace(
                template,
                required_affinity=(),
                spread_constraints=(),
                required_anti_affinity=terms,
                compute_domain="" if alone else template.compute_domain,
                # What is held beside it now stays held while it stays.
                ignores_reservations=False,
                # The one that it required need not be there any more.
                required_reservation=None,
                # It does not ask for it again.
                unsupported=(),
            )
        return self._at_home[key]

    def holds_back(self, reservation: Reservation) -> bool:
        """Whether it holds room where victims leave some that not all may use.

        An owner may take from what victims leave instead, and what is held is free to others.
        """
        row = self._nodes.row_of.get(reservation.node)
        return row is not None and any(
            kept_back.of(r)[row] for kept_back in self._kept_back for r in reservation.held
        )

    def held(self, reservation: Reservation) -> Reservation:
        """The reservation, which holds as much of each column of room, and what its pods leave."""
        held = Counter(reservation.held)
        held.update(self._taken_back.get(reservation.name, {}))
        for k in range(len(self._sharings)):
            for r, amount in reservation.held.items():
                if r in self._freed.resources:
                    held[for_sharing(r, k)] += amount
        return replace(reservation, held=held)

    def nodes(self) -> Nodes:
        """The nodes with all that open gangs leave, and what of it is there for each sharing."""
        nodes, resources = self._freed.nodes(), self._freed.resources
        unlimited = nodes.allocatable.where(lambda kind: not kind.get(EPHEMERAL_STORAGE))
        requested = dict(nodes.requested)
        for k, kept_back in enumerate(self._kept_back):
            for r in resources:
                column = requested[r] + kept_back.of(r)
                if r == EPHEMERAL_STORAGE:
                    column = np.where(unlimited, 0, column)
                requested[for_sharing(r, k)] = column

        def shared(kind: Resources) -> Resources:
            all_of_it = dict(kind)
            for r in resources:
                own = NO_LIMIT if r == EPHEMERAL_STORAGE and not kind.get(r) else kind.get(r, 0)
                all_of_it |= {for_sharing(r, k): own for k in range(len(self._sharings))}
            return all_of_it

        kinds = tuple(map(shared, nodes.allocatable.kinds))
        allocatable = KindColumn(kinds, nodes.allocatable.number)
        return replace(nodes, requested=requested, allocatable=allocatable)
