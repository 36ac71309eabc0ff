"""When to ask, and about whom: pure decisions over who waits since when.

Gangs that arrive together are planned together, so a batch stays open for a moment. A
gang that got no place waits twice as long each time before it is a reason to ask again;
but whenever something is asked, all gangs that wait are asked about, so that a gang of
lower priority never slips past one that happens to be backing off. What may have changed
the answer ends the wait: the gang itself, or room that appeared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.gang_state import Key, Standing, State


@dataclass(frozen=True, slots=True)
class Window:
    """How long a batch stays open, in seconds, and how many gangs it holds."""

    idle: float
    longest: float
    most: int


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a gang without a place waits, in seconds: doubling from one to the other."""

    shortest: float
    longest: float

    def after(self, attempts: int) -> float:
        """The wait after so many attempts, at least one."""
        # Beyond this power the longest one holds anyway, and floats would overflow.
        return min(self.longest, self.shortest * 2.0 ** min(attempts - 1, 60))


@dataclass(frozen=True, slots=True)
class Waiter:
    """A gang that waits for a place.

    `since` is when it began to, `due` from when on it is a reason to ask. `attempts` are
    those without success since something about the gang changed, the last one at `tried`
    with `room` as it was then.
    """

    standing: Standing
    since: float
    due: float
    attempts: int = 0
    tried: float = -math.inf
    room: int = -1


Queue = Mapping[Key, Waiter]


def refreshed(
    queue: Queue,
    standings: Mapping[Key, Standing],
    *,
    room: int,
    now: float,
    backoff: Backoff,
) -> Queue:
    """The queue after what is known has changed: newcomers in, settled ones out."""
    result = {}
    for key, standing in standings.items():
        if standing.state is not State.PENDING:
            continue
        waiter = queue.get(key)
        if waiter is None or waiter.standing.uid != standing.uid:
            waiter = Waiter(standing, since=now, due=now)
        elif _differ(waiter.standing, standing):
            waiter = replace(waiter, standing=standing, due=min(waiter.due, now), attempts=0)
        elif waiter.attempts and waiter.room != room:
            # Not at once: a node's pods leave it one by one, and somewhere a pod ends all the
            # time. Who was tried often waits longer, up to a limit.
            end = waiter.tried + min(backoff.after(waiter.attempts), 10 * backoff.shortest)
            waiter = replace(waiter, due=min(waiter.due, end))
        result[key] = waiter
    return result


def tried(queue: Queue, keys: Iterable[Key], *, room: int, now: float, backoff: Backoff) -> Queue:
    """The queue after these gangs were asked about and wait on."""
    result = dict(queue)
    for key in keys:
        if (waiter := queue.get(key)) is not None:
            attempts = waiter.attempts + 1
            result[key] = replace(
                waiter, attempts=attempts, tried=now, room=room, due=now + backoff.after(attempts)
            )
    return result


def hurried(queue: Queue, keys: Iterable[Key], *, now: float) -> Queue:
    """The queue after a plan for these gangs was overtaken by events: plan anew at once."""
    result = dict(queue)
    for key in keys:
        if (waiter := queue.get(key)) is not None:
            result[key] = replace(waiter, due=now)
    return result


def wait(queue: Queue, *, now: float, window: Window) -> float:
    """Seconds until the batch is to be closed: 0 means now, infinity that nobody waits."""
    due = [waiter.due for waiter in queue.values() if waiter.due <= now]
    if not due:
        return min((waiter.due for waiter in queue.values()), default=math.inf) - now
    if len(due) >= window.most:
        return 0.0
    return max(0.0, min(max(due) + window.idle, min(due) + window.longest) - now)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A gang that waits, with what its turn depends on. `base` is the gang that it scales,
    `due` when its back-off ends."""

    key: Key
    priority: int
    base: Key | None = None
    attempts: int = 0
    due: float = 0.0
    since: float = 0.0


def chosen(candidates: Sequence[Candidate], *, most: int) -> tuple[Key, ...]:
    """The gangs of one batch, bases before what scales them, at most so many.

    When not all fit, those that were not tried in vain come first, then those whose
    back-off ends first: whoever cannot be helped does not keep the others waiting, and
    everybody has a turn. Among equals higher priority goes first, then who waits longest.
    A gang whose base waits too comes only with its base.
    """
    by_key = {candidate.key: candidate for candidate in candidates}
    taken: dict[Key, None] = {}
    for candidate in sorted(candidates, key=_turn):
        base = by_key.get(candidate.base) if candidate.base is not None else None
        wanted = [c.key for c in (base, candidate) if c is not None and c.key not in taken]
        if len(taken) + len(wanted) <= most:
            taken.update(dict.fromkeys(wanted))
    # A base taken late for a scaled gang's sake still stands before it.
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


def _differ(before: Standing, after: Standing) -> bool:
    """Whether the question about a gang is another one; that a pod got ready is not."""

    def question(standing: Standing) -> object:
        return standing.generation, [
            (g.name, g.minimum, g.bound, g.free, g.gated) for g in standing.groups
        ]

    return question(before) != question(after)
