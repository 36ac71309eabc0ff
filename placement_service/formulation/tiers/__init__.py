"""The tiers of the objective, one file each, in order of importance.

A tier's name, sense and whether its bound belongs to the proof are in `TierName`; what the
judge counts is in `judge.tiers`, apart on purpose. Everything else that a stage needs to know about
a tier is in its file; the stages use `goals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from placement_service.entities.request import ExtrasPolicy
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import (
    admitted,
    disruption,
    extra,
    fragmentation,
    topology,
    waiting,
)
from placement_service.formulation.tiers.admitted import bound_beside
from placement_service.formulation.tiers.goal import Goal

__all__ = ["bound_beside", "goals", "has_goals_of"]

TIERS: tuple[Callable[[Problem], Sequence[Goal]], ...] = (
    admitted.goals,
    waiting.goals,
    extra.goals,
    disruption.goals,
    topology.goals,
    fragmentation.goals,
)


def goals(problem: Problem) -> tuple[Goal, ...]:
    """The goals of all tiers, in order of importance.

    Tier by tier; where extras go with their priority, all goals of a priority come before
    those of lower ones.
    """
    every = [goal for tier in TIERS for goal in tier(problem)]
    if problem.policy.extras is ExtrasPolicy.WITH_PRIORITY:
        every.sort(key=lambda goal: math.inf if goal.priority is None else -goal.priority)
    return tuple(every)


def has_goals_of(problem: Problem, other: Problem | None) -> bool:
    """Whether both have the same goals in the same order, so that bounds of the one are about
    those of the other; also without another.
    """
    if other is None:
        return True
    told = ([(type(g), g.priority) for g in goals(one)] for one in (problem, other))
    return next(told) == next(told)
