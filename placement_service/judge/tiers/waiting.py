"""Waiting: the whole minutes that admitted gangs waited, each at least one."""

from __future__ import annotations

from placement_service.entities.request import PodGang, Policy
from placement_service.judge.outcome import Outcome
from placement_service.judge.tiers.count import Counts, counts_of, priorities


def count(outcome: Outcome, policy: Policy) -> Counts:
    """The minutes of all, or one count for each priority where extras go with theirs."""
    totals = dict.fromkeys(priorities(outcome), 0)
    for gang in outcome.gangs:
        if gang.gang.is_pending and gang.placed:
            totals[gang.gang.priority] += max(1, waited(outcome, gang.gang) // 60)
    return counts_of(totals, policy)


def waited(outcome: Outcome, gang: PodGang) -> int:
    """Seconds from the gang's creation to the time of the snapshot."""
    now = outcome.snapshot.as_of
    if now is None or gang.created is None:
        return 0
    return max(0, now - gang.created)
