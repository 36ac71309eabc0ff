"""Which of two plans is better, where later tiers may spend a share of the best of earlier ones.

The best of a tier is that of the best plan seen so far, so the comparison gets stricter
while better plans are seen.
"""

from __future__ import annotations

from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.judge.score import Score

#: For each step, by its place, how much of it is enough.
Floors = dict[int, int]


class Ranking:
    """Ranks the plans of one request."""

    def __init__(self, policy: Policy) -> None:
        shares = ((tier, policy.tolerance(tier.value)) for tier in TierName)
        self._shares = [(tier, share) for tier, share in shares if share > 0]
        #: For each tier of which some may be spent, the best plan that spends none.
        self._best: dict[TierName, Score] = {}
        self._floors: Floors = {}

    def see(self, score: Score) -> None:
        """Notes a plan that keeps the rules."""
        floors: Floors = {}
        for tier, share in self._shares:
            best = self._best.get(tier)
            if best is None or _rank(score, floors) > _rank(best, floors):
                best = self._best[tier] = score
            floors |= {
                i: step.value - step.reported * int(share * abs(step.value))
                for i, step in enumerate(best.steps)
                if step.tier is tier
            }
        self._floors = floors

    def rank(self, score: Score) -> tuple[int, ...]:
        """Larger is better, among the plans seen so far."""
        return _rank(score, self._floors)


def _rank(score: Score, floors: Floors) -> tuple[int, ...]:
    """How much of every step is enough, then what exceeds that."""
    enough = (
        min(step.value, floors[i]) if i in floors else step.value
        for i, step in enumerate(score.steps)
    )
    return (*enough, *score.rank)
