"""The plan as one JSON object: the stable output for programs.

Field names are a promise to scripts. Names are Kubernetes names, without the
prefixes of resource names. `evictions` is always empty: the service moves
nothing.
"""

from __future__ import annotations

from typing import Any

from placement.cli.words import namespaced, node_name, span, whole
from placement.v1 import (
    Binding,
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


def answer(placement: Placement) -> Json:
    """The answer for ``-o json`` and ``-o yaml``."""
    result: Json = {
        "bindings": [_binding(b) for b in placement.bindings],
        "evictions": [],
        "podGangs": [_gang(g) for g in placement.gangs],
        "termination": _termination(placement.termination),
        "objective": [_tier(t) for t in placement.tiers],
        "stats": _stats(placement.stats),
    }
    if placement.revision:
        result["revision"] = placement.revision
    return result


def _binding(binding: Binding) -> Json:
    namespace, pod = namespaced(binding.pod)
    result = {
        "namespace": namespace,
        "pod": pod,
        "node": node_name(binding.node),
        "podGang": namespaced(binding.gang)[1],
        "podGroup": binding.group,
    }
    if binding.uid:
        result["uid"] = binding.uid
    return result


def _gang(gang: GangResult) -> Json:
    namespace, name = namespaced(gang.name)
    return {
        "namespace": namespace,
        "name": name,
        "placed": gang.placed,
        "placementScore": gang.placement_score if gang.HasField("placement_score") else None,
        "reasons": [_reason(r) for r in gang.reasons],
        "scopes": [_scope(s) for s in gang.scopes],
    }


def _reason(reason: Reason) -> Json:
    result: Json = {
        "code": ReasonCode.Name(reason.code).removeprefix("REASON_CODE_"),
        "message": reason.message,
    }
    if reason.level:
        result["level"] = reason.level
    if reason.domain:
        result["domain"] = reason.domain
    if reason.asked:
        result["asked"] = reason.asked
        result["found"] = reason.found
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
