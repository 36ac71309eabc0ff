"""Placing the target greedily: as long as it may admit more."""

from __future__ import annotations

import time
from typing import Any

import pytest

from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import UnitsOnNode
from placement_service.heuristic.orders import orders
from placement_service.heuristic.plan_builder import Builder
from placement_service.search import master_stage
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count, count_tiers, decode, decode_shared
from tests.scenario import Group, Scenario

HOUR = 3600


@pytest.mark.parametrize(("large", "passes"), [(False, True), (True, False)])
def test_a_large_question_is_not_placed_anew_for_older_gangs(
    large: bool, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass over many gangs takes as long as neighbourhoods that find them."""
    asked = Scenario("x1=8").gang("old", pods=1, gpus=8, waited=HOUR).gang("new", pods=1, gpus=8)
    problem = formulate(asked.snapshot(), Policy())
    newest_first = Builder(problem).build(lambda g: -g.index)
    start = to_solution(problem, newest_first)
    state = State(problem, start, time.monotonic() + 60, lambda _: None)
    count(state)
    assert state.open_tier is TierName.WAITING
    monkeypatch.setattr(master_stage, "is_large", lambda _: large)
    built: list[object] = []
    build = Builder.build

    def noted(self: Builder, order: Any, **options: Any) -> Plan:
        built.append(order)
        return build(self, order, **options)

    monkeypatch.setattr(Builder, "build", noted)
    decode(state, first=True)
    decode(state, first=False)
    assert bool(built) is passes


def begun(scenario: Scenario) -> State:
    """A question of which nothing is placed yet, and what it counts."""
    problem = formulate(scenario.snapshot(), Policy())
    state = State(problem, to_solution(problem, {}), time.monotonic() + 60, lambda _: None)
    count(state)
    return state


def test_where_pods_share_nodes_the_largest_of_them_come_first() -> None:
    """After two gangs of small pods no node has room for one of four GPUs."""
    shared = Scenario("b/r1: x1=8 | b/r2: x2=8").gang("six", pods=6, gpus=1, prefer="rack")
    shared = shared.gang("five", pods=5, gpus=1, prefer="rack").gang("four", pods=1, gpus=4)
    state = begun(shared)
    largest_first = state.builder.build(orders(state.problem).largest_first)
    assert sorted(largest_first) == [0, 1]
    assert decode_shared(state)
    assert sorted(state.plan) == [0, 1, 2]


def test_where_hardly_any_pods_share_nodes_blocks_come_first() -> None:
    whole = Scenario("x1=8 x2=8 x3=8").gang("a", pods=2, gpus=8).gang("b", pods=1, gpus=1)
    state = begun(whole)
    assert not decode_shared(state)
    assert not state.plan


def test_what_is_placed_already_is_not_placed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state = begun(Scenario("x1=8").gang("a", pods=4, gpus=1))
    decode(state, first=True)
    assert state.packs
    monkeypatch.delattr(Builder, "build")
    assert decode_shared(state)


def test_extras_that_share_nodes_count_too() -> None:
    state = begun(Scenario("x1=8").gang("a", Group("w", pods=8, gpus=1, min=1)))
    assert decode_shared(state)


def test_what_all_priorities_share_bounds_their_sum_while_a_higher_one_is_open() -> None:
    """The three gangs of the higher priority ask for more than there is; so does the other one."""
    cluster = Scenario("x1=8 x2=8 x3=8").gang("low", pods=3, gpus=8)
    for k in range(3):
        cluster = cluster.gang(f"high{k}", pods=1 + k, gpus=8, priority=1)
    state = begun(cluster)
    assert admitted(state) == 24 + 24
    count_tiers(state)
    assert admitted(state) == 24


def test_a_sum_that_agrees_by_chance_is_no_proof() -> None:
    """The low gang fills the cluster as the high one would."""
    cluster = Scenario("x1=8").gang("low", pods=1, gpus=8).gang("high", pods=1, gpus=8, priority=1)
    problem = formulate(cluster.snapshot(), Policy())
    start = to_solution(problem, {GangIdx(0): (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)})
    state = State(problem, start, time.monotonic() + 60, lambda _: None)
    count(state)
    count_tiers(state)
    assert state.most[TierName.ADMITTED] == state.worth.values[1] == 8_000_000
    assert admitted(state) == 16


def test_where_the_sum_is_at_its_most_the_open_priority_may_still_gain_what_it_lacks() -> None:
    """The low gangs ask for twice what there is, and none of them leaves room for the high one."""
    cluster = Scenario("x1=8 x2=8").gang("high", pods=1, gpus=8, priority=1)
    for k in range(4):
        cluster = cluster.gang(f"low{k}", pods=1, gpus=8)
    problem = formulate(cluster.snapshot(), Policy())
    low = {
        GangIdx(k): (UnitsOnNode(DemandIdx(0), NodeIdx(k - 1), 1),)
        for k, gang in enumerate(problem.gangs)
        if gang.priority == 0 and k <= 2
    }
    state = State(problem, to_solution(problem, low), time.monotonic() + 60, lambda _: None)
    count(state)
    assert admitted(state) == 8 + 4 * 8
    count_tiers(state)
    assert admitted(state) == 16 + 8


def admitted(state: State) -> float | None:
    """The bound that is reported of who is admitted."""
    [tier] = (t for t in state.solution().tiers if t.name is TierName.ADMITTED)
    return tier.bound
