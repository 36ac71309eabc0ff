"""The first answer: never worse than placing one gang after another, the oldest first."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.instances import Instance
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.objective import to_solution, worth
from placement_service.formulation.plan import Plan, from_solution, home_plan, oldest_first
from placement_service.heuristic import first_answer as module
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.one_gang.placer import GangPlacer
from placement_service.heuristic.one_gang.regions import EVERYWHERE, Region
from placement_service.heuristic.one_gang.units import GangUnits
from placement_service.heuristic.plan_builder import Builder
from tests.scenario import Group, Scenario, spread
from tests.service.evictions import PREEMPT, running
from tests.service.questions import gang, node
from tests.strategies import EVERYTHING, PACKING_ONLY, SMALL, snapshots

SMALL_FAMILIES = [
    Instance("mix", {"blocks": 3, "racks": 6, "gangs": 30, "load": 1.3}),
    Instance("sets", {"load": 0.1, "gangs": 30}),
    Instance("rack_parts", {"blocks": 2, "gangs": 20}),
    Instance("cpu_shapes", {"blocks": 2, "gangs": 20}),
    Instance("nvl72", {"gangs": 30, "filled": 0.7}),
    Instance("grove_scale", {"gangs": 50, "nodes": 10}),
]


def not_worse_than_in_turn(snapshot: Snapshot) -> None:
    problem = formulate(snapshot, Policy())
    mine = from_solution(problem, first_answer(problem))
    turn = from_solution(problem, to_solution(problem, Builder(problem).build(oldest_first)))
    assert worth(problem, mine).rank >= worth(problem, turn).rank


def test_what_is_placed_when_time_is_over_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    # No least time: a fast machine places everyone in it.
    monkeypatch.setattr(module, "LEAST_SECONDS", 0.0)
    problem = formulate(Instance("grove_scale", {"gangs": 200, "nodes": 40}).snapshot(), Policy())
    everyone = first_answer(problem)
    some = first_answer(problem, deadline=0.0)
    assert len(some.assignments) < len(everyone.assignments)


@pytest.mark.parametrize(("passed", "orders"), [(4.0, 4), (6.0, 1)])
def test_no_second_order_is_begun_after_half_of_the_time(
    passed: float, orders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = time.monotonic() + 1000
    clock = chain((begin,), repeat(begin + passed))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    built: list[object] = []
    build = Builder.build

    def noted(self: Builder, order: Any, **options: Any) -> Plan:
        built.append(order)
        return build(self, order, **options)

    monkeypatch.setattr(Builder, "build", noted)
    problem = formulate(Instance("tiny", {"load": 1.5}).snapshot(), Policy())
    first_answer(problem, deadline=begin + 10)
    assert len(built) == orders


def test_extras_come_before_preferred_levels() -> None:
    """Pods that keep together in a rack take the only node that an extra fits."""
    asked = Scenario("r1: x=8 | r2: y=4 | r3: z=4 | r4: w=1").gang(
        "pair", Group("a", pods=2, gpus=4, prefer="rack")
    )
    asked = asked.gang("grows", Group("a", pods=1, gpus=1), Group("b", pods=1, gpus=8, min=0))
    tiers = first_answer(formulate(asked.snapshot(), Policy())).tiers
    [extra] = [tier for tier in tiers if tier.name is TierName.EXTRA]
    assert extra.value == 1


def test_a_gang_comes_with_its_extras_where_these_fit() -> None:
    """The tightest rack holds the minimum alone."""
    asked = Scenario("r1: x=8 | r2: y=8 z=8 | r3: w=1")
    asked = asked.gang("grows", Group("a", pods=2, gpus=8, min=1), pack="rack")
    asked = asked.gang("other", Group("a", pods=1, gpus=1))
    tiers = first_answer(formulate(asked.snapshot(), Policy())).tiers
    [extra] = [tier for tier in tiers if tier.name is TierName.EXTRA]
    assert extra.value == 1


def test_a_small_question_is_answered_even_when_time_is_over() -> None:
    problem = formulate(Instance("grove_scale", {"gangs": 3, "nodes": 10}).snapshot(), Policy())
    assert first_answer(problem, deadline=0.0) == first_answer(problem)


def test_a_full_cluster_is_not_searched_for_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: set[int] = set()
    candidates = GangPlacer.candidates

    def noted(
        self: GangPlacer, part: Part, level: int, region: Region, most: int | None = None
    ) -> list[int]:
        searched.add(self.gang.index)
        return candidates(self, part, level, region, most)

    monkeypatch.setattr(GangPlacer, "candidates", noted)
    asked = Scenario("r0: a=8 | r1: b=8")
    for i in range(20):
        asked = asked.gang(f"g{i}", pods=2, gpus=4, prefer="rack", priority=20 - i)
    problem = formulate(asked.snapshot(), Policy())
    assert len(first_answer(problem).assignments) == 2
    assert searched == {0, 1}


def test_domains_that_let_nobody_in_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has room, and to find out that rules close it takes as long as to place a pod."""
    tried = 0
    place = GangUnits.loose

    def counted(self: GangUnits, demand: int, count: int, region: Region = EVERYWHERE) -> int:
        nonlocal tried
        tried += 1
        return place(self, demand, count, region)

    monkeypatch.setattr(GangUnits, "loose", counted)
    asked = Scenario(" | ".join(f"r{i}: n{i}=8" for i in range(40)))
    for i in range(37):
        asked = asked.runs(f"run-{i}", f"n{i}", app="x")
    group = Group("w", pods=3, gpus=1, labels={"app": "x"}, spread=(spread("rack", app="x"),))
    problem = formulate(asked.gang("g", group, prefer="rack").snapshot(), Policy())
    assert {a.node for a in first_answer(problem).assignments} == {37, 38, 39}
    assert tried <= 12


@pytest.mark.parametrize(("even", "placed"), [(3, ["crowd"]), (2, ["even"])])
def test_pods_that_are_only_counted_keep_the_skew_where_others_are_spread(
    even: int, placed: list[str]
) -> None:
    """Three of the oldest gang do not fit; where two lie, a rack may have no two more than the
    other one."""
    cluster = Scenario("r1: x1=8 x2=6 | r2: x3=8 x4=6")
    spread_out = Group(
        "w", pods=even, gpus=8, labels={"app": "x"}, spread=(spread("rack", app="x"),)
    )
    crowd = Group("w", pods=2, gpus=3, labels={"app": "x"})
    asked = cluster.gang("even", spread_out, waited=60).gang("crowd", crowd, pack="rack")
    snapshot = asked.snapshot()
    answer = first_answer(formulate(snapshot, Policy()))
    names = [snapshot.gangs[a.gang].name.rsplit("/")[-1] for a in answer.assignments]
    assert list(dict.fromkeys(names)) == placed


@pytest.mark.parametrize("instance", SMALL_FAMILIES, ids=str)
def test_the_oldest_come_first_where_there_is_time_for_one_order_only(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = time.monotonic() + 1000
    clock = iter((begin, begin + 9))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock, begin + 9)))
    problem = formulate(instance.snapshot(), Policy())
    mine = first_answer(problem, deadline=begin + 10)
    plan = Builder(problem).build(oldest_first)
    assert mine.assignments == to_solution(problem, plan).assignments


@pytest.mark.parametrize("instance", SMALL_FAMILIES, ids=str)
def test_large_questions_too_are_answered_no_worse_than_in_turn(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TWO_ORDERS", 0)
    not_worse_than_in_turn(instance.snapshot())


@given(st.one_of(snapshots(SMALL, EVERYTHING), snapshots(SMALL, PACKING_ONLY)))
def test_no_single_pass_beats_it_on_random_questions(snapshot: Snapshot) -> None:
    not_worse_than_in_turn(snapshot)


@pytest.mark.parametrize("instance", SMALL_FAMILIES, ids=str)
def test_no_single_pass_beats_it_on_the_families(instance: Instance) -> None:
    not_worse_than_in_turn(instance.snapshot())


def test_nobody_gives_way_where_another_order_places_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest takes the tighter node, and then the others do not fit on what is left."""
    nodes = (node("n0", used=8), node("n1", gpus=6), node("n2", gpus=5))
    waiting = (gang(f"g{gpus}", pods=1, gpus=gpus) for gpus in (2, 5, 4))
    gangs = (running("low", "n0", gpus=8), *(replace(g, priority=100) for g in waiting))
    problem = formulate(Snapshot(nodes, gangs), PREEMPT)
    assert not all(
        g.index in Builder(problem).build(oldest_first, start=home_plan(problem))
        for g in problem.pending
    )
    monkeypatch.setattr(module, "make_room", lambda *_, **__: pytest.fail("victims are sought"))
    plan = from_solution(problem, first_answer(problem))
    assert all(g.index in plan for g in problem.gangs)
