"""Reasons that follow from the request itself: no room is counted, nothing is placed.

They are what can be said about a gang when there is no time to count, or when counting fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from placement_service.entities.placement import Reason, ReasonCode
from placement_service.entities.request import PodGang
from placement_service.explain import wording as words

#: Said when nothing else is known.
UNKNOWN = Reason(
    ReasonCode.NOT_SEARCHED,
    "no placement was found, and the time was not enough to say why.",
)


def plain_reasons(
    gang: PodGang, placed: Mapping[str, bool], queues: Collection[str]
) -> tuple[Reason, ...]:
    """Why a gang that is not placed waits, as far as the request says; never empty."""
    return standing_reasons(gang, placed, queues) or (UNKNOWN,)


def standing_reasons(
    gang: PodGang, placed: Mapping[str, bool], queues: Collection[str]
) -> tuple[Reason, ...]:
    """Reasons that no room could remove.

    `placed` tells of every gang by name, `queues` are the names of those that are there.
    """
    reasons = [
        Reason(ReasonCode.UNSUPPORTED, f"the gang uses {what}, which is not supported.")
        for what in gang.refusals
    ]
    if gang.uninitialized:
        reasons.append(Reason(ReasonCode.UNINITIALIZED, "the gang's pods are still being made."))
    if gang.queue and gang.queue not in queues:
        reasons.append(
            Reason(
                ReasonCode.QUEUE_UNKNOWN,
                f"its queue {words.queue_word(gang.queue)} does not exist.",
                subject=gang.queue,
            )
        )
    for group in gang.groups:
        there = group.pending_count + group.running_count
        if there < group.min_replicas:
            verb = "is" if group.gated_count == 1 else "are"
            gated = f"; {group.gated_count} more {verb} gated" if group.gated_count else ""
            reasons.append(
                Reason(
                    ReasonCode.PODS_MISSING,
                    f"group {group.name} needs {words.pods(group.min_replicas)} and has "
                    f"{there}{gated}.",
                    asked=group.min_replicas,
                    found=there,
                )
            )
    if gang.base_gang and not placed.get(gang.base_gang, False):
        base = words.gang_word(gang.base_gang, gang.name)
        reasons.append(Reason(ReasonCode.BASE_NOT_PLACED, f"the base gang {base} is not placed."))
    return tuple(reasons)
