"""Answers: placements and progress become messages, and come back.

`placement_to_proto` and `parse_placement` are inverses of each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from placement.v1 import placement_pb2, placement_service_pb2
from placement_service.api.wire.parts import inverse
from placement_service.api.wire.times import duration, seconds
from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.placement import (
    GangResult,
    Placement,
    Progress,
    Reason,
    ReasonCode,
    ReasonState,
    ScopeUse,
    Stats,
    Termination,
)
from placement_service.entities.request import Binding
from placement_service.entities.solution import Limit, Tier, TierName

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

LIMITS: Mapping[Limit, placement_pb2.TerminationLimit] = {
    Limit.NONE: placement_pb2.TERMINATION_LIMIT_UNSPECIFIED,
    Limit.TIME: placement_pb2.TERMINATION_LIMIT_TIME,
    Limit.EFFORT: placement_pb2.TERMINATION_LIMIT_EFFORT,
    Limit.SOLVER_LOST: placement_pb2.TERMINATION_LIMIT_SOLVER_LOST,
}

REASON_CODES: Mapping[ReasonCode, placement_pb2.ReasonCode] = {
    code: getattr(placement_pb2, f"REASON_CODE_{code.value}") for code in ReasonCode
}

REASON_STATES: Mapping[ReasonState, placement_pb2.ReasonState] = {
    state: getattr(placement_pb2, f"REASON_STATE_{state.value}") for state in ReasonState
}

EVICTION_KINDS: Mapping[EvictionKind, placement_pb2.EvictionKind] = {
    kind: getattr(placement_pb2, f"EVICTION_KIND_{kind.value}") for kind in EvictionKind
}


def placement_to_proto(placement: Placement) -> placement_pb2.Placement:
    """The message that says what the placement says."""
    message = placement_pb2.Placement(
        revision=placement.revision,
        label=placement.label,
        tiers=map(_tier_to_proto, placement.tiers),
        evictions=map(_eviction_to_proto, placement.evictions),
        request_digest=placement.request_digest,
        snapshot_digest=placement.snapshot_digest,
    )
    add_bindings(message.bindings, placement.bindings)
    for result in placement.gangs:
        _add_gang_result(message, result)
    if placement.termination is not None:
        message.termination.CopyFrom(_termination_to_proto(placement.termination))
    if placement.stats is not None:
        message.stats.CopyFrom(_stats_to_proto(placement.stats))
    return message


def parse_placement(message: placement_pb2.Placement) -> Placement:
    """The inverse of `placement_to_proto`; trusts a message that this service wrote."""
    codes, states, limits = inverse(REASON_CODES), inverse(REASON_STATES), inverse(LIMITS)
    return Placement(
        revision=message.revision,
        label=message.label,
        bindings=tuple(map(parse_binding, message.bindings)),
        gangs=tuple(
            GangResult(
                name=gang.name,
                placed=gang.placed,
                placement_score=_optional(gang, "placement_score"),
                reasons=tuple(
                    Reason(
                        code=codes[reason.code],
                        message=reason.message,
                        level=reason.level,
                        domain=reason.domain,
                        asked=reason.asked,
                        found=reason.found,
                        state=states[reason.state],
                        subject=reason.subject,
                    )
                    for reason in gang.reasons
                ),
                scopes=tuple(
                    ScopeUse(use.name, use.level, use.required, tuple(use.domains))
                    for use in gang.scopes
                ),
            )
            for gang in message.gangs
        ),
        tiers=tuple(map(_parse_tier, message.tiers)),
        termination=Termination(
            optimal=message.termination.reason == placement_pb2.TERMINATION_REASON_OPTIMAL,
            limit=limits[message.termination.limit],
            gap=_optional(message.termination, "gap"),
            detail=message.termination.detail,
        )
        if message.HasField("termination")
        else None,
        stats=Stats(
            elapsed_seconds=seconds(message.stats.elapsed),
            first_answer_seconds=seconds(message.stats.first_answer),
            proof_seconds=seconds(message.stats.proof) if message.stats.HasField("proof") else None,
            first_tiers=tuple(map(_parse_tier, message.stats.first_tiers)),
            engine=message.stats.engine,
            deterministic=message.stats.deterministic,
            solver_memory_bytes=message.stats.solver_memory_bytes,
        )
        if message.HasField("stats")
        else None,
        evictions=tuple(map(_parse_eviction, message.evictions)),
        request_digest=message.request_digest,
        snapshot_digest=message.snapshot_digest,
    )


def progress_to_proto(progress: Progress) -> placement_service_pb2.Progress:
    """The message that says what the progress says."""
    return placement_service_pb2.Progress(
        elapsed=duration(progress.elapsed_seconds),
        phase=progress.phase,
        tiers=map(_tier_to_proto, progress.tiers),
        placed_gang_count=progress.placed_gang_count,
    )


def parse_progress(message: placement_service_pb2.Progress) -> Progress:
    """The inverse of `progress_to_proto`."""
    return Progress(
        elapsed_seconds=seconds(message.elapsed),
        phase=message.phase,
        tiers=tuple(map(_parse_tier, message.tiers)),
        placed_gang_count=message.placed_gang_count,
    )


def add_bindings(
    messages: RepeatedCompositeFieldContainer[placement_pb2.Binding], bindings: Iterable[Binding]
) -> None:
    """Adds the messages that say what bindings say. There are tens of thousands: made in their
    place, and without what few of them have, they take a quarter of the time.
    """
    for binding in bindings:
        message = messages.add(
            pod=binding.pod,
            uid=binding.uid,
            node=binding.node,
            gang=binding.gang,
            group=binding.group,
        )
        if binding.devices:
            message.devices.extend(binding.devices)
        if binding.reservation:
            message.reservation = binding.reservation


def parse_binding(message: placement_pb2.Binding) -> Binding:
    return Binding(
        pod=message.pod,
        node=message.node,
        gang=message.gang,
        group=message.group,
        uid=message.uid,
        devices=tuple(message.devices),
        reservation=message.reservation,
    )


def _eviction_to_proto(eviction: Eviction) -> placement_pb2.Eviction:
    return placement_pb2.Eviction(
        pod=eviction.pod,
        gang=eviction.gang,
        node=eviction.node,
        kind=EVICTION_KINDS[eviction.kind],
        for_gang=eviction.for_gang,
        to_node=eviction.to_node,
        reason=eviction.reason,
        to_devices=eviction.to_devices,
    )


def _parse_eviction(message: placement_pb2.Eviction) -> Eviction:
    return Eviction(
        pod=message.pod,
        gang=message.gang,
        node=message.node,
        kind=inverse(EVICTION_KINDS)[message.kind],
        for_gang=message.for_gang,
        to_node=message.to_node,
        reason=message.reason,
        to_devices=tuple(message.to_devices),
    )


def _add_gang_result(placement: placement_pb2.Placement, result: GangResult) -> None:
    message = placement.gangs.add(
        name=result.name, placed=result.placed, placement_score=result.placement_score
    )
    for reason in result.reasons:
        message.reasons.add(
            code=REASON_CODES[reason.code],
            message=reason.message,
            level=reason.level,
            domain=reason.domain,
            asked=reason.asked,
            found=reason.found,
            state=REASON_STATES[reason.state],
            subject=reason.subject,
        )
    for use in result.scopes:
        message.scopes.add(
            name=use.name, level=use.level, required=use.required, domains=use.domains
        )


def _tier_to_proto(tier: Tier) -> placement_pb2.ObjectiveTier:
    return placement_pb2.ObjectiveTier(
        name=tier.name.value, value=tier.value, bound=tier.bound, minimize=tier.name.minimize
    )


def _parse_tier(message: placement_pb2.ObjectiveTier) -> Tier:
    return Tier(TierName(message.name), message.value, _optional(message, "bound"))


def _termination_to_proto(termination: Termination) -> placement_pb2.Termination:
    return placement_pb2.Termination(
        reason=placement_pb2.TERMINATION_REASON_OPTIMAL
        if termination.optimal
        else placement_pb2.TERMINATION_REASON_FEASIBLE,
        limit=LIMITS[termination.limit],
        gap=termination.gap,
        detail=termination.detail,
    )


def _stats_to_proto(stats: Stats) -> placement_pb2.SolveStats:
    return placement_pb2.SolveStats(
        elapsed=duration(stats.elapsed_seconds),
        first_answer=duration(stats.first_answer_seconds),
        proof=None if stats.proof_seconds is None else duration(stats.proof_seconds),
        first_tiers=map(_tier_to_proto, stats.first_tiers),
        engine=stats.engine,
        deterministic=stats.deterministic,
        solver_memory_bytes=stats.solver_memory_bytes,
    )


def _optional(
    message: placement_pb2.GangResult | placement_pb2.ObjectiveTier | placement_pb2.Termination,
    field: str,
) -> float | None:
    if not message.HasField(field):
        return None
    value: float = getattr(message, field)
    return value
