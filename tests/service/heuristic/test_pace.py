"""Where there is no time for all gangs, those come first that the goals name first."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.request import PackingScope, Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import Plan, home_plan
from placement_service.formulation.problem import Problem
from placement_service.heuristic import first_answer as first_answers
from placement_service.heuristic.orders import narrowest_first
from placement_service.heuristic.pace import ENOUGH, MOST_BEHIND, NoTimeForAll, Pace
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims import make_room as victims
from placement_service.heuristic.victims.make_room import make_room
from tests.service.evictions import PREEMPT, cluster, running, urgent
from tests.service.questions import gang, node


def test_steps_that_take_twice_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    steps = Pace(5 * ENOUGH, 100.0 + 3 * ENOUGH, Policy())
    no_clock = Pace(5 * ENOUGH, 100.0 + 3 * ENOUGH, Policy(deterministic=True))
    now += ENOUGH - 1
    assert steps.behind(4 * ENOUGH + 1) == 0
    now += 1
    assert steps.behind(4 * ENOUGH) == 2
    assert no_clock.behind(4 * ENOUGH) == 0
    assert steps.share(4 * ENOUGH) == now + 0.5


def plans_with_room(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans in which the first answer made room, in turn."""
    plans: list[Plan] = []

    def noted(*args: Any, **kwargs: Any) -> Plan:
        plans.append(make_room(*args, **kwargs))
        return plans[-1]

    monkeypatch.setattr(first_answers, "make_room", noted)
    first_answers.first_answer(problem)
    return plans


def test_more_is_asked_for_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The large gang is the first by its size, and the urgent one by the goals."""
    old = [running(name, name, gpus=8) for name in ("n0", "n1")]
    large = replace(gang("large", pods=2, gpus=8), priority=50)
    problem = formulate(cluster(*old, large, urgent(), nodes=2), PREEMPT)
    first, *_ = plans_with_room(problem, monkeypatch)
    assert {2, 3} & first.keys() == {3}


def _two_ways() -> Snapshot:
    """The large gang fits rack a alone, and the urgent one the third node, too; who runs there is
    more important than the large one.
    """
    nodes = [node(f"n{i}", used=8, rack="a" if i < 2 else "b") for i in range(3)]
    old = [running(f"old{i}", f"n{i}", gpus=8, priority=90 if i == 2 else 0) for i in range(3)]
    large = replace(gang("large", pods=2, gpus=8), priority=50)
    large = replace(large, packing_scopes=(PackingScope("all", ("worker",), "rack"),))
    return Snapshot(tuple(nodes), (*old, large, urgent()))


def test_there_is_no_time_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = formulate(_two_ways(), PREEMPT)
    narrowest, *_ = plans_with_room(problem, monkeypatch)
    assert {2, 3, 4} & narrowest.keys() == {3, 4}
    monkeypatch.setattr(Pace, "behind", lambda self, left: math.inf)
    in_turn, *_ = plans_with_room(problem, monkeypatch)
    assert {2, 3, 4} & in_turn.keys() == {2, 4}


def test_room_is_made_for_all_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = formulate(_two_ways(), PREEMPT)
    builder, home, order = Builder(problem), home_plan(problem), narrowest_first(problem)
    monkeypatch.setattr(Pace, "behind", lambda self, left: MOST_BEHIND)
    assert 3 in make_room(builder, home, order, until=math.inf, all_of_them=True)
    monkeypatch.setattr(Pace, "behind", lambda self, left: MOST_BEHIND + 1)
    assert 3 in make_room(builder, home, order, until=math.inf)
    with pytest.raises(NoTimeForAll):
        make_room(builder, home, order, until=math.inf, all_of_them=True)


@pytest.mark.parametrize(("behind", "tried"), [(1.0, 2), (2.0, 1)])
def test_a_gang_tries_fewer_domains_where_time_is_short(
    monkeypatch: pytest.MonkeyPatch, behind: float, tried: int
) -> None:
    nodes = [node(f"{r}{i}", used=8, rack=r) for r in "ab" for i in range(2)]
    old = [running(f"old-{r}", f"{r}0", f"{r}1", gpus=8) for r in "ab"]
    scope = PackingScope("all", ("worker",), "rack")
    waits = replace(gang("waits", pods=2, gpus=8), priority=50, packing_scopes=(scope,))
    problem = formulate(Snapshot(tuple(nodes), (*old, waits)), PREEMPT)
    monkeypatch.setattr(Pace, "behind", lambda self, left: behind)
    monkeypatch.setattr(Pace, "share", lambda self, left: -math.inf)
    within, calls = victims._Search._within, 0

    def noted(self: victims._Search, *args: Any) -> object:
        nonlocal calls
        calls += 1
        return within(self, *args)

    monkeypatch.setattr(victims._Search, "_within", noted)
    search = victims._Search(Builder(problem), home_plan(problem))
    search.make_room_for([problem.gangs[2]], math.inf)
    assert 2 in search.best
    assert calls == tried
