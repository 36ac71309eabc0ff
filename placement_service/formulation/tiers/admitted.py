"""The first tier: by priority from high to low, the most value of gangs whose minimum is met.

Of one priority, what runs stays and what runs in part is made whole first. Then come gangs
that wait longer than `Policy.starvation_after`, those that wait longest before the others:
each time that a gang has waited twice as long it comes before all that have not, so that it
is not outweighed for ever. These goals only choose among gangs; the value of all is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from placement_service.entities.solution import TierName
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Fewest, GoalModel, Terms, V


def priorities(problem: Problem) -> tuple[int, ...]:
    """The priorities of all pending gangs, from high to low."""
    return tuple(sorted({g.priority for g in problem.pending}, reverse=True))


@dataclass(frozen=True, slots=True, eq=False)
class Admitted:
    """The value of some pending gangs of one priority.

    Where it has some of the gangs that a model does not tell apart, they are the first.
    """

    tier: ClassVar[TierName] = TierName.ADMITTED
    unit: ClassVar[int] = UNITS_PER_GPU

    problem: Problem
    priority: int
    gangs: frozenset[int]
    reported: bool

    def value(self, plan: Plan) -> int:
        mine = (self.problem.gangs[i] for i, units in plan.items() if units and i in self.gangs)
        return sum(g.value for g in mine)

    def trivial_bound(self) -> int:
        return sum(self.problem.gangs[i].value for i in self.gangs)

    def terms(self, model: GoalModel[V]) -> Terms[V]:
        terms: Terms[V] = []
        for admission in model.admissions():
            mine = sum(i in self.gangs for i in admission.gangs)
            if mine:
                value = self.problem.gangs[admission.gangs[0]].value
                terms.append((model.capped(admission, mine), value))
        return terms

    def could_gain(self, plan: Plan, fewest: Fewest) -> list[Gang]:
        return [self.problem.gangs[i] for i in sorted(self.gangs) if i not in plan]


def goals(problem: Problem) -> tuple[Admitted, ...]:
    return tuple(goal for p in priorities(problem) for goal in _of_priority(problem, p))


def _of_priority(problem: Problem, priority: int) -> Iterator[Admitted]:
    every = [g for g in problem.pending if g.priority == priority]
    parts = [[g for g in every if g.runs], *_starved(problem, every)]
    for part in parts:
        if part:
            yield Admitted(problem, priority, frozenset(g.index for g in part), reported=False)
    yield Admitted(problem, priority, frozenset(g.index for g in every), reported=True)


def _starved(problem: Problem, gangs: list[Gang]) -> list[list[Gang]]:
    """Gangs that wait longer than is patient, and than twice that, and so on; longest first."""
    patience = problem.policy.starvation_after
    found: list[list[Gang]] = []
    while patience is not None:
        starved = [g for g in gangs if g.waited > patience and not g.home]
        if not starved:
            break
        found.insert(0, starved)
        patience = max(1, 2 * patience)
    return found
