"""Gangs take nodes first that others hardly want, as where these are reserved for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from placement_service.entities.request import Policy
from placement_service.entities.reservations import ReservationOwner
from placement_service.entities.selectors import LabelSelector
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import from_solution, oldest_first
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.one_gang.demand_rank import DemandRank
from placement_service.heuristic.own_places import own_places
from placement_service.heuristic.plan_builder import Builder
from tests.scenario import Group, Scenario


def held(scenario: Scenario, *nodes: str) -> Scenario:
    """All of these nodes of eight GPUs are reserved for pods of group "own"."""
    for node in nodes:
        scenario = scenario.hold(f"r-{node}", node, 8, "own")
    return scenario


def own_nodes(scenario: Scenario) -> list[Sequence[int] | None]:
    """By pod class the nodes that its pods have for themselves."""
    problem = formulate(scenario.snapshot(), Policy())
    demand = DemandRank(problem)
    found = [demand.own_nodes(d.pod_class) for gang in problem.gangs for d in gang.demands]
    return [None if own is None else np.flatnonzero(own).tolist() for own in found]


def test_a_reserved_node_belongs_to_its_owners() -> None:
    scenario = held(Scenario("x1=8 x2=8"), "x2").gang("a", Group("own", pods=1, gpus=8))
    assert own_nodes(scenario.gang("b", pods=1, gpus=8)) == [[1], None]


def test_nobody_has_nodes_where_all_are_wanted_alike() -> None:
    scenario = Scenario("x1=8 x2=8").gang("a", pods=1, gpus=8).gang("b", pods=1, gpus=8)
    assert own_nodes(scenario) == [None, None]


def test_all_nodes_of_a_class_are_no_choice() -> None:
    scenario = held(Scenario("x1=8 x2=8"), "x1", "x2")
    assert own_nodes(scenario.gang("a", Group("own", pods=1, gpus=8))) == [None]


def test_nodes_that_hold_several_pods_are_filled_by_rank_alone() -> None:
    scenario = held(Scenario("x1=8 x2=8"), "x2").gang("a", Group("own", pods=1, gpus=4))
    assert own_nodes(scenario.gang("b", pods=1, gpus=4)) == [None, None]


def test_a_part_goes_to_its_reserved_rack_though_another_is_tighter() -> None:
    scenario = held(Scenario("b/r1: x1=8 x2=8 x3=8 | b/r2: y1=8 y2=8"), "x1", "x2")
    scenario = scenario.gang("a", Group("own", pods=2, gpus=8), pack="rack")
    scenario = scenario.gang("b", pods=2, gpus=8, pack="rack")
    problem = formulate(scenario.snapshot(), Policy())
    plan = Builder(problem).build(oldest_first)
    assert sorted(u.node for u in plan[problem.gangs[0].index]) == [0, 1]
    assert len(plan) == 2


def test_alike_parts_take_all_that_is_reserved_before_the_rest() -> None:
    drawing = "b/r1: x1=8 x2=8 x3=8 x4=8 | b/r2: y1=8 y2=8 y3=8"
    scenario = held(Scenario(drawing), "x1", "x2", "y1", "y2")
    own = {"team": "own"}
    scenario = replace(
        scenario,
        reservations=tuple(
            replace(r, owners=(ReservationOwner(selector=LabelSelector(tuple(own.items()))),))
            for r in scenario.reservations
        ),
    )
    one, other = (Group(name, pods=2, gpus=8, pack="rack", labels=own) for name in ("v", "w"))
    problem = formulate(
        scenario.gang("a", one, other).gang("b", pods=3, gpus=8).snapshot(), Policy()
    )
    plan = Builder(problem).build(oldest_first)
    assert sorted(u.node for u in plan[problem.gangs[0].index]) == [0, 1, 4, 5]


def test_who_owns_part_of_a_rack_comes_before_others_fill_the_rest() -> None:
    scenario = held(Scenario("b/r1: x1=8 x2=8 | b/r2: y1=8"), "x1")
    scenario = scenario.gang("b", pods=1, gpus=8, waited=100).gang("c", pods=1, gpus=8, waited=50)
    scenario = scenario.gang("a", Group("own", pods=2, gpus=8), pack="rack")
    problem = formulate(scenario.snapshot(), Policy())
    placed = from_solution(problem, first_answer(problem))
    assert sorted(placed) == [0, 2]


def placed_alone(scenario: Scenario) -> list[int]:
    """The gangs that lie on nodes of their own before all others."""
    problem = formulate(scenario.snapshot(), Policy())
    return sorted(own_places(Builder(problem), [g.index for g in problem.pending]))


def test_only_gangs_that_use_their_own_nodes_lie_there_before_all_others() -> None:
    scenario = held(Scenario("b/r1: x1=8 x2=8 | b/r2: y1=8 y2=8 y3=8"), "x1")
    scenario = scenario.gang("a", Group("own", pods=1, gpus=8)).gang("b", pods=1, gpus=8)
    # It finds no rack of three nodes with the reserved one.
    scenario = scenario.gang("c", Group("own", pods=3, gpus=8), pack="rack")
    assert placed_alone(scenario) == [0]


def test_where_gangs_in_sets_lie_depends_on_more() -> None:
    scenario = held(Scenario("x1=8 x2=8 x3=8"), "x1", "x2")
    scenario = scenario.gang("a", Group("own", pods=1, gpus=8))
    scenario = scenario.gang("b", Group("own", pods=1, gpus=8), base="a")
    assert placed_alone(scenario.gang("c", pods=1, gpus=8)) == []
