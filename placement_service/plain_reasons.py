"""Reasons that stand in the request itself: no arrays, no search, no failure.

What is left to say when the full explanation fails or runs out of time.
"""

from __future__ import annotations

from collections.abc import Mapping

from placement_service.answer import Reason, ReasonCode
from placement_service.problem import Problem
from placement_service.score import Score
from placement_service.snapshot import PodGang
from placement_service.solution import Solution


def explain(
    problem: Problem, solution: Solution, score: Score, /, *, deadline: float
) -> tuple[tuple[Reason, ...], ...]:
    """At least one reason for every gang that is not placed, in the snapshot's order."""
    placed = {gang.gang: gang.placed for gang in score.gangs}
    return tuple(
        () if placed[gang.name] else plain_reasons(gang, placed) for gang in problem.snapshot.gangs
    )


def plain_reasons(gang: PodGang, placed: Mapping[str, bool]) -> tuple[Reason, ...]:
    """Why a gang that is not placed waits, as far as the request says."""
    reasons = [
        Reason(ReasonCode.UNSUPPORTED, f"The gang uses {what}, which is not supported.")
        for what in gang.unsupported
    ]
    if gang.uninitialized:
        reasons.append(Reason(ReasonCode.UNINITIALIZED, "The gang's pods are still being made."))
    for group in gang.groups:
        there = group.pending_count + len(group.bound_pods)
        if there < group.min_replicas:
            gated = f"; {group.gated_count} more are gated" if group.gated_count else ""
            reasons.append(
                Reason(
                    ReasonCode.PODS_MISSING,
                    f"Group {group.name} needs {group.min_replicas} pods and has {there}{gated}.",
                    asked=group.min_replicas,
                    found=there,
                )
            )
    if gang.base_gang and not placed.get(gang.base_gang, False):
        reasons.append(
            Reason(ReasonCode.BASE_NOT_PLACED, f"The base gang {gang.base_gang} is not placed.")
        )
    return tuple(reasons) or (
        Reason(
            ReasonCode.NOT_SEARCHED,
            "No placement was found, and the time was not enough to say why.",
        ),
    )
