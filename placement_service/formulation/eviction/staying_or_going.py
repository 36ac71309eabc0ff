"""Running gangs that may be evicted: a pod stays at home or goes, one pod set for each node.

What they leave becomes columns of room (`shared_room`). What else comes free closes nodes for gangs
that it is not for (`kept_back`).

Affinity and spread of a running pod bind nobody else, and itself no longer, so they are dropped. Of
its anti-affinity what the list of running pods tells remains: it binds those that come. A pod in a
ComputeDomain that no waiting pod is in simply avoids all pods in others: that is one rule for all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from placement_service.entities.request import (
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    Resources,
    Snapshot,
)
from placement_service.entities.solution import Assignment
from placement_service.formulation.compute_domains import AVOIDS_ALL
from placement_service.formulation.eviction.kept_back import KeptBack
from placement_service.formulation.eviction.running_topology import KeptWishes
from placement_service.formulation.eviction.shared_room import SharedRoom, Terms
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.held_columns import amounts_of
from placement_service.formulation.open_gangs import (
    MUST_RUN,
    WAITING,
    opened,
    others,
    waiting_group,
)
from placement_service.formulation.prepared import Prepared, SetOf


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
    opening = _Opening(snapshot, chosen, rights, shares=shares)
    room, wishes = opening.room, opening.wishes
    gangs: list[PodGang] = []
    for i, gang in enumerate(snapshot.gangs):
        if i not in chosen:
            gangs.append(opening.waiting(i, gang))
        else:
            stays = i in kept or rights.keeps_its_minimum(gang)
            priority = MUST_RUN if stays else gang.priority
            gangs.append(opening.running(i, gang, priority, alike=alike))
    return Prepared(
        replace(
            snapshot,
            nodes=room.nodes(),
            gangs=tuple(gangs),
            running_pods=others(snapshot, chosen),
            reservations=tuple(map(room.held, snapshot.reservations)),
        ),
        tuple(opening.homes),
        held=opening.held,
        closed=opening.closed,
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


class _Opening:
    """Gangs with what they take of the room, one after another, and what is told beside them."""

    def __init__(
        self, snapshot: Snapshot, chosen: frozenset[int], rights: EvictionRights, *, shares: bool
    ) -> None:
        self.room = SharedRoom(snapshot, chosen, rights, shares=shares)
        self.wishes = KeptWishes(snapshot, chosen)
        #: Where the pods of open gangs are, and what they hold there.
        self.homes: list[Assignment] = []
        self.held: dict[SetOf, Resources] = {}
        #: The rows of nodes that are closed for pods that wait.
        self.closed: dict[SetOf, frozenset[int]] = {}
        self._kept_back = KeptBack(snapshot, chosen, rights)
        self._row = snapshot.columns.row_of
        self._queues = {queue.name for queue in snapshot.queues}
        self._terms = {
            pod.name: pod.required_anti_affinity
            for pod in snapshot.running_pods
            if pod.required_anti_affinity
        }
        self._wanted_domains = {
            s.template.compute_domain
            for gang in snapshot.gangs
            for group in gang.groups
            for s in group.pod_sets
            if s.pods
        }

    def waiting(self, i: int, gang: PodGang) -> PodGang:
        """A gang that is not open."""
        groups = (self._coming(SetOf(i, r, 0), gang, group) for r, group in enumerate(gang.groups))
        return replace(gang, groups=tuple(groups))

    def running(self, i: int, gang: PodGang, priority: int, *, alike: bool) -> PodGang:
        """A gang with its pods at home or nowhere. With `alike` those that wait may stand in for
        pods of the minimum that run.
        """
        groups = [self._at_home(i, r, gang, group) for r, group in enumerate(gang.groups)]
        for group in gang.groups:
            if group.pending_count:
                # It comes as others do, and may not take what pods of its own gang leave.
                first = SetOf(i, len(groups), 0)
                groups.append(self._coming(first, gang, waiting_group(group)))
        return opened(
            # Nothing new comes of a gang whose queue is not there.
            gang if gang.queue in self._queues else replace(gang, queue=""),
            _together(groups) if alike else groups,
            priority,
            moves=False,
            base=self.wishes.base(gang),
            near=self.wishes.level(gang),
        )

    def _coming(self, first: SetOf, gang: PodGang, group: PodGroup) -> PodGroup:
        """A group of which new pods come; `first` is the first of its sets."""
        for k, s in enumerate(group.pod_sets):
            rows = self._kept_back.rows(gang, s.template) if s.pods else None
            if rows:
                self.closed[first._replace(pod_set=k)] = rows
        counts = self.room.counts(gang, opens=False)
        charged = (
            replace(s, template=self.room.charged(s.template, counts)) for s in group.pod_sets
        )
        return replace(group, pod_sets=tuple(charged))

    def _at_home(self, i: int, r: int, gang: PodGang, group: PodGroup) -> PodGroup:
        """The running pods of a group, by what tells them apart."""
        counts = self.room.counts(gang, opens=True)
        sets: list[PodSet] = []
        for s in group.pod_sets:
            template = self.room.charged(s.template, counts)
            alone = s.template.compute_domain not in ("", *self._wanted_domains)
            for here, pods in _alike(s, self._terms).items():
                rules = (*here.terms, AVOIDS_ALL) if alone else here.terms
                if here.held is not None:
                    self.held[SetOf(i, r, len(sets))] = dict(here.held)
                self.homes.append(Assignment(i, r, len(sets), self._row[here.node], len(pods)))
                sets.append(PodSet(self.room.at_home(template, rules, alone=alone), tuple(pods)))
        return replace(group, pod_sets=tuple(sets))


def _alike(s: PodSet, terms: Mapping[str, Terms]) -> Mapping[_Alike, list[Pod]]:
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
