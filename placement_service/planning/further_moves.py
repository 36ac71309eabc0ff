"""Room that pods which have to leave find only once other running gangs move.

The question is a plan with `REPACK`: the pods that leave wait, all others may move, as few as
possible. So its proofs hold here as well, and only the order of the moves is open.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from placement_service.bounds.added_nodes import NEVER
from placement_service.entities.eviction import DisruptionBudget, EvictionPolicy
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import SAME, Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.planning import changes
from placement_service.planning.remedy_case import Solver


class Further(NamedTuple):
    """Where all pods that move run afterwards, None where no way was found, and how many have to
    move at least.
    """

    target: Mapping[str, str] | None
    least: int


def further_moves(
    shut: Snapshot, leaving: frozenset[str], policy: Policy, *, solver: Solver, deadline: float
) -> Further:
    """The fewest moves of other gangs with which the pods that leave find room."""
    policy = replace(policy, eviction=EvictionPolicy.REPACK)
    budgets = tuple(_less(shut, budget, leaving) for budget in shut.disruption_budgets)
    waiting = changes.released(replace(shut, disruption_budgets=budgets), leaving)
    prepared = prepare(waiting, policy, until=deadline)
    problem = formulate(waiting, policy, prepared)
    found = first_answer(problem, deadline=deadline)
    if time.monotonic() < deadline:
        found = solver.search(problem, found, deadline=deadline)
    plan = name_plan(waiting, policy, prepared, found.assignments)
    if leaving != {binding.pod for binding in plan.bindings}:
        # Nobody else waits, so a plan that places them all would admit more.
        return Further(None, NEVER if _proven(found, TierName.ADMITTED) else len(leaving))
    target = {binding.pod: binding.node for binding in plan.bindings}
    target |= {eviction.pod: eviction.to_node for eviction in plan.evictions}
    return Further(target, len(leaving) + _fewest_moved(found))


def _less(
    snapshot: Snapshot, budget: DisruptionBudget, leaving: frozenset[str]
) -> DisruptionBudget:
    """What a budget allows beside the pods that leave."""
    gone = sum(
        pod.name in leaving
        for gang in snapshot.gangs
        for group in gang.groups
        for pod_set in group.pod_sets
        if budget.matches(gang.namespace, pod_set.template.labels)
        for pod in pod_set.bound_pods
    )
    return replace(budget, allowed=max(0, budget.allowed - gone))


def _fewest_moved(found: Solution) -> int:
    """How many pods any plan moves that admits as much."""
    (bound,) = (tier.bound for tier in found.tiers if tier.name is TierName.DISRUPTION)
    sure = all(_proven(found, name) for name in _BEFORE)
    return 0 if bound is None or not sure else max(0, math.ceil(bound - SAME))


#: The tiers that come before the number of pods that move.
_BEFORE = (TierName.ADMITTED, TierName.WAITING, TierName.EXTRA)


def _proven(found: Solution, name: TierName) -> bool:
    return all(tier.proven for tier in found.tiers if tier.name is name)
