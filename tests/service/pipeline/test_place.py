"""The chain from question to answer, and what is left when a link breaks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.errors import DeadlineTooShort
from placement_service.entities.placement import (
    Reason,
    ReasonCode,
)
from placement_service.entities.progress import Interrupted, Switch
from placement_service.entities.request import (
    Policy,
    Snapshot,
)
from placement_service.entities.solution import (
    Limit,
    Solution,
    TierName,
)
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.verify import verify
from placement_service.pipeline.stages import Budget
from placement_service.solver_process.pool import Found
from tests.service import engines
from tests.service.evictions import PREEMPT, REPACK, running
from tests.service.pipeline.asking import (
    Defects,
    Report,
    ask,
    budget,
    ending_with,
    nodes_of,
    stages,
)
from tests.service.questions import gang, node, open_snapshot, request, snapshot
from tests.waiting import LONG


def test_the_answer_carries_what_was_asked_and_what_was_found() -> None:
    placement = ask(stages=stages(ending_with(engines.moving)))
    assert (placement.revision, placement.label) == ("7", "test")
    assert nodes_of(placement) == {"nodes/n2"}
    assert [g.placed for g in placement.gangs] == [True]
    assert placement.termination.optimal
    assert placement.termination.gap == 0
    assert placement.stats.engine == "test 1"
    assert placement.stats.proof_seconds is not None
    assert placement.stats.first_answer_seconds <= placement.stats.elapsed_seconds
    assert [t.name for t in placement.stats.first_tiers] == list(TierName)


def test_a_request_that_is_only_checked_gets_an_empty_answer() -> None:
    placement = ask(replace(request(), validate_only=True))
    assert placement.bindings == placement.gangs == ()
    assert placement.termination is None
    assert placement.revision == "7"


def test_a_first_answer_that_leaves_nothing_to_wish_for_is_not_searched_on() -> None:
    """The node is in use already, so that not even a whole node is lost."""

    def never(*_: object, **__: object) -> Found:
        raise AssertionError("searched")

    defects = Defects()
    question = snapshot(1, (gang("train", pods=1, gpus=4),))
    question = replace(question, nodes=(node("n0", used=2),))
    placement = ask(request(question), stages=stages(never), report_defect=defects)
    assert placement.termination.optimal
    assert defects == []


@pytest.mark.parametrize(("nodes", "gangs", "told"), [(1, 1, False), (2, 2, True), (3, 2, False)])
def test_the_solver_is_told_before_the_first_answer_where_gangs_ask_for_nearly_all_that_is_free(
    nodes: int, gangs: int, told: bool
) -> None:
    """Otherwise the first answer is often the best, and so it is of one gang alone."""
    events: list[str] = []

    @contextmanager
    def expecting(problem: Problem, /, **_: Any) -> Iterator[None]:
        events.append("told")
        yield
        events.append("over")

    def first(problem: Problem, previous: object, /, *, deadline: float) -> Solution:
        events.append("first answer")
        return first_answer(problem)

    asked = snapshot(nodes, gangs=tuple(gang(f"g{i}", pods=1, gpus=8) for i in range(gangs)))
    ask(request(asked), stages=stages(first_answer=first, expecting=expecting))
    assert events == (["told", "first answer", "over"] if told else ["first answer"])


@pytest.mark.parametrize(("policy", "gangs"), [(REPACK, 1), (REPACK, 2), (PREEMPT, 2)])
def test_the_solver_is_told_of_several_gangs_that_wait_where_others_may_move(
    policy: Policy, gangs: int
) -> None:
    """Even where much more is free than they ask for: it may be in other places."""
    told: list[bool] = []

    @contextmanager
    def expecting(problem: Problem, /, **_: Any) -> Iterator[None]:
        told.append(True)
        yield

    waiting = [replace(gang(f"g{i}", pods=1, gpus=8), priority=100) for i in range(gangs)]
    nodes = (node("n0", used=8), node("n1"), node("n2"), node("n3"))
    asked = Snapshot(nodes, (running("old", "n0", gpus=8), *waiting))
    ask(replace(request(asked), policy=policy), stages=stages(expecting=expecting))
    assert told == [True] * (policy is REPACK and gangs > 1)


def test_a_proven_first_answer_is_searched_on_for_nodes_to_keep_whole() -> None:
    searched: list[bool] = []

    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        searched.append(start.proven)
        return Found(start, Limit.TIME)

    placement = ask(stages=stages(search))
    assert searched == [True]
    assert placement.termination.optimal


@pytest.mark.parametrize(
    ("engine", "want_defect"),
    [
        pytest.param(engines.overfilling, "a plan breaks rules", id="it breaks a rule"),
        pytest.param(engines.inventing, "a plan is malformed", id="it is malformed"),
    ],
)
def test_a_plan_that_breaks_rules_is_never_the_answer(
    engine: Callable[..., Solution], want_defect: str
) -> None:
    """Three pods of 4 GPUs do not fit one node of 8, which the engine says they do."""
    defects = Defects()
    question = request(open_snapshot(2, pods=3))
    placement = ask(question, stages=stages(ending_with(engine)), report_defect=defects)
    assert want_defect in defects
    assert verify(question.snapshot, question.policy, placement.bindings) == ()
    assert len(placement.bindings) == 3, "the first answer stands"
    assert not placement.termination.optimal


def test_a_refused_last_word_leaves_the_last_plan_that_kept_the_rules() -> None:
    def search(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
        report(replace(engines.last_node(problem, start), tiers=start.tiers))
        return ending_with(engines.inventing)(problem, start, report=report)

    defects = Defects()
    placement = ask(stages=stages(search), report_defect=defects)
    assert nodes_of(placement) == {"nodes/n2"}
    assert len(defects) == 1


@pytest.mark.parametrize("broken", ["it raises", "it lies"])
def test_without_a_first_answer_the_empty_plan_is_improved(broken: str) -> None:
    def bad(problem: Problem, previous: object, /, *, deadline: float) -> Solution:
        if broken == "it raises":
            raise ZeroDivisionError
        return engines.inventing(problem, first_answer(problem), deadline=0, report=print)

    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        assert start.assignments == ()
        return Found(first_answer(problem))

    defects = Defects()
    placement = ask(stages=stages(search, first_answer=bad), report_defect=defects)
    assert len(defects) == 1
    assert placement.gangs[0].placed


def test_when_everything_fails_the_answer_is_empty_and_says_so() -> None:
    def bad(*_: object, **__: object) -> Any:
        raise ZeroDivisionError

    defects = Defects()
    placement = ask(
        stages=stages(ending_with(engines.inventing), first_answer=bad, explain=bad),
        report_defect=defects,
    )
    assert len(defects) == 3
    assert placement.bindings == ()
    assert [r.code for r in placement.gangs[0].reasons] == [ReasonCode.NOT_SEARCHED]
    assert [(t.value, t.bound) for t in placement.tiers[:3]] == [(0, 8), (0, 1), (0, 0)]


def test_claims_are_replaced_by_what_the_bindings_are_worth() -> None:
    defects = Defects()
    placement = ask(stages=stages(ending_with(engines.boasting)), report_defect=defects)
    assert defects == ["a claim is wrong"]
    assert placement.tiers[0].value == 8
    assert not placement.termination.optimal


def test_a_worse_last_word_does_not_replace_a_better_answer() -> None:
    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        return Found(replace(start, assignments=()))

    placement = ask(stages=stages(search), report_defect=Defects())
    assert placement.gangs[0].placed


@pytest.mark.parametrize(
    ("found_limit", "own_limit", "want_limit"),
    [
        pytest.param(Limit.NONE, Limit.NONE, Limit.EFFORT, id="nothing left to try"),
        pytest.param(Limit.NONE, Limit.TIME, Limit.TIME, id="the engine says why"),
        pytest.param(Limit.TIME, Limit.NONE, Limit.TIME, id="the engine was stopped"),
        pytest.param(Limit.SOLVER_LOST, Limit.NONE, Limit.SOLVER_LOST, id="the engine died"),
    ],
)
def test_the_answer_says_what_ended_the_search(
    found_limit: Limit, own_limit: Limit, want_limit: Limit
) -> None:
    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        return Found(replace(start, limit=own_limit), found_limit, 5)

    question = request(open_snapshot(), policy=Policy(deterministic=True))
    placement = ask(question, stages=stages(search))
    assert placement.termination.limit is want_limit
    assert placement.stats.solver_memory_bytes == 5
    assert placement.stats.deterministic == (want_limit is Limit.EFFORT)


@pytest.mark.parametrize("explaining_ends", ["in time", "late"])
def test_an_answer_that_was_explained_past_its_time_is_not_called_repeatable(
    explaining_ends: str,
) -> None:
    now = 0.0

    def clock() -> float:
        return now

    def offer(_: object) -> None:
        # Writing an answer takes a second, which explaining must leave.
        nonlocal now
        now += 1.0

    def explaining(*_: object, deadline: float, **_others: object) -> list[list[Reason]]:
        nonlocal now
        now = deadline if explaining_ends == "late" else deadline - 0.1
        return []

    placement = ask(
        request(open_snapshot(), policy=Policy(deterministic=True)),
        budget=Budget(0.0, LONG, float("inf")),
        stages=stages(ending_with(engines.moving), explain=explaining),
        clock=clock,
        offer=offer,
    )
    assert placement.stats.deterministic is (explaining_ends == "in time")


@pytest.mark.parametrize("deterministic", [True, False])
def test_no_clock_but_the_limit_ends_the_first_of_repeatable_answers(deterministic: bool) -> None:
    given: list[float] = []

    def greedy(problem: Problem, previous: Any, /, *, deadline: float) -> Solution:
        given.append(deadline)
        return first_answer(problem, previous)

    limits = budget()
    question = request(open_snapshot(), policy=Policy(deterministic=deterministic))
    ask(question, budget=limits, stages=stages(first_answer=greedy))
    assert (given == [limits.answer_by]) is deterministic
    assert given[0] <= limits.answer_by


@pytest.mark.parametrize(
    ("processor", "share"), [(1.0, 0.5), (0.8, 0.625), (0.01, 0.65), (0, 0.65)]
)
def test_the_first_answer_gets_half_of_the_time_on_a_processor(
    processor: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others take of the processor meanwhile is not counted, up to a point."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "process_time", lambda: processor * next(ticks))
    given: list[float] = []

    def greedy(problem: Problem, previous: Any, /, *, deadline: float) -> Solution:
        given.append(deadline)
        return first_answer(problem, previous)

    # The clock stands still but for one second before the first answer.
    seconds = iter((0.0, 0.0))
    limits = Budget(0.0, 1001.0, float("inf"))
    ask(
        request(open_snapshot()),
        budget=limits,
        stages=stages(first_answer=greedy),
        clock=lambda: next(seconds, 1.0),
    )
    assert given[0] == pytest.approx(1.0 + 1000 * share)


def test_the_search_gets_a_deadline_that_leaves_time_for_the_rest() -> None:
    given: list[float] = []

    def search(problem: Problem, start: Solution, /, *, deadline: float, **_: Any) -> Found:
        given.append(deadline)
        return Found(start)

    limits = budget()
    ask(stages=stages(search), budget=limits)
    assert limits.arrival < given[0] < limits.answer_by


def test_without_time_the_first_answer_is_the_answer() -> None:
    """The time limit bounds the search; only the call's deadline makes an error."""
    placement = ask(request(open_snapshot()), budget=budget(0.0))
    assert placement.gangs[0].placed
    assert placement.termination.limit is Limit.TIME
    # Both gangs, all extras, no domain too many: more there is not.
    assert {t.name: (t.value, t.bound) for t in placement.tiers} == {
        **dict.fromkeys(TierName, (0, 0)),
        TierName.ADMITTED: (8, 32),
        TierName.WAITING: (1, 2),
        TierName.FRAGMENTATION: (1, None),
    }
    assert placement.termination.gap == 24 / 8


def test_a_first_answer_that_places_everything_is_proven_without_a_search() -> None:
    placement = ask(budget=budget(0.0))
    assert placement.termination.optimal
    assert [(t.value, t.bound) for t in placement.tiers[:3]] == [(8, 8), (1, 1), (0, 0)]


def test_without_a_search_what_cannot_be_placed_at_all_is_not_missing() -> None:
    """A gang whose pods are being made, and one that scales it out."""
    made = replace(gang("made", pods=1, gpus=1), uninitialized=True)
    follower = replace(gang("more", pods=1, gpus=1), base_gang=made.name)
    question = request(snapshot(1, (made, follower, gang("train", pods=2, gpus=4, minimum=1))))
    placement = ask(question, budget=budget(0.0))
    assert [(t.value, t.bound) for t in placement.tiers[:3]] == [(4, 4), (1, 1), (1, 1)]


def test_a_deadline_that_passes_before_the_first_answer_is_an_error() -> None:
    with pytest.raises(DeadlineTooShort) as caught:
        ask(budget=budget(0.0, deadline=0.0))
    assert caught.value.elapsed_seconds > 0


def test_nothing_is_computed_for_a_caller_who_left() -> None:
    switch = Switch()
    switch.interrupt()
    with pytest.raises(Interrupted):
        ask(interrupter=switch)


def test_a_caller_who_leaves_during_the_search_gets_no_answer() -> None:
    switch = Switch()

    def search(problem: Problem, start: Solution, /, **_: Any) -> Found:
        switch.interrupt()
        return Found(start)

    with pytest.raises(Interrupted):
        ask(stages=stages(search), interrupter=switch)
