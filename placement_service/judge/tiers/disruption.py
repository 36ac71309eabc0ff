"""Disruption: running pods that have to go, or that run elsewhere."""

from __future__ import annotations

from placement_service.entities.request import Policy
from placement_service.judge.outcome import Outcome
from placement_service.judge.tiers.count import Count, Counts


def count(outcome: Outcome, policy: Policy) -> Counts:
    """Pods that leave their node, moved ones among them."""
    return (Count(len(outcome.evicted)),)
