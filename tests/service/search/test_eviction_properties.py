"""Evictions on random questions: no broken rule, no false bound, no needless victim.

The oracle tries every way to take pods away and to place others, and knows the optimum.
"""

from __future__ import annotations

import time

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.prepared import Prepared
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import Score, score
from placement_service.judge.verify import verify
from placement_service.search.engine import search
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.brute import Optimum, TooLarge, no_bound_cuts_off, optimum
from tests.strategies import (
    EVERYTHING,
    Feature,
    Size,
    contested_clusters,
    full_clusters,
    snapshots,
)
from tests.waiting import LONG

#: Of the profile in use.
EXAMPLES = settings().max_examples

TINY = Size(nodes=3, gangs=3, groups=1, pods=4)

policies = st.builds(
    Policy, eviction=st.sampled_from([p for p in EvictionPolicy if p is not EvictionPolicy.NONE])
)

questions = st.one_of(
    full_clusters(),
    full_clusters(),
    full_clusters(),
    snapshots(TINY, frozenset({Feature.TOLD, Feature.PRIORITIES})),
    snapshots(TINY, frozenset({Feature.TOLD, Feature.PRIORITIES, Feature.QUEUES})),
    snapshots(TINY, EVERYTHING),
)


def oracle(snapshot: Snapshot, policy: Policy) -> Optimum:
    """The optimum of a tiny question; gives up on those that are not tiny enough."""
    try:
        return optimum(snapshot, policy)
    except TooLarge:
        assume(False)
        raise


def answers(
    snapshot: Snapshot,
    policy: Policy,
    prepared: Prepared,
    parameters: SearchParameters = DEFAULTS,
) -> list[Solution]:
    problem = formulate(snapshot, policy, prepared)
    found: list[Solution] = [first_answer(problem)]
    found.append(
        search(
            problem,
            found[0],
            deadline=time.monotonic() + LONG,
            report=found.append,
            parameters=parameters,
        )
    )
    return found


def judged(snapshot: Snapshot, policy: Policy, prepared: Prepared, solution: Solution) -> Score:
    """The score of an answer that keeps the rules and claims what it is worth."""
    plan = name_plan(snapshot, policy, prepared, solution.assignments)
    assert verify(snapshot, policy, *plan) == ()
    result = score(snapshot, policy, *plan)
    assert [(t.name, t.value) for t in solution.tiers] == [(n, result.value(n)) for n in TierName]
    return result


@given(questions, policies)
def test_bounds_never_cut_off_the_optimum_and_proofs_have_met_it(
    snapshot: Snapshot, policy: Policy
) -> None:
    best = oracle(snapshot, policy)
    event(f"evicted: {len(best.evictions)}")
    prepared = prepare(snapshot, policy)
    found = answers(snapshot, policy, prepared)
    for answer in found:
        no_bound_cuts_off(best, answer, judged(snapshot, policy, prepared, answer))
    event(f"proven: {found[-1].proven}")


@settings(max_examples=EXAMPLES // 4)
@given(questions, policies)
def test_the_model_of_victims_cuts_off_no_optimum(snapshot: Snapshot, policy: Policy) -> None:
    best = oracle(snapshot, policy)
    prepared = prepare(snapshot, policy)
    for answer in answers(snapshot, policy, prepared, SearchParameters(victim_gangs=1)):
        no_bound_cuts_off(best, answer, judged(snapshot, policy, prepared, answer))


@given(contested_clusters())
def test_what_is_reclaimed_for_one_gang_may_serve_others(snapshot: Snapshot) -> None:
    policy = Policy(eviction=EvictionPolicy.RECLAIM)
    best = oracle(snapshot, policy)
    prepared = prepare(snapshot, policy)
    for answer in answers(snapshot, policy, prepared):
        no_bound_cuts_off(best, answer, judged(snapshot, policy, prepared, answer))


@settings(max_examples=EXAMPLES // 2)
@given(questions, policies)
def test_the_oracle_keeps_the_rules(snapshot: Snapshot, policy: Policy) -> None:
    best = oracle(snapshot, policy)
    assert verify(snapshot, policy, best.plan, best.evictions) == ()
