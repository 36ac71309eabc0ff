"""Who may use the room of reclaimed pods, beside those for whom they go."""

from __future__ import annotations

from typing import Any

import pytest

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.queues import GPUS
from placement_service.entities.request import Policy
from tests.scenario import NOW, Group, Scenario
from tests.service.judge.rules.asking import accepts, refuses, violations

PREEMPT, RECLAIM = EvictionKind.PREEMPT, EvictionKind.RECLAIM


def cluster(drawing: str) -> Scenario:
    return Scenario(drawing, policy=Policy(eviction=EvictionPolicy.RECLAIM))


def full(guaranteed: int = 4, **more: Any) -> Scenario:
    """A pod of eight GPUs that queue "mine" may reclaim, and gang "x" of two that does."""
    scenario = cluster("x1=0/8")
    scenario = scenario.queue("mine", guaranteed={GPUS: guaranteed}).queue("theirs")
    scenario = scenario.gang("old", Group("w", gpus=8, told=("x1",)), queue="theirs", **more)
    return scenario.gang("x", pods=1, gpus=2, queue="mine")


@pytest.mark.parametrize(("priority", "fine"), [(1, True), (0, False)])
def test_who_stands_above_uses_up_nothing_that_is_guaranteed(priority: int, fine: bool) -> None:
    """The others are as much as is guaranteed; gang "a" is older than both."""
    scenario = full().gang("y", pods=1, gpus=2, queue="mine")
    scenario = scenario.gang("a", pods=1, gpus=1, queue="mine", priority=priority, waited=60)
    gone = scenario.evict(RECLAIM, "x", old_w_runs_0=None)
    every = scenario.bind(x_w_0="x1", y_w_0="x1", a_w_0="x1")
    words = "podgangs/y ask for 2 nvidia.com/gpu, 0 are free for them"
    assert accepts(scenario, every, gone) if fine else refuses(scenario, words, every, gone)


@pytest.mark.parametrize(("ran", "fine"), [(60, True), (59, False)])
def test_who_stands_above_waits_until_it_might_preempt(ran: int, fine: bool) -> None:
    scenario = full(start=NOW - ran, minimum_run_time=60)
    scenario = scenario.gang("a", pods=1, gpus=4, priority=1)
    gone = scenario.evict(RECLAIM, "x", old_w_runs_0=None)
    both = scenario.bind(x_w_0="x1", a_w_0="x1")
    words = "podgangs/a ask for 4 nvidia.com/gpu, 0 are free for them"
    assert accepts(scenario, both, gone) if fine else refuses(scenario, words, both, gone)


@pytest.mark.parametrize(("guaranteed", "fine"), [(6, True), (5, False)])
def test_who_stands_above_and_might_not_preempt_reclaims(guaranteed: int, fine: bool) -> None:
    scenario = full(guaranteed, start=NOW - 10, minimum_run_time=60)
    scenario = scenario.gang("a", pods=1, gpus=4, priority=1, queue="mine")
    gone = scenario.evict(RECLAIM, "x", old_w_runs_0=None)
    both = scenario.bind(x_w_0="x1", a_w_0="x1")
    words = "podgangs/a ask for 4 nvidia.com/gpu, 0 are free for them"
    assert accepts(scenario, both, gone) if fine else refuses(scenario, words, both, gone)


def test_extras_may_be_preempted_at_any_time() -> None:
    scenario = cluster("x1=0/8")
    scenario = scenario.queue("mine", guaranteed={GPUS: 2}).queue("theirs")
    group = Group("w", gpus=4, told=("x1", "x1"), min=1)
    scenario = scenario.gang("old", group, queue="theirs", start=NOW, minimum_run_time=60)
    scenario = scenario.gang("x", pods=1, gpus=2, queue="mine")
    scenario = scenario.gang("a", pods=1, gpus=2, priority=1)
    gone = scenario.evict(RECLAIM, "x", old_w_runs_1=None)
    assert accepts(scenario, scenario.bind(x_w_0="x1", a_w_0="x1"), gone)


def team(guaranteed: int) -> Scenario:
    """Four GPUs of team "p" and two of "q" run; "p" may reclaim of "q", and its queue "own",
    to which two are guaranteed, of its queue "low".
    """
    scenario = cluster("x1=0/6")
    scenario = scenario.queue("p", guaranteed={GPUS: guaranteed}).queue("q")
    scenario = scenario.queue("low", "p").queue("own", "p", guaranteed={GPUS: 2})
    scenario = scenario.gang("old", Group("w", gpus=2, told=("x1",)), queue="q")
    return scenario.gang("inner", Group("w", gpus=4, told=("x1",)), queue="low")


@pytest.mark.parametrize("queue", ["low", "own"])
def test_each_gets_room_that_it_might_reclaim(queue: str) -> None:
    """Both get as much as comes free, but four GPUs for "a" are none of "old", of which alone
    it may have any: four are more than what is guaranteed to queue "own".
    """
    scenario = team(guaranteed=16).gang("a", pods=1, gpus=4, queue=queue)
    scenario = scenario.gang("y", pods=1, gpus=2, queue="own")
    gone = scenario.evict(RECLAIM, "a", old_w_runs_0=None)
    gone += scenario.evict(RECLAIM, "y", inner_w_runs_0=None)
    both = scenario.bind(a_w_0="x1", y_w_0="x1")
    words = "podgangs/a ask for 4 nvidia.com/gpu, 2 are free for them"
    assert refuses(scenario, words, both, gone)
    # A part of four that is guaranteed is for both of them.
    small = team(guaranteed=16).gang("a", pods=1, gpus=2, queue=queue)
    small = small.gang("y", pods=1, gpus=2, queue="own")
    assert accepts(small, small.bind(a_w_0="x1", y_w_0="x1"), gone)


def test_the_room_of_several_is_not_for_those_of_one() -> None:
    """Two gangs may each have the room of one victim, and together no more than that of two."""
    scenario = cluster("x1=0/6")
    for team in "one", "two":
        scenario = scenario.queue(team, guaranteed={GPUS: 4}).queue(f"{team}-low", team)
        scenario = scenario.queue(f"{team}-own", team, guaranteed={GPUS: 4})
        group = Group("w", gpus=2, told=("x1",))
        scenario = scenario.gang(f"old-{team}", group, queue=f"{team}-low")
    scenario = scenario.gang("third", Group("w", gpus=2, told=("x1",)))
    scenario = scenario.gang("a", pods=1, gpus=2, queue="one-own")
    scenario = scenario.gang("b", pods=1, gpus=3, queue="two-own")
    scenario = scenario.gang("top", pods=1, gpus=1, priority=9)
    gone = scenario.evict(RECLAIM, "a", old_one_w_runs_0=None)
    gone += scenario.evict(RECLAIM, "b", old_two_w_runs_0=None)
    gone += scenario.evict(PREEMPT, "top", third_w_runs_0=None)
    every = scenario.bind(a_w_0="x1", b_w_0="x1", top_w_0="x1")
    found = violations(scenario, every, gone)
    assert len(found) == 2, found
    assert "podgangs/b ask for 3 nvidia.com/gpu, 2 are free" in found[0]
    assert "podgangs/a, namespaces/ml/podgangs/b ask for 5 nvidia.com/gpu, 4 are" in found[1]
