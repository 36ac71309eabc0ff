"""What an answer claims, held against any plan that keeps the rules of its question.

A bound of a tier says: no plan that is at least as good in the tiers before has more (or less).
So each such plan is a witness, wherever it comes from: an oracle is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement_service.entities.request import ExtrasPolicy, Policy
from placement_service.entities.solution import SAME, Tier, TierName
from placement_service.judge.score import Score


def refuted(policy: Policy, tiers: Sequence[Tier], reached: Score, witness: Score) -> Iterator[str]:
    """What a witness shows to be false of the tiers of an answer whose own plan `reached` this.

    Of tiers behind one of which some may be spent nothing is said: how much that is depends on its
    best.
    """
    steps = zip(reached.steps, witness.steps, strict=True)
    first = next((mine.tier for mine, other in steps if mine.value != other.value), None)
    if first is None or witness.rank < reached.rank:
        return
    order = list(TierName)
    spent = next((tier for tier in order if policy.tolerance(tier.value)), TierName.FRAGMENTATION)
    if order.index(spent) < order.index(first):
        return
    spends = bool(policy.tolerances)
    if first.provable and not spends and all(t.proven for t in tiers if t.name.provable):
        yield f"all is proven, but {first.value} can be better"
    # Where extras come with their priority, goals of other tiers stand in the midst of a tier.
    in_order = policy.extras is ExtrasPolicy.AFTER_MINIMUMS
    for tier in tiers[order.index(first) : order.index(spent) + 1]:
        value = witness.value(tier.name)
        if tier.bound is not None:
            beyond = tier.bound - value if tier.name.minimize else value - tier.bound
            if beyond > SAME:
                yield f"{tier.name.value} can be {value:g}, beyond its bound {tier.bound:g}"
        if tier.name is first and tier.proven and in_order and not spends:
            yield f"{tier.name.value} is proven, but can be better"
