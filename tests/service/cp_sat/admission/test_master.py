"""Which gangs the master names where some are based on others."""

from __future__ import annotations

import time

from bench.instances import Instance
from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from tests.placed import solve
from tests.scenario import Scenario
from tests.waiting import LONG


def counted(scenario: Scenario) -> State:
    problem = formulate(scenario.snapshot(), scenario.policy)
    start = to_solution(problem, {})
    state = State(problem, start, time.monotonic() + LONG, lambda solution: None)
    count(state)
    return state


def target(scenario: Scenario) -> list[str]:
    """The short names of the gangs that counting names."""
    state = counted(scenario)
    return sorted(scenario.gangs[g].name.rpartition("/")[2] for g in state.target)


def test_of_gangs_alike_it_names_those_with_a_base() -> None:
    scenario = Scenario("x1=8 x2=8").gang("old", pods=1, gpus=8, waited=90)
    scenario = scenario.gang("young", pods=1, gpus=8, waited=10)
    scenario = scenario.gang("of-young", pods=1, gpus=8, base="young", waited=80)
    scenario = scenario.gang("of-old", pods=1, gpus=8, base="old", waited=5)
    # There is room for two, and both bases have waited longest.
    assert target(scenario) == ["old", "young"]
    more = scenario.gang("first", pods=1, gpus=8, waited=99, priority=1)
    more = more.gang("of-first", pods=1, gpus=8, base="first", waited=1, priority=1)
    assert target(more) == ["first", "of-first"]


def test_the_oldest_may_lack_its_base() -> None:
    # Bases take a node each, what is based on them half of one, which nobody else fits.
    scenario = Scenario("x1=8 x2=4/8")
    scenario = scenario.gang("old", pods=1, gpus=8, waited=90)
    scenario = scenario.gang("young", pods=1, gpus=8, waited=10)
    scenario = scenario.gang("of-young", pods=1, gpus=4, base="young", waited=80)
    scenario = scenario.gang("of-old", pods=1, gpus=4, base="old", waited=5)
    assert target(scenario) == ["of-old", "old"]


def test_gangs_based_on_unlike_ones_are_not_alike() -> None:
    scenario = Scenario("x1=8 x2=4/8").gang("large", pods=1, gpus=8, waited=600)
    scenario = scenario.gang("small", pods=1, gpus=6, waited=600)
    scenario = scenario.gang("of-small", pods=1, gpus=4, base="small", waited=4800)
    scenario = scenario.gang("of-large", pods=1, gpus=4, base="large", waited=300)
    assert target(scenario) == ["large", "of-large"]
    state = counted(scenario)
    tiers = [goal.tier for goal in state.goals]
    # In minutes: the one that waited longest has no base beside the larger one.
    assert state.bounds[tiers.index(TierName.WAITING)] == 15


def test_sets_of_several_priorities_are_proven() -> None:
    """Grove makes such sets: a base, and a gang for each further replica of a scaling group."""
    instance = Instance("mix", {"load": 1.3, "scaled": 0.5, "priorities": 3})
    assert solve(instance.snapshot(), Policy(), seconds=60)[-1].proven
