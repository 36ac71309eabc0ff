"""Bounds from a looser problem: some of its rules are left out, or who may go is chosen anew.

It is searched for a share of the time, without neighbourhoods.
"""

from __future__ import annotations

import time

from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.formulation.presolve.fewer_columns import without_reservations
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import has_goals_of
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.exact_stage import settle_exact
from placement_service.search.groundwork import many_may_give_way
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count, count_tiers
from placement_service.search.victims.bounds import bound_victims


def settle_relaxation(
    state: State, relaxation: Problem | None, start: Solution, *, tells: bool = True
) -> None:
    """Learn the bounds of a looser problem, where it `tells` any; its plans may break rules, so
    they are dropped, except where it differs in the queues alone, which every plan is held against.
    """
    if relaxation is None or state.left <= 0:
        return
    if not (relaxation.apart or has_goals_of(state.problem, relaxation)):
        # Bounds are told goal by goal. In one of them a gang may have to run that may go in the
        # other, and then it has goals of its own.
        return
    late = time.monotonic() + state.at_most(state.left * state.parameters.relaxation_share)
    if relaxation.apart:
        start = to_solution(relaxation, home_plan(relaxation))
    loose = _looser(state, relaxation, start, late)
    loosest = without_reservations(relaxation)
    if loosest is not relaxation:
        first = _looser(state, loosest, start, late)
        count(first)
        loose.learn_all(first.bounds)
    # What is reserved hardly matters to who waited longest, and takes long to count on many nodes.
    small = relaxation.node_count <= state.parameters.relaxation_nodes
    if small or loosest is relaxation or loose.open_tier is TierName.ADMITTED:
        count(loose)
        count_tiers(loose)
    victims = many_may_give_way(loose.problem, loose.parameters)
    if victims:
        bound_victims(loose)
    settle_aggregate(loose)
    if small or not victims:
        settle_exact(loose)
    if relaxation.free is state.problem.free:
        state.accept(loose.plan)
    if relaxation.exact:
        state.trust_most(loose)
    if relaxation.exact and tells:
        if relaxation.apart:
            state.trust_looser(loose)
        else:
            state.trust(loose.bounds, mended=not relaxation.mends)


def _looser(state: State, problem: Problem, start: Solution, deadline: float) -> State:
    """A search for a looser problem, of which nobody is told."""
    loose = State(problem, start, deadline, None, state.parameters)
    loose.follow_floors(state)
    return loose
