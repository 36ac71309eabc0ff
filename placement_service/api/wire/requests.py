"""Questions: requests become values, and come back.

`parse_request` and `request_to_proto` are inverses of each other, up to what
the value fills in: defaults, the groups of a scope that names none, and the
namespaces of a term that names none. What a value cannot hold (an unspecified operator, for
example) is found here; all other rules are in `validation`, and `parse_request` reports the
violations of both together. Positions are kept: the third node of the message is the third node of
the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from placement.v1 import cluster_pb2, placement_service_pb2
from placement_service.api import size, validation
from placement_service.api.wire import cluster, nodes, workload
from placement_service.api.wire.parts import inverse, unspecified
from placement_service.api.wire.placements import add_bindings, parse_binding
from placement_service.api.wire.slices import canonical
from placement_service.api.wire.times import duration, seconds, timestamp, whole_seconds
from placement_service.entities.errors import InvalidRequest, SnapshotUnknown, Violation
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import (
    DEFAULT_GPU_RESOURCES,
    ExtrasPolicy,
    Policy,
    Request,
    Snapshot,
    Tolerance,
)

EVICTION_POLICIES: Mapping[placement_service_pb2.EvictionPolicy, EvictionPolicy] = {
    getattr(placement_service_pb2, f"EVICTION_POLICY_{policy.value}"): policy
    for policy in EvictionPolicy
}

EXTRAS_POLICIES: Mapping[placement_service_pb2.ExtrasPolicy, ExtrasPolicy] = {
    getattr(placement_service_pb2, f"EXTRAS_POLICY_{policy.value}"): policy
    for policy in ExtrasPolicy
}


def parse_request(message: placement_service_pb2.ComputePlacementRequest) -> Request:
    """The question in a message.

    Raises InvalidRequest with every violation, SnapshotUnknown where it has a base.
    """
    if message.HasField("base"):
        raise SnapshotUnknown(message.base.digest)
    size.check_message(message)
    found: list[Violation] = []
    request = parse_told(message, canonical(message.snapshot), found)
    check(request, request, found)
    return request


def parse_told(
    message: placement_service_pb2.ComputePlacementRequest, content: bytes, found: list[Violation]
) -> Request:
    """The content of a message; `content` is the canonical encoding of its snapshot. Nothing is
    checked but what no value can hold; `found` gets these violations.

    With a base, the nodes and running pods are only those that have changed since.
    """
    snapshot = message.snapshot
    return Request(
        snapshot=Snapshot(
            nodes=nodes.parse_nodes(content, found),
            gangs=tuple(workload.parse_gangs(message.gangs, message.pod_templates, found)),
            running_pods=tuple(cluster.parse_running_pods(snapshot.pods, found)),
            revision=snapshot.revision,
            as_of=snapshot.as_of.seconds if snapshot.HasField("as_of") else None,
            queues=tuple(cluster.parse_queues(snapshot.queues)),
            reservations=tuple(cluster.parse_reservations(snapshot.reservations, found)),
            disruption_budgets=tuple(
                cluster.parse_disruption_budgets(snapshot.disruption_budgets, found)
            ),
        ),
        policy=_parse_policy(message.policy, found),
        time_limit_seconds=seconds(message.time_limit) if message.HasField("time_limit") else None,
        previous=tuple(parse_binding(b) for b in message.previous_placement),
        validate_only=message.validate_only,
        label=message.label,
    )


def check(told: Request, whole: Request, found: Sequence[Violation] = ()) -> None:
    """Raises InvalidRequest with every violation, those `found` already included.

    `told` is what the message says, and `whole` the same with all nodes and running pods.
    """
    size.check_tables(whole)
    first, count = validation.first_violations(chain(found, validation.violations(told, whole)))
    if count:
        raise InvalidRequest(first, count)


def request_to_proto(request: Request) -> placement_service_pb2.ComputePlacementRequest:
    """The message that `parse_request` reads as this request."""
    message = placement_service_pb2.ComputePlacementRequest(
        snapshot=cluster_pb2.ClusterSnapshot(
            revision=request.snapshot.revision,
            nodes=map(nodes.node_to_proto, request.snapshot.nodes),
            pods=map(cluster.running_pod_to_proto, request.snapshot.running_pods),
            as_of=timestamp(request.snapshot.as_of),
            queues=map(cluster.queue_to_proto, request.snapshot.queues),
            reservations=map(cluster.reservation_to_proto, request.snapshot.reservations),
            disruption_budgets=map(
                cluster.disruption_budget_to_proto, request.snapshot.disruption_budgets
            ),
        ),
        gangs=map(workload.gang_to_proto, request.snapshot.gangs),
        policy=_policy_to_proto(request.policy),
        validate_only=request.validate_only,
        label=request.label,
    )
    add_bindings(message.previous_placement, request.previous)
    if request.time_limit_seconds is not None:
        message.time_limit.CopyFrom(duration(request.time_limit_seconds))
    return message


def _parse_policy(message: placement_service_pb2.Policy, violations: list[Violation]) -> Policy:
    eviction, extras = EvictionPolicy.NONE, ExtrasPolicy.AFTER_MINIMUMS
    if message.eviction:
        if message.eviction in EVICTION_POLICIES:
            eviction = EVICTION_POLICIES[message.eviction]
        else:
            violations.append(Violation("policy.eviction", unspecified(message.eviction)))
    if message.extras:
        if message.extras in EXTRAS_POLICIES:
            extras = EXTRAS_POLICIES[message.extras]
        else:
            violations.append(Violation("policy.extras", unspecified(message.extras)))
    return Policy(
        gpu_resources=tuple(message.gpu_resources) or DEFAULT_GPU_RESOURCES,
        deterministic=message.deterministic,
        eviction=eviction,
        starvation_after=whole_seconds(message.starvation_after)
        if message.HasField("starvation_after")
        else None,
        tolerances=tuple(Tolerance(*item) for item in sorted(message.tolerances.items())),
        extras=extras,
    )


def _policy_to_proto(policy: Policy) -> placement_service_pb2.Policy:
    return placement_service_pb2.Policy(
        gpu_resources=policy.gpu_resources,
        deterministic=policy.deterministic,
        eviction=inverse(EVICTION_POLICIES)[policy.eviction],
        starvation_after=None
        if policy.starvation_after is None
        else duration(policy.starvation_after),
        tolerances=dict(policy.tolerances),
        extras=inverse(EXTRAS_POLICIES)[policy.extras],
    )
