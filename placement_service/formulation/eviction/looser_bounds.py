"""Bounds of a question from those of a looser one with other gangs (see `looser_gangs`)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import Bounds, Floors, worth_at_home
from placement_service.formulation.open_gangs import MUST_RUN
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import goals
from placement_service.formulation.tiers.admitted import Admitted
from placement_service.formulation.tiers.goal import Goal


class Pair(NamedTuple):
    """A goal of a looser problem, by its place, and that of the problem which it is, -1 for none;
    `beyond` is what the former is more when nothing moves.
    """

    loose: int
    mine: int
    beyond: int


def paired(problem: Problem, loose: Problem) -> Sequence[Pair]:
    """The goals of a looser problem, in their order."""
    mine, others = goals(problem), goals(loose)
    before, there = worth_at_home(problem, mine), worth_at_home(loose, others)
    waiting = {g.index for g in problem.pending}
    found: list[Pair] = []
    i = 0
    for k, goal in enumerate(others):
        if i < len(mine) and _is_like(goal, mine[i], waiting):
            found.append(Pair(k, i, there[k] - before[i]))
            i += 1
        else:
            found.append(Pair(k, -1, there[k]))
    return found


def looser_bounds(problem: Problem, own: Bounds, loose: Problem, known: Bounds) -> Bounds:
    """Bounds of the first goals of a problem, each of which holds for plans that reach those
    before; all that `known` bounds of a looser one say.

    In both a goal is about what comes beyond the plan in which nothing moves. Goals that only the
    looser one has are passed over where no plan gains by them. `own` bounds hold for all plans,
    where the problem refuses no gang that might come.
    """
    others = goals(loose)
    found: list[int] = []
    for k, i, beyond in paired(problem, loose):
        goal = others[k]
        if i >= 0:
            found.append(known[k] - beyond)
            if not problem.mends and _is_better(own[i], found[i], goal):
                found[i] = own[i]
                break
        elif known[k] != beyond or (beyond and goal.priority != MUST_RUN):
            break
    return tuple(found)


def looser_floors(problem: Problem, floors: Floors, loose: Problem) -> Floors:
    """The floors of a problem as those of a looser one."""
    return tuple(
        None if i < 0 or (floor := floors[i]) is None else floor + beyond
        for _, i, beyond in paired(problem, loose)
    )


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
