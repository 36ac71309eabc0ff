"""What an answer claims beside the optimum: no bound may cut it off, every proof has met it."""

from __future__ import annotations

from placement_service.entities.solution import Solution, TierName
from placement_service.judge.score import TIERS, Score
from tests.brute.options import Vector, rank
from tests.brute.search import Optimum, clamped

#: Two values of a tier that are this close are equal.
EPSILON = 1e-6


def no_bound_cuts_off(best: Optimum, solution: Solution, reached: Score) -> None:
    """Every bound leaves room for the optimum, and every proof has met it.

    A bound of a later tier speaks of plans that are as good in the tiers before,
    so it is judged only where those have reached the optimum.
    """
    mine = clamped(rank(reached), best.floors)
    first_missed = _first_unlike(reached, mine, best.rank)
    # Also in what only decides the order of gangs.
    assert best.peaks or not solution.proven or mine == best.rank
    for tier in solution.tiers:
        if not tier.name.provable:
            continue
        if tier.bound is not None:
            beyond = tier.value - tier.bound
            assert (-beyond if tier.name.minimize else beyond) <= EPSILON, tier
        have, want = reached.counts[tier.name], best.counts[tier.name]
        optimal = best.value(tier.name)
        if tier.name in best.peaks:
            # The bound, and the tiers after it, do not depend on what may be spent.
            peak = best.peaks[tier.name]
            optimal = sum(peak.counts) / TIERS[tier.name].unit
            like_peak = clamped(rank(reached), peak.floors)
            unlike = _first_unlike(reached, like_peak, peak.rank)
            if tier.proven and unlike in (None, tier.name):
                assert have == peak.counts, tier
            if first_missed is tier.name:
                return
            have = want
        if tier.bound is not None:
            if tier.name.minimize:
                assert tier.bound <= optimal + EPSILON, tier
            else:
                assert tier.bound >= optimal - EPSILON, tier
        if tier.proven and first_missed in (None, tier.name):
            assert have == want, tier
        if have != want:
            break


def _first_unlike(reached: Score, mine: Vector, best: Vector) -> TierName | None:
    """The tier of the first step in which two plans differ.

    Where extras come with their priority a tier that they stand in the midst of may have more of
    its own than the best plan.
    """
    steps = zip(reached.steps, mine, best, strict=False)
    return next((step.tier for step, a, b in steps if a != b), None)
