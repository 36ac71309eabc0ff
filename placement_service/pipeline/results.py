"""What an answer says about every gang, and about how the search ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.placement import (
    GangResult,
    Placement,
    Reason,
    ReasonCode,
    ReasonState,
    ScopeUse,
    Stats,
    Termination,
)
from placement_service.entities.request import Request
from placement_service.entities.solution import Limit, Solution
from placement_service.explain.request_reasons import plain_reasons
from placement_service.judge.score import GangScore, Score

#: What may end a search, what says most first.
_ENDS = (Limit.SOLVER_LOST, Limit.TIME, Limit.EFFORT, Limit.NONE)


def end_of_both(one: Limit, other: Limit) -> Limit:
    """What ended two searches, of which neither proved its plan."""
    return next(end for end in _ENDS if end in (one, other))


def nothing_yet(request: Request) -> Placement:
    """The empty answer, for when there is no time for any other; nothing is known of tiers."""
    gangs = request.snapshot.gangs
    running = {
        gang.name: all(group.running_count >= group.min_replicas for group in gang.groups)
        for gang in gangs
    }
    queues = {queue.name for queue in request.snapshot.queues}
    return Placement(
        revision=request.snapshot.revision,
        label=request.label,
        gangs=tuple(
            GangResult(
                gang.name,
                placed=running[gang.name],
                reasons=() if running[gang.name] else plain_reasons(gang, running, queues),
            )
            for gang in gangs
        ),
        termination=Termination(False, Limit.TIME, None, "The time limit ended the computation."),
        stats=Stats(),
    )


def gang_results(
    request: Request,
    solution: Solution,
    score: Score,
    reached: Mapping[int, int],
    evictions: Sequence[Eviction],
    reasons: Sequence[Sequence[Reason]],
) -> Iterator[GangResult]:
    """Every gang of a plan, in the snapshot's order.

    `reached` are the fewest domains that any plan needed for a gang. A gang that the plan evicts is
    told for which gang, and not what room it lacks.
    """
    fewest = dict(solution.fewest_domains)
    placed = {gang.gang: gang.placed for gang in score.gangs}
    queues = {q.name for q in request.snapshot.queues}
    gone = _gone(evictions)
    for i, gang in enumerate(score.gangs):
        own = tuple(reasons[i]) if i < len(reasons) else ()
        if not gang.placed:
            own = gone.get(gang.gang, own)
        if not gang.placed and not own:
            own = plain_reasons(request.snapshot.gangs[i], placed, queues)
        yield GangResult(
            name=gang.gang,
            placed=gang.placed,
            placement_score=placement_score(gang, fewest.get(i), reached.get(i)),
            reasons=own,
            scopes=tuple(
                ScopeUse(use.name, use.level, use.required, use.domains) for use in gang.scopes
            ),
        )


def _gone(evictions: Sequence[Eviction]) -> Mapping[str, tuple[Reason, ...]]:
    """For each evicted gang, for which gang it goes."""
    found: dict[str, dict[str, Reason]] = {}
    for one in evictions:
        if one.kind is not EvictionKind.MOVE:
            text = f"the gang {one.reason}."
            reason = Reason(ReasonCode.OUTCOMPETED, text, state=ReasonState.AFTER_PLAN)
            found.setdefault(one.gang, {})[text] = reason
    return {gang: tuple(reasons.values()) for gang, reasons in found.items()}


def placement_score(gang: GangScore, fewest: int | None, reached: int | None) -> float | None:
    """How close a gang is to the fewest domains at its preferred levels; 1.0 is there.

    `fewest` is a proven lower bound, `reached` the fewest that any plan needed.
    None when the gang is not placed, or when it is not known whether it could
    do with less.
    """
    if not gang.placed:
        return None
    used = gang.preferred_domains
    if used is None:
        return 1.0
    # Every preferred scope needs one domain at least.
    fewest = max(fewest or 0, sum(1 for use in gang.scopes if not use.required and use.count))
    if used <= fewest:
        return 1.0
    return fewest / used if reached is not None and reached <= fewest else None


def termination(solution: Solution, limit: Limit) -> Termination:
    """What ended the search, in words and as values."""
    if solution.proven:
        return Termination(True, Limit.NONE, 0.0, "No better placement exists.")
    detail = {
        Limit.NONE: "The search ended without a proof.",
        Limit.TIME: "The time limit ended the search.",
        Limit.EFFORT: "The search had nothing left to try.",
        Limit.SOLVER_LOST: "The solver process was lost; this is the best answer before.",
    }[limit]
    return Termination(False, limit, solution.gap, detail)
