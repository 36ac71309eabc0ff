"""What may be spent of goals before topology buys whole gangs in blocks of unlike racks."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from bench.instances import Instance
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy, Tolerance
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import UnitsOnNode
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.judge.verify import verify
from placement_service.search import engine
from placement_service.search.configurations.stage import settle_configurations
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.unlike_blocks.filling import UnlikeFilling
from placement_service.search.unlike_blocks.stage import fill_unlike_blocks, spend_at_once
from tests.scenario import Scenario
from tests.service.search.block_questions import from_nothing

POLICY = Policy(deterministic=True)


@pytest.mark.parametrize(("share", "whole"), [(0.03, True), (0.007, False)])
def test_what_may_be_spent_buys_whole_gangs(share: float, whole: bool) -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    count(state)
    settle_configurations(state)
    before = state.worth.of(TierName.TOPOLOGY)[0]
    assert before > 5 * UNITS_PER_DOMAIN
    # Nothing may be spent yet.
    assert not fill_unlike_blocks(state)
    for tier in (TierName.ADMITTED, TierName.WAITING):
        state.tolerate(tier, share)
    assert fill_unlike_blocks(state)
    # Where little may be spent, the last blocks split gangs.
    after = state.worth.of(TierName.TOPOLOGY)[0]
    assert after == 0 if whole else 0 < after < before
    at = state.topology
    both = zip(state.worth.values, state.worth.floors, strict=True)
    assert all(floor is None or value >= floor for value, floor in list(both)[:at])
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


def test_whole_gangs_come_before_the_best_of_what_they_may_cost() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    shares = {TierName.ADMITTED: 0.04, TierName.WAITING: 0.04}
    assert spend_at_once(state, shares)
    assert state.worth.of(TierName.TOPOLOGY) == (0,)
    for tier, share in shares.items():
        at = next(i for i, goal in enumerate(state.goals) if goal.tier is tier)
        reported = next(t for t in state.solution().tiers if t.name is tier)
        # So much has to stay of the bound, which is more than the share of the best.
        assert reported.bound is not None
        best = round(reported.bound * state.goals[at].unit)
        enough = best - int(share * best)
        assert state.worth.floors[at] == enough <= state.worth.values[at]
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


@pytest.mark.parametrize("lacks", [1.0, 0.0])
def test_a_try_leaves_time_for_another_search(
    lacks: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where far too little is placed it ends at once, and it never fills blocks together."""
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    aimed: list[bool] = []

    def aim(*_: object, must: bool = False) -> None:
        aimed.append(must)

    monkeypatch.setattr(UnlikeFilling, "_rank", lambda *_: -lacks)
    monkeypatch.setattr(UnlikeFilling, "_take", lambda *_: False)
    monkeypatch.setattr(UnlikeFilling, "_aim", aim)
    assert not spend_at_once(state, {TierName.ADMITTED: 0.04, TierName.WAITING: 0.04})
    assert not aimed


@pytest.mark.parametrize("late", [False, True])
def test_blocks_that_were_filled_count_where_a_try_fails(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    fill = UnlikeFilling._fill
    if late:
        # The last block takes too long.
        monkeypatch.setattr(
            UnlikeFilling, "_fill", lambda self, *args: fill(self, *args) if args[1] < 2 else None
        )
    else:
        monkeypatch.setattr(UnlikeFilling, "_rank", lambda *_: -1.0)
    assert not spend_at_once(state, {TierName.ADMITTED: 0.0001, TierName.WAITING: 0.0001})
    assert state.worth.of(TierName.ADMITTED)[0] >= (0.6 if late else 0.9) * state.bounds[0]
    bindings = name_pods(snapshot, to_solution(state.problem, state.plan).assignments)
    assert verify(snapshot, POLICY, bindings) == ()


def test_the_best_comes_first_where_only_some_goals_may_be_spent() -> None:
    snapshot = Instance("cpu_shapes", {"load": 1.5, "blocks": 3, "gangs": 40}).snapshot()
    state = from_nothing(formulate(snapshot, POLICY))
    assert not spend_at_once(state, {TierName.ADMITTED: 0.04})


def test_whole_gangs_that_lack_something_of_a_bound_may_have_enough_of_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario("r1: x1=8 x2=8 | r2: y1=8")
    scenario = scenario.gang("split", pods=3, gpus=8, prefer="rack")
    scenario = scenario.gang("whole", pods=2, gpus=8, prefer="rack")
    policy = replace(POLICY, tolerances=(Tolerance("admitted", 0.5),))
    problem = formulate(scenario.snapshot(), policy)
    x1, x2, y1 = (UnitsOnNode(DemandIdx(0), NodeIdx(n), 1) for n in range(3))
    split, whole = {GangIdx(0): (x1, x2, y1)}, {GangIdx(1): (x1, x2)}

    def spend(state: State, _: object) -> bool:
        state.accept(whole)
        return False

    monkeypatch.setattr(engine, "spend_at_once", spend)
    monkeypatch.setattr(engine, "_improve", lambda state: state.accept(split))
    start = to_solution(problem, {})
    found = engine.search(
        problem, start, deadline=time.monotonic() + 60, report=lambda solution: None
    )
    # 16 GPUs are more than half of the 24 that the split gang gets.
    assert found.assignments == to_solution(problem, whole).assignments
