"""Units on nodes without domains: which gangs get room, and when that is asked first."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from bench.instances import Instance
from placement_service.cp_sat.aggregate import model as aggregate_model
from placement_service.cp_sat.aggregate.constraints import constrain
from placement_service.cp_sat.parameters import MODEL_DEFAULTS
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import Solution
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.formulation.problem import Problem
from placement_service.search import engine
from placement_service.search.head_start import prepare
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.node_stage import nodes_come_first, settle_nodes
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.scenario import Scenario

#: Two of three and five GPUs fill both nodes, and one of three finds no room.
SIZES = (3, 3, 3, 5, 5)


def asked(prefer: int = 0, pack: int = 0) -> Snapshot:
    """A question in which so many of the gangs prefer a rack, or need one."""
    scenario = Scenario("r1: a=8 | r2: b=8")
    for i, gpus in enumerate(SIZES):
        levels = ["rack" if i < most else "" for most in (prefer, pack)]
        scenario = scenario.gang(f"g{i}", pods=1, gpus=gpus, prefer=levels[0], pack=levels[1])
    return scenario.snapshot()


def empty(prefer: int = 0, pack: int = 0) -> State:
    """A search of it that has no plan yet."""
    problem = formulate(asked(prefer, pack), Policy())
    start = to_solution(problem, home_plan(problem))
    state = State(problem, start, time.monotonic() + 60, lambda _: None)
    count(state)
    return state


def searched(problem: Problem, parameters: SearchParameters = DEFAULTS) -> Solution:
    """What a search from nothing finds."""
    return engine.search(
        problem,
        to_solution(problem, {}),
        deadline=time.monotonic() + 60,
        report=lambda _: None,
        parameters=parameters,
    )


@pytest.mark.parametrize("prefer", [0, 2])
def test_where_few_gangs_name_a_domain_nodes_say_at_once_who_gets_room(prefer: int) -> None:
    state = empty(prefer)
    assert not state.packs
    assert settle_nodes(state, most_named=DEFAULTS.node_named)
    assert state.packs
    assert len(state.plan) == 4


def test_where_most_gangs_name_a_domain_it_comes_later() -> None:
    state = empty(prefer=3)
    assert not settle_nodes(state, most_named=DEFAULTS.node_named)
    assert not state.plan
    assert settle_nodes(state)


def test_where_a_gang_needs_a_domain_nodes_are_not_asked() -> None:
    state = empty(pack=1)
    before = state.bounds
    assert not settle_nodes(state)
    assert not state.plan
    assert state.bounds == before


@pytest.mark.parametrize(
    ("sizes", "first"),
    [
        ((1, 2, 4, 8), False),
        ((2, 3), True),
        # Beside these there is no room for another one.
        ((2, 7, 8), False),
        ((3, 5), True),
        ((4, 6, 8), False),
        ((5,), False),
    ],
)
@pytest.mark.parametrize("pack", ["", "rack"])
def test_nodes_come_first_where_pods_on_them_are_no_multiples_of_each_other(
    sizes: tuple[int, ...], first: bool, pack: str
) -> None:
    scenario = Scenario("r1: a=8 b=8 | r2: c=8 d=8")
    for gpus in sizes:
        scenario = scenario.gang(f"g{gpus}", pods=1, gpus=gpus, prefer="rack", pack=pack)
    problem = formulate(scenario.snapshot(), Policy())
    assert nodes_come_first(problem) == (first and not pack)


def test_where_nodes_come_first_they_do_so_in_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    state = empty(prefer=5)
    assert nodes_come_first(state.problem)
    ground = prepare(state.problem, deadline=state.deadline)
    assert ground.ahead is None

    def seek(state: State) -> bool:
        assert state.packs
        return False

    monkeypatch.setattr(engine, "assign_blocks", seek)
    assert searched(state.problem, replace(DEFAULTS, aggregate_first_variables=0)).proven


def test_the_largest_pods_first_come_before_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units on nodes hardly ever lie in one domain, and a plan in which they do is not sought
    where all have room.
    """
    state = empty(prefer=5)
    before: list[bool] = []

    def ask(state: State, **_: Any) -> bool:
        before.append(state.packs)
        return False

    monkeypatch.setattr(engine, "settle_nodes", ask)
    searched(state.problem, replace(DEFAULTS, aggregate_first_variables=0))
    assert before
    assert before[0]


def test_where_gangs_in_turn_do_not_fit_nodes_come_before_blocks_are_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = formulate(asked(prefer=5), Policy())

    def fill(state: State, *, anew: bool) -> None:
        assert state.proven

    monkeypatch.setattr(engine, "nodes_come_first", lambda _: False)
    monkeypatch.setattr(engine, "assign_blocks", lambda _: False)
    monkeypatch.setattr(engine, "decode", lambda _, *, first: None)
    monkeypatch.setattr(engine, "fill_blocks", fill)
    assert searched(problem, replace(DEFAULTS, aggregate_first_variables=0)).proven


def test_a_very_small_model_settles_all_before_blocks_are_sought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = formulate(Instance("tiny", {}, 2).snapshot(), Policy())

    def seek(state: State) -> bool:
        assert state.proven
        return True

    monkeypatch.setattr(engine, "assign_blocks", seek)
    assert searched(problem).proven


def test_a_model_that_tells_nodes_apart_is_not_built_where_it_would_be_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four nodes are of one kind, but too many multisets fit on one, so each is a class."""
    scenario = Scenario("r1: a=8 b=8 | r2: c=8 d=8")
    for i, gpus in enumerate((*SIZES, *SIZES)):
        scenario = scenario.gang(f"g{i}", pods=1, gpus=gpus)
    problem = formulate(scenario.snapshot(), Policy())
    start = to_solution(problem, home_plan(problem))
    apart = replace(MODEL_DEFAULTS, node_patterns=0, many_alike=100)
    built: list[object] = []

    def built_too(*variables: Any) -> object:
        built.append(1)
        return constrain(*variables)

    monkeypatch.setattr(aggregate_model, "constrain", built_too)
    for most, builds in ((7, False), (15, True)):
        parameters = replace(DEFAULTS, node_variables=most, model=apart)
        state = State(problem, start, time.monotonic() + 60, lambda _: None, parameters)
        count(state)
        settle_nodes(state)
        assert bool(built) is builds
