"""Which extras the first answer places, and where."""

from __future__ import annotations

from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from tests.scenario import Group, Scenario


def first(scenario: Scenario) -> Solution:
    return first_answer(formulate(scenario.snapshot(), scenario.policy))


def value(solution: Solution, tier: TierName) -> float:
    return next(t.value for t in solution.tiers if t.name is tier)


def test_small_extras_come_before_large_ones_as_each_counts_the_same() -> None:
    scenario = Scenario("x1=8 x2=8").gang("large", pods=3, gpus=4, min=1, priority=9)
    scenario = scenario.gang("small", pods=8, gpus=1, min=1)
    # Eight GPUs are enough for all seven small ones, after them for one of the large.
    assert value(first(scenario), TierName.EXTRA) == 8


def test_of_a_gang_with_unlike_groups_the_small_ones_do_not_bring_the_large_ones() -> None:
    scenario = Scenario("x1=11")
    two = Group("a", pods=2, gpus=4, min=1), Group("b", pods=2, gpus=1, min=1)
    scenario = scenario.gang("two", *two).gang("middle", pods=2, gpus=2, min=1)
    # Four GPUs are left: one for "b" and two for "middle", instead of all for "a".
    assert value(first(scenario), TierName.EXTRA) == 2


def test_extras_look_near_their_gang_before_others_of_their_size_go_far() -> None:
    """The extras of "a" have room in its rack only as long as those of "b" do not come there."""
    scenario = Scenario("r1: x1=8 | r2: x2=8 x3=8")
    scenario = scenario.gang("b", pods=3, gpus=8, min=1, prefer="rack", waited=90)
    scenario = scenario.gang("a", pods=2, gpus=8, min=1, prefer="rack")
    solution = first(scenario)
    assert value(solution, TierName.EXTRA) == 1
    assert value(solution, TierName.TOPOLOGY) == 0
