"""Extra: pods beyond the minimums."""

from __future__ import annotations

from placement_service.entities.request import Policy
from placement_service.judge.outcome import Outcome
from placement_service.judge.tiers.count import Counts, counts_of, priorities


def count(outcome: Outcome, policy: Policy) -> Counts:
    """The pods of all, or one count for each priority where extras go with theirs."""
    totals = dict.fromkeys(priorities(outcome), 0)
    for gang in outcome.gangs:
        totals[gang.gang.priority] += sum(g.extra for g in gang.groups)
    return counts_of(totals, policy)
