"""Gangs that fit nowhere are left out before anything else looks at them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.arrays import Ints, pods_that_fit
from placement_service.formulation.formulate import formulate
from placement_service.formulation.presolve import hopeless_gangs
from placement_service.formulation.presolve.hopeless_gangs import (
    without_gangs_counted_late,
    without_hopeless_gangs,
)
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import has_goals_of
from placement_service.heuristic.first_answer import first_answer
from tests.scenario import Group, Scenario
from tests.service.questions import gang, snapshot

RACKS = Scenario("r1: x1=8 x2=8 | r2: x3=8")

#: At least 20 GPUs, although three pods of either size would fit a rack.
MIXED = Group("w", pods=1, gpus=4, min=3, others=(Group("v", pods=2, gpus=8),))


def formulated(scenario: Scenario, eviction: EvictionPolicy = EvictionPolicy.NONE) -> Problem:
    return formulate(scenario.snapshot(), Policy(eviction=eviction))


def left(problem: Problem) -> list[bool]:
    return [gang.placeable for gang in without_hopeless_gangs(problem).gangs]


@pytest.mark.parametrize(
    "scenario",
    [
        RACKS.gang("a", pods=1, gpus=9),
        RACKS.gang("a", pods=4, gpus=8),
        RACKS.gang("a", pods=3, gpus=8, pack="rack"),
        RACKS.gang("a", Group("w", pods=1, gpus=8, select={"kind": "gone"})),
        RACKS.gang("a", Group("v", pods=2, gpus=8), Group("w", pods=3, gpus=4)),
        RACKS.gang("a", Group("v", pods=1, gpus=8), Group("w", pods=3, gpus=4), pack="rack"),
        RACKS.gang("a", MIXED, pack="rack"),
    ],
    ids=[
        "a node",
        "the cluster",
        "a rack",
        "its selector",
        "groups",
        "groups and a rack",
        "unlike pods of a group",
    ],
)
def test_what_no_node_or_domain_holds_is_left_out(scenario: Scenario) -> None:
    assert left(formulated(scenario.gang("b", pods=1, gpus=8))) == [False, True]


def test_what_just_fits_is_kept() -> None:
    scenario = RACKS.gang("a", pods=3, gpus=8).gang("b", pods=2, gpus=8, pack="rack")
    problem = formulated(scenario)
    assert without_hopeless_gangs(problem) is problem


def test_a_few_nodes_are_asked_before_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many reservations there are as many pod classes as gangs, and hundreds of columns."""
    asked: list[int] = []

    def counted(free: Ints, request: Ints) -> Ints:
        asked.append(len(free))
        return pods_that_fit(free, request)

    monkeypatch.setattr(hopeless_gangs, "pods_that_fit", counted)
    gangs = gang("a", pods=40, gpus=8), gang("b", pods=999, gpus=8), gang("c", pods=1001, gpus=8)
    kinds = [Snapshot(snapshot(1000).nodes, (one,)) for one in gangs]
    found = [left(formulate(kind, Policy())) for kind in kinds]
    assert found == [[True], [True], [False]]
    assert asked == [200, 200, 1000, 200, 1000]


def test_each_group_must_fit_the_same_domain() -> None:
    two = Group("v", pods=2, gpus=8), Group("w", pods=1, gpus=1, select={"kind": "odd"})
    scenario = RACKS.node("x3", labels={"kind": "odd"})
    assert left(formulated(scenario.gang("a", *two))) == [True]
    assert left(formulated(scenario.gang("a", *two, pack="rack"))) == [False]


def test_what_is_based_on_one_is_left_out_too() -> None:
    scenario = RACKS.gang("a", pods=1, gpus=9).gang("b", pods=1, gpus=1, base="a")
    scenario = scenario.gang("c", pods=1, gpus=1, base="b").gang("d", pods=1, gpus=1)
    assert left(formulated(scenario)) == [False, False, False, True]


def test_bounds_leave_it_out_at_once_where_gangs_may_give_way() -> None:
    scenario = Scenario("x1=8 x2=0/8").gang("low", Group("w", gpus=8, told=("x2",)))
    scenario = scenario.gang("a", pods=1, gpus=9, priority=1).gang("b", pods=1, gpus=8, priority=1)
    admitted = first_answer(formulated(scenario, EvictionPolicy.PREEMPT)).tiers[0]
    assert (admitted.value, admitted.bound) == (8, 8)


def test_elsewhere_they_are_left_to_counting() -> None:
    problem = formulated(RACKS.gang("a", pods=1, gpus=9))
    assert without_gangs_counted_late(problem) is problem
    inexact = replace(problem, exact=False, relaxation=problem)
    assert not without_gangs_counted_late(inexact).gangs[0].placeable


def test_room_of_running_gangs_that_may_go_counts() -> None:
    scenario = Scenario("x1=0/8").gang("low", Group("w", gpus=8, told=("x1",)))
    scenario = scenario.gang("a", pods=1, gpus=8, priority=1)
    assert left(formulated(scenario)) == [True, False]
    assert left(formulated(scenario, EvictionPolicy.PREEMPT)) == [True, True]


def test_a_looser_question_tells_where_the_problem_is_not_exact() -> None:
    scenario = RACKS.gang("a", pods=1, gpus=9).gang("b", pods=1, gpus=8)
    looser = formulated(scenario)
    assert left(replace(looser, exact=False)) == [True, True]
    assert left(replace(looser, exact=False, relaxation=looser)) == [False, True]
    larger = replace(looser, free=looser.free + 1)
    assert left(replace(looser, exact=False, relaxation=larger)) == [True, True]


def test_looser_questions_leave_the_same_gangs_out() -> None:
    scenario = RACKS.gang("a", pods=1, gpus=9).gang("b", pods=1, gpus=8)
    looser = formulated(scenario)
    found = without_hopeless_gangs(replace(looser, exact=False, relaxation=looser, loosened=looser))
    assert found.relaxation is not None
    assert found.loosened is found.relaxation
    assert [gang.placeable for gang in found.relaxation.gangs] == [False, True]


def test_other_ways_to_run_leave_the_same_gangs_out() -> None:
    """Their goals are those of the question, and its bounds are about these."""
    scenario = RACKS.gang("a", pods=1, gpus=9, priority=1).gang("b", pods=1, gpus=8)
    asked = formulated(scenario)
    found = without_hopeless_gangs(replace(asked, again=asked))
    assert found.again is not None
    assert has_goals_of(found, found.again)
