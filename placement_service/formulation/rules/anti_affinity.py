"""Required pod anti-affinity as masks, columns, domain capacities and exclusions.

For a term let A be the pod classes that carry it and match it, B those that only
carry it, D those that only match it. In one domain A excludes everything, and B and D
exclude each other, so with a large K

    K * |A| + |B| <= K      K * |A| + |D| <= K      and B, D not both there.

The first two are knapsack rows, on a node simply a resource; only the last,
which needs pods that avoid others without being avoided, is a rule of its own. Where one side
are pods that stay at home or go, and one at most on each node, it is such a row, too. Many terms
that keep groups of pods apart, as ComputeDomains do, are one rule together.
"""

from __future__ import annotations

import numpy as np

from placement_service.entities.request import PodAffinityTerm
from placement_service.formulation.arrays import MANY, UNLIMITED, Bools, Ints
from placement_service.formulation.indices import LevelIdx
from placement_service.formulation.rules.domain_capacity import DomainCapacity
from placement_service.formulation.rules.draft import Column, RuleDraft
from placement_service.formulation.rules.exclusion import Exclusion
from placement_service.formulation.rules.exclusive_groups import merged


def formulate(draft: RuleDraft) -> None:
    """What running pods avoid closes nodes; what new pods avoid becomes rules."""
    _running_pods_avoid(draft)
    exclusions: list[Exclusion] = []
    for term, carry in draft.carriers(lambda t: t.required_anti_affinity).items():
        number, level = draft.level(term.topology_key)
        match = draft.matched(term)
        taken = draft.running_by_domain(term, level) > 0
        if taken.any():
            near = np.append(taken, False)[level.domain]
            draft.eligible[np.ix_(carry, near)] = False
        both, carry_only, match_only = carry & match, carry & ~match, match & ~carry
        if both.any():
            # One row is enough unless both kinds of bystanders exist.
            sides = [side for side in (carry_only, match_only) if side.any()] or [both & False]
            for side in sides:
                _limit(draft, number, (both * MANY + side * 1).astype(np.int64))
        if not (carry_only.any() and match_only.any()):
            continue
        pairs = ((carry_only, match_only), (match_only, carry_only))
        few = next((p for p in pairs if level.is_host and _one_on_each_node(draft, p[0])), None)
        if few is not None:
            _limit(draft, number, (few[0] * MANY + few[1] * 1).astype(np.int64))
        else:
            exclusions.append(Exclusion(number, carry_only, match_only))
            draft.special |= carry_only | match_only
    draft.rules += merged(exclusions)


def _running_pods_avoid(draft: RuleDraft) -> None:
    avoided: dict[PodAffinityTerm, list[int]] = {}
    for pod, home in zip(draft.snapshot.running_pods, draft.homes.tolist(), strict=True):
        for term in pod.required_anti_affinity if home >= 0 else ():
            avoided.setdefault(term, []).append(home)
    for term, homes in avoided.items():
        _, level = draft.level(term.topology_key)
        taken = np.zeros(level.count + 1, dtype=bool)
        taken[level.domain[homes]] = True
        taken[-1] = False
        draft.eligible[np.ix_(draft.matched(term), taken[level.domain])] = False


def _one_on_each_node(draft: RuleDraft, side: Bools) -> bool:
    """Whether pods of some classes are at home or nowhere, one at most on each node."""
    at = draft.at[side]
    if (at < 0).any():
        return False
    counts = np.array(draft.counts, dtype=np.int64)[side]
    return int(np.bincount(at, counts).max(initial=0)) <= 1


def _limit(draft: RuleDraft, number: LevelIdx, weight: Ints) -> None:
    level = draft.levels[number]
    if level.is_host:
        capacity = np.where(level.domain >= 0, MANY, UNLIMITED).astype(np.int64)
        draft.columns.append(Column(f"anti-affinity {level.key}", capacity, weight))
        return
    draft.rules.append(DomainCapacity(number, weight, MANY))
    draft.special |= weight > 0
