"""The first tier: by priority from high to low, the most value of gangs whose minimum is met.

Within one priority, what runs stays and what runs in part is made whole first. Then come gangs that
wait longer than `Policy.starvation_after`, and first those that wait four times as long, sixteen
times, and so on, so that larger gangs do not outweigh them for ever. Then come GPUs inside the
guaranteed amounts of queues, which with RECLAIM come before all that. These goals only choose among
gangs; the value of all is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.solution import TierName
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.guarantees import Guarantee
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, Goal, GoalModel, Terms, V, oldest


def priorities(problem: Problem) -> tuple[int, ...]:
    """The priorities of all pending gangs, from high to low."""
    return tuple(sorted({g.priority for g in problem.pending}, reverse=True))


#: A starving gang that has waited so many times as long comes before the others.
LONGER = 4


@dataclass(frozen=True, eq=False)
class Admitted:
    """The value of some pending gangs of one priority.

    Where it has some of the gangs that a model does not tell apart, they are the first.
    """

    tier: ClassVar[TierName] = TierName.ADMITTED
    unit: ClassVar[int] = UNITS_PER_GPU

    problem: Problem
    priority: int
    gangs: frozenset[GangIdx]
    reported: bool

    def value(self, plan: Plan) -> int:
        return sum(self.problem.gangs[i].value for i in self.gangs if plan.get(i))

    def trivial_bound(self) -> int:
        return self._most

    @cached_property
    def _most(self) -> int:
        every = (self.problem.gangs[i] for i in self.gangs)
        return sum(g.value for g in every if not g.begins_anew)

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        terms: Terms[V] = []
        for admission in model.admissions():
            mine = sum(i in self.gangs for i in admission.gangs)
            if mine:
                value = self.problem.gangs[admission.gangs[0]].value
                terms.append((oldest(model, admission, mine), value))
        return terms

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        return [self.problem.gangs[i] for i in sorted(self.gangs) if i not in plan]


@dataclass(frozen=True, eq=False)
class InsideGuarantees:
    """GPUs of the minimums of one priority and above that are guaranteed to their queues.

    A gang that fits only in part counts with the part that fits.
    """

    tier: ClassVar[TierName] = TierName.ADMITTED
    unit: ClassVar[int] = UNITS_PER_GPU
    reported: ClassVar[bool] = False

    problem: Problem
    priority: int

    def value(self, plan: Plan) -> int:
        total = 0
        for guarantee in self.problem.guarantees:
            needs = (n for g, n in guarantee.needs.items() if plan.get(g) and self._has(g))
            total += min(self._left(guarantee), sum(needs))
        return total

    def _left(self, guarantee: Guarantee) -> int:
        """What runs at a lower priority fills a guarantee too, whether or not it is evicted."""
        gangs = self.problem.gangs
        lower = (n for g, n in guarantee.needs.items() if gangs[g].home and not self._has(g))
        return max(0, guarantee.left - sum(lower))

    def trivial_bound(self) -> int:
        return self._most

    @cached_property
    def _most(self) -> int:
        return sum(
            min(
                self._left(guarantee),
                sum(
                    n
                    for g, n in guarantee.needs.items()
                    if self._has(g) and not self.problem.gangs[g].begins_anew
                ),
            )
            for guarantee in self.problem.guarantees
        )

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        terms: Terms[V] = []
        admissions = [a for a in model.admissions() if self._has(a.gangs[0])]
        for i, guarantee in enumerate(self.problem.guarantees):
            needs = [
                (a.placed, max(guarantee.needs[g] for g in a.gangs))
                for a in admissions
                if self.problem.gangs[a.gangs[0]].guarantee == i
            ]
            if needs:
                # In their common unit: solvers find small numbers far sooner.
                most = self._left(guarantee)
                unit = math.gcd(most, *(need for _, need in needs))
                small = [(v, need // unit) for v, need in needs]
                terms.append((model.lesser(small, most // unit), unit))
        return terms

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        every = (g for guarantee in self.problem.guarantees for g in guarantee.needs)
        return [self.problem.gangs[i] for i in every if i not in plan and self._has(i)]

    def _has(self, gang: GangIdx) -> bool:
        mine = self.problem.gangs[gang]
        return mine.placeable and mine.priority >= self.priority


def bound_beside(goal: Goal, others: Sequence[Goal], bounds: Sequence[int]) -> int:
    """What a goal can be at most beside the `others` before it, of which so many have `bounds`:
    where it counts all gangs of another one, that bound and the value of the rest.
    """
    bound = goal.trivial_bound()
    if isinstance(goal, Admitted):
        # Goals of a priority stand together, and there may be thousands of priorities.
        for i in range(len(bounds) - 1, -1, -1):
            other = others[i]
            if other.priority != goal.priority:
                break
            if isinstance(other, Admitted) and other.gangs <= goal.gangs:
                bound = min(bound, bounds[i] + goal.trivial_bound() - other.trivial_bound())
    return bound


def goals(problem: Problem) -> tuple[Goal, ...]:
    """The goals of the tier, priority by priority."""
    mine: dict[int, list[Gang]] = {p: [] for p in priorities(problem)}
    for gang in problem.pending:
        mine[gang.priority].append(gang)
    return tuple(goal for p, every in mine.items() for goal in _of_priority(problem, p, every))


def _of_priority(problem: Problem, priority: int, every: list[Gang]) -> Iterator[Goal]:
    guaranteed = any(g.guarantee >= 0 for g in every)
    reclaims = problem.policy.eviction is EvictionPolicy.RECLAIM
    if guaranteed and reclaims:
        # What runs above the guarantee of its queue may have to go for what lies inside.
        yield InsideGuarantees(problem, priority)
    for part in ([g for g in every if g.runs], *_starved(problem, every)):
        if part:
            yield Admitted(problem, priority, frozenset(g.index for g in part), reported=False)
    if guaranteed and not reclaims:
        yield InsideGuarantees(problem, priority)
    yield Admitted(problem, priority, frozenset(g.index for g in every), reported=True)


def _starved(problem: Problem, gangs: list[Gang]) -> list[list[Gang]]:
    """Gangs that wait longer than the starvation time, than `LONGER` times that, and so on; longest
    first."""
    patience = problem.policy.starvation_after
    found: list[list[Gang]] = []
    while patience is not None:
        starved = [g for g in gangs if g.waited > patience and g.waits]
        if not starved:
            break
        found.insert(0, starved)
        patience = max(1, LONGER * patience)
    return found
