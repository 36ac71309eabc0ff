"""Two solvers at once: linear programs, neighbourhoods and whole numbers beside each other."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placement_service.cp_sat.linear_model import Question, Solved
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.request import Snapshot
from placement_service.formulation.arrays import Floats
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.victims import descent, stage
from placement_service.search.victims.core import Cores
from placement_service.search.victims.descent import Descent
from placement_service.search.victims.neighbourhoods import Neighbourhoods
from placement_service.search.victims.regions import ByRegion, Shortfalls
from placement_service.search.victims.solver_threads import SolverThreads
from placement_service.search.victims.stage import settle_victims
from placement_service.search.victims.whole_numbers import WholeNumbers
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.questions import node
from tests.service.search.victims.states import PARAMETERS, at, state_of
from tests.waiting import LONG


@pytest.fixture
def two_wait() -> State:
    """Two gangs wait, in a large model; the plan puts them in the place of the larger gangs."""
    old = [running(f"old-{i}", f"n{i}", gpus=8 - 4 * (i % 2)) for i in range(4)]
    nodes = tuple(node(f"n{i}", used=8 - 4 * (i % 2)) for i in range(4))
    waiting = (urgent(), replace(urgent(), name=f"{urgent().name}-too"))
    plan: Plan = {GangIdx(1): at(1), GangIdx(3): at(3), GangIdx(4): at(0), GangIdx(5): at(2)}
    state = state_of(Snapshot(nodes, (*old, *waiting)), PREEMPT, plan)
    state.parameters = replace(PARAMETERS, victim_variables=0, most_core_domains=0)
    return state


@pytest.fixture
def asked_whole(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What models are asked as a whole, in whole numbers; nothing improves the plan meanwhile."""
    found: list[dict[str, Any]] = []
    ask = VictimModel.ask_whole

    def remember(model: VictimModel, terms: Terms[int], **asked: Any) -> Question:
        if "fixed" not in asked:
            found.append(asked)
        return ask(model, terms, **asked)

    monkeypatch.setattr(descent, "improve", lambda *_: None)
    monkeypatch.setattr(VictimModel, "ask_whole", remember)
    return found


def test_the_sharp_linear_program_is_solved_beside_the_simple_model(
    two_wait: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbourhoods of the simple model go on until then, and then those of both, until whole
    numbers are settled.
    """
    begun: list[VictimModel] = []
    asked: list[VictimModel] = []
    improved: list[tuple[int, bool]] = []
    ask, relaxed = VictimModel.ask_relaxed, VictimModel.relaxed

    def begin(model: VictimModel, terms: Terms[int], **limits: Any) -> Question:
        begun.append(model)
        return ask(model, terms, **limits)

    def relax(model: VictimModel, terms: Terms[int], **limits: Any) -> Solved:
        asked.append(model)
        return relaxed(model, terms, **limits)

    def improve(
        state: State,
        i: int,
        kinds: Sequence[Neighbourhoods],
        threads: SolverThreads,
        share: float,
        until: Future[Solved] | None,
    ) -> None:
        improved.append((len(kinds), until is not None))
        if until:
            until.result()

    monkeypatch.setattr(VictimModel, "ask_relaxed", begin)
    monkeypatch.setattr(VictimModel, "relaxed", relax)
    monkeypatch.setattr(descent, "improve", improve)
    monkeypatch.setattr(descent, "bound_sum", lambda state, model, terms: None)
    monkeypatch.setattr(stage, "spare_victims", lambda builder, plan, until: plan)
    settle_victims(two_wait)
    sharp = begun[0]
    assert improved[:2] == [(1, True), (2, True)]
    # What was begun is not asked for again.
    assert asked[0] is not sharp
    assert begun.count(sharp) == 1 + asked.count(sharp)
    assert two_wait.reaches(two_wait.first_open - 1)


@pytest.mark.parametrize(
    ("beside", "deterministic", "whole"), [(0, False, 1), (LONG * 1e9, False, 0), (0, True, 0)]
)
def test_whole_numbers_are_tried_beside_neighbourhoods_where_there_is_time(
    two_wait: State,
    asked_whole: list[dict[str, Any]],
    beside: float,
    deterministic: bool,
    whole: int,
) -> None:
    """Which of both finds something first depends on the clock."""
    policy = replace(two_wait.problem.policy, deterministic=deterministic)
    two_wait.problem = replace(two_wait.problem, policy=policy)
    two_wait.parameters = replace(two_wait.parameters, victim_beside=beside)
    with SolverThreads(2) as threads:
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True)
        sharp._relax()
        goal = two_wait.first_open
        while sharp.held < goal:
            sharp._keep(sharp.bounds[sharp.held])
        before = two_wait.worth.enough[goal]
        assert sharp._solves_beside(sharp) == bool(whole)
    assert [asked["beyond"] for asked in asked_whole] == [before] * whole
    assert all(asked["presolve"] for asked in asked_whole)
    assert two_wait.reaches(goal) == bool(whole)


@pytest.mark.parametrize("prepared", [pytest.param(0.0, id="long"), pytest.param(1e9, id="brief")])
@pytest.mark.parametrize(
    ("far", "seconds", "deterministic", "early"),
    [
        pytest.param(0.0, 0.0, False, True, id="far"),
        pytest.param(1.0, 0.0, False, False, id="near"),
        pytest.param(0.0, 1e9, False, False, id="no time"),
        pytest.param(0.0, 0.0, True, False, id="no clock decides"),
    ],
)
def test_whole_numbers_begin_at_once_where_the_plan_is_far_from_its_bound(
    two_wait: State,
    asked_whole: list[dict[str, Any]],
    far: float,
    seconds: float,
    deterministic: bool,
    early: bool,
    prepared: float,
) -> None:
    policy = replace(two_wait.problem.policy, deterministic=deterministic)
    two_wait.problem = replace(two_wait.problem, policy=policy)
    two_wait.parameters = replace(two_wait.parameters, victim_far=far, victim_whole_seconds=seconds)
    two_wait.parameters = replace(two_wait.parameters, victim_prepared_seconds=prepared)
    with SolverThreads(2) as threads:
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True)
        goal, bound = two_wait.first_open, two_wait.bounds[two_wait.first_open]
        assert two_wait.worth.enough[goal] < bound
        sharp.begin()
        assert len(asked_whole) == early
        if early:
            # Where there is time to end the search tree, a smaller one is worth its preparation.
            assert asked_whole[0]["presolve"] == (prepared == 0.0)
            sharp._relax()
            while sharp.held < goal:
                sharp._keep(sharp.bounds[sharp.held])
            # It is taken, and not asked for again.
            assert sharp._solves_beside(sharp)
            assert two_wait.reaches(goal)
            assert len(asked_whole) == 1


def test_what_was_begun_for_another_goal_says_nothing_of_this_one(
    two_wait: State, asked_whole: list[dict[str, Any]]
) -> None:
    with SolverThreads(3) as threads:
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True)
        sharp._relax()
        goal = two_wait.first_open
        while sharp.held < goal:
            sharp._keep(sharp.bounds[sharp.held])
        other = threads.begin(lambda: Solved(None, two_wait.worth.enough[goal]))
        sharp._whole = WholeNumbers(goal + 1, model, other)
        assert sharp._solves_beside(sharp)
    assert len(asked_whole) == 1
    assert two_wait.reaches(goal)


def test_what_whole_numbers_prove_is_a_bound(
    two_wait: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descent, "improve", lambda *_: None)
    with SolverThreads(2) as threads:
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True)
        sharp._relax()
        goal = two_wait.first_open
        while sharp.held < goal:
            sharp._keep(sharp.bounds[sharp.held])
        has = two_wait.worth.enough[goal]
        assert two_wait.bounds[goal] > has
        monkeypatch.setattr(VictimModel, "ask_whole", lambda *_, **__: lambda: Solved(None, has))
        assert sharp._solves_beside(sharp)
    assert two_wait.bounds[goal] == has


def test_a_sharp_model_that_says_more_is_settled_beside_neighbourhoods(
    two_wait: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside: list[Descent] = []
    goal, bound = two_wait.first_open, two_wait.bounds[two_wait.first_open] - 1

    def relax(self: Descent) -> None:
        self.bounds.append(bound)
        self.state.learn(goal, bound)

    monkeypatch.setattr(Descent, "_relax", relax)

    def remember(_: Descent, other: Descent) -> bool:
        beside.append(other)
        return True

    monkeypatch.setattr(Descent, "_solves_beside", remember)
    monkeypatch.setattr(Descent, "_solve", lambda *_, **__: False)
    with SolverThreads(2) as threads:
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True)
        sharp.held, sharp.bounds = goal, list(two_wait.bounds[:goal])
        sharp.run(1.0)
    assert beside == [sharp]


def test_whole_numbers_may_be_those_of_the_simple_model(
    two_wait: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are where the sharp one says no more, and where both are about the same goal."""
    asked: list[VictimModel] = []

    def remember(model: VictimModel, *_: object, **__: object) -> Question:
        asked.append(model)
        return lambda: Solved(None, None)

    monkeypatch.setattr(descent, "improve", lambda *_: None)
    monkeypatch.setattr(VictimModel, "ask_whole", remember)
    with SolverThreads(2) as threads:
        simple = Descent(two_wait, threads, random.Random(1), VictimModel(two_wait.problem))
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True, beside=simple)
        simple.held = sharp.held = two_wait.first_open
        sharp.bounds = list(two_wait.bounds[: sharp.held])
        bound = two_wait.bounds[sharp.held]
        monkeypatch.setattr(Descent, "_relax", lambda self: self.bounds.append(bound))
        sharp._relaxed = {sharp.held: np.zeros(model.size)}
        sharp.run(1.0)
        assert asked == [simple.model]
        simple.held += 1
        sharp.run(1.0)
    assert asked == [simple.model]


@pytest.mark.parametrize("variables", [0, 10**6])
def test_only_of_large_models_the_sharp_one_is_begun_before_it_is_needed(
    two_wait: State, monkeypatch: pytest.MonkeyPatch, variables: int
) -> None:
    two_wait.parameters = replace(two_wait.parameters, victim_variables=variables)
    begun: list[bool] = []
    begin = Descent.begin

    def remember(self: Descent) -> None:
        begun.append(self.sharp)
        begin(self)

    monkeypatch.setattr(Descent, "begin", remember)
    settle_victims(two_wait)
    assert begun == [True] * (not variables)


def test_what_is_small_is_not_left_to_a_third_model_where_the_sharp_one_has_it(
    two_wait: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[bool, bool] | str] = []
    init, sharpened = VictimModel.__init__, VictimModel.sharpened

    def remember(model: VictimModel, *arguments: Any, **options: Any) -> None:
        made.append((options.get("large_only", False), options.get("sharp", False)))
        init(model, *arguments, **options)
        model.leaves_out = True

    def remember_sharp(model: VictimModel, *, until: float) -> VictimModel:
        made.append("sharpened")
        return sharpened(model, until=until)

    monkeypatch.setattr(VictimModel, "__init__", remember)
    monkeypatch.setattr(VictimModel, "sharpened", remember_sharp)
    monkeypatch.setattr(VictimModel, "ask_whole", lambda *_, **__: lambda: Solved(None, None))
    monkeypatch.setattr(stage, "spare_victims", lambda builder, plan, until: plan)
    settle_victims(two_wait)
    assert made == [(True, False), "sharpened"]


@pytest.mark.parametrize(("more", "again"), [((), 0), ((7,), 1)])
def test_what_was_begun_for_other_bounds_is_asked_for_again(
    two_wait: State, monkeypatch: pytest.MonkeyPatch, more: tuple[int, ...], again: int
) -> None:
    with SolverThreads(1) as threads:
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True)
        asked: list[VictimModel] = []

        def says_nothing(model: VictimModel, *_: object, **__: object) -> Solved:
            asked.append(model)
            return Solved(None, None)

        monkeypatch.setattr(VictimModel, "relaxed", says_nothing)
        sharp.begin()
        assert sharp.begun
        sharp.begun = sharp.begun._replace(bounds=(*sharp.begun.bounds, *more))
        sharp._relax()
    assert len(asked) == again


@pytest.mark.parametrize(("said", "less"), [(0, 0), (None, 0), (-1, 1), (1, 0)])
def test_what_regions_say_bounds_a_goal_where_it_is_more(
    two_wait: State, monkeypatch: pytest.MonkeyPatch, said: int | None, less: int
) -> None:
    def relax(bound: int | None) -> int:
        monkeypatch.setattr(
            descent, "settle_regions", lambda *_: ByRegion(bound, lambda _: np.zeros(2))
        )
        model = VictimModel(two_wait.problem, sharp=True)
        Descent(two_wait, threads, random.Random(1), model, sharp=True)._relax()
        return two_wait.bounds[two_wait.first_open]

    with SolverThreads(1) as threads:
        linear = relax(None)
        assert two_wait.worth.enough[two_wait.first_open] < linear - 1
        assert relax(None if said is None else linear + said) == linear - less


@pytest.mark.parametrize("same_level", [True, False])
def test_neighbourhoods_know_where_plans_fall_short(
    two_wait: State, monkeypatch: pytest.MonkeyPatch, same_level: bool
) -> None:
    """Those of another level have other regions."""
    turned: list[Shortfalls | None] = []
    by_region = ByRegion(None, lambda _: np.ones(4))

    def remember(
        _: Neighbourhoods, i: int, relaxed: Floats | None, shortfalls: Shortfalls | None
    ) -> None:
        turned.append(shortfalls)

    monkeypatch.setattr(descent, "settle_regions", lambda *_: by_region)
    monkeypatch.setattr(Neighbourhoods, "turn_to", remember)
    monkeypatch.setattr(descent, "improve", lambda *_: None)
    with SolverThreads(1) as threads:
        simple = Descent(two_wait, threads, random.Random(1), VictimModel(two_wait.problem))
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True, beside=simple)
        simple._regions.level = sharp._regions.level + (not same_level)
        sharp._relax()
        sharp.held = two_wait.first_open
        sharp._improve(1.0)
    assert turned == [by_region.shortfalls, by_region.shortfalls if same_level else None]


def test_whole_numbers_wait_for_a_thread_of_their_own(
    two_wait: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until what is owed is there, neighbourhoods go on."""
    two_wait.parameters = replace(two_wait.parameters, victim_beside=0)
    go, waited = threading.Event(), list[Future[Solved] | None]()

    def improve(*given: Any) -> None:
        waited.append(given[-1])
        go.set()
        threads.take(given[-1])

    def slow() -> Solved:
        go.wait(LONG)
        return Solved(None, None)

    monkeypatch.setattr(descent, "improve", improve)
    with SolverThreads(2) as threads:
        model = VictimModel(two_wait.problem, sharp=True)
        sharp = Descent(two_wait, threads, random.Random(1), model, sharp=True)
        sharp._relax()
        while sharp.held < two_wait.first_open:
            sharp._keep(sharp.bounds[sharp.held])
        core = threads.begin(slow, lambda _: None)
        assert sharp._solves_beside(sharp)
    assert waited[0] is core
    assert len(waited) == 2


def test_what_is_owed_at_the_end_is_taken(two_wait: State, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Solved] = []

    def begin(self: Cores) -> None:
        self._threads.begin(lambda: Solved(None, None), taken.append)
        self._ended = True

    def nothing(self: Descent, *_: object, **__: object) -> None:
        if self.sharp:
            # As a core that is begun beside the sharp one, and that nobody waited for.
            begin(Cores(self.state, self._threads))

    monkeypatch.setattr(Cores, "begin", lambda _: None)
    monkeypatch.setattr(Descent, "run", nothing)
    monkeypatch.setattr(stage, "spare_victims", lambda builder, plan, until: plan)
    settle_victims(two_wait)
    assert taken
