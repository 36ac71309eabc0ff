"""The cluster: running pods, queues, reservations, budgets. Nodes have a module of their own."""

from __future__ import annotations

from collections.abc import Iterable

from placement.v1 import cluster_pb2
from placement_service.api.validation.names import namespace_in
from placement_service.api.wire.parts import (
    Found,
    add_violations,
    affinity_term_to_proto,
    parse_affinity_terms,
    parse_resources,
    parse_selector,
    resources_to_proto,
    selector_to_proto,
)
from placement_service.api.wire.times import duration, whole_seconds
from placement_service.entities.errors import Violation
from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import Queue
from placement_service.entities.request import (
    RunningPod,
)
from placement_service.entities.reservations import Reservation, ReservationOwner


def parse_running_pods(
    messages: Iterable[cluster_pb2.RunningPod], violations: list[Violation]
) -> Iterable[RunningPod]:
    for i, message in enumerate(messages):
        found: Found = []
        terms = message.required_anti_affinity
        yield RunningPod(
            name=message.name,
            node=message.node,
            labels=dict(message.labels),
            required_anti_affinity=parse_affinity_terms(
                terms, "required_anti_affinity", namespace_in(message.name), found
            )
            if terms
            else (),
        )
        if found:
            add_violations(violations, f"snapshot.pods[{i}]", found)


def running_pod_to_proto(pod: RunningPod) -> cluster_pb2.RunningPod:
    return cluster_pb2.RunningPod(
        name=pod.name,
        node=pod.node,
        labels=pod.labels,
        required_anti_affinity=map(affinity_term_to_proto, pod.required_anti_affinity),
    )


def parse_queues(messages: Iterable[cluster_pb2.Queue]) -> Iterable[Queue]:
    for message in messages:
        yield Queue(
            name=message.name,
            parent=message.parent,
            limit=dict(message.limit),
            guaranteed=dict(message.guaranteed),
            used=dict(message.used),
            used_not_preemptible=dict(message.used_not_preemptible),
            not_reclaimable=message.not_reclaimable,
            minimum_run_time_before_reclaim=whole_seconds(message.minimum_run_time_before_reclaim),
            kept=dict(message.kept),
        )


def queue_to_proto(queue: Queue) -> cluster_pb2.Queue:
    safe = queue.minimum_run_time_before_reclaim
    return cluster_pb2.Queue(
        name=queue.name,
        parent=queue.parent,
        limit=queue.limit,
        guaranteed=queue.guaranteed,
        used=queue.used,
        used_not_preemptible=queue.used_not_preemptible,
        not_reclaimable=queue.not_reclaimable,
        minimum_run_time_before_reclaim=duration(safe) if safe else None,
        kept=queue.kept,
    )


def parse_reservations(
    messages: Iterable[cluster_pb2.Reservation], violations: list[Violation]
) -> Iterable[Reservation]:
    for i, message in enumerate(messages):
        held_found: Found = []
        held = parse_resources(message.held, held_found)
        found = [(f"held.{path}", what) for path, what in held_found]
        yield Reservation(
            name=message.name,
            node=message.node,
            held=dict.fromkeys(message.used_up, 0) | held,
            owners=tuple(
                ReservationOwner(
                    gang=owner.gang,
                    pod=owner.pod,
                    namespace=owner.namespace,
                    selector=parse_selector(owner.selector, f"owners[{n}].selector", found)
                    if owner.HasField("selector")
                    else None,
                )
                for n, owner in enumerate(message.owners)
            ),
            restricted=message.restricted,
            allocate_once=message.allocate_once,
            labels=dict(message.labels),
            closed=message.closed,
            devices=tuple(message.devices),
        )
        if found:
            add_violations(violations, f"snapshot.reservations[{i}]", found)


def reservation_to_proto(reservation: Reservation) -> cluster_pb2.Reservation:
    return cluster_pb2.Reservation(
        name=reservation.name,
        node=reservation.node,
        held=resources_to_proto(reservation.held),
        owners=[
            cluster_pb2.ReservationOwner(
                gang=owner.gang,
                pod=owner.pod,
                namespace=owner.namespace,
                selector=selector_to_proto(owner.selector),
            )
            for owner in reservation.owners
        ],
        restricted=reservation.restricted,
        allocate_once=reservation.allocate_once,
        labels=reservation.labels,
        closed=reservation.closed,
        devices=reservation.devices,
        used_up=[name for name, amount in reservation.held.items() if not amount],
    )


def parse_disruption_budgets(
    messages: Iterable[cluster_pb2.DisruptionBudget], violations: list[Violation]
) -> Iterable[DisruptionBudget]:
    for i, message in enumerate(messages):
        found: Found = []
        yield DisruptionBudget(
            name=message.name,
            selector=parse_selector(message.selector, "selector", found)
            if message.HasField("selector")
            else None,
            allowed=message.allowed,
        )
        if found:
            add_violations(violations, f"snapshot.disruption_budgets[{i}]", found)


def disruption_budget_to_proto(budget: DisruptionBudget) -> cluster_pb2.DisruptionBudget:
    return cluster_pb2.DisruptionBudget(
        name=budget.name, selector=selector_to_proto(budget.selector), allowed=budget.allowed
    )
