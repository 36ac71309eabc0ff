"""The search decides which gangs reclaim, where not all may that would."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import PodGang, Snapshot
from placement_service.entities.solution import TierName
from placement_service.formulation.eviction import reclaim_ways
from placement_service.formulation.formulate import formulate
from tests.judged import oracle
from tests.service.evictions import RECLAIM, running
from tests.service.questions import gang, node
from tests.service.search.answering import answer

NOW = 100_000


def waiting(name: str, gpus: int, *, age: int, pods: int = 1) -> PodGang:
    """A gang in queue "a"."""
    made = gang(name, pods=pods, gpus=gpus)
    return replace(made, queue="queues/a", created=NOW - age)


def question(*gangs: PodGang, free: int = 0) -> Snapshot:
    """Two nodes that are full of two gangs of queue "b", and one node of which some is free; "a" is
    guaranteed eight GPUs.
    """
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    theirs = [replace(running(f"old{i}", f"n{i}", gpus=8), queue="queues/b") for i in range(2)]
    nodes = [node(f"n{i}", used=8) for i in range(2)]
    nodes.append(node("n2", used=8 - free))
    return Snapshot(tuple(nodes), (*theirs, *gangs), as_of=NOW, queues=queues)


#: By turns the oldest reclaims, and in the other choice the two that are eight GPUs together: of
#: these one fits nowhere.
NEITHER = (
    waiting("old", 3, age=900),
    waiting("wide", 1, age=60, pods=2),
    waiting("large", 6, age=60),
)


def nowhere(one: PodGang) -> PodGang:
    [group] = one.groups
    [pods] = group.pod_sets
    there = replace(pods.template, node_selector=(("disk", "none"),))
    return replace(one, groups=(replace(group, pod_sets=(replace(pods, template=there),)),))


def test_those_reclaim_that_are_the_most_together() -> None:
    old, wide, large = NEITHER
    asked = question(old, nowhere(wide), large)
    result = answer(asked, RECLAIM)
    assert [b.gang.rpartition("/")[2] for b in result.bindings] == ["large"]
    assert [e.kind for e in result.evictions] == [EvictionKind.RECLAIM]
    assert result.solution.proven


def test_a_gang_comes_without_reclaiming_where_there_is_room() -> None:
    """The oldest takes what is free, and leaves the guarantee to the other one."""
    asked = question(waiting("old", 4, age=900), waiting("large", 8, age=60), free=4)
    result = answer(asked, RECLAIM)
    assert len(result.bindings) == 2
    assert [e.for_gang.rpartition("/")[2] for e in result.evictions] == ["large"]
    assert result.tier(TierName.ADMITTED) == oracle(asked, RECLAIM).value(TierName.ADMITTED) == 4
    assert result.solution.proven


@pytest.mark.parametrize("limit", ["MOST_GANGS", "MOST_NODES"])
def test_only_small_questions_are_asked_so(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    asked = question(waiting("x", 8, age=9), waiting("y", 8, age=8))
    assert formulate(asked, RECLAIM).again is not None
    monkeypatch.setattr(reclaim_ways, limit, 1)
    assert formulate(asked, RECLAIM).again is None


def test_nothing_is_left_open_where_only_some_come_both_ways() -> None:
    """Others are based on one of them, so it reclaims by turns."""
    base = waiting("base", 8, age=9)
    scaled = replace(waiting("scaled", 8, age=9), base_gang=base.name)
    asked = question(base, scaled, waiting("other", 8, age=99))
    problem = formulate(asked, RECLAIM)
    assert problem.again is not None
    assert not problem.again.exact
    answer(asked, RECLAIM)


def test_a_bound_holds_where_some_may_take_a_whole_gang_and_others_only_its_extras() -> None:
    """It may be reclaimed, and its minimum may not be preempted yet."""
    old = replace(running("old", "n0", "n0", minimum=1), queue="queues/b")
    old = replace(old, start=NOW - 60, minimum_run_time=3600)
    mine = nowhere(waiting("mine", 8, age=60))
    high = replace(gang("high", pods=1, gpus=4), priority=5)
    large = gang("large", pods=1, gpus=8)
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    nodes = (node("n0", used=8), node("n1", used=4))
    asked = Snapshot(nodes, (old, mine, high, large), as_of=NOW, queues=queues)
    result = answer(asked, RECLAIM)
    assert [b.gang.rpartition("/")[2] for b in result.bindings] == ["high"]
    assert result.solution.proven
