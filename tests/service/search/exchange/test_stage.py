"""Exchanging parts of gangs between racks: what comes of it is a plan, and uses fewer blocks."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from bench.instances import Instance
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.verify import verify
from placement_service.search.configurations.stage import settle_configurations
from placement_service.search.exchange import stage as exchange_stage
from placement_service.search.exchange.movable_parts import MovableParts
from placement_service.search.exchange.part_exchange import PartExchange
from placement_service.search.exchange.stage import exchange_parts, steps_without_success
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count, decode
from placement_service.search.parameters import DEFAULTS
from tests.service.search.block_questions import domains, question, ran_before

FEW_STEPS = replace(DEFAULTS, exchange_more_steps=40_000)


def begun(snapshot: Snapshot) -> State:
    """A search that has placed its target greedily."""
    problem = formulate(snapshot, Policy())
    start = first_answer(problem)
    state = State(problem, start, time.monotonic() + 60, lambda _: None, FEW_STEPS)
    count(state)
    decode(state, first=True)
    return state


def broken(snapshot: Snapshot, state: State, plan: Plan) -> object:
    """The rules that a plan breaks."""
    solution = to_solution(state.problem, plan)
    return verify(snapshot, Policy(), name_pods(snapshot, solution.assignments))


@pytest.mark.parametrize("again", [False, True])
def test_parts_of_racks_come_together(again: bool) -> None:
    snapshot = Instance("rack_parts", {"blocks": 4, "gangs": 60}, 4).snapshot()
    snapshot = ran_before(snapshot) if again else snapshot
    state = begun(snapshot)
    before = domains(state)
    assert state.packs
    assert before > 5
    exchange_parts(state)
    assert domains(state) <= before / 3
    assert not broken(snapshot, state, state.plan)


def test_parts_of_unlike_nodes_come_closer_with_their_small_pods() -> None:
    snapshot = Instance("cpu_shapes", {"blocks": 3, "gangs": 40, "load": 1.5}).snapshot()
    state = begun(snapshot)
    settle_configurations(state)
    before = state.worth
    split = domains(state)
    exchange_parts(state)
    assert domains(state) < 0.9 * split
    # Nobody is left out for it.
    at = next(i for i, goal in enumerate(state.goals) if goal.tier is TierName.TOPOLOGY)
    assert state.worth.rank[:at] == before.rank[:at]
    assert not broken(snapshot, state, state.plan)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The temperatures at which parts are exchanged."""
    found: list[float] = []

    class Watched(PartExchange):
        def run(self, steps: int) -> bool:
            found.append(self.temperature)
            return super().run(steps)

    monkeypatch.setattr(exchange_stage, "PartExchange", Watched)
    return found


@pytest.mark.parametrize("cold", [False, True])
def test_it_begins_hot_or_cold(seen: list[float], cold: bool) -> None:
    state = begun(Instance("rack_parts", {"blocks": 4, "gangs": 60}, 2).snapshot())
    before = domains(state)
    exchange_parts(state, cold=cold)
    assert seen[0] == (0.1 if cold else 0.4)
    assert seen[-1] == 0.1
    assert domains(state) < before


def test_it_cools_while_parts_are_exchanged(seen: list[float]) -> None:
    state = begun(Instance("rack_parts", {"blocks": 4, "gangs": 60}, 2).snapshot())
    state.parameters = replace(
        FEW_STEPS,
        exchange_temperatures=((0.4, 0.25),),
        exchange_cooling_steps=10_000,
    )
    exchange_parts(state)
    assert len(seen) > 6
    assert seen[0] == 0.4
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == pytest.approx(0.25)


def test_single_nodes_come_together_where_it_is_colder() -> None:
    """Of many parts some always leave, the more the warmer it is."""
    left = []
    snapshot = Instance("mix", {"blocks": 4, "gangs": 60, "scaled": 1.0}, 2).snapshot()
    for temperatures in (((0.3, 0.3),), ((0.3, 0.3), (0.1, 0.1))):
        state = begun(snapshot)
        decode(state, first=False)
        assert state.packs
        state.parameters = replace(FEW_STEPS, exchange_temperatures=temperatures)
        exchange_parts(state)
        left.append(domains(state))
    assert left[1] < left[0]


# In the example a base finds no room any more.
@example(89)
@given(st.integers(0, 2**32))
def test_wherever_parts_go_it_is_a_plan(seed: int) -> None:
    snapshot = question(seed)
    state = begun(snapshot)
    movable = MovableParts(state)
    event(f"usable {movable.usable}, together {bool(movable.together)}")
    if not movable.usable:
        return
    exchange = PartExchange(movable, seed=seed, temperature=1000.0)
    racks = [part.rack for part in movable.parts]
    moved = False
    for _ in range(300):
        if exchange._step([]) and exchange._keeps_together():
            moved, racks = True, [part.rack for part in movable.parts]
    event(f"moved {moved}")
    assert not broken(snapshot, state, movable.plan(racks))


@given(st.integers(0, 2**32))
def test_the_cost_is_counted_right(seed: int) -> None:
    movable = MovableParts(begun(question(seed)))
    if not movable.usable:
        return
    exchange = PartExchange(movable, seed=seed, temperature=1.0)
    for _ in range(300):
        exchange._step([owner for owner in exchange._owned if len(exchange._used[owner]) > 1])
    again = PartExchange(movable, seed=seed, temperature=1.0)
    assert exchange.cost == again.cost
    assert exchange._units == again._units


def test_a_gang_that_must_lie_in_one_block_is_missed_in_another() -> None:
    snapshot = Instance("mix", {"blocks": 3, "racks": 6, "gangs": 30, "load": 1.3}).snapshot()
    movable = MovableParts(begun(snapshot))
    exchange = PartExchange(movable, seed=1, temperature=1.0)
    assert exchange._keeps_together()
    mine = [part for part in movable.parts if part.gang in movable.together]
    one = next(p for p in mine if sum(part.gang == p.gang for part in mine) > 1)
    block = movable.racks[one.rack].block
    one.rack = next(at for at, rack in movable.racks.items() if rack.block != block)
    assert not exchange._keeps_together()
    # It is not traded for a gang that only prefers one.
    assert PartExchange(movable, seed=1, temperature=1.0).cost > exchange.cost + 1


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_nothing_is_exchanged_when_the_time_is_over(seconds: float) -> None:
    state = begun(Instance("rack_parts", {"blocks": 4, "gangs": 60}).snapshot())
    before = state.plan
    state.deadline = time.monotonic() + seconds
    exchange_parts(state)
    assert state.plan is before


def test_what_was_exchanged_is_not_exchanged_again() -> None:
    snapshot = Instance("mix", {"blocks": 3, "racks": 6, "gangs": 30, "load": 1.3}).snapshot()
    state = begun(snapshot)
    exchange_parts(state)
    assert state.exchanged is state.plan
    phase = state.phase = "another"
    exchange_parts(state)
    assert state.phase == phase


def test_little_success_is_not_worth_many_steps() -> None:
    least, more = DEFAULTS.exchange_least_steps, DEFAULTS.exchange_more_steps
    large = DEFAULTS.exchange_large_cost
    assert steps_without_success(DEFAULTS, 100, 2 * large, 0) == least + more
    assert steps_without_success(DEFAULTS, 100, 2 * large, large) == least + more // 4
    # One domain of two is half of the cost as well.
    assert steps_without_success(DEFAULTS, 100, 2, 1) < least + more // 16
    # A few blocks of thousands of parts are found by others.
    assert steps_without_success(DEFAULTS, 10_000, large, large) < least + more // 400
    assert steps_without_success(DEFAULTS, 100, large, large) > least + more // 100


def test_most_of_the_time_is_left_after_a_cold_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    class Vain(PartExchange):
        def run(self, steps: int) -> bool:
            time.sleep(0.01)
            return False

    state = begun(Instance("rack_parts", {"blocks": 4, "gangs": 60}, 2).snapshot())
    # Only time ends it.
    state.parameters = replace(DEFAULTS, exchange_least_steps=10**9, exchange_cold_share=0.01)
    monkeypatch.setattr(exchange_stage, "PartExchange", Vain)
    exchange_parts(state, cold=True)
    assert state.left > 45
