"""Which pod uses which reservation, decided once it is known which pods are on which node. Owners
on the node of a reservation use it as far as it goes. Pods that require a reservation come first,
those before others that may use fewer. An allocate-once reservation gets one pod that fits, a
restricted one as many as fit, and any other all owners. An allocate-once one that no pod fits gets
a pod that no other reservation helps. A pod that a reservation names changes places with a pod of
its set on that node. Where this holds back room that other pods of the node have, any choice that
does not is as good (`reservation_choice`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.naming.reservation_choice import (
    MOST_IN_ALL,
    Amounts,
    BoundHere,
    Choices,
)
from placement_service.entities.request import PODS, Binding, Pod, Snapshot
from placement_service.entities.reservations import Reservation


def use_reservations(
    snapshot: Snapshot, bindings: Sequence[Binding], evictions: Sequence[Eviction] = ()
) -> tuple[Binding, ...]:
    """The bindings with the reservations that they use, in the same order."""
    if not snapshot.reservations:
        return tuple(bindings)
    running = {
        pod.reservation
        for gang in snapshot.gangs
        for group in gang.groups
        for pod in group.running_pods
    }
    found = _named_pods_first(snapshot, bindings, running)
    sets = {
        pod.name: (gang, s.template)
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
        for pod in s.pods
    }
    beside: dict[str, list[BoundHere]] = {}
    for i, binding in enumerate(found):
        gang, template = sets[binding.pod]
        pod = BoundHere(i, binding.pod, gang.name, gang.namespace, template)
        beside.setdefault(binding.node, []).append(pod)
    room = _Room(snapshot, evictions)
    on_node: dict[str, list[Reservation]] = {}
    for reservation in sorted(map(room.given_back, snapshot.reservations), key=lambda r: r.name):
        on_node.setdefault(reservation.node, []).append(reservation)
    left = MOST_IN_ALL
    for node, reservations in on_node.items():
        if node in beside:
            taken = [r for r in reservations if r.allocate_once and r.name in running]
            some = [r for r in reservations if r not in taken]
            users: Mapping[int, str] = _Users(beside[node], some).users
            there = room.of(node, some, taken)
            tries = [room.of_some(node, there, beside[node]), ()] if evictions else [()]
            for of_some in tries:
                choices = Choices(beside[node], some, there, of_some, most=left)
                better = users if choices.fit(users) else choices.first_that_fits()
                left -= choices.tried
                if better is not None:
                    users = better
                    break
            for i, name in users.items():
                found[i] = found[i]._replace(reservation=name)
    return tuple(found)


class _Room:
    """What nodes have for new pods once those that go have left and those that move have come."""

    def __init__(self, snapshot: Snapshot, evictions: Sequence[Eviction]) -> None:
        self._nodes = snapshot.columns
        self._gangs = {gang.name: gang for gang in (snapshot.gangs if evictions else ())}
        #: Pods that go and do not run again, by their node, and what each leaves there for others.
        self._victims: defaultdict[str, list[tuple[Eviction, Amounts]]] = defaultdict(list)
        #: What comes free by the evictions, by node and resource.
        self._back: Counter[tuple[str, str]] = Counter()
        #: What of it is for the owners of a reservation, by its name.
        self._given_back: defaultdict[str, Counter[str]] = defaultdict(Counter)
        running = {
            pod.name: (pod, s.template)
            for gang in (snapshot.gangs if evictions else ())
            for group in gang.groups
            for s in group.pod_sets
            for pod in s.bound_pods
        }
        known = {"", *(reservation.name for reservation in snapshot.reservations)}
        for eviction in evictions:
            pod, template = running[eviction.pod]
            if not eviction.to_node and not pod.reservation:
                self._victims[eviction.node].append((eviction, pod.holds(template)))
            for resource, amount in template.requests.items():
                self._back[eviction.to_node, resource] -= amount
            for resource, amount in pod.holds(template).items():
                self._back[eviction.node, resource] += amount if pod.reservation in known else 0
                if resource != PODS:
                    self._given_back[pod.reservation][resource] += amount

    def given_back(self, reservation: Reservation) -> Reservation:
        """The reservation, which also holds what evicted pods in it had."""
        if reservation.name not in self._given_back:
            return reservation
        held = Counter(reservation.held)
        held.update(self._given_back[reservation.name])
        return replace(reservation, held=held)

    def of(
        self, node: str, reservations: Sequence[Reservation], taken: Sequence[Reservation]
    ) -> Amounts:
        """Of each resource that the reservations hold; `taken` ones serve no new pod."""
        there = self._nodes[self._nodes.row_of[node]]
        return {
            resource: there.free(resource)
            + self._back[node, resource]
            - sum(r.held.get(resource, 0) for r in taken)
            for resource in {s for r in reservations for s in r.held}
        }

    def of_some(
        self, node: str, room: Amounts, pods: Sequence[BoundHere]
    ) -> Sequence[tuple[Collection[str], Amounts]]:
        """What is there for gangs that may not use what all victims leave; `room` is for all.

        A gang may use the room of victims below its priority and of those that go for it. So the
        gangs up to a priority have what victims below that left, and those of them for whom none
        goes have it without what was reclaimed.
        """
        victims = self._victims.get(node, ())
        for_gangs = {eviction.for_gang for eviction, _ in victims}
        gangs = {pod.gang for pod in pods}
        found: list[tuple[Collection[str], Amounts]] = []
        for level in {self._standing(gang) for gang in gangs} if victims else ():
            asking = {gang for gang in gangs if self._standing(gang) <= level}
            others = asking - for_gangs
            above = [(e, leaves) for e, leaves in victims if self._gangs[e.gang].priority >= level]
            kept = [leaves for e, leaves in above if e.kind is not EvictionKind.RECLAIM]
            reclaimed = [leaves for e, leaves in above if e.kind is EvictionKind.RECLAIM]
            found.append((asking, _less(room, kept)))
            found.append((others, _less(room, [*kept, *reclaimed])))
        return [(asking, there) for asking, there in found if asking and there != room]

    def _standing(self, gang: str) -> float:
        """The priority below which it may use the room of victims."""
        mine = self._gangs[gang]
        return float("-inf") if mine.never_preempts else mine.priority


def _less(room: Amounts, taken: Iterable[Amounts]) -> Amounts:
    gone = list(taken)
    return {r: amount - sum(t.get(r, 0) for t in gone) for r, amount in room.items()}


class _Users:
    """The reservation of each pod of a node that uses one, by its binding."""

    def __init__(self, pods: Iterable[BoundHere], reservations: Sequence[Reservation]) -> None:
        self.users: dict[int, str] = {}
        self._waiting = list(pods)
        self._used: Counter[str] = Counter()
        self._left = {r.name: [r.held[s] for s in sorted(r.held)] for r in reservations}
        insisting = [p for p in self._waiting if p.template.required_reservation is not None]
        # Those first that have the least choice.
        insisting.sort(key=lambda p: sum(map(p.owns, reservations)))
        for pod in insisting:
            # Of several, the one with the least left over.
            mine = [r for r in reservations if self._able(pod, r)]
            if mine:
                least = min(
                    mine, key=lambda r: (not self._fits(pod, r), self._left[r.name], r.name)
                )
                self._take(pod, least)
        once = [r for r in reservations if r.allocate_once]
        others = sorted((r for r in reservations if r not in once), key=lambda r: not r.restricted)
        self._fill(once, self._fits)
        self._fill(others, self._helps)
        # A pod that does not fit an allocate-once one is better off in one that holds more.
        self._fill(once, self._helps)
        self._fill(others, lambda pod, r: any(pod.asks(r)))

    def _fill(
        self, reservations: Iterable[Reservation], suits: Callable[[BoundHere, Reservation], bool]
    ) -> None:
        for r in reservations:
            while users := [
                p for p in self._waiting if self._able(p, r) and any(p.asks(r)) and suits(p, r)
            ]:
                self._take(self._largest(users, r), r)

    def _helps(self, pod: BoundHere, r: Reservation) -> bool:
        """Whether it has any of what the pod asks for."""
        return any(map(min, pod.asks(r), self._left[r.name]))

    def _largest(self, pods: Iterable[BoundHere], r: Reservation) -> BoundHere:
        return max(pods, key=lambda p: (self._fits(p, r), p.asks(r), p.name))

    def _take(self, pod: BoundHere, r: Reservation) -> None:
        self.users[pod.binding] = r.name
        self._used[r.name] += 1
        self._waiting.remove(pod)
        left = zip(self._left[r.name], pod.asks(r), strict=True)
        self._left[r.name] = [max(0, there - asked) for there, asked in left]

    def _fits(self, pod: BoundHere, r: Reservation) -> bool:
        left = zip(self._left[r.name], pod.asks(r), strict=True)
        return all(asked <= there for there, asked in left)

    def _able(self, pod: BoundHere, r: Reservation) -> bool:
        if r.allocate_once and self._used[r.name]:
            return False
        return pod.owns(r) and (not r.restricted or self._fits(pod, r))


def _named_pods_first(
    snapshot: Snapshot, bindings: Sequence[Binding], running: Collection[str]
) -> list[Binding]:
    """Pods of a set in another order, so that pods named by reservations are beside them: a pod
    that several name beside the first that serves nobody else. `running` ones are in use.
    """
    home: dict[str, str] = {}
    able = (
        r
        for r in snapshot.reservations
        if not (r.closed or (r.allocate_once and r.name in running))
    )
    for r in sorted(able, key=lambda r: not all(owner.pod for owner in r.owners)):
        for owner in r.owners:
            if owner.pod:
                home.setdefault(owner.pod, r.node)
    found = list(bindings)
    at = {b.pod: i for i, b in enumerate(found)}
    for pods in _sets_with(snapshot, home):
        uid = {pod.name: pod.uid for pod in pods}
        for name in (pod.name for pod in pods if pod.name in home):
            here = at.get(name)
            if here is not None and found[here].node == home[name]:
                continue
            # A pod of the set beside the reservation that is not at home there itself.
            others = (p.name for p in pods if p.name in at and home.get(p.name) != home[name])
            other = next((o for o in others if found[at[o]].node == home[name]), None)
            if other is None:
                continue
            there = at[other]
            found[there] = found[there]._replace(pod=name, uid=uid[name])
            at[name] = there
            if here is None:
                del at[other]
            else:
                found[here] = found[here]._replace(pod=other, uid=uid[other])
                at[other] = here
    return found


def _sets_with(snapshot: Snapshot, names: Mapping[str, str]) -> Iterator[Sequence[Pod]]:
    """The pods of each set that has one of some names."""
    for gang in snapshot.gangs if names else ():
        for group in gang.groups:
            for s in group.pod_sets:
                if any(pod.name in names for pod in s.pods):
                    yield s.pods
