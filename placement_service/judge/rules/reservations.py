"""Reservations: which pods may use them, how much they still hold, and for which pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from placement_service.entities.request import PODS, BoundPod
from placement_service.entities.reservations import Reservation
from placement_service.judge.outcome import EvictedPod, NewPod
from placement_service.judge.plan import Plan


def reservations_serve_their_owners(plan: Plan) -> Iterator[str]:
    """A pod uses a reservation of its node that is open and has it as an owner."""
    if not plan.snapshot.reservations and not any(b.reservation for b in plan.bindings):
        return
    known = {reservation.name: reservation for reservation in plan.snapshot.reservations}
    for pod in plan.new:
        if not pod.reservation:
            continue
        reservation = known.get(pod.reservation)
        if reservation is None:
            yield f"pod {pod.name} uses {pod.reservation}, which the snapshot does not have"
        elif reservation.node != pod.node.name:
            yield (
                f"pod {pod.name} on node {pod.node.name} uses {reservation.name}, "
                f"which is on node {reservation.node}"
            )
        elif reservation.closed:
            yield f"pod {pod.name} uses {reservation.name}, which takes no new pods"
        elif not _owns(pod, reservation):
            yield f"pod {pod.name} uses {reservation.name}, of which it is no owner"


def required_reservations_are_used(plan: Plan) -> Iterator[str]:
    """A pod that requires a reservation runs in one that it selects."""
    known = {reservation.name: reservation for reservation in plan.snapshot.reservations}
    for template, pods in plan.new_of(lambda template: template.required_reservation):
        wanted = template.required_reservation
        if wanted is None:
            continue
        for pod in pods:
            used = known.get(pod.reservation)
            if pod.moved:
                yield f"pod {pod.name} is moved, but requires a reservation"
            elif used is None:
                yield f"pod {pod.name} requires a reservation and uses none"
            elif not wanted.matches(used):
                yield f"pod {pod.name} uses {used.name}, which is not one that it requires"


def reservations_give_what_they_may(plan: Plan) -> Iterator[str]:
    """One pod for an allocate-once reservation; no topping up of restricted ones."""
    running = _running_users(plan) if plan.snapshot.reservations else {}
    for reservation in plan.snapshot.reservations:
        users = plan.users_of.get(reservation.name)
        if users is None:
            continue
        count = len(users) + len(running.get(reservation.name, ()))
        if reservation.allocate_once and count > 1:
            yield f"{reservation.name} serves one pod, but {count} use it"
        if reservation.restricted:
            asked = _requests(users)
            leaving = plan.evicted_by_node.get(reservation.node, ())
            for resource, held in sorted(_with_room_of(leaving, reservation).items()):
                if asked[resource] > held:
                    yield (
                        f"{reservation.name} is restricted and holds {held} {resource}, "
                        f"but pods in it ask for {asked[resource]}"
                    )


def owners_use_their_reservation(plan: Plan) -> Iterator[str]:
    """A pod beside a reservation that it may use, and that has room for it, uses it."""
    running = _running_users(plan) if plan.snapshot.reservations else {}
    for node, pods in plan.new_by_node if plan.snapshot.reservations else ():
        for reservation in plan.reservations_by_node.get(node.name, ()):
            name = reservation.name
            taken = reservation.allocate_once and (name in running or name in plan.users_of)
            if reservation.closed or taken:
                continue
            leaving = plan.evicted_by_node.get(node.name, ())
            left = still_held(plan, reservation, pods, leaving)
            for pod in pods:
                if pod.reservation or pod.moved or pod.template.ignores_reservations:
                    continue
                wanted = pod.template.required_reservation
                if not _owns(pod, reservation) or (wanted and not wanted.matches(reservation)):
                    continue
                asks = {r: pod.template.requests.get(r, 0) for r in reservation.held}
                if any(asks.values()) and all(left.get(r, 0) >= a for r, a in asks.items()):
                    yield (
                        f"pod {pod.name} owns {reservation.name} on its node {node.name}, "
                        "which has room for it, and does not use it"
                    )


def still_held(
    plan: Plan,
    reservation: Reservation,
    among: Collection[NewPod],
    leaving: Collection[EvictedPod],
) -> Mapping[str, int]:
    """What a reservation holds back from the pods `among`, less the share of those of them that use
    it, once those `leaving` have gone.

    What the user of an allocate-once reservation leaves over is free for all.
    """
    users = plan.users_of.get(reservation.name, ())
    held = _with_room_of(leaving, reservation)
    if not users:
        return held
    if reservation.allocate_once:
        taken = _requests(users)
        held = {resource: min(amount, taken[resource]) for resource, amount in held.items()}
    names = {pod.name for pod in among}
    mine = _requests([user for user in users if user.name in names])
    return {resource: max(0, amount - mine[resource]) for resource, amount in held.items()}


def _with_room_of(leaving: Collection[EvictedPod], reservation: Reservation) -> Mapping[str, int]:
    """What a reservation holds once these pods have gone: also all that those in it had."""
    total = Counter(reservation.held)
    for victim in leaving:
        if victim.pod.reservation == reservation.name:
            total.update({r: a for r, a in victim.leaves.items() if r != PODS})
    return total


def _owns(pod: NewPod, reservation: Reservation) -> bool:
    return any(
        owner.matches(gang=pod.gang.name, pod=pod.name, namespace=pod.namespace, labels=pod.labels)
        for owner in reservation.owners
    )


def _running_users(plan: Plan) -> Mapping[str, list[BoundPod]]:
    users: dict[str, list[BoundPod]] = {}
    for gang in plan.snapshot.gangs:
        for group in gang.groups:
            for pod in group.running_pods:
                if pod.reservation:
                    users.setdefault(pod.reservation, []).append(pod)
    return users


def _requests(pods: Collection[NewPod]) -> Counter[str]:
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(pod.template.requests)
    return total
