"""The plan as one JSON object: the stable output for programs.

Scripts may rely on the field names. Names are Kubernetes names, without the
prefixes of resource names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from placement.cli.words import gang_title, namespaced, node_name, span, whole
from placement.kubernetes import Problem
from placement.planning.room import Room
from placement.v1 import (
    Binding,
    Eviction,
    EvictionKind,
    GangResult,
    ObjectiveTier,
    Placement,
    Reason,
    ReasonCode,
    ScopeUse,
    SolveStats,
    Termination,
    TerminationLimit,
    TerminationReason,
)

Json = dict[str, Any]


def answer(
    placement: Placement, warnings: Iterable[Problem] = (), room: Room | None = None
) -> Json:
    """The answer for ``-o json`` and ``-o yaml``, with warnings about the input, and what it
    leaves free where that is known."""
    result: Json = {
        "bindings": [_binding(b) for b in placement.bindings],
        "evictions": [_eviction(e) for e in placement.evictions],
        "podGangs": [_gang(g) for g in placement.gangs],
        "termination": _termination(placement.termination),
        "objective": [_tier(t) for t in placement.tiers],
        "warnings": warnings_as_data(warnings),
        "stats": _stats(placement.stats),
    }
    if room is not None:
        result["room"] = _room(room)
    if placement.request_digest:
        result["requestDigest"] = placement.request_digest
    if placement.revision:
        result["revision"] = placement.revision
    return result


def _room(room: Room) -> Json:
    return {
        "gpus": room.gpus,
        "freeGpus": room.free,
        "freeDomains": dict(room.domains),
        "gpusOfGangs": {gang_title(gang): gpus for gang, gpus in room.asked.items() if gpus},
    }


def warnings_as_data(warnings: Iterable[Problem]) -> list[Json]:
    """All that was skipped or not understood in the input."""
    return [
        {"file": w.file, "object": w.object, "field": w.field, "message": w.message}
        for w in warnings
    ]


def _binding(binding: Binding) -> Json:
    namespace, pod = namespaced(binding.pod)
    result: Json = {
        "namespace": namespace,
        "pod": pod,
        "node": node_name(binding.node),
        "podGang": namespaced(binding.gang)[1],
        "podGroup": binding.group,
    }
    if binding.uid:
        result["uid"] = binding.uid
    if binding.devices:
        result["devices"] = list(binding.devices)
    if binding.reservation:
        result["reservation"] = binding.reservation.removeprefix("reservations/")
    return result


def _eviction(eviction: Eviction) -> Json:
    namespace, pod = namespaced(eviction.pod)
    result: Json = {
        "namespace": namespace,
        "pod": pod,
        "podGang": namespaced(eviction.gang)[1],
        "node": node_name(eviction.node),
        "kind": EvictionKind.Name(eviction.kind).removeprefix("EVICTION_KIND_"),
    }
    if eviction.for_gang:
        result["for"] = gang_title(eviction.for_gang)
    if eviction.to_node:
        result["toNode"] = node_name(eviction.to_node)
    result["reason"] = eviction.reason
    return result


def _gang(gang: GangResult) -> Json:
    namespace, name = namespaced(gang.name)
    return {
        "namespace": namespace,
        "name": name,
        "placed": gang.placed,
        "placementScore": gang.placement_score if gang.HasField("placement_score") else None,
        "reasons": [reason(r) for r in gang.reasons],
        "scopes": [_scope(s) for s in gang.scopes],
    }


def reason(why: Reason) -> Json:
    """One reason of a gang that waits, or of which extras wait."""
    result: Json = {
        "code": ReasonCode.Name(why.code).removeprefix("REASON_CODE_"),
        "message": why.message,
    }
    if why.level:
        result["level"] = why.level
    if why.domain:
        result["domain"] = why.domain
    if why.subject:
        result["subject"] = why.subject
    if why.asked:
        result["asked"] = why.asked
        result["found"] = why.found
    return result


def _scope(scope: ScopeUse) -> Json:
    return {
        "name": scope.name,
        "level": scope.level,
        "required": scope.required,
        "domains": list(scope.domains),
    }


def _termination(termination: Termination) -> Json:
    result: Json = {
        "reason": TerminationReason.Name(termination.reason).removeprefix("TERMINATION_REASON_"),
        "gap": termination.gap if termination.HasField("gap") else None,
    }
    if termination.limit != TerminationLimit.TERMINATION_LIMIT_UNSPECIFIED:
        limit = TerminationLimit.Name(termination.limit)
        result["limit"] = limit.removeprefix("TERMINATION_LIMIT_")
    if termination.detail:
        result["detail"] = termination.detail
    return result


def _tier(tier: ObjectiveTier) -> Json:
    return {
        "tier": tier.name,
        "value": whole(tier.value),
        "bound": whole(tier.bound) if tier.HasField("bound") else None,
    }


def _stats(stats: SolveStats) -> Json:
    result: Json = {"elapsedSeconds": span(stats.elapsed)}
    if stats.HasField("first_answer"):
        result["firstAnswerSeconds"] = span(stats.first_answer)
    if stats.HasField("proof"):
        result["proofSeconds"] = span(stats.proof)
    if stats.first_tiers:
        result["firstObjective"] = [_tier(t) for t in stats.first_tiers]
    if stats.engine:
        result["engine"] = stats.engine
    result["deterministic"] = stats.deterministic
    if stats.solver_memory_bytes:
        result["solverMemoryBytes"] = stats.solver_memory_bytes
    return result
