"""A few domains of the victim model at a time, while all the rest is as in the plan."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.regions import Regions
from placement_service.entities.request import PackingScope, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.arrays import Floats
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan, home_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import Problem, UnitsOnNode
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from placement_service.search.victims.neighbourhoods import Asked, Neighbourhoods, improve
from placement_service.search.victims.regions import Shortfalls
from placement_service.search.victims.solver_threads import SolverThreads
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.questions import node
from tests.waiting import LONG

PARAMETERS = replace(DEFAULTS, victim_domains=1.0)

#: What says that there is nothing better.
NOTHING = Solved(None, None, proven=True)


def two_racks() -> tuple[Problem, Plan]:
    """Of two racks with one gang each, the plan clears the one with the larger gang."""
    racks = {"a0": "a", "a1": "a", "b0": "b", "b1": "b"}
    nodes = tuple(node(name, used=8, rack=rack) for name, rack in racks.items())
    large = running("large", "a0", "a1", gpus=8)
    fixed = replace(running("fixed", "b1", gpus=8), not_preemptible=True)
    small = running("small", "b0", gpus=8)
    new = replace(urgent(), packing_scopes=(PackingScope("s", ("worker",), "rack"),))
    question = Snapshot(nodes, (large, fixed, small, new))
    problem = formulate(question, PREEMPT, prepare(question, PREEMPT))
    [waiting] = [g for g in problem.pending if not g.home]
    plan = {g: units for g, units in home_plan(problem).items() if len(units) == 1}
    plan[waiting.index] = (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)
    return problem, plan


def neighbourhoods(
    state: State, aim: Callable[[Floats], None] = lambda _: None, *, leads: bool = False
) -> Neighbourhoods:
    model = VictimModel(state.problem)
    terms = [goal.terms(model) if goal.tier.provable else None for goal in state.goals]
    return Neighbourhoods(state, model, Regions(model), terms, random.Random(1), aim, leads=leads)


def improved(
    state: State,
    *kinds: Neighbourhoods,
    relaxed: Floats | None = None,
    until: Future[Solved] | None = None,
) -> None:
    """After neighbourhoods of these kinds for the first open goal."""
    with SolverThreads(2) as threads:
        for kind in kinds:
            kind.turn_to(state.first_open, relaxed)
        improve(state, state.first_open, kinds, threads, 1.0, until)


def test_the_plan_is_a_solution_and_all_but_open_domains_keeps_its_values() -> None:
    problem, plan = two_racks()
    model = VictimModel(problem)
    regions = Regions(model)
    assert regions.count == 2
    shut = regions.fixed(plan, [])
    loads = list(model.load.values())
    staying = [model.placed[g.index] for g in model.running]
    assert shut.keys() >= {*loads, *model.here.values(), *staying}
    assert sum(shut[v] for v in loads) == 1
    [waiting] = model.waiting
    model.row([(model.placed[waiting.index], 1)], least=1)
    stay = [(model.placed[g.index], 1) for g in model.running]
    placed = {g.index: round(g.index in plan) for g in problem.gangs}
    for domains in ([], [0]):
        found = model.whole(stay, maximize=True, seconds=10, fixed=regions.fixed(plan, domains))
        assert found.values is not None
        assert {g: round(found.values[v]) for g, v in model.placed.items()} == {
            g: placed[g] for g in model.placed
        }
    found = model.whole(stay, maximize=True, seconds=10, fixed=regions.fixed(plan, [0, 1]))
    assert found.values is not None
    assert round(sum(found.values[v] for v, _ in stay)) == 1


@pytest.mark.parametrize(("minimum", "staying"), [(4, 4), (2, 3)])
def test_what_stays_of_gangs_elsewhere_is_as_in_the_plan(minimum: int, staying: int) -> None:
    """A gang that stays whole or not at all has one variable for all its pods, another one has its
    own for those of each node.
    """
    nodes = tuple(node(name, used=8, rack=name) for name in ("a", "b"))
    old = running("old", *"aaaa", gpus=2, minimum=minimum)
    new = replace(urgent(gpus=2), packing_scopes=(PackingScope("s", ("worker",), "rack"),))
    question = Snapshot(nodes, (old, running("other", "b", gpus=8), new))
    problem = formulate(question, PREEMPT, prepare(question, PREEMPT))
    model = VictimModel(problem)
    home = home_plan(problem)
    [(gang, [unit])] = [(g, units) for g, units in home.items() if units[0].node == 0]
    plan = {**home, gang: (unit._replace(units=staying),)}
    [kept] = [kept for at, kept in model.kept.items() if at.gang == gang]
    assert Regions(model).fixed(plan, [1])[kept.variable] * kept.times == staying


def test_a_better_plan_is_found_when_the_right_domains_are_open() -> None:
    problem, plan = two_racks()
    state = State(
        problem,
        to_solution(problem, plan),
        time.monotonic() + 30,
        lambda _: None,
        replace(PARAMETERS, victim_in_vain=1),
    )
    seen: list[Floats] = []
    goal = state.first_open
    improved(state, neighbourhoods(state, seen.append))
    terms = state.goals[goal].terms(VictimModel(problem))
    assert seen
    assert terms
    better = seen[0]
    assert round(sum(w * better[v] for v, w in terms)) > state.worth.values[goal]


def test_what_brought_nothing_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    parameters = replace(PARAMETERS, victim_in_vain=3)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    asked = counted(monkeypatch)
    kind = neighbourhoods(state)
    improved(state, kind)
    tried = len(asked)
    # More may have been begun before the last of them was solved.
    assert 3 <= tried <= 6
    improved(state, kind)
    assert len(asked) == tried


def test_the_same_request_asks_for_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = two_racks()
    problem = replace(problem, policy=replace(problem.policy, deterministic=True))
    start = to_solution(problem, plan)
    parameters = replace(PARAMETERS, victim_in_vain=3)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    asked = counted(monkeypatch)
    never: Future[Solved] = Future()
    never.set_result(NOTHING)
    # That something else is solved is nothing to go by.
    improved(state, neighbourhoods(state), until=never)
    assert len(asked) == 3


def test_all_kinds_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    parameters = replace(PARAMETERS, victim_in_vain=2)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    asked = counted(monkeypatch)
    kinds = [neighbourhoods(state), neighbourhoods(state)]
    improved(state, *kinds)
    assert {id(kind) for kind in asked} == {id(kind) for kind in kinds}
    assert not any(kind.goes_on for kind in kinds)


def test_none_is_begun_once_something_else_is_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, PARAMETERS)
    asked = counted(monkeypatch)
    solved: Future[Solved] = Future()
    solved.set_result(NOTHING)
    kind = neighbourhoods(state)
    improved(state, kind, until=solved)
    assert not asked
    improved(state, kind)
    assert asked


@pytest.mark.parametrize("reached", [False, True])
def test_they_end_when_the_goal_is_reached_or_time_is_up(
    monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    until = time.monotonic() + LONG * reached
    state = State(problem, start, until, lambda _: None, PARAMETERS)
    asked = counted(monkeypatch)
    goal = state.first_open
    if reached:
        state.learn(goal, state.worth.enough[goal])
    assert state.reaches(goal) is reached
    with SolverThreads(2) as threads:
        kind = neighbourhoods(state)
        kind.turn_to(goal)
        improve(state, goal, [kind], threads, 1.0)
    assert not asked


def test_what_is_open_alone_is_none_of_those_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    parameters = replace(PARAMETERS, victim_in_vain=1)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    counted(monkeypatch)
    kind = neighbourhoods(state)
    kind.turn_to(state.first_open, np.zeros(VictimModel(problem).size))
    kind.take(kind.ask(), NOTHING)
    assert kind.goes_on
    kind.take(kind.ask(), NOTHING)
    assert not kind.goes_on


def test_goals_before_stay_as_good_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, PARAMETERS)
    held: list[tuple[int | None, int | None]] = []

    def remember(
        _: VictimModel, terms: object, *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        held.append((at_least, at_most))

    kind = neighbourhoods(state)
    monkeypatch.setattr(VictimModel, "hold", remember)
    [last] = [i for i, g in enumerate(state.goals) if g.tier is TierName.DISRUPTION]
    kind.turn_to(last)
    kind.ask()
    model = VictimModel(problem)
    enough = state.worth.enough
    assert held == [
        (None, enough[i]) if goal.tier.minimize else (enough[i], None)
        for i, goal in enumerate(state.goals[:last])
        if goal.terms(model)
    ]
    assert held


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Neighbourhoods]:
    """Whose neighbourhoods were asked for; none of them brings anything."""
    asked: list[Neighbourhoods] = []
    ask = Neighbourhoods.ask

    def remember(self: Neighbourhoods) -> Asked:
        asked.append(self)
        return ask(self)._replace(question=lambda: NOTHING)

    monkeypatch.setattr(Neighbourhoods, "ask", remember)
    return asked


def test_what_a_linear_program_has_otherwise_is_open_too() -> None:
    problem, plan = two_racks()
    model = VictimModel(problem)
    [waiting] = model.waiting
    model.row([(model.placed[waiting.index], 1)], least=1)
    stay = [(model.placed[g.index], 1) for g in model.running]
    relaxed = model.relaxed(stay, maximize=True, seconds=10).values
    assert relaxed is not None
    regions = Regions(model)
    shut = regions.fixed(plan, [])
    led = regions.fixed(plan, [], relaxed)
    assert led == {v: value for v, value in shut.items() if relaxed[v] == pytest.approx(value)}
    assert len(led) < len(shut)
    found = model.whole(stay, maximize=True, seconds=10, fixed=led)
    assert found.values is not None
    # The small gang goes instead of the large one.
    assert round(sum(found.values[v] for v, _ in stay)) == 1


@pytest.mark.parametrize("leads", [False, True])
def test_what_differs_is_open_alone_at_first_and_always_where_it_leads(
    monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    problem, plan = two_racks()
    parameters = replace(PARAMETERS, victim_in_vain=2)
    start = to_solution(problem, plan)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    relaxed = np.full(VictimModel(problem).size, 0.5)
    opened: list[tuple[int, bool]] = []

    def remember(
        _: Regions, plan: Plan, domains: Collection[int], relaxed: Floats | None = None
    ) -> dict[int, float]:
        opened.append((len(domains), relaxed is not None))
        return {}

    monkeypatch.setattr(Regions, "fixed", remember)
    monkeypatch.setattr(VictimModel, "ask_whole", lambda *_, **__: lambda: NOTHING)
    kind = neighbourhoods(state, leads=leads)
    improved(state, kind, relaxed=relaxed)
    more = (1, True) if leads else (2, False)
    assert opened[:3] == [(0, True), more, more]
    assert set(opened[3:]) <= {more}


def opened_first(
    monkeypatch: pytest.MonkeyPatch, shortfalls: Shortfalls | None, times: int
) -> list[Collection[int]]:
    """The domains of the first neighbourhoods of so many, each with luck of its own."""
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    opened: list[Collection[int]] = []

    def remember(
        _: Regions, plan: Plan, domains: Collection[int], relaxed: Floats | None = None
    ) -> dict[int, float]:
        opened.append(domains)
        return {}

    monkeypatch.setattr(Regions, "fixed", remember)
    parameters = replace(PARAMETERS, fewest_domains=1)
    for seed in range(times):
        state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
        model = VictimModel(problem)
        terms = [goal.terms(model) if goal.tier.provable else None for goal in state.goals]
        rng = random.Random(seed)
        kind = Neighbourhoods(state, model, Regions(model), terms, rng, lambda _: None)
        kind.turn_to(state.first_open, None, shortfalls)
        kind.ask()
    return opened


def test_domains_where_the_plan_falls_short_are_opened_rather(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = opened_first(monkeypatch, None, 40)
    assert 10 <= without.count([1]) <= 30
    short = opened_first(monkeypatch, lambda _: np.array([0.0, 5.0]), 40)
    assert short.count([1]) >= 35
    nowhere = opened_first(monkeypatch, lambda _: np.zeros(2), 40)
    assert 10 <= nowhere.count([1]) <= 30


def test_the_same_domains_are_opened_again_only_in_another_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    opened: list[list[int]] = []

    def remember(
        _: Regions, plan: Plan, domains: Collection[int], relaxed: Floats | None = None
    ) -> dict[int, float]:
        opened.append(list(domains))
        return {}

    monkeypatch.setattr(Regions, "fixed", remember)
    parameters = replace(PARAMETERS, fewest_domains=1)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    kind = neighbourhoods(state)
    # Where nothing is short but the first domain, it would come nearly always.
    kind.turn_to(state.first_open, None, lambda _: np.array([1e9, 0.0]))
    kind.ask()
    kind.ask()
    assert sorted(opened) == [[0], [1]]
    state.plan = dict(state.plan)
    kind.ask()
    kind.ask()
    assert sorted(opened[2:]) == [[0], [1]]


def test_neighbourhoods_go_on_beside_another_answer_that_is_owed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    parameters = replace(PARAMETERS, victim_in_vain=2)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    asked = counted(monkeypatch)
    taken: list[int] = []
    with SolverThreads(2) as threads:
        kind = neighbourhoods(state)
        kind.turn_to(state.first_open)
        go = threading.Event()

        def slow() -> Solved:
            go.wait(LONG)
            return NOTHING

        def take(_: Solved) -> None:
            taken.append(len(asked))

        threads.begin(slow, take)
        kind_take = kind.take

        def last(question: Asked, found: Solved) -> None:
            kind_take(question, found)
            if not kind.goes_on:
                go.set()

        monkeypatch.setattr(kind, "take", last)
        improve(state, state.first_open, [kind], threads, 1.0)
        assert not threads.owed
    assert taken == [2]


def test_turning_to_the_same_goal_again_begins_nothing_anew() -> None:
    """But they have another chance."""
    problem, plan = two_racks()
    start = to_solution(problem, plan)
    parameters = replace(PARAMETERS, victim_in_vain=2)
    state = State(problem, start, time.monotonic() + LONG, lambda _: None, parameters)
    relaxed = np.zeros(VictimModel(problem).size)
    kind, goal = neighbourhoods(state), state.first_open
    kind.turn_to(goal, relaxed)
    assert kind.ask().domains == 0
    kind.take(kind.ask(), NOTHING)
    kind.turn_to(goal, relaxed)
    asked = kind.ask()
    assert asked.domains
    kind.take(asked, NOTHING)
    assert kind.goes_on
    kind.take(kind.ask(), NOTHING)
    assert not kind.goes_on
    # Another solution may differ elsewhere.
    kind.turn_to(goal, relaxed.copy())
    assert kind.ask().domains == 0
