"""Gangs under rules between pods take the places of others."""

from __future__ import annotations

import time

from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.heuristic.plan_builder import Builder
from placement_service.search.incumbent import State
from placement_service.search.neighbourhoods.lns import Improver
from placement_service.search.parameters import DEFAULTS
from tests.scenario import Group, Scenario, spread


def stuck() -> State:
    """A search whose plan has a gang on both racks, where another one would use more GPUs."""
    scenario = Scenario("r1: a=8 | r2: b=8").gang("small", pods=2, gpus=5)
    apart = Group("w", pods=2, gpus=8, labels={"app": "x"}, spread=(spread("rack", app="x"),))
    problem = formulate(scenario.gang("spread", apart).snapshot(), Policy())
    small = next(g for g in problem.gangs if not problem.special[g.demands[0].pod_class])
    plan = Builder(problem).build(lambda g: g.index != small.index)
    assert list(plan) == [small.index]
    return State(problem, to_solution(problem, plan), time.monotonic() + 60, lambda _: None)


def test_a_gang_that_no_neighbourhood_describes_takes_the_place_of_another() -> None:
    state = stuck()
    before = state.plan
    improver = Improver(state)
    assert not improver.movable.issuperset(g.index for g in state.problem.gangs)
    improver.run()
    assert state.plan.keys().isdisjoint(before)
    assert state.worth.values[0] == state.problem.gangs[next(iter(state.plan))].value


def test_it_ends_when_nothing_comes_of_it() -> None:
    scenario = Scenario("r1: a=8 | r2: b=4")
    apart = Group("w", pods=2, gpus=8, labels={"app": "x"}, spread=(spread("rack", app="x"),))
    problem = formulate(scenario.gang("spread", apart).snapshot(), Policy())
    late = time.monotonic() + 60
    state = State(problem, to_solution(problem, {}), late, lambda _: None)
    improver = Improver(state)
    improver.run()
    assert not state.plan
    assert improver.rounds <= 2 * DEFAULTS.places_in_vain
