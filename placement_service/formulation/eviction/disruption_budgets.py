"""Disruption budgets over the running pods that may give way.

A budget allows some of its pods to go. Only budgets that could be exceeded are kept: gangs without
extras of which some pod may not go at all are not open (see `running_gangs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.request import PodGang
from placement_service.formulation.plan import Plan, kept_by_demand
from placement_service.formulation.problem import Budget, Gang, OpenDemand, Problem


def budgets(
    sources: Sequence[DisruptionBudget], requests: Sequence[PodGang], gangs: Sequence[Gang]
) -> Iterator[Budget]:
    """The budgets that the open gangs among `gangs` could exceed."""
    for source in sources:
        covered: set[OpenDemand] = set()
        pods = 0
        for gang in gangs:
            for home in gang.home:
                member = gang.demands[home.demand].members[0]
                request = requests[gang.index]
                labels = request.groups[member.group].pod_sets[member.pod_set].template.labels
                if source.matches(request.namespace, labels):
                    covered.add(OpenDemand(gang.index, home.demand))
                    pods += home.units * member.pods
        if pods > source.allowed:
            yield Budget(frozenset(covered), pods - source.allowed)


def budgets_hold(problem: Problem, plan: Plan) -> bool:
    """Whether enough pods of every budget stay at home."""
    return all(kept_of(problem, plan, budget) >= budget.least for budget in problem.budgets)


def kept_of(problem: Problem, plan: Plan, budget: Budget) -> int:
    """The pods of a budget that stay at home."""
    total = 0
    for index in {gang for gang, _ in budget.demands}:
        gang = problem.gangs[index]
        for demand, pods in kept_by_demand(gang, plan.get(index, ())).items():
            if (index, demand) in budget.demands:
                total += pods
    return total
