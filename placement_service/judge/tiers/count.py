"""What a tier counts: of gangs of one priority, or of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from placement_service.entities.request import ExtrasPolicy, Policy
from placement_service.judge.outcome import GangOutcome, Outcome


class Count(NamedTuple):
    """One number of a tier, of gangs of one priority or of all.

    What is not reported only decides which gangs come first.
    """

    value: int
    priority: int | None = None
    reported: bool = True


Counts = tuple[Count, ...]


def gangs_by_priority(outcome: Outcome) -> dict[int, list[GangOutcome]]:
    """The gangs of each priority, from high to low."""
    found: dict[int, list[GangOutcome]] = {p: [] for p in priorities(outcome)}
    for gang in outcome.gangs:
        found[gang.gang.priority].append(gang)
    return found


def priorities(outcome: Outcome) -> list[int]:
    """From high to low."""
    return sorted({gang.gang.priority for gang in outcome.gangs}, reverse=True)


def counts_of(totals: Mapping[int, int], policy: Policy) -> Counts:
    """The sum of all, or one count for each priority where extras go with their priority."""
    if policy.extras is ExtrasPolicy.WITH_PRIORITY:
        return tuple(Count(total, priority) for priority, total in totals.items())
    return (Count(sum(totals.values())),)
