"""Answers of the engine, judged and held against the optimum."""

from __future__ import annotations

from hypothesis import assume

from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.named_plan import name_plan
from placement_service.formulation.prepare import prepare
from placement_service.judge.score import Score, score
from placement_service.judge.verify import verify
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.brute import Optimum, TooLarge, no_bound_cuts_off, optimum
from tests.placed import solve


def judged(snapshot: Snapshot, policy: Policy, solution: Solution) -> Score:
    """The score of an answer that keeps the rules and claims what it is worth."""
    plan = name_plan(snapshot, policy, prepare(snapshot, policy), solution.assignments)
    broken = verify(snapshot, policy, *plan)
    assert not broken, broken
    result = score(snapshot, policy, *plan)
    assert [(t.name, t.value) for t in solution.tiers] == [(n, result.value(n)) for n in TierName]
    return result


def oracle(snapshot: Snapshot, policy: Policy) -> Optimum:
    """The optimum of a tiny question, which keeps the rules; gives up on those that are not tiny
    enough."""
    try:
        best = optimum(snapshot, policy)
    except TooLarge:
        assume(False)
        raise
    assert not verify(snapshot, policy, best.plan, best.evictions)
    return best


def no_answer_is_false(
    best: Optimum | None,
    snapshot: Snapshot,
    policy: Policy,
    parameters: SearchParameters = DEFAULTS,
) -> bool:
    """Judge all answers, and their bounds where the optimum is known; is the last one proven?"""
    answers = solve(snapshot, policy, parameters=parameters)
    for answer in answers:
        reached = judged(snapshot, policy, answer)
        if best is not None:
            no_bound_cuts_off(best, answer, reached)
    return answers[-1].proven
