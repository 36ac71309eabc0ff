"""Messages become values and come back unchanged; no message does harm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given

from placement.v1 import (
    ComputePlacementRequest,
    Placement,
    Progress,
    cluster_pb2,
    placement_pb2,
    placement_service_pb2,
    workload_pb2,
)
from placement_service.api.wire import nodes, parts, placements, requests, workload
from placement_service.api.wire.requests import parse_request, request_to_proto
from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
    RequiredPartition,
)
from placement_service.entities.eviction import (
    DisruptionBudget,
    Eviction,
    EvictionKind,
    EvictionPolicy,
)
from placement_service.entities.placement import (
    GangResult,
    Reason,
    ReasonCode,
    ReasonState,
    ScopeUse,
    Stats,
    Termination,
)
from placement_service.entities.placement import Placement as PlacementValue
from placement_service.entities.placement import Progress as ProgressValue
from placement_service.entities.queues import Queue
from placement_service.entities.request import (
    CPU,
    DEFAULT_GPU_RESOURCES,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    MEMORY,
    PODS,
    Binding,
    BoundPod,
    Effect,
    ExtrasPolicy,
    HostPort,
    Node,
    PackingScope,
    Pod,
    PodAffinityTerm,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Request,
    RunningPod,
    Snapshot,
    SpreadConstraint,
    Taint,
    Tolerance,
    Toleration,
)
from placement_service.entities.reservations import (
    Reservation,
    ReservationOwner,
    ReservationSelector,
)
from placement_service.entities.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
)
from placement_service.entities.solution import Limit, Tier, TierName
from tests.service.questions import message, request
from tests.strategies import snapshots

SELECTOR = LabelSelector((("app", "a"),), (Requirement("tier", Operator.EXISTS),))

TERM = PodAffinityTerm(SELECTOR, "rack", ("ml", "other"))

TEMPLATE = PodTemplate(
    requests={CPU: 1500, MEMORY: 2**30, EPHEMERAL_STORAGE: 5, PODS: 1, "nvidia.com/gpu": 8},
    labels={"app": "a"},
    node_selector=(("gpu", "h100"),),
    required_node_affinity=(
        NodeSelectorTerm(
            tuple(Requirement("k", o, () if "Exist" in o.value else ("1",)) for o in Operator),
            (Requirement("metadata.name", Operator.IN, ("n1",)),),
        ),
    ),
    tolerations=(
        Toleration("a", True, "", None),
        *(Toleration("b", False, "v", effect) for effect in Effect),
    ),
    required_affinity=(TERM, PodAffinityTerm(None, "zone", (), all_namespaces=True)),
    required_anti_affinity=(TERM,),
    host_ports=(HostPort(80, "UDP", "10.0.0.1"), HostPort(81)),
    spread_constraints=(
        SpreadConstraint(
            2, "zone", SELECTOR, "ml", min_domains=3, ignore_node_affinity=True, honor_taints=True
        ),
    ),
    device_share=DeviceShare(500, 0, 2**30, 2),
    same_pcie_nics=1,
    compute_domain="imex-1",
    required_reservation=ReservationSelector(
        "reservations/held", (NodeSelectorTerm((Requirement("pool", Operator.EXISTS),)),)
    ),
    ignores_reservations=True,
)

#: Every field set, every member of every enum used.
EVERYTHING = Request(
    snapshot=Snapshot(
        nodes=(
            Node(
                name="nodes/n1",
                labels={HOSTNAME: "n1", "rack": "r1"},
                allocatable={
                    CPU: 8000,
                    MEMORY: 2**40,
                    EPHEMERAL_STORAGE: 7,
                    PODS: 200,
                    "nvidia.com/gpu": 8,
                },
                requested={CPU: 1, MEMORY: 2, EPHEMERAL_STORAGE: 3, PODS: 4, "nvidia.com/gpu": 5},
                taints=tuple(Taint("k", "v", effect) for effect in Effect),
                unschedulable=True,
                ready=False,
                host_ports=(HostPort(443, "SCTP", "10.0.0.2"),),
                devices=(Device(3, False, 250, 500, 2**36, 1, "pcie-0", 2), Device(4)),
                partitions=(DevicePartition((3, 4), 2, 2**38),),
                partition_policy=PartitionPolicy.HONOR,
                compute_domain="imex-0",
                compute_domain_pods=2,
                closed_because="pod ml/x holds a claim",
            ),
        ),
        gangs=(
            PodGang(
                name="namespaces/ml/podgangs/base",
                groups=(
                    PodGroup(
                        "decode",
                        2,
                        (
                            PodSet(
                                TEMPLATE,
                                (Pod("namespaces/ml/pods/base-0", "uid-0", rank=0),),
                                (
                                    BoundPod(
                                        "namespaces/ml/pods/base-2",
                                        "nodes/n1",
                                        devices=(4,),
                                        held={CPU: 1, PODS: 1, "nic": 2},
                                    ),
                                ),
                            ),
                        ),
                        (
                            BoundPod(
                                "namespaces/ml/pods/base-1", "nodes/n1", "reservations/held", (3,)
                            ),
                        ),
                        gated_count=3,
                    ),
                ),
                priority=-5,
                packing_scopes=(PackingScope("all", ("decode",), "rack", "block"),),
                uninitialized=True,
                previous_nodes=("nodes/gone",),
                unsupported=("pod ml/a: spec.resourceClaims",),
                created=1_700_000_000,
                queue="queues/team-a",
                not_preemptible=True,
                start=1_700_000_100,
                minimum_run_time=600,
                minimum_run_time_before_reclaim=300,
                never_preempts=True,
                volume_claims=("models", "data-0"),
            ),
            PodGang(
                name="namespaces/ml/podgangs/scaled",
                groups=(
                    PodGroup(
                        "decode",
                        0,
                        (
                            PodSet(
                                PodTemplate({PODS: 1}, device_share=DeviceShare(0, 250)),
                                (Pod("namespaces/ml/pods/scaled-0"),),
                            ),
                            PodSet(
                                PodTemplate(
                                    {PODS: 1, "amd.com/gpu": 2},
                                    required_partition=RequiredPartition(
                                        best_score=True, ring_bandwidth=2**37
                                    ),
                                    unsupported=("spec.resourceClaims[c0]: constraints",),
                                ),
                                (Pod("namespaces/ml/pods/scaled-1"),),
                            ),
                        ),
                    ),
                ),
                base_gang="namespaces/ml/podgangs/base",
            ),
        ),
        running_pods=(RunningPod("namespaces/ml/pods/other", "nodes/n1", {"app": "a"}, (TERM,)),),
        revision="42",
        as_of=1_700_000_200,
        queues=(
            Queue("queues/org"),
            Queue(
                "queues/team-a",
                "queues/org",
                limit={"gpus": 64, "cpu": 0},
                guaranteed={"gpus": 8},
                used={"gpus": 4},
                used_not_preemptible={"gpus": 2},
                not_reclaimable=True,
                minimum_run_time_before_reclaim=90,
                kept={"gpus": 3},
            ),
        ),
        reservations=(
            Reservation(
                "reservations/held",
                "nodes/n1",
                {CPU: 1000, "nvidia.com/gpu": 2, "nic": 0},
                (
                    ReservationOwner(
                        "namespaces/ml/podgangs/base", "namespaces/ml/pods/base-0", "ml", SELECTOR
                    ),
                    ReservationOwner(namespace="ml"),
                ),
                restricted=True,
                allocate_once=True,
                labels={"pool": "a"},
                closed=True,
                devices=(3, 4),
            ),
        ),
        disruption_budgets=(
            DisruptionBudget("namespaces/ml/poddisruptionbudgets/serve", SELECTOR, 1),
        ),
    ),
    policy=Policy(
        ("amd.com/gpu",),
        deterministic=True,
        eviction=EvictionPolicy.RECLAIM,
        starvation_after=1800,
        tolerances=(Tolerance("admitted", 0.01), Tolerance("topology", 0.5)),
        extras=ExtrasPolicy.WITH_PRIORITY,
    ),
    time_limit_seconds=2.5,
    previous=(
        Binding(
            "namespaces/ml/pods/base-0",
            "nodes/n1",
            "namespaces/ml/podgangs/base",
            "decode",
            "u",
            (3, 4),
            "reservations/held",
        ),
    ),
    validate_only=True,
    label="nightly",
)

TIERS = tuple(Tier(name, 8.0 - i, None if i == 2 else i + 0.5) for i, name in enumerate(TierName))

PLACEMENT = PlacementValue(
    revision="42",
    label="nightly",
    bindings=EVERYTHING.previous,
    gangs=(
        GangResult(
            name="namespaces/ml/podgangs/base",
            placed=True,
            placement_score=0.0,
            reasons=tuple(
                Reason(code, "Words.", "rack", "r1", 4, 3, ReasonState.AFTER_PLAN, "queues/a")
                for code in ReasonCode
            )
            + tuple(Reason(ReasonCode.OUTCOMPETED, "", state=state) for state in ReasonState),
            scopes=(ScopeUse("all", "rack", True, ("", "r1")),),
        ),
        GangResult("namespaces/ml/podgangs/scaled", False),
    ),
    tiers=TIERS,
    termination=Termination(False, Limit.TIME, 0.0, "The time limit ended the search."),
    stats=Stats(1.5, 0.25, 1.0, TIERS, "engine 1", True, 2**30),
    evictions=tuple(
        Eviction(
            "namespaces/ml/pods/batch-0",
            "namespaces/ml/podgangs/batch",
            "nodes/n1",
            kind,
            "namespaces/ml/podgangs/base",
            "nodes/n2",
            "Words.",
            (1, 2),
        )
        for kind in EvictionKind
    ),
    request_digest="sha256:" + "0" * 64,
    snapshot_digest="sha256:" + "1" * 64,
)


def test_a_request_with_everything_comes_back_unchanged() -> None:
    there = request_to_proto(EVERYTHING)
    assert parse_request(there) == EVERYTHING
    assert request_to_proto(parse_request(there)) == there


def test_everything_means_every_field_of_the_request() -> None:
    """So that a new field cannot be forgotten in the translation.

    Values have neither a base nor named templates: reading a request resolves both.
    """
    fields = {f for f in fields_of(ComputePlacementRequest.DESCRIPTOR) if "Base" not in f}
    resolved = {
        "placement.v1.ComputePlacementRequest.base",
        "placement.v1.ComputePlacementRequest.pod_templates",
        "placement.v1.PodSet.template_name",
    }
    assert fields - resolved == set(fields_set(request_to_proto(EVERYTHING)))


@given(snapshots())
def test_every_snapshot_comes_back_unchanged(snapshot: Snapshot) -> None:
    there = request_to_proto(request(snapshot))
    assert request_to_proto(parse_request(there)) == there


def test_a_placement_with_everything_comes_back_unchanged() -> None:
    there = placements.placement_to_proto(PLACEMENT)
    assert placements.parse_placement(there) == PLACEMENT
    assert set(fields_of(Placement.DESCRIPTOR)) == set(fields_set(there))


def test_the_empty_placement_comes_back_unchanged() -> None:
    assert (
        placements.parse_placement(placements.placement_to_proto(PlacementValue()))
        == PlacementValue()
    )


@pytest.mark.parametrize("limit", Limit)
@pytest.mark.parametrize("optimal", [True, False])
def test_every_termination_comes_back_unchanged(optimal: bool, limit: Limit) -> None:
    placement = PlacementValue(termination=Termination(optimal, limit))
    assert placements.parse_placement(placements.placement_to_proto(placement)) == placement


def test_progress_comes_back_unchanged() -> None:
    progress = ProgressValue(1.25, "exact", TIERS, 3)
    there = placements.progress_to_proto(progress)
    assert placements.parse_progress(there) == progress
    assert set(fields_of(Progress.DESCRIPTOR)) == set(fields_set(there))


@pytest.mark.parametrize(
    ("enum", "table"),
    [
        (cluster_pb2.SelectorOperator, set(parts.OPERATORS)),
        (cluster_pb2.TaintEffect, set(parts.EFFECTS)),
        (workload_pb2.TolerationOperator, set(workload.TOLERATION_OPERATORS) - {0}),
        (cluster_pb2.PartitionPolicy, set(nodes.PARTITION_POLICIES) - {0}),
        (placement_service_pb2.EvictionPolicy, set(requests.EVICTION_POLICIES)),
        (placement_service_pb2.ExtrasPolicy, set(requests.EXTRAS_POLICIES)),
        (placement_pb2.EvictionKind, set(placements.EVICTION_KINDS.values())),
        (placement_pb2.TerminationLimit, set(placements.LIMITS.values()) - {0}),
        (placement_pb2.ReasonCode, set(placements.REASON_CODES.values())),
        (placement_pb2.ReasonState, set(placements.REASON_STATES.values()) - {0}),
    ],
    ids=lambda value: value.DESCRIPTOR.name if hasattr(value, "DESCRIPTOR") else "",
)
def test_every_member_of_every_enum_is_translated(enum: Any, table: set[int]) -> None:
    assert table == set(enum.values()) - {0}


def test_defaults_are_filled_in() -> None:
    there = message()
    node = there.snapshot.nodes[0]
    node.labels.clear()
    node.allocatable.pod_count = 0
    gang = there.gangs[0]
    gang.packing_scopes.add(name="all", required_level="rack")
    gang.groups[0].pod_sets[0].template.requests.pod_count = 0
    term = gang.groups[0].pod_sets[0].template.required_anti_affinity.add(topology_key="rack")
    there.ClearField("time_limit")
    there.policy.ClearField("gpu_resources")

    here = parse_request(there)
    assert here.snapshot.nodes[0].labels == {HOSTNAME: "n0"}
    assert here.snapshot.nodes[0].allocatable[PODS] == 110
    assert here.snapshot.gangs[0].packing_scopes[0].groups == ("worker",)
    template = here.snapshot.gangs[0].groups[0].pod_sets[0].template
    assert template.requests[PODS] == 1
    assert not term.HasField("selector")
    assert template.required_anti_affinity == (PodAffinityTerm(None, "rack", ("ml",)),)
    assert here.time_limit_seconds is None
    assert here.policy.gpu_resources == DEFAULT_GPU_RESOURCES


def fields_of(descriptor: Any) -> Iterator[str]:
    for field in descriptor.fields:
        yield field.full_name
        child = field.message_type
        ours = child is not None and child.full_name.startswith("placement.")
        if ours and not child.GetOptions().map_entry:
            yield from fields_of(child)


def fields_set(there: Message) -> Iterator[str]:
    for field, value in there.ListFields():
        yield field.full_name
        child = field.message_type
        if child is None or child.GetOptions().map_entry:
            continue
        for part in value if field.is_repeated else (value,):
            if child.full_name.startswith("placement."):
                yield from fields_set(part)
