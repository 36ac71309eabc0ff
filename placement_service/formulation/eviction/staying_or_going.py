"""Running gangs that may be evicted: a pod stays at home or goes, one pod set for each node.

Which gang may use the room of which victim becomes columns of room, one for each group of
gangs that may not use all of it (`eviction_rights.Sharing`). What else comes free closes nodes for
gangs that it is not for (`kept_back`).

Affinity and spread of a running pod bind nobody else, and itself no longer, so they are dropped. Of
its anti-affinity what the list of running pods tells remains: it binds those that come. A pod in a
ComputeDomain that no waiting pod is in simply avoids all pods in others: that is one rule for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placement_service.entities.node import EPHEMERAL_STORAGE
from placement_service.entities.nodes import NO_LIMIT, KindColumn, Nodes
from placement_service.entities.request import (
    PODS,
    Pod,
    PodAffinityTerm,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Resources,
    Snapshot,
)
from placement_service.entities.reservations import Reservation
from placement_service.entities.solution import Assignment
from placement_service.formulation.compute_domains import AVOIDS_ALL
from placement_service.formulation.eviction.kept_back import KeptBack
from placement_service.formulation.eviction.running_topology import KeptWishes
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.held_columns import amounts_of
from placement_service.formulation.open_gangs import MUST_RUN, WAITING, Freed, opened, others
from placement_service.formulation.prepared import Prepared, SetOf
from placement_service.formulation.sharing_columns import for_sharing

Terms = tuple[PodAffinityTerm, ...]

#: By the columns of room, whether the pods of a gang count in them.
Counts = tuple[bool, ...]


class _Alike(NamedTuple):
    """Running pods of a set that are of one kind: `own` is the name of one with its own devices."""

    node: str
    terms: Terms
    own: str
    reservation: str
    held: frozenset[tuple[str, int]] | None


def open_for_evictions(
    snapshot: Snapshot,
    chosen: frozenset[int],
    rights: EvictionRights,
    kept: Collection[int] = (),
    *,
    alike: bool = False,
    shares: bool = False,
) -> Prepared:
    """The snapshot with the chosen gangs open: their pods are at home or nowhere.

    Only extras of the `kept` ones may go. Looser than the rules: with `alike` pods that wait may
    stand in for pods of the minimum that run, with `shares` the room of victims beside reservations
    serves everybody.
    """
    room = _Room(snapshot, chosen, rights, shares=shares)
    wishes = KeptWishes(snapshot, chosen)
    row = snapshot.columns.row_of
    terms = {
        pod.name: pod.required_anti_affinity
        for pod in snapshot.running_pods
        if pod.required_anti_affinity
    }
    wanted = {
        s.template.compute_domain
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
        if s.pods
    }
    kept_back = KeptBack(snapshot, chosen, rights)
    queues = {queue.name for queue in snapshot.queues}
    gangs: list[PodGang] = []
    homes: list[Assignment] = []
    closed: dict[SetOf, frozenset[int]] = {}
    held: dict[SetOf, Resources] = {}
    for i, gang in enumerate(snapshot.gangs):
        groups = list(gang.groups)
        if i in chosen:
            # What waits of it comes as others do, and may not take what its own pods leave.
            groups += [_waiting(group) for group in gang.groups if group.pending_count]
        counts = room.counts(gang, opens=False)
        for r, group in enumerate(groups):
            if i not in chosen or r >= len(gang.groups):
                for k, s in enumerate(group.pod_sets):
                    rows = kept_back.rows(gang, s.template) if s.pods else None
                    if rows:
                        closed[SetOf(i, r, k)] = rows
                charged = (
                    replace(s, template=room.charged(s.template, counts)) for s in group.pod_sets
                )
                groups[r] = replace(group, pod_sets=tuple(charged))
                continue
            sets: list[PodSet] = []
            for s in group.pod_sets:
                template = room.charged(s.template, room.counts(gang, opens=True))
                at_home = _at_home(s, terms)
                alone = s.template.compute_domain not in ("", *wanted)
                for here, pods in at_home.items():
                    rules = (*here.terms, AVOIDS_ALL) if alone else here.terms
                    if here.held is not None:
                        held[SetOf(i, r, len(sets))] = dict(here.held)
                    homes.append(Assignment(i, r, len(sets), row[here.node], len(pods)))
                    sets.append(PodSet(room.at_home(template, rules, alone=alone), tuple(pods)))
            groups[r] = replace(group, pod_sets=tuple(sets))
        if alike and i in chosen:
            groups = _together(groups)
        if i in chosen:
            gangs.append(
                opened(
                    # Nothing new comes of a gang whose queue is not there.
                    gang if gang.queue in queues else replace(gang, queue=""),
                    groups,
                    MUST_RUN if i in kept or rights.keeps_its_minimum(gang) else gang.priority,
                    moves=False,
                    base=wishes.base(gang),
                    near=wishes.level(gang),
                )
            )
        else:
            gangs.append(replace(gang, groups=tuple(groups)))
    return Prepared(
        replace(
            snapshot,
            nodes=room.nodes(),
            gangs=tuple(gangs),
            running_pods=others(snapshot, chosen),
            reservations=tuple(map(room.held, snapshot.reservations)),
        ),
        tuple(homes),
        held=held,
        closed=closed,
        users={
            pod.name: pod.reservation
            for i in chosen
            for group in snapshot.gangs[i].groups
            for pod in group.running_pods
            if pod.reservation
        },
        exact=not any(map(room.holds_back, snapshot.reservations)),
        bounds_topology=wishes.are_exact,
    )


def _at_home(s: PodSet, terms: Mapping[str, Terms]) -> Mapping[_Alike, list[Pod]]:
    """The running pods of a set by their kind; `terms` are those of some pods."""
    at_home: defaultdict[_Alike, list[Pod]] = defaultdict(list)
    if not (terms or any([p.devices or p.reservation or p.held is not None for p in s.bound_pods])):
        # Mostly only their nodes differ.
        at: dict[str, list[Pod]] = {}
        for pod in s.bound_pods:
            at.setdefault(pod.node, []).append(Pod(pod.name))
        return {_Alike(node, (), "", "", None): pods for node, pods in at.items()}
    for pod in s.bound_pods:
        # Pods with devices of their own are not alike.
        own = pod.name if pod.devices else ""
        mine, amounts = terms.get(pod.name, ()), amounts_of(pod, s.template)
        at_home[_Alike(pod.node, mine, own, pod.reservation, amounts)].append(Pod(pod.name))
    return at_home


def _waiting(group: PodGroup) -> PodGroup:
    """The pods of a group that wait beyond its minimum."""
    sets = tuple(replace(s, bound_pods=()) for s in group.pod_sets if s.pods)
    return replace(group, name=group.name + WAITING, pod_sets=sets, min_replicas=0)


def _together(groups: Sequence[PodGroup]) -> list[PodGroup]:
    """Each group with the pods that wait of it, behind those that run."""
    waiting = {group.name: group for group in groups if group.name.endswith(WAITING)}
    return [
        group
        if (beyond := waiting.get(group.name + WAITING)) is None
        else replace(group, pod_sets=(*group.pod_sets, *beyond.pod_sets))
        for group in groups
        if not group.name.endswith(WAITING)
    ]


class _Room:
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
