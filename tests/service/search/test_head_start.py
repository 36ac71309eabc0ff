"""A search that begins before the first answer, and goes on from what it found."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import pytest

from bench.instances import Instance
from placement_service.entities.request import Policy, Tolerance
from placement_service.entities.solution import Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.search import alike_nodes, engine, groundwork, head_start, master_stage
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.blocks.problem import BlockProblem
from placement_service.search.engine import prepare, search
from placement_service.search.groundwork import Groundwork
from placement_service.search.head_start import ignore
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from tests.avoiding import avoiding
from tests.scenario import Group, Scenario, spread
from tests.waiting import LONG


def full(policy: Policy | None = None) -> Problem:
    """Blocks for nearly all gangs, some of which wait."""
    asked = Instance("mix", {"blocks": 6, "gangs": 80, "load": 1.05}, 1)
    return formulate(asked.snapshot(), policy or Policy())


def prepared(problem: Problem) -> Groundwork:
    return prepare(problem, deadline=time.monotonic() + LONG)


def test_blocks_that_were_found_before_the_first_answer_are_not_sought_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = full()
    ground = prepared(problem)
    assert ground.ahead is not None
    assert ground.ahead.assigned

    def never(*_: object) -> bool:
        raise AssertionError("sought twice")

    monkeypatch.setattr(engine, "count", never)
    monkeypatch.setattr(engine, "assign_blocks", never)
    told: list[Solution] = []
    late = time.monotonic() + LONG
    start = first_answer(problem)
    assert not start.proven
    found = search(problem, start, deadline=late, report=told.append, prepared=ground)
    assert found.proven
    assert told[0].proven


def test_a_search_goes_on_from_the_gangs_that_have_blocks_where_not_all_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # No guess after the first.
    short = replace(DEFAULTS, assign_all_steps=1)
    monkeypatch.setattr(groundwork, "Groundwork", partial(Groundwork, parameters=short))
    asked = Instance("pools", {"blocks": 3, "gangs": 30, "scattered": 1}, 1)
    problem = formulate(asked.snapshot(), Policy())
    ground = prepared(problem)
    assert ground.ahead is not None
    assert not ground.ahead.assigned
    assert len(ground.ahead.begun) > len(ground.ahead.target) / 2
    late = time.monotonic() + LONG
    state = State(problem, first_answer(problem), late, None, ground.parameters, ground)
    state.follow(ground.ahead)
    assert state.begun is ground.ahead.begun


@pytest.mark.parametrize(
    "policy", [Policy(deterministic=True), Policy(tolerances=(Tolerance("admitted", 0.1),))]
)
def test_it_does_not_begin_where_that_may_change_the_answer(policy: Policy) -> None:
    assert prepared(full(policy)).ahead is None


def test_it_leaves_blocks_to_a_search_that_is_waited_for() -> None:
    """A search reports its plans, which matters where blocks take long."""
    late = time.monotonic() + LONG
    problem = full()
    start = first_answer(problem)
    ground = prepare(problem, deadline=late, asked=lambda: start)
    assert ground.counted is not None
    assert ground.ahead is None


def test_what_was_counted_is_reported_when_the_first_answer_comes_while_blocks_are_sought() -> None:
    problem = full()
    start = first_answer(problem)
    answers = iter([None])
    told: list[Solution] = []
    late = time.monotonic() + LONG
    ground = prepare(problem, deadline=late, asked=lambda: next(answers, start), report=told.append)
    assert ground.ahead is not None
    solution = told[0]
    assert solution.assignments == start.assignments
    bounds = [tier.bound for tier in solution.tiers if tier.bound is not None]
    counted = [tier.bound for tier in start.tiers if tier.bound is not None]
    assert bounds[0] < counted[0]


def shared() -> Problem:
    """Two full blocks, where most pods share nodes."""
    asked = Scenario("b1/r1: x1=8 x2=8 | b2/r2: x3=8 x4=8")
    for name, pods, gpus in (("a", 1, 8), ("b", 5, 1), ("c", 3, 4), ("d", 7, 1)):
        asked = asked.gang(name, pods=pods, gpus=gpus, prefer="block")
    return formulate(asked.snapshot(), Policy())


def test_a_better_plan_is_reported_when_the_first_answer_comes_while_blocks_are_sought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(head_start, "settle_aggregate", lambda *_, **__: None)
    seeking = False

    def seek(mine: BlockProblem) -> bool:
        nonlocal seeking
        seeking = True
        assert mine.state.packs
        assert mine.state.left > 0
        return False

    monkeypatch.setattr(head_start, "assign", seek)
    problem = shared()
    start = to_solution(problem, {})
    told: list[Solution] = []
    ground = prepare(
        problem,
        deadline=time.monotonic() + LONG,
        asked=lambda: start if seeking else None,
        report=told.append,
    )
    assert ground.ahead is not None
    assert ground.ahead.assigned
    assert [len(solution.assignments) > 0 for solution in told] == [True]


def told_after_a_plan(
    asked: Scenario, monkeypatch: pytest.MonkeyPatch
) -> tuple[Problem, Groundwork, list[Solution]]:
    """What is reported where a first answer without any pod comes when there is a plan."""
    planned = False

    def settle(state: State, *, most: int) -> None:
        nonlocal planned
        settle_aggregate(state, most=most)
        planned = True
        assert state.left > 0

    monkeypatch.setattr(head_start, "settle_aggregate", settle)
    monkeypatch.setattr(alike_nodes, "FEW", 0)
    monkeypatch.setattr(alike_nodes, "AVOIDED", 1.0)
    monkeypatch.setattr(alike_nodes, "LEFT", 1.0)
    problem = formulate(asked.snapshot(), Policy())
    start = to_solution(problem, {})
    told: list[Solution] = []
    ground = prepare(
        problem,
        deadline=time.monotonic() + LONG,
        asked=lambda: start if planned else None,
        report=told.append,
    )
    return problem, ground, told


@pytest.mark.parametrize("host", ["x1", "x2"])
def test_what_is_reported_keeps_the_rules_where_nodes_are_alike_but_for_a_few_pods(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Scenario("r1: x1=8 x2=8").gang("a", Group("w", 1, 8, asks=avoiding(host)))
    asked = asked.gang("b", Group("w", 1, 8, asks=avoiding("x1" if host == "x2" else "x2")))
    asked = asked.gang("c", Group("w", 1, 8))
    problem, ground, told = told_after_a_plan(asked, monkeypatch)
    assert ground.ahead is not None
    found = told[-1].assignments
    assert len(found) == 2
    classes = [problem.gangs[a.gang].demands[0].pod_class for a in found]
    assert problem.eligible[classes, [a.node for a in found]].all()


def test_what_was_found_is_dropped_where_a_plan_finds_no_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = Scenario("r1: x1=8 x2=8").gang("a", Group("w", 1, 8, asks=avoiding("x1")))
    asked = asked.gang("b", Group("w", 1, 8, asks=avoiding("x1")))
    problem, ground, told = told_after_a_plan(asked, monkeypatch)
    assert not any(solution.assignments for solution in told)
    assert ground.ahead is None
    assert (ground.problem.eligible == problem.eligible).all()
    start, late = to_solution(problem, {}), time.monotonic() + LONG
    found = search(problem, start, deadline=late, report=ignore, prepared=ground)
    assert found.proven
    assert len(found.assignments) == 1


def test_where_pods_share_nodes_all_have_room_before_blocks_are_sought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sought: list[bool] = []

    def seek(state: State) -> bool:
        sought.append(state.packs)
        return False

    monkeypatch.setattr(engine, "settle_aggregate", lambda *_, **__: None)
    monkeypatch.setattr(engine, "assign_blocks", seek)
    problem = shared()
    late = time.monotonic() + LONG
    search(problem, to_solution(problem, {}), deadline=late, report=ignore)
    assert sought == [True]


def test_it_does_not_begin_where_blocks_leave_gangs_out() -> None:
    crowded = Scenario("b1/r1: x1=8 x2=8 | b2/r2: x3=8 x4=8")
    for name in "abc":
        crowded = crowded.gang(name, pods=2, gpus=8, prefer="block")
    assert prepared(formulate(crowded.snapshot(), Policy())).ahead is not None
    apart = crowded.gang("d", Group("w", pods=2, gpus=4, spread=(spread("block", group="w"),)))
    assert prepared(formulate(apart.snapshot(), Policy())).ahead is None


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_tiny_is_settled_as_a_whole_before_blocks_are_sought(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = formulate(Instance("tiny", {}, seed).snapshot(), Policy())
    ground = prepared(problem)
    assert ground.ahead is not None
    late = time.monotonic() + LONG
    start = first_answer(problem)
    assert not start.proven
    assert search(problem, start, deadline=late, report=ignore, prepared=ground).proven

    def seek(state: State) -> bool:
        assert state.proven
        return False

    monkeypatch.setattr(engine, "assign_blocks", seek)
    assert search(problem, start, deadline=late, report=ignore).proven


def test_it_ends_soon_when_nobody_will_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    over = False

    def count(state: State) -> None:
        nonlocal over
        master_stage.count(state)
        over = True

    monkeypatch.setattr(head_start, "count", count)
    found = prepare(full(), deadline=time.monotonic() + LONG, until=lambda: over)
    assert found.counted is not None
    assert found.ahead is None
