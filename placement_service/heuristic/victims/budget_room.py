"""How many more pods of each disruption budget may go."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from placement_service.formulation.eviction.disruption_budgets import kept_of
from placement_service.formulation.indices import DemandIdx
from placement_service.formulation.plan import Plan, Units, kept_by_demand, pods_of
from placement_service.formulation.problem import Gang, OpenDemand, Problem, UnitsOnNode


class BudgetRoom:
    """What is `left` of each budget while gangs leave a plan; budgets are told by their numbers."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.left = [kept_of(problem, plan, budget) - budget.least for budget in problem.budgets]
        self._of: defaultdict[OpenDemand, list[int]] = defaultdict(list)
        for b, budget in enumerate(problem.budgets):
            for demand in budget.demands:
                self._of[demand].append(b)

    def allow(self, pods: Mapping[int, int]) -> bool:
        """Whether so many pods of each budget may go."""
        return all(count <= self.left[b] for b, count in pods.items())

    def pods(self, gang: Gang, units: Iterable[UnitsOnNode]) -> Mapping[int, int]:
        """The pods of each budget among units at home."""
        return self._by_budget(
            gang, ((d, count * pods_of(gang, d)) for d, _, count in units if self.left)
        )

    def change(self, gang: Gang, before: Units, after: Units) -> None:
        """A gang has other units from now on."""
        if self.left and gang.home:
            for units, sign in ((before, 1), (after, -1)):
                kept = self._by_budget(gang, kept_by_demand(gang, units).items())
                for b, pods in kept.items():
                    self.left[b] -= sign * pods

    def _by_budget(self, gang: Gang, pods: Iterable[tuple[int, int]]) -> Mapping[int, int]:
        found = Counter[int]()
        for d, count in pods:
            for b in self._of.get(OpenDemand(gang.index, DemandIdx(d)), ()):
                found[b] += count
        return found
