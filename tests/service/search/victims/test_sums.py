"""While it is open what one priority can have, bounds say what all of them can have together."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy, Tolerance
from placement_service.entities.solution import TierName
from placement_service.formulation.eviction import ruled_pods
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.formulation.prepare import prepare
from placement_service.search import engine
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from placement_service.search.victims.sums import bound_sum
from tests.scenario import Group, Scenario, near
from tests.service.evictions import PREEMPT, cluster, running, urgent

REPACK = Policy(eviction=EvictionPolicy.REPACK)


def bounded(*priorities: int) -> State:
    """Two nodes are full, and three gangs of each of these priorities want one each."""
    old = [running(f"old{i}", f"n{i}", gpus=8) for i in range(2)]
    waiting = [
        replace(urgent(priority=p), name=f"namespaces/ml/podgangs/w{p}-{i}")
        for p in priorities
        for i in range(3)
    ]
    problem = formulate(cluster(*old, *waiting, nodes=2), PREEMPT)
    start = to_solution(problem, home_plan(problem))
    state = State(problem, start, time.monotonic() + 60, lambda _: None)
    model = VictimModel(problem, frozenset(), DEFAULTS.model)
    bound_sum(state, model, [g.terms(model) if g.tier.provable else None for g in state.goals])
    return state


def test_what_gangs_gain_victims_lose() -> None:
    state = bounded(100, 50)
    assert state.most == {TierName.ADMITTED: 16_000_000}
    # The highest priority may still gain what it lacks of its own bound.
    assert state.solution().tiers[0].bound == 24


def test_a_sum_of_one_priority_is_not_asked_for() -> None:
    state = bounded(0)
    assert not state.most


@pytest.mark.parametrize("tolerances", [(), (Tolerance("admitted", 0.1),)])
def test_the_sum_of_a_looser_question_holds(
    monkeypatch: pytest.MonkeyPatch, tolerances: tuple[Tolerance, ...]
) -> None:
    """The odd gang cannot be moved here; 20 GPUs are free, and either priority could have most."""
    monkeypatch.setattr(ruled_pods, "MOST_HOMES", 0)
    policy = replace(REPACK, tolerances=tolerances)
    scenario = Scenario("r1: x1=4/8 x2=8 | r2: x3=8", policy=policy)
    scenario = scenario.gang(
        "odd", Group("w", gpus=4, told=("x1",), near=(near("rack", group="w"),))
    )
    for k in range(3):
        scenario = scenario.gang(f"high{k}", pods=1, gpus=8, priority=1)
        scenario = scenario.gang(f"low{k}", pods=1, gpus=8)
    snapshot = scenario.snapshot()
    problem = formulate(snapshot, policy, prepare(snapshot, policy))
    assert not problem.exact
    for stage in ("settle_aggregate", "settle_exact", "_improve", "spend_at_once"):
        monkeypatch.setattr(engine, stage, lambda *args, **more: None)
    found = engine.search(
        problem,
        to_solution(problem, home_plan(problem)),
        deadline=time.monotonic() + 60,
        report=lambda _: None,
        parameters=replace(DEFAULTS, relaxation_nodes=0),
    )
    assert found.tiers[0].bound == 20
