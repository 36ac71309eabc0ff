"""In which order the victim model is asked: near its bound, whole, in neighbourhoods."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.parameters import ModelParameters
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers.goal import Terms
from placement_service.heuristic.plan_builder import Builder
from placement_service.search import engine
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from placement_service.search.victims import descent, stage
from placement_service.search.victims.core import Cores
from placement_service.search.victims.solver_threads import SolverThreads
from placement_service.search.victims.stage import settle_victims
from tests.scenario import Scenario
from tests.service.evictions import PREEMPT, REPACK, running, urgent
from tests.service.questions import node
from tests.service.search.victims.states import PARAMETERS, at, state_of
from tests.waiting import LONG


def the_larger_one_goes(policy: Policy = PREEMPT) -> State:
    """It is better if the smaller one goes."""
    large, small = running("large", "n0", gpus=8), running("small", "n1", gpus=4)
    nodes = (node("n0", used=8), node("n1", used=4))
    plan: Plan = {GangIdx(1): at(1), GangIdx(2): at(0)}
    return state_of(Snapshot(nodes, (large, small, urgent())), policy, plan)


@pytest.mark.parametrize(("count", "beyond_bound"), [(8, 1), (7, 7)])
def test_moves_close_to_the_bound_are_looked_for_first(
    monkeypatch: pytest.MonkeyPatch, count: int, beyond_bound: int
) -> None:
    """The plan moves so many gangs and none has to move: of eight an eighth is one, of fewer it is
    none, and then the whole is asked at once.
    """
    old = [running(f"old-{i}", f"n{i}") for i in range(count)]
    nodes = tuple(node(f"n{i}", used=4 * (i < count)) for i in range(2 * count + 1))
    moved: Plan = {GangIdx(i): at(count + i) for i in range(count)}
    plan = {**moved, GangIdx(count): at(2 * count)}
    state = state_of(Snapshot(nodes, (*old, urgent())), REPACK, plan)
    [goal] = [i for i, g in enumerate(state.goals) if g.tier.value == "disruption"]
    assert state.worth.enough[goal] - state.bounds[goal] == count
    asked: list[int | None] = []
    whole = VictimModel.whole

    def remember(
        model: VictimModel,
        terms: Terms[int],
        *,
        maximize: bool,
        seconds: float,
        beyond: int | None,
    ) -> Solved:
        asked.append(beyond)
        return whole(model, terms, maximize=maximize, seconds=seconds, beyond=beyond)

    monkeypatch.setattr(VictimModel, "whole", remember)
    settle_victims(state)
    assert asked == [state.bounds[goal] + beyond_bound]
    assert state.reaches(goal)


def test_bounds_come_before_a_core_that_takes_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of twelve GPUs that run four have to go."""
    state = the_larger_one_goes()

    def late(self: SolverThreads) -> None:
        while self.owed:
            take(self)
        state.deadline = time.monotonic()

    take = SolverThreads.take
    monkeypatch.setattr(SolverThreads, "take", late)
    settle_victims(state)
    most = [
        bound // goal.unit
        for goal, bound in zip(state.goals, state.bounds, strict=True)
        if goal.tier is TierName.ADMITTED and goal.priority == 0
    ]
    assert set(most) == {8}


def test_a_model_is_not_built_beyond_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    state = the_larger_one_goes()
    built: list[VictimModel] = []
    rest = VictimModel._rest

    def remember(model: VictimModel) -> None:
        rest(model)
        built.append(model)

    def late(_: Cores) -> None:
        state.deadline = time.monotonic()

    monkeypatch.setattr(VictimModel, "_rest", remember)
    monkeypatch.setattr(Cores, "begin", late)
    plan = state.plan
    settle_victims(state)
    assert (built, state.plan, state.phase) == ([], plan, "victims")


def events_of(state: State, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done in turn, where the pods that go are never settled as a whole."""
    events: list[str] = []
    whole = VictimModel.whole

    def spare(builder: Builder, plan: Plan, until: float) -> Plan:
        assert until < state.deadline
        events.append("spare")
        return plan

    def remember(
        model: VictimModel,
        terms: Terms[int],
        *,
        maximize: bool,
        seconds: float,
        beyond: int | None,
    ) -> Solved:
        events.append("whole" if seconds > LONG / 2 else "brief")
        if state.goals[state.first_open].tier.minimize:
            return Solved(None, None)
        return whole(model, terms, maximize=maximize, seconds=seconds, beyond=beyond)

    monkeypatch.setattr(stage, "spare_victims", spare)
    monkeypatch.setattr(VictimModel, "whole", remember)
    monkeypatch.setattr(descent, "improve", lambda *_: events.append("improve"))
    settle_victims(state)
    return events


def test_what_is_not_settled_briefly_is_improved_before_it_is_tried_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The GPUs that are lost are settled as a whole, and then the pods are not. Linear programs
    bound nothing before.
    """
    monkeypatch.setattr(descent, "bound_goals", lambda state, model, terms: None)
    events = events_of(the_larger_one_goes(), monkeypatch)
    assert events[:3] == ["brief", "brief", "improve"]
    assert events[-3:] == ["brief", "improve", "whole"]


def test_only_a_large_model_is_improved_before_anything_is_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = the_larger_one_goes()
    state.parameters = replace(PARAMETERS, victim_variables=0)
    assert events_of(state, monkeypatch) == ["improve", "brief"]


def test_where_a_linear_program_says_nothing_the_sharp_one_is_asked_before_whole_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither says anything here, so that the simple model goes on for long at last. Victims are
    spared one after another between them.
    """
    state = the_larger_one_goes()
    state.parameters = replace(PARAMETERS, victim_variables=0)
    asked: list[VictimModel] = []

    def says_nothing(model: VictimModel, terms: Terms[int], **_: object) -> Solved:
        asked.append(model)
        return Solved(None, sum(w for _, w in terms))

    monkeypatch.setattr(VictimModel, "relaxed", says_nothing)
    # It asks about all priorities together, of whichever goal is next.
    monkeypatch.setattr(descent, "bound_sum", lambda state, model, terms: None)
    events = events_of(state, monkeypatch)
    assert events[:4] == ["improve", "spare", "improve", "whole"]
    # The simple model, the sharp one, and the simple one again.
    simple, sharp, again = asked[:3]
    assert simple is not sharp
    assert simple is again


@pytest.mark.parametrize("deterministic", [False, True])
def test_whole_numbers_are_not_begun_that_cannot_end_in_time(
    monkeypatch: pytest.MonkeyPatch, deterministic: bool
) -> None:
    """But the clock decides nothing where the same request must take the same path."""
    state = the_larger_one_goes(replace(PREEMPT, deterministic=deterministic))
    state.parameters = replace(PARAMETERS, victim_variables=0, victim_root=LONG * 1e9)
    begun: list[object] = []
    whole = VictimModel.whole

    def remember(model: VictimModel, terms: Terms[int], **asked: Any) -> Solved:
        # With fixed variables it is quick.
        if "fixed" not in asked:
            begun.append(terms)
        return whole(model, terms, **asked)

    monkeypatch.setattr(VictimModel, "whole", remember)
    settle_victims(state)
    assert bool(begun) is deterministic


@pytest.mark.parametrize("root", [0, LONG * 1e9])
def test_neighbourhoods_have_the_time_that_whole_numbers_could_not_use(
    monkeypatch: pytest.MonkeyPatch, root: float
) -> None:
    state = the_larger_one_goes()
    state.parameters = replace(
        PARAMETERS, victim_variables=0, victim_root=root, victim_beside=LONG * 1e9
    )
    shares: list[float] = []
    # The first is that of a patient model.
    monkeypatch.setattr(descent, "improve", lambda *asked: shares.append(asked[4]))
    monkeypatch.setattr(VictimModel, "whole", lambda *_, **__: Solved(None, None))
    monkeypatch.setattr(stage, "spare_victims", lambda builder, plan, until: plan)
    settle_victims(state)
    assert set(shares[1:]) == {1.0 if root else DEFAULTS.victim_share}


def test_a_model_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simple model goes on where the sharp one says no more."""
    state = the_larger_one_goes()
    made: list[bool] = []
    init = VictimModel.__init__

    def remember(
        model: VictimModel,
        problem: Problem,
        settled: Iterable[GangIdx],
        parameters: ModelParameters,
        *,
        large_only: bool,
        sharp: bool,
        until: float,
    ) -> None:
        made.append(sharp)
        init(model, problem, settled, parameters, large_only=large_only, sharp=sharp, until=until)

    monkeypatch.setattr(stage, "spare_victims", lambda builder, plan, until: plan)
    monkeypatch.setattr(VictimModel, "__init__", remember)
    monkeypatch.setattr(VictimModel, "whole", lambda *_, **__: Solved(None, None))
    settle_victims(state)
    assert made == [False, True]


def test_nothing_is_counted_once_victims_took_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = formulate(Scenario("x1=8").gang("a", pods=1, gpus=8).snapshot(), Policy())
    counted: list[State] = []
    monkeypatch.setattr(engine, "settle_victims", lambda state: None)
    monkeypatch.setattr(engine, "count", counted.append)
    start = to_solution(problem, {})
    engine.search(problem, start, deadline=time.monotonic() - 1, report=lambda solution: None)
    assert not counted
