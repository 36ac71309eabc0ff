"""Minimum run times: how long the minimum of a running gang is safe from eviction.

Before reclaim the gang and the queue that is compared both say how long; the longer time counts.
"""

from __future__ import annotations

from collections.abc import Iterable

from placement_service.entities.queues import Queue
from placement_service.entities.request import PodGang


def has_run(gang: PodGang, seconds: int, now: int | None) -> bool:
    """Whether a gang has run so long; one of which no start is known is not safe."""
    if not seconds or gang.start is None:
        return True
    return now is not None and gang.start + seconds <= now


def young_in(gang: PodGang, queues: Iterable[Queue], now: int | None) -> tuple[str, ...]:
    """The queues, of its own and those above, from which a gang cannot be reclaimed yet."""
    own = gang.minimum_run_time_before_reclaim
    return tuple(
        queue.name
        for queue in queues
        if not has_run(gang, max(own, queue.minimum_run_time_before_reclaim), now)
    )
