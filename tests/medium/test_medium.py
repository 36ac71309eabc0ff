"""A few questions of medium size, and that what is false of an answer would be found."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from placement_service.api.wire.requests import parse_request, request_to_proto
from placement_service.entities.request import Policy, Request
from placement_service.entities.solution import Solution, Tier, TierName
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import Score, score
from tests.judged import judged
from tests.medium.ask import ask
from tests.medium.claims import refuted
from tests.medium.large import Clock, measure
from tests.medium.question import draw
from tests.placed import solve
from tests.scenario import Scenario


@pytest.mark.parametrize("number", range(12))
def test_questions_are_legal_input(number: int) -> None:
    drawn = draw(0, number)
    request = Request(drawn.snapshot, drawn.policy, time_limit_seconds=5.0)
    assert parse_request(request_to_proto(request)) == request


@pytest.mark.parametrize("number", [0, 5, 7, 13])
def test_no_claim_is_refuted_by_a_plan_of_a_question_like_it(number: int) -> None:
    verdict = ask(random.Random(number), draw(1, number), seconds=2.0)
    assert not verdict.faults
    assert verdict.witnesses


class TestLarge:
    def test_nothing_is_wrong_with_the_stages_of_a_question(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Clock()
        monkeypatch.setattr(time, "monotonic", clock)
        measured = measure(draw(1, 5), 1.0, clock, way="another seed")
        assert not measured.faults
        assert measured.witnesses
        assert TierName.ADMITTED in measured.values

    def test_work_beside_another_counts_only_where_it_takes_longer(self) -> None:
        clock = Clock()
        begin = clock()
        with clock.beside(60.0):
            assert clock() < begin
        assert clock() >= begin

    def test_a_plan_that_breaks_rules_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        monkeypatch.setattr(time, "monotonic", clock)
        drawn = draw(1, 5)

        def wrong(problem: Problem, *arguments: object, deadline: float) -> Solution:
            right = first_answer(problem, deadline=deadline)
            crowded = tuple(a._replace(node=0) for a in right.assignments)
            return replace(right, assignments=crowded)

        monkeypatch.setattr("tests.medium.large.first_answer", wrong)
        faults = measure(drawn, 1.0, clock).faults
        assert any("a plan breaks rules" in fault for fault in faults)


class TestClaims:
    """One gang that fits; the answer leaves it out."""

    @staticmethod
    def refuted(policy: Policy, *changed: Tier) -> Sequence[str]:
        asked = Scenario("x1=8").gang("a", pods=1, gpus=8).snapshot()
        best = solve(asked, policy)[-1]
        placed, nothing = judged(asked, policy, best), score(asked, policy, ())
        told = {tier.name: replace(tier, value=nothing.value(tier.name)) for tier in best.tiers}
        told |= {tier.name: tier for tier in changed}
        return list(refuted(policy, list(told.values()), nothing, placed))

    def test_a_bound_that_leaves_room_for_the_better_plan_holds(self) -> None:
        assert not self.refuted(Policy())

    def test_a_bound_below_the_better_plan_is_false(self) -> None:
        told = self.refuted(Policy(), Tier(TierName.ADMITTED, 0, 7))
        assert told == ["admitted can be 8, beyond its bound 7"]

    def test_a_proof_of_less_is_false(self) -> None:
        told = self.refuted(Policy(), Tier(TierName.ADMITTED, 0, 0))
        assert told == [
            "admitted can be 8, beyond its bound 0",
            "admitted is proven, but can be better",
        ]

    def test_a_worse_plan_says_nothing(self) -> None:
        asked = Scenario("x1=8").gang("a", pods=1, gpus=8).snapshot()
        best = solve(asked, Policy())[-1]
        worse: Score = score(asked, Policy(), ())
        assert not list(refuted(Policy(), best.tiers, judged(asked, Policy(), best), worse))
