"""What a plan is worth, goal by goal, and how it is reported tier by tier.

The worth is recomputed from the plan alone, never taken from a solver. What the goals
are is said in `tiers`; nothing here names one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placement_service.entities.solution import Solution, Tier, TierName
from placement_service.formulation.plan import Plan, assignments, home_plan
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import goals
from placement_service.formulation.tiers.goal import Goal

#: A proven bound for each goal. It speaks of plans that reach the bounds before it.
Bounds = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """The value of each goal of a plan, in the order of the goals."""

    goals: tuple[Goal, ...]
    values: tuple[int, ...]

    @property
    def rank(self) -> tuple[int, ...]:
        """Larger is better."""
        return tuple(
            -value if goal.tier.minimize else value
            for goal, value in zip(self.goals, self.values, strict=True)
        )

    def of(self, tier: TierName) -> tuple[int, ...]:
        """The values of one tier, those that are reported."""
        both = zip(self.goals, self.values, strict=True)
        return tuple(v for g, v in both if g.tier is tier and g.reported)

    def first_open(self, bounds: Bounds) -> int:
        """The first goal, among those that have a bound, whose bound is not reached."""
        for i, (goal, value) in enumerate(zip(self.goals, self.values, strict=True)):
            if goal.tier.provable and value != bounds[i]:
                return i
        return len(self.goals)

    def beats(self, bounds: Bounds) -> bool:
        """Whether it is better than bounds say that any plan can be."""
        for goal, value, bound in zip(self.goals, self.values, bounds, strict=True):
            if value != bound:
                return value < bound if goal.tier.minimize else value > bound
        return False


def worth(problem: Problem, plan: Plan) -> Worth:
    """All goals of a plan."""
    every = goals(problem)
    return Worth(every, tuple(goal.value(plan) for goal in every))


def trivial_bounds(every: Sequence[Goal]) -> Bounds:
    """What holds before anything is counted: everybody, with all extras, side by side."""
    return tuple(goal.trivial_bound() for goal in every)


def tiers(mine: Worth, bounds: Bounds, home: Sequence[int]) -> tuple[Tier, ...]:
    """The tiers as they are reported: beyond `home`, what each goal is when nothing moves.

    Up to the first goal that does not reach its bound the bounds are about plans like this
    one. From there on a better plan may gain, and change everything below.
    """
    known = mine.first_open(bounds) + 1
    valid = (*bounds[:known], *trivial_bounds(mine.goals[known:]))
    reported = []
    for tier in TierName:
        unit = next((g.unit for g in mine.goals if g.tier is tier), 1)
        mine_only = [i for i, g in enumerate(mine.goals) if g.tier is tier and g.reported]
        before = sum(home[i] for i in mine_only)
        value, bound = sum(mine.of(tier)) - before, sum(valid[i] for i in mine_only) - before
        reported.append(Tier(tier, value / unit, bound / unit if tier.provable else None))
    return tuple(reported)


def report_plan(
    problem: Problem,
    plan: Plan,
    mine: Worth,
    bounds: Bounds,
    *,
    phase: str,
    fewest: Mapping[int, int],
) -> Solution:
    """Counts of pods on nodes, tiers and bounds."""
    return Solution(
        assignments=assignments(problem, plan),
        tiers=tiers(mine, bounds, _at_home(problem, mine)),
        fewest_domains=tuple(sorted(fewest.items())),
        phase=phase,
    )


def _at_home(problem: Problem, mine: Worth) -> Sequence[int]:
    """The value of each goal when nothing moves."""
    home = home_plan(problem)
    return worth(problem, home).values if home else (0,) * len(mine.goals)


def to_solution(problem: Problem, plan: Plan, *, phase: str = "greedy") -> Solution:
    """As `report_plan`, with what is trivially proven."""
    mine = worth(problem, plan)
    return report_plan(problem, plan, mine, trivial_bounds(mine.goals), phase=phase, fewest={})
