"""Each tier has one home, and the stages agree on their order."""

from __future__ import annotations

from typing import cast

from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx
from placement_service.formulation.objective import tiers, trivial_bounds, worth
from placement_service.formulation.plan import units_of
from placement_service.formulation.tiers import goals
from placement_service.formulation.tiers.admitted import InsideGuarantees
from placement_service.formulation.tiers.goal import Admission, GoalModel, Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.judge import score
from tests.scenario import Group, Scenario

TWO_PRIORITIES = (
    Scenario("r1: x1=8 x2=8")
    .gang("high", pods=1, gpus=8, priority=1)
    .gang("low", pods=2, gpus=8, min=1, prefer="rack")
)


def test_goals_come_in_the_order_of_their_tiers() -> None:
    order = list(TierName)
    found = [
        order.index(goal.tier) for goal in goals(formulate(TWO_PRIORITIES.snapshot(), Policy()))
    ]
    assert found == sorted(found)
    assert set(found) == set(range(len(order)))


def test_the_judge_knows_every_tier_in_the_units_of_the_engine() -> None:
    assert set(score.TIERS) == set(TierName)
    for goal in goals(formulate(TWO_PRIORITIES.snapshot(), Policy())):
        assert score.TIERS[goal.tier].unit == goal.unit


def test_nobody_is_disturbed() -> None:
    TWO_PRIORITIES.place().expect(disruption=0, proven=True)


def test_what_is_spent_of_a_higher_priority_is_no_proof_of_the_sum() -> None:
    """A lower priority makes up for all that is spent, so no plan has more in sum."""
    problem = formulate(TWO_PRIORITIES.snapshot(), Policy())
    low = next(g for g in problem.gangs if g.priority == 0)
    plan = {low.index: units_of({(0, 0): 1})}
    every = goals(problem)
    [high, last] = [i for i, g in enumerate(every) if g.tier is TierName.ADMITTED]
    spent = tuple(0 if i == high else None for i in range(len(every)))
    mine = worth(problem, plan, spent, every)
    bounds = tuple(max(0, v) for v in mine.values)
    home, most = (0,) * len(every), {TierName.ADMITTED: mine.values[last]}
    tier = tiers(mine, bounds, home, {high: mine.values[last]}, most)[0]
    assert tier.value == 8
    assert tier.bound == 16
    assert not tier.proven
    assert tiers(mine, bounds, home, {}, most)[0].proven


def test_gangs_that_two_goals_count_are_bounded_in_both() -> None:
    """Of what runs in part two GPUs at most are made whole, so of all gangs ten are."""
    scenario = Scenario("x1=8 y1=0/8").gang("big", pods=1, gpus=8)
    scenario = scenario.gang("lost-one", Group("w", pods=4, gpus=1, on=("y1",)))
    snapshot = scenario.snapshot()
    every = goals(formulate(snapshot, Policy()))
    [runs, both] = [g for g in every if g.tier is TierName.ADMITTED]
    known = 2 * runs.unit
    assert trivial_bounds(every)[:2] == (runs.trivial_bound(), both.trivial_bound())
    bounds = trivial_bounds(every, [known])
    assert bounds[0] == known
    assert bounds[1] == known + both.trivial_bound() - runs.trivial_bound()
    assert bounds[2:] == trivial_bounds(every)[2:]


def test_models_count_what_is_guaranteed_in_small_numbers() -> None:
    """In millionths of a GPU solvers took seconds for what takes a hundredth of one."""
    scenario = Scenario("r1: x1=8 x2=8").queue("a", guaranteed={"gpus": 10})
    for name, gpus in (("two", 2), ("four", 4), ("six", 6)):
        scenario = scenario.gang(name, pods=1, gpus=gpus, queue="a")
    problem = formulate(scenario.snapshot(), Policy())
    [inside] = [g for g in goals(problem) if isinstance(g, InsideGuarantees)]

    class Model:
        def admissions(self) -> list[Admission[int]]:
            return [Admission(10 + g.index, [g.index]) for g in problem.gangs]

        def lesser(self, terms: Terms[int], most: int) -> int:
            assert terms == [(10, 1), (11, 2), (12, 3)]
            assert most == 5
            return 99

    [(variable, weight)] = inside.terms(cast("GoalModel[int]", Model()))
    assert variable == 99
    assert 5 * weight == inside.trivial_bound() == 10 * inside.unit


def test_where_a_gang_runs_costs_nothing_if_none_of_its_pods_comes() -> None:
    half = Group("w", pods=3, min=2, gpus=8, on=("a", "b"))
    scenario = Scenario("r1: a=0/8 | r2: b=0/8 | r3: c=8").gang("half", half, prefer="rack")
    problem = formulate(scenario.snapshot(), Policy())
    [topology] = [g for g in goals(problem) if g.tier is TierName.TOPOLOGY]
    [gang] = problem.gangs
    assert topology.value({gang.index: ()}) == 0
    there = units_of({(DemandIdx(0), 2): 1})
    assert topology.value({gang.index: there}) == 2 * UNITS_PER_DOMAIN
