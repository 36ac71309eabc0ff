"""Where reading took most of the time, the gangs that come first get a plan before all others."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.placement import Placement
from placement_service.entities.request import PodGang, Policy, Request, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.pipeline.place import place
from placement_service.pipeline.stages import Budget, tell_nobody
from tests.service.pipeline.asking import Defects, stages
from tests.service.questions import gang, request, snapshot

#: All of them fit, but for the last.
GANGS = tuple(gang(f"g{i}", pods=1, gpus=1) for i in range(400))


def question(*gangs: PodGang, **policy: Any) -> Request:
    return replace(request(snapshot(50, gangs or GANGS)), policy=Policy(**policy))


def late(asked: Request, read: float = 50.0, left: float = 50.0) -> tuple[list[Placement], Any]:
    """The answers that were handed out, and the last, where reading took so many seconds."""
    offered: list[Placement] = []
    defects = Defects()
    now = time.monotonic()
    last = place(
        asked,
        stages=stages(expecting=tell_nobody),
        budget=Budget(now - read, now + left),
        offer=offered.append,
        report_defect=defects,
    )
    assert not defects
    return offered, last


def placed(answer: Placement) -> list[str]:
    return [g.name.rpartition("/")[2] for g in answer.gangs if g.placed]


def test_some_gangs_are_placed_before_all_are_formulated() -> None:
    (nothing, few, *_), last = late(question())
    assert placed(nothing) == []
    assert placed(few) == [f"g{i}" for i in range(50)]
    assert len(few.bindings) == 50
    assert len(few.gangs) == 400
    assert all(tier.bound is None for tier in few.tiers)
    assert len(placed(last)) == 400


def test_the_first_are_those_of_the_highest_priority_then_the_oldest_with_their_bases() -> None:
    base = gang("base", pods=1, gpus=1)
    high = replace(gang("high", pods=1, gpus=1), priority=9, base_gang=base.name)
    old = [replace(gang(f"old{i}", pods=1, gpus=1), created=1) for i in range(49)]
    asked = question(*GANGS, *old, base, high)
    asked = replace(asked, snapshot=replace(asked.snapshot, as_of=1000))
    (_, few, *_), _ = late(asked)
    assert placed(few) == [*(f"old{i}" for i in range(49)), "base", "high"]


def test_what_was_found_for_few_is_kept_where_no_time_is_left_for_all() -> None:
    """The whole question is formulated after the time is up, and then hardly any is tried."""

    def slow(part: Snapshot, *others: Any) -> Problem:
        if len(part.gangs) == len(GANGS):
            time.sleep(max(0.0, budget.answer_by - time.monotonic()))
        return formulate(part, *others)

    def none_in_time(problem: Problem, previous: Any, /, *, deadline: float) -> Any:
        if time.monotonic() > budget.answer_by:
            problem = replace(problem, gangs=tuple(_closed(g) for g in problem.gangs))
        return usual(problem, previous, deadline=deadline)

    def _closed(one: Any) -> Any:
        return replace(one, placeable=False)

    usual = stages().first_answer
    now = time.monotonic()
    budget = Budget(now - 1.0, now + 1.0)
    defects = Defects()
    offered: list[Placement] = []
    last = place(
        question(),
        stages=stages(formulate=slow, first_answer=none_in_time),
        budget=budget,
        offer=offered.append,
        report_defect=defects,
    )
    assert not defects
    assert placed(last) == placed(offered[1]) == [f"g{i}" for i in range(50)]


def test_what_takes_long_to_read_because_of_its_nodes_is_planned_at_once() -> None:
    asked = replace(request(snapshot(2_000, GANGS)), policy=Policy())
    (_, first, *_), _ = late(asked, read=12.0)
    assert len(placed(first)) == 400


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        pytest.param(question(), 5.0, id="enough time"),
        pytest.param(question(*GANGS[:90]), 50.0, id="few gangs"),
        pytest.param(question(deterministic=True), 50.0, id="no clock may decide"),
        pytest.param(question(eviction=EvictionPolicy.PREEMPT), 50.0, id="evictions"),
    ],
)
def test_else_all_gangs_are_placed_at_once(asked: Request, read: float) -> None:
    (_, first, *_), _ = late(asked, read)
    assert len(placed(first)) == len(asked.snapshot.gangs)
