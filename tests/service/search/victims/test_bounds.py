"""Where many running gangs may give way, linear programs bound a looser question."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.search import engine
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from placement_service.search.victims.bounds import bound_victims
from tests.service.evictions import PREEMPT, RECLAIM, cluster, running, urgent
from tests.service.questions import gang, node
from tests.waiting import LONG

PARAMETERS = replace(DEFAULTS, victim_gangs=1, relaxation_nodes=0)


def test_goals_are_bounded_and_the_plan_stays() -> None:
    """A gang of four GPUs is in the way of one of eight with a higher priority."""
    problem = formulate(cluster(running("old", "n0"), urgent(), used=4), PREEMPT)
    home = to_solution(problem, home_plan(problem))
    state = State(problem, home, time.monotonic() + LONG, lambda _: None, PARAMETERS)
    plan = state.plan
    bound_victims(state)
    most = [
        (goal.priority, bound // goal.unit)
        for goal, bound in zip(state.goals, state.bounds, strict=True)
        if goal.tier is TierName.ADMITTED and goal.reported
    ]
    assert dict(most) == {100: 8, 0: 0}
    assert state.plan == plan


def test_a_looser_question_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guarantee is enough for either of two gangs, and nothing else says so."""
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    old = [replace(running(f"old{i}", f"n{i}", gpus=8), queue="queues/b") for i in range(3)]
    new = [replace(gang(f"new{i}", pods=1, gpus=8), queue="queues/a") for i in range(2)]
    asked = Snapshot(tuple(node(f"n{i}", used=8) for i in range(3)), (*old, *new), queues=queues)
    problem = formulate(asked, RECLAIM)
    assert not problem.exact
    for stage in ("count", "settle_aggregate", "settle_exact"):
        monkeypatch.setattr(engine, stage, lambda *args, **more: None)
    found = engine.search(
        problem,
        to_solution(problem, home_plan(problem)),
        deadline=time.monotonic() + LONG,
        report=lambda _: None,
        parameters=PARAMETERS,
    )
    assert found.proven
    assert [t.value for t in found.tiers if t.name is TierName.DISRUPTION] == [1]
