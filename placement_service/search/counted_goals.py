"""Bounds of all goals by counting, and the gangs that the count names."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.admission.master import AdmissionMaster
from placement_service.cp_sat.solving import Answer, Var, span
from placement_service.entities.solution import TierName
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import Bounds
from placement_service.formulation.tiers.goal import Goal, Terms
from placement_service.heuristic.slot_layout import Layout
from placement_service.search.lexicographic import descend
from placement_service.search.parameters import SearchParameters


class _Stopped(Exception):
    """Nobody wants the rest."""


class CountedGoals(NamedTuple):
    """Bounds of the first goals, each for plans that reach those before it; the gangs of the best
    solution that is easiest to place, and how their parts may fill the domains.
    """

    bounds: tuple[int, ...]
    target: tuple[GangIdx, ...]
    layout: Layout | None


def count_goals(
    counting: Counting,
    goals: Sequence[Goal],
    known: Bounds,
    parameters: SearchParameters,
    *,
    floors: Sequence[int | None] = (),
    seconds: float,
    deadline: float = math.inf,
    until: Callable[[], bool] = lambda: False,
) -> CountedGoals | None:
    """What the admission master says of all goals, of which some bounds are known.

    Where a goal has a floor, so much of it is enough. No goal is begun after the `deadline`. None
    if `until` says to stop, which is asked before each goal.
    """
    master = AdmissionMaster(counting, parameters.model)
    floors = floors or (None,) * len(goals)
    efforts = (True, parameters.master_near_effort), (False, parameters.master_effort)
    bounds: list[int] = []
    held: list[int] = []

    def settle(i: int, terms: Terms[Var]) -> int | None:
        if until():
            raise _Stopped
        if time.monotonic() > deadline:
            return None
        floor = floors[i]
        answer = Answer(None, floor or 0, floor or 0, proven=True)
        if floor is None and any(span([term]) for term in terms):
            maximize = not goals[i].tier.minimize
            for near, most in efforts:
                answer = master.solve(
                    terms, maximize=maximize, seconds=seconds, effort=most, near=near
                )
                if answer.proven:
                    break
        if answer.bound is not None:
            bounds.append(answer.bound)
        if not answer.proven or answer.value is None:
            return None
        # Bounds of later goals are about plans that reach the bounds that are known already.
        nearer = max if goals[i].tier.minimize else min
        held.append(nearer(answer.value, known[i]))
        return held[-1]

    try:
        descend(goals, master, settle)
    except _Stopped:
        return None
    if all(goal.tier is not TierName.ADMITTED for goal in goals[len(held) :]):
        # Of the best sets the one that is easiest to place.
        most = parameters.master_target_effort
        master.solve(master.hardness(), maximize=False, seconds=seconds, effort=most)
    return CountedGoals(tuple(bounds), master.gangs, master.layout)


def count_most(
    counting: Counting,
    goals: Sequence[Goal],
    parameters: SearchParameters,
    *,
    seconds: float,
    deadline: float = math.inf,
) -> Mapping[TierName, int]:
    """What the admission master says that each tier of which more is better can be in any plan, in
    sum over priorities: whatever the plan is in the goals before. It ends at the `deadline`.
    """
    master = AdmissionMaster(counting, parameters.model)
    found: dict[TierName, int] = {}
    for tier in (TierName.ADMITTED, TierName.WAITING, TierName.EXTRA):
        terms: Terms[Var] = []
        for goal in (g for g in goals if g.tier is tier and g.reported):
            if time.monotonic() > deadline:
                # There may be thousands of priorities.
                return found
            terms += goal.terms(master) or ()
        effort = parameters.master_near_effort
        bound = master.solve(terms, maximize=True, seconds=seconds, effort=effort).bound
        if bound is not None:
            found[tier] = bound
    return found
