"""A question with a plan of its own, and models that are held to what the plan reaches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.cp_sat.aggregate.model import AggregateModel
from placement_service.cp_sat.exact.model import ExactModel
from placement_service.cp_sat.exact.objective import Goals
from placement_service.cp_sat.solving import Answer, Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.naming.pod_assignment import count_pods, name_pods
from placement_service.entities.request import Policy
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import Bounds, to_solution, worth
from placement_service.formulation.plan import Plan, from_solution, pods_of
from placement_service.formulation.problem import Gang, Problem, Scope
from placement_service.formulation.tiers.topology import (
    UNITS_PER_DOMAIN,
    gang_domains,
    scopes_in_use,
    set_domains,
    sets,
)
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.judge.verify import verify
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import HoldableModel, keep
from placement_service.search.parameters import SearchParameters
from tests.cut_out import Planned

POLICY = Policy(deterministic=True, starvation_after=1000)

#: Deterministic time of one solve here.
EFFORT = 1.0

#: What comes after the last bound is no matter here.
HASTY = SearchParameters(
    master_effort=EFFORT,
    aggregate_effort=0.05,
    exact_effort=0.05,
    exact_polish_effort=0.0,
    exact_portfolio_variables=0,
    alone_effort=0.05,
    node_effort=0.05,
    configuration_effort=0.05,
)

#: What was met, by name: a check that meets nothing shows nothing.
Met = Counter[str]


class Case:
    """A question, its plan in the terms of the engine, and what counting says of it."""

    def __init__(self, planned: Planned, parameters: SearchParameters = HASTY) -> None:
        self.planned = planned
        self.parameters = parameters
        self.snapshot = planned.snapshot
        self.problem: Problem = formulate(self.snapshot, POLICY)
        assignments = count_pods(self.snapshot, planned.plan)
        self.plan: Plan = from_solution(self.problem, Solution(assignments, ()))
        self.worth = worth(self.problem, self.plan)
        self.counting = Counting(Topology(self.problem), parameters.counting)

    @cached_property
    def forest(self) -> Forest:
        return Forest(self.problem)

    @property
    def everywhere(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.arange(self.problem.node_count)

    def state(self, parameters: SearchParameters) -> State:
        """A search that has only begun."""
        nothing, late = to_solution(self.problem, {}), time.monotonic() + 600
        return State(self.problem, nothing, late, lambda solution: None, parameters)

    def room(self, plan: Plan) -> ResidualCapacity:
        """What a part of the plan leaves."""
        room = ResidualCapacity(self.problem)
        room.take_plan(plan)
        return room

    def without(self, gangs: Sequence[Gang]) -> Plan:
        """The plan of all others."""
        mine = {g.index for g in gangs}
        return {i: units for i, units in self.plan.items() if i not in mine}

    def extras(self, gang: Gang) -> int:
        """How many units beyond its minimum the plan gives a gang."""
        units = self.plan.get(gang.index, ())
        return sum(
            max(0, sum(c for d, _, c in units if d in q.demands) - q.missing)
            for q in gang.requirements
        )

    def nodes(self, gang: Gang, scope: Scope) -> list[int]:
        """The nodes under a scope's new pods."""
        return sorted({n for d, n, _ in self.plan.get(gang.index, ()) if d in scope.demands})

    def topology_of(self, gangs: Sequence[Gang]) -> int:
        """What some gangs, and the sets that they belong to, cost in topology."""
        mine = {g.index for g in gangs}
        domains = misses = 0
        for g in gangs:
            units = self.plan.get(g.index, ())
            if units:
                domains += gang_domains(self.problem, g, units) - scopes_in_use(g, units)
            if g.previous:
                misses += sum(c * pods_of(g, d) for d, n, c in units if n not in g.previous)
        for members in sets(self.problem).values():
            if any(g.index in mine for g in members):
                domains += set_domains(self.problem, members, self.plan)
        return domains * UNITS_PER_DOMAIN + misses

    def keeps_the_rules(self, plan: Plan) -> None:
        assignments = to_solution(self.problem, plan).assignments
        assert verify(self.snapshot, POLICY, name_pods(self.snapshot, assignments)) == ()

    def is_admitted_by(self, bounds: Bounds) -> None:
        """A bound speaks of plans that reach those before it, and of no others."""
        assert not self.worth.beats(bounds), (self.worth.values, bounds)


def as_good(case: Case, gangs: Sequence[Gang]) -> Goals:
    """The exact model of some gangs, held to what the plan reaches with them."""
    fixed = case.without(gangs)
    free = case.room(fixed).free
    goals = Goals(
        ExactModel(
            case.counting,
            Subproblem(gangs, case.everywhere, free, fixed),
            parameters=case.parameters.model,
        )
    )
    hold_to(case, goals, gangs)
    return goals


def counted_as_good(case: Case, gangs: Sequence[Gang]) -> AggregateModel:
    """The aggregate model of some gangs, held to what the plan reaches with them."""
    fixed = case.without(gangs)
    free = case.room(fixed).free
    model = AggregateModel(
        case.counting,
        case.forest,
        Subproblem(gangs, case.everywhere, free, fixed),
        case.parameters.model,
    )
    hold_to(case, model, gangs, guesses=not model.kinds.exact)
    return model


def hold_to(
    case: Case, model: HoldableModel[Var], gangs: Sequence[Gang], *, guesses: bool = False
) -> None:
    """Hold all goals that have bounds; where a model guesses, not those that it guesses at."""
    outside = worth(case.problem, case.without(gangs)).values
    for goal, value, out in zip(case.worth.goals, case.worth.values, outside, strict=True):
        mine = value - out
        if goal.tier is TierName.TOPOLOGY:
            mine = case.topology_of(gangs)
        if goal.tier.provable and not (guesses and goal.tier.minimize):
            keep(goal, model, mine)


def solved(answer: Answer) -> Plan | None:
    """The plan of a model that must have one; None when it was not found in time."""
    assert answer.plan is not None or not answer.proven, "a valid plan is cut off"
    return answer.plan
