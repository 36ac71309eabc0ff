"""Bounds of a question from those of a looser one with other gangs (see `looser_gangs`)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import Bounds, worth_at_home
from placement_service.formulation.open_gangs import MUST_RUN
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import goals
from placement_service.formulation.tiers.admitted import Admitted
from placement_service.formulation.tiers.goal import Goal


def looser_bounds(problem: Problem, own: Bounds, loose: Problem, known: Bounds) -> Bounds:
    """Bounds of the first goals of a problem, each of which holds for plans that reach those
    before; all that `known` bounds of a looser one say.

    In both a goal is about what comes beyond the plan in which nothing moves. Goals that only the
    looser one has are passed over where no plan gains by them. `own` bounds hold for all plans,
    where the problem refuses no gang that might come.
    """
    mine, others = goals(problem), goals(loose)
    before, there = worth_at_home(problem, mine), worth_at_home(loose, others)
    waiting = {g.index for g in problem.pending}
    found: list[int] = []
    for goal, home, bound in zip(others, there, known, strict=True):
        i = len(found)
        if i < len(mine) and _is_like(goal, mine[i], waiting):
            found.append(bound - home + before[i])
            if not problem.mends and _is_better(own[i], found[i], goal):
                found[i] = own[i]
                break
        elif bound != home or (home and goal.priority != MUST_RUN):
            break
    return tuple(found)


def _is_like(goal: Goal, mine: Goal, waiting: AbstractSet[GangIdx]) -> bool:
    """Whether a goal is about the same gangs of the problem."""
    if type(goal) is not type(mine) or goal.priority != mine.priority:
        return False
    return not isinstance(goal, Admitted) or (
        isinstance(mine, Admitted)
        and goal.reported == mine.reported
        and goal.gangs & waiting == mine.gangs
    )


def _is_better(bound: int, other: int, goal: Goal) -> bool:
    return bound > other if goal.tier.minimize else bound < other
