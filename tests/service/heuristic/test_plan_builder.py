"""Plans that end in time, also where one gang takes long."""

from __future__ import annotations

import math
import time

import pytest

from placement_service.entities.deadline import OutOfTime
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.heuristic import plan_builder
from placement_service.heuristic.one_gang.placer import GangPlacer
from placement_service.heuristic.one_gang.regions import EVERYWHERE, Region
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity
from tests.scenario import Scenario
from tests.waiting import LONG


def problem_of(policy: Policy | None = None) -> Problem:
    asked = Scenario("r1: x1=8 x2=8 x3=8")
    asked = asked.gang("slow", pods=1, gpus=8).gang("based", pods=1, gpus=2, base="slow")
    asked = asked.gang("quick", pods=1, gpus=8)
    return formulate(asked.snapshot(), policy or Policy())


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The gangs in the order in which they are tried; the first takes more than its share."""
    found: list[int] = []

    class Slow(GangPlacer):
        def run(self, region: Region = EVERYWHERE) -> bool:
            found.append(self.gang.index)
            if self.gang.index == 0 and self._until < time.monotonic() + LONG:
                raise OutOfTime
            return super().run(region)

    monkeypatch.setattr(plan_builder, "GangPlacer", Slow)
    monkeypatch.setattr(plan_builder, "MANY_SHARES", 0.001)
    return found


def test_a_gang_that_takes_long_is_put_off_and_so_is_what_is_based_on_it(tried: list[int]) -> None:
    builder = Builder(problem_of())
    plan = builder.build(lambda gang: gang.index, until=time.monotonic() + 2 * LONG)
    assert tried == [0, 2, 0, 1]
    assert set(plan) == {0, 1, 2}


def test_nothing_is_put_off_where_no_clock_may_decide(tried: list[int]) -> None:
    builder = Builder(problem_of(Policy(deterministic=True)))
    plan = builder.build(lambda gang: gang.index, until=time.monotonic() + 2 * LONG)
    assert tried == [0, 1, 2]
    assert set(plan) == {0, 1, 2}


def test_a_plan_ends_with_its_time() -> None:
    builder = Builder(problem_of())
    assert not builder.build(lambda gang: gang.index, until=time.monotonic() - 1)
    assert builder.until == math.inf
    assert len(builder.build(lambda gang: gang.index)) == 3


def test_nothing_is_tried_past_the_end_of_a_block() -> None:
    problem = formulate(Scenario("x1=8").gang("a", pods=1, gpus=8).snapshot(), Policy())
    builder, residual, (gang,) = Builder(problem), ResidualCapacity(problem), problem.pending
    with pytest.raises(OutOfTime), builder.ending(0.0):
        builder.place(residual, gang)
    assert builder.place(residual, gang) is not None
