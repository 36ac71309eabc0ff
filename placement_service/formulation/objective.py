"""What a plan is worth, goal by goal, and how it is reported tier by tier.

The worth is recomputed from the plan alone, never taken from a solver. The goals are defined in
`tiers`; nothing here names one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from placement_service.entities.solution import (
    Assignment,
    FewestDomains,
    Solution,
    Tier,
    TierName,
)
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, assignments, home_plan
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import bound_beside, goals
from placement_service.formulation.tiers.goal import Goal

#: A proven bound for each goal. It holds for plans that reach the bounds before it.
Bounds = tuple[int, ...]

#: How much of each goal is enough, None where only the best is.
Floors = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Worth:
    """The value of each goal of a plan, in the order of the goals.

    `floors` say how much of each goal is enough, None where only the best is: later goals may give
    up the rest, as far as the policy tolerates it.
    """

    goals: tuple[Goal, ...]
    values: tuple[int, ...]
    floors: Floors

    @property
    def enough(self) -> tuple[int, ...]:
        """The values as they count for later goals: none is better than its floor."""
        return tuple(
            value
            if floor is None
            else max(value, floor)
            if goal.tier.minimize
            else min(value, floor)
            for goal, value, floor in zip(self.goals, self.values, self.floors, strict=True)
        )

    @property
    def rank(self) -> tuple[int, ...]:
        """Larger is better. Between plans that are equal so far, the values beyond the floors
        decide.
        """
        return self._signed(self.enough) + self._signed(self.values)

    def _signed(self, values: Iterable[int]) -> tuple[int, ...]:
        both = zip(self.goals, values, strict=True)
        return tuple(-value if goal.tier.minimize else value for goal, value in both)

    def of(self, tier: TierName) -> tuple[int, ...]:
        """The values of one tier, those that are reported."""
        both = zip(self.goals, self.values, strict=True)
        return tuple(v for g, v in both if g.tier is tier and g.reported)

    def first_open(self, bounds: Bounds) -> int:
        """The first goal, among those that have a bound, whose bound is not reached."""
        for i, (goal, value) in enumerate(zip(self.goals, self.enough, strict=True)):
            if goal.tier.provable and value != bounds[i]:
                return i
        return len(self.goals)

    def beats(self, bounds: Bounds) -> bool:
        """Whether it is better than bounds say that any plan can be."""
        for goal, value, bound in zip(self.goals, self.enough, bounds, strict=True):
            if value != bound:
                return value < bound if goal.tier.minimize else value > bound
        return False

    def spending(
        self, tier: TierName, share: float, best: Sequence[int], home: Sequence[int]
    ) -> Floors:
        """The floors when later tiers may also give up this share of the best of one tier, as it
        is reported: beyond `home`, what each goal is when nothing moves.
        """
        return tuple(
            floor
            if goal.tier is not tier
            else value + goal.reported * spent(value - before, share) * (1 if tier.minimize else -1)
            for goal, value, before, floor in zip(self.goals, best, home, self.floors, strict=True)
        )


def spent(value: int, share: float) -> int:
    """This share of a value, rounded to the strict side."""
    return int(share * abs(value))


def worth(problem: Problem, plan: Plan, floors: Floors = (), every: tuple[Goal, ...] = ()) -> Worth:
    """All goals of a plan; `every` are the goals, where they are known."""
    every = every or goals(problem)
    values = tuple(goal.value(plan) for goal in every)
    return Worth(every, values, floors or (None,) * len(every))


def trivial_bounds(every: Sequence[Goal], known: Sequence[int] = ()) -> Bounds:
    """Bounds before anything is counted, or only of the first goals, which are `known`: as if all
    other gangs with all extras fitted together.
    """
    bounds = list(known)
    for goal in every[len(known) :]:
        bounds.append(bound_beside(goal, every, bounds))
    return tuple(bounds)


def tiers(
    mine: Worth,
    bounds: Bounds,
    home: Sequence[int],
    best: Mapping[int, int],
    most: Mapping[TierName, int],
) -> tuple[Tier, ...]:
    """The tiers as they are reported: beyond `home`, what each goal is when nothing moves.

    Up to the first goal that does not reach its bound the bounds are about plans like this
    one. From there on a better plan may gain, and change everything below. `best` are the
    bounds of goals of which some may be spent, by their place. What is spent of one priority may
    give a lower one more than its best: then sums over priorities say nothing. `most` says how much
    a tier is in any plan, where that is known.
    """
    known = mine.first_open(bounds) + 1
    valid = [*trivial_bounds(mine.goals, bounds[:known])]
    for i, bound in best.items():
        valid[i] = bound
    reported = []
    for tier in TierName:
        unit = next((g.unit for g in mine.goals if g.tier is tier), 1)
        mine_only = [i for i, g in enumerate(mine.goals) if g.tier is tier and g.reported]
        before = sum(home[i] for i in mine_only)
        value, bound = sum(mine.of(tier)) - before, sum(valid[i] for i in mine_only) - before
        is_open = known <= len(mine.goals) and mine.goals[known - 1].tier is tier
        if tier in most:
            # Where the sum is at its most while a goal is open, or some of one is spent, that goal
            # may still gain: what it lacks is added, so that the tier does not count as proven.
            lacking = abs(valid[known - 1] - mine.enough[known - 1]) if is_open else 0
            if value == most[tier] - before:
                lacking += sum(max(0, best[i] - mine.values[i]) for i in mine_only if i in best)
            bound = min(bound, max(most[tier] - before, value + lacking))
        # Sums may agree although a goal is open: of another priority, or one that is not reported.
        by_chance = value == bound and is_open
        traded = any(_is_beyond(best[i], mine, i) for i in mine_only if i in best)
        says = tier.provable and not by_chance and not traded
        reported.append(Tier(tier, value / unit, bound / unit if says else None))
    return tuple(reported)


def _is_beyond(bound: int, mine: Worth, i: int) -> bool:
    value = mine.values[i]
    return value < bound if mine.goals[i].tier.minimize else value > bound


def report_plan(
    problem: Problem,
    mine: Worth,
    bounds: Bounds,
    *,
    home: Sequence[int],
    phase: str,
    fewest: Mapping[GangIdx, int],
    best: Mapping[int, int],
    assigned: tuple[Assignment, ...],
    mends: bool,
    most: Mapping[TierName, int] = MappingProxyType({}),
) -> Solution:
    """Tiers and bounds of a plan that is `assigned` as counts of pods on nodes; `home`, `best` and
    `most` as in `tiers`, `mends` as in `Problem` where bounds do not cover it.
    """
    told = tiers(mine, bounds, home, best, most)
    if mends:
        # Here even the trivial bounds do not hold for the request.
        told = tuple(t if t.name.minimize else replace(t, bound=None) for t in told)
    return Solution(
        assignments=assigned,
        tiers=told,
        fewest_domains=tuple(
            FewestDomains(gang, domains)
            for gang, domains in sorted(fewest.items())
            if not problem.gangs[gang].begins_anew
        ),
        phase=phase,
    )


def worth_at_home(problem: Problem, every: Sequence[Goal]) -> Sequence[int]:
    """The value of each goal when nothing moves."""
    home = home_plan(problem)
    return worth(problem, home, every=tuple(every)).values if home else (0,) * len(every)


def to_solution(problem: Problem, plan: Plan, every: tuple[Goal, ...] = ()) -> Solution:
    """As `report_plan`, of a greedy plan, with what is trivially proven; `every` are the goals,
    where they are known.
    """
    mine = worth(problem, plan, every=every)
    bounds = trivial_bounds(mine.goals)
    home = worth_at_home(problem, mine.goals)
    return report_plan(
        problem,
        mine,
        bounds,
        home=home,
        phase="greedy",
        fewest={},
        best={},
        assigned=assignments(problem, plan),
        mends=problem.mends,
    )
