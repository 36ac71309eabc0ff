"""When to ask, and about which gangs: pure decisions from how long each has waited.

Gangs that arrive together are planned together, so a batch stays open for a moment. A gang that got
no place waits twice as long each time before it is a reason to ask again. But each request asks
about all gangs that wait, so that a gang of lower priority never overtakes one that happens to be
backing off. Only a gang of which the API server took no binding is left out while it backs off: the
room that it cannot take is for others. A change that may change the answer ends the wait: a change
of the gang itself, or room that appeared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from controller.cluster.gang_state import Body, GangState, Key, Lifecycle, condition_of


@dataclass(frozen=True, slots=True)
class Window:
    """How long a batch stays open, in seconds, and how many gangs it holds."""

    idle: float
    longest: float
    most: int


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a gang without a place waits, in seconds: from the shortest to the longest,
    doubling.
    """

    shortest: float
    longest: float

    def after(self, attempts: int) -> float:
        """The wait after so many attempts, at least one."""
        # Beyond this power the longest wait applies anyway, and floats would overflow.
        return min(self.longest, self.shortest * 2.0 ** min(attempts - 1, 60))


@dataclass(frozen=True, slots=True)
class QueuedGang:
    """A gang that waits for a place.

    `since` is when it began to wait, and from `due` on it is a reason to ask. `attempts` counts
    those without success since something about the gang changed; the last one was at `tried`, with
    `freed` as it was then. `refused`: it had a place, and the API server took none of its bindings.
    """

    state: GangState
    since: float
    due: float
    attempts: int = 0
    tried: float = -math.inf
    freed: int = -1
    refused: bool = False


Queue = Mapping[Key, QueuedGang]


def refreshed(
    queue: Queue,
    states: Mapping[Key, GangState],
    *,
    freed: int,
    now: float,
    backoff: Backoff,
    unclear: Collection[Key] = (),
) -> Queue:
    """The queue after a change of what is known: with new gangs, and without settled ones.

    Of gangs that are `unclear` it is not known whether their pods are bound: they stay as they
    are, and are no reason to ask.
    """
    result = {}
    for key, state in states.items():
        queued = queue.get(key)
        if state.lifecycle is not Lifecycle.PENDING:
            if queued is not None and key in unclear:
                result[key] = replace(queued, due=math.inf)
            continue
        if queued is not None and queued.due == math.inf:
            queued = replace(queued, due=queued.tried + backoff.after(queued.attempts))
        if queued is None or queued.state.uid != state.uid:
            queued = QueuedGang(state, since=now, due=now)
        elif _differ(queued.state, state):
            queued = replace(
                queued, state=state, due=min(queued.due, now), attempts=0, refused=False
            )
        elif queued.attempts and queued.freed != freed:
            # Not at once: the pods of a node leave it one by one, and in a large cluster pods end
            # all the time. Gangs that were tried often wait longer, up to a limit.
            end = queued.tried + min(backoff.after(queued.attempts), 10 * backoff.shortest)
            queued = replace(queued, due=min(queued.due, end))
        result[key] = queued
    return result


def tried(queue: Queue, keys: Iterable[Key], *, freed: int, now: float, backoff: Backoff) -> Queue:
    """The queue after these gangs were asked about and still wait."""
    result = dict(queue)
    for key in keys:
        if (queued := queue.get(key)) is not None:
            attempts = queued.attempts + 1
            result[key] = replace(
                queued,
                attempts=attempts,
                tried=now,
                freed=freed,
                due=now + backoff.after(attempts),
                refused=False,
            )
    return result


def refused(queue: Queue, keys: Collection[Key], *, now: float) -> Queue:
    """The queue after the API server took no binding of these gangs. Others are asked about at
    once: there is room for them as long as these back off.
    """
    if not keys:
        return queue
    return {
        key: replace(queued, refused=True)
        if key in keys
        else replace(queued, due=queued.due if queued.refused else min(queued.due, now))
        for key, queued in queue.items()
    }


def held_back(queue: Queue, *, now: float) -> frozenset[Key]:
    """The gangs that leave their room to others: refused ones that are not due again."""
    return frozenset(k for k, queued in queue.items() if queued.refused and queued.due > now)


def made_due(queue: Queue, keys: Iterable[Key], *, now: float) -> Queue:
    """The queue after a plan for these gangs was overtaken by events: plan again at once."""
    result = dict(queue)
    for key in keys:
        if (queued := queue.get(key)) is not None:
            result[key] = replace(queued, due=now)
    return result


def wait(queue: Queue, *, now: float, window: Window) -> float:
    """Seconds until the batch is to be closed; 0 means now, infinity means that no gang waits."""
    due = [queued.due for queued in queue.values() if queued.due <= now]
    if not due:
        return min((queued.due for queued in queue.values()), default=math.inf) - now
    if len(due) >= window.most:
        return 0.0
    return max(0.0, min(max(due) + window.idle, min(due) + window.longest) - now)


def longest_wait(queue: Queue, gangs: Mapping[Key, Body], *, now: float, wall: float) -> float:
    """Seconds that the gang has waited that waits longest: since we know of it, or since its
    condition says that it is not scheduled. An earlier leader may have written that.
    """
    return max(
        (
            max(now - queued.since, wall - _unscheduled_since(gangs.get(key, {}), wall))
            for key, queued in queue.items()
        ),
        default=0.0,
    )


def _unscheduled_since(gang: Body, wall: float) -> float:
    """When a gang's condition was written, in seconds since the epoch; now where it has none."""
    condition = condition_of(gang, "Scheduled") or {}
    if condition.get("status") != "False":
        return wall
    try:
        return datetime.fromisoformat(condition.get("lastTransitionTime", "")).timestamp()
    except ValueError:
        return wall


@dataclass(frozen=True, slots=True)
class Candidate:
    """A gang that waits, with what decides its turn. `base` is the gang that it scales,
    `due` when its back-off ends."""

    key: Key
    priority: int
    base: Key | None = None
    attempts: int = 0
    due: float = 0.0
    since: float = 0.0


def chosen(candidates: Sequence[Candidate], *, most: int) -> tuple[Key, ...]:
    """The gangs of one batch, bases before the gangs that scale them, at most so many.

    When not all fit, those that were not tried without success come first, then those whose
    back-off ends first: a gang that cannot be
    placed does not keep the others waiting, and each has a turn. Among equals higher
    priority goes first, then the longest wait.
    A gang whose base waits too comes only with its base.
    """
    by_key = {candidate.key: candidate for candidate in candidates}
    taken: dict[Key, None] = {}
    for candidate in sorted(candidates, key=_turn):
        base = by_key.get(candidate.base) if candidate.base is not None else None
        wanted = [c.key for c in (base, candidate) if c is not None and c.key not in taken]
        if len(taken) + len(wanted) <= most:
            taken.update(dict.fromkeys(wanted))
    # A base that is taken because of its scaled gang is still listed before it.
    return tuple(taken)


def _turn(candidate: Candidate) -> tuple[bool, float, int, bool, float, Key]:
    return (
        candidate.attempts > 0,
        candidate.due if candidate.attempts else 0.0,
        -candidate.priority,
        candidate.base is not None,
        candidate.since,
        candidate.key,
    )


def _differ(before: GangState, after: GangState) -> bool:
    """Whether the service would be asked something else; a pod that became ready does not count."""

    def query(state: GangState) -> object:
        return state.generation, [
            (g.name, g.minimum, g.bound, g.free, g.gated) for g in state.groups
        ]

    return query(before) != query(after)
