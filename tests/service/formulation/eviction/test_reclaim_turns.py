"""Who reclaims where a queue is not guaranteed enough for all that would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    ExtrasPolicy,
    PackingScope,
    PodGang,
    Request,
    Snapshot,
)
from placement_service.entities.solution import TierName
from placement_service.formulation.eviction.reclaim_limits import with_reclaim_limits
from placement_service.formulation.eviction.reclaim_turns import other_turns
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import has_goals_of
from placement_service.search.engine import search
from tests.service.evictions import PREEMPT, RECLAIM, running
from tests.service.pipeline.asking import Defects, ask, ending_with, stages
from tests.service.questions import gang, node
from tests.waiting import LONG

NOW = 100_000


def waiting(name: str, gpus: int, *, age: int = 0, priority: int = 0, extras: int = 0) -> PodGang:
    """A gang in queue "a" of pods of one GPU, some of them extras."""
    made = gang(name, pods=gpus + extras, gpus=1, minimum=gpus)
    return replace(made, queue="queues/a", created=NOW - age, priority=priority)


def question(*gangs: PodGang, guaranteed: int = 8, theirs: int = 0) -> Snapshot:
    """Two nodes that are full of extras of a gang of queue "b"; `theirs` is its priority."""
    queues = (Queue("queues/a", guaranteed={GPUS: guaranteed}), Queue("queues/b"))
    old = running("old", *["n0"] * 4, *["n1"] * 4, gpus=2, minimum=2, priority=theirs)
    old = replace(old, queue="queues/b")
    nodes = tuple(node(f"n{i}", used=8) for i in range(2))
    return Snapshot(nodes, (old, *gangs), as_of=NOW, queues=queues)


def entitled(snapshot: Snapshot) -> list[str]:
    rights = EvictionRights(snapshot, RECLAIM)
    return [
        one.name.rpartition("/")[2] for one in snapshot.gangs if rights.winner(one).reclaims_for
    ]


@pytest.mark.parametrize(
    ("gangs", "first", "then"),
    [
        ((waiting("old1", 2, age=60), waiting("young", 8)), ["old1"], ["young"]),
        ((waiting("x", 5, age=90), waiting("y", 4), waiting("z", 4)), ["x"], ["y", "z"]),
        (
            (waiting("x", 3, age=9), waiting("y", 5, priority=9), waiting("z", 8)),
            ["x", "y"],
            None,
        ),
    ],
)
def test_those_reclaim_whose_minimums_are_the_most(
    gangs: Sequence[PodGang], first: list[str], then: list[str] | None
) -> None:
    asked = question(*gangs, theirs=9)
    assert entitled(asked) == first
    turned = other_turns(asked, RECLAIM)
    assert (None if turned is None else entitled(turned.snapshot)) == then


def test_of_equals_the_oldest_reclaim() -> None:
    small = waiting("small", 3, age=900)
    equals = [waiting("young", 8, age=60), waiting("old1", 8, age=600)]
    turned = other_turns(question(small, *equals), RECLAIM)
    assert turned is not None
    assert entitled(turned.snapshot) == ["old1"]


def test_of_several_queues_that_reclaims_first_which_gets_most() -> None:
    """They share what is guaranteed to the queue above them."""
    small = [replace(waiting(n, 3, age=60), queue="queues/a0") for n in ("x", "y")]
    large = replace(waiting("large", 8), queue="queues/a1")
    asked = question(*small, large)
    below = [Queue(f"queues/a{i}", "queues/a", guaranteed={GPUS: 8}) for i in range(2)]
    asked = replace(asked, queues=(*asked.queues, *below))
    turned = other_turns(asked, RECLAIM)
    assert turned is not None
    rights = EvictionRights(turned.snapshot, RECLAIM)
    mine = {g.name[-5:]: rights.winner(g).reclaims_for for g in turned.snapshot.gangs[1:]}
    assert [name for name, queues in mine.items() if "queues/a" in queues] == ["large"]


def test_a_base_reclaims_before_what_is_based_on_it() -> None:
    base = waiting("base", 4)
    scaled = replace(waiting("scaled", 4, age=60), base_gang=base.name)
    assert entitled(question(scaled, base, guaranteed=4)) == ["base"]


def test_gangs_that_may_preempt_leave_the_guarantee_to_others() -> None:
    """All of them lie on the node of one pod, which goes for those that reclaim."""
    urgent = waiting("urgent", 1, priority=9)
    asked = question(urgent, waiting("x", 2), waiting("y", 2), guaranteed=4)
    old = replace(running("old", "n0", gpus=8), queue="queues/b")
    asked = replace(asked, nodes=asked.nodes[:1], gangs=(old, *asked.gangs[1:]))
    defects = Defects()
    found = ask(
        Request(asked, RECLAIM, LONG), stages=stages(ending_with(search)), report_defect=defects
    )
    assert [g.placed for g in found.gangs] == [False, True, True, True]
    assert found.termination.optimal
    assert not defects


def test_extras_wait_that_are_not_guaranteed() -> None:
    turned = other_turns(question(waiting("a", 4, extras=6)), RECLAIM)
    assert turned is not None
    assert not turned.whole
    assert [g.pending_count for g in turned.snapshot.gangs[1].groups] == [8]
    assert entitled(turned.snapshot) == ["a"]


def test_extras_of_a_running_gang_leave_room_for_the_minimum_of_another() -> None:
    grows = replace(running("grows", "n2", gpus=2), queue="queues/a", priority=9)
    [group] = grows.groups
    [pods] = group.pod_sets
    waits = replace(pods, pods=gang("grows", pods=9, gpus=2).groups[0].pod_sets[0].pods[1:])
    grows = replace(grows, groups=(replace(group, pod_sets=(waits,)),))
    turned = other_turns(question(grows, waiting("a", 4), theirs=9), RECLAIM)
    assert turned is not None
    # Six GPUs are left of the guarantee, four for the minimum.
    assert [g.groups[0].pending_count for g in turned.snapshot.gangs[1:]] == [1, 4]
    assert "a" in entitled(turned.snapshot)


@pytest.mark.parametrize(
    "first",
    [
        replace(waiting("first", 5, age=60), not_preemptible=True),
        replace(waiting("first", 5, age=60), uninitialized=True),
        replace(waiting("first", 5, age=60), unsupported=("something",)),
    ],
)
def test_a_gang_that_cannot_come_keeps_nobody_from_reclaiming(first: PodGang) -> None:
    asked = question(first, waiting("second", 4))
    # Of what is guaranteed, gangs that are not preemptible have all but four.
    mine = replace(asked.queues[0], used_not_preemptible={GPUS: 4})
    queues = (mine, *asked.queues[1:])
    assert entitled(replace(asked, queues=queues)) == ["second"]


@pytest.mark.parametrize(
    ("asked", "policy"),
    [
        (question(waiting("a", 4), waiting("b", 4)), RECLAIM),
        (question(waiting("a", 8), waiting("b", 8)), PREEMPT),
        (question(waiting("a", 9)), RECLAIM),
    ],
)
def test_there_is_no_other_choice(asked: Snapshot, policy: object) -> None:
    assert other_turns(asked, policy) is None  # type: ignore[arg-type]


def test_bounds_know_what_a_queue_may_reclaim_in_all() -> None:
    asked = question(waiting("a", 8), waiting("b", 6))
    rights = EvictionRights(asked, RECLAIM, each_alone=True)
    limited = with_reclaim_limits(asked, RECLAIM, rights)
    assert [q.limit.get(GPUS) for q in limited.queues] == [8, None]
    # What is free, and what gangs of lower priority leave, comes to that.
    free = replace(asked, nodes=(*asked.nodes, node("n2", used=5)))
    assert with_reclaim_limits(free, RECLAIM, rights).queues[0].limit[GPUS] == 11
    above = question(waiting("a", 8, priority=9), waiting("b", 6))
    assert with_reclaim_limits(above, RECLAIM, rights).queues[0].limit[GPUS] == 24


def test_without_extras_there_are_fewer_goals() -> None:
    """So bounds of the whole are not those of the rest, goal by goal."""
    policy = replace(RECLAIM, extras=ExtrasPolicy.WITH_PRIORITY)
    running_whole = replace(running("old", "n0", "n1", gpus=8), queue="queues/b")
    asked = question(waiting("a", 2, extras=4), guaranteed=2)
    asked = replace(asked, gangs=(running_whole, asked.gangs[1]))
    turned = other_turns(asked, policy)
    assert turned is not None
    whole, rest = formulate(asked, policy), formulate(turned.snapshot, policy)
    assert has_goals_of(whole, whole.relaxation)
    assert not has_goals_of(rest, whole.relaxation)


def test_bounds_of_a_choice_without_some_extras_are_none_of_the_request() -> None:
    """All extras find free room where the gang does not reclaim, in two racks."""
    scope = PackingScope("all", ("worker",), preferred_level="rack")
    asked = question(replace(waiting("a", 4, extras=6), packing_scopes=(scope,)))
    asked = replace(asked, nodes=(*asked.nodes, node("n2", rack="x"), node("n3", used=6, rack="y")))
    turned = other_turns(asked, RECLAIM)
    assert turned is not None
    assert not turned.whole
    defects = Defects()
    found = ask(Request(asked, RECLAIM, LONG), report_defect=defects)
    tiers = {tier.name: tier for tier in found.tiers}
    assert not tiers[TierName.TOPOLOGY].proven
    assert tiers[TierName.EXTRA].value == tiers[TierName.EXTRA].bound == 6
    assert not defects


def test_an_answer_comes_also_where_the_other_choice_fails() -> None:
    def first_only(*arguments: Any, **others: Any) -> Problem:
        if arguments[0].gangs[1].reclaims_later:
            raise ValueError("no")
        return formulate(*arguments, **others)

    asked = question(waiting("old1", 2, age=60), waiting("young", 8))
    defects = Defects()
    found = ask(
        Request(asked, RECLAIM, LONG),
        stages=stages(ending_with(search), formulate=first_only),
        report_defect=defects,
    )
    assert len(found.bindings) == 8
    assert defects == ["the other way to read the request failed"]


@pytest.mark.parametrize(
    ("gangs", "gpus", "pods"),
    [
        pytest.param((waiting("a", 4, extras=2),), 4, 2, id="a minimum inside"),
        pytest.param((waiting("x", 2, age=60), waiting("y", 8)), 8, 4, id="the larger of two"),
        pytest.param((waiting("x", 3, age=9), waiting("y", 4), waiting("z", 5)), 8, 4, id="two"),
    ],
)
def test_the_best_that_may_be_reclaimed_is_proven(
    gangs: Sequence[PodGang], gpus: int, pods: int
) -> None:
    guaranteed = 4 if len(gangs) == 1 else 8
    request = Request(question(*gangs, guaranteed=guaranteed), RECLAIM, LONG)
    found = ask(request, stages=stages(ending_with(search)))
    tiers = {tier.name: tier for tier in found.tiers}
    assert tiers[TierName.ADMITTED].value == gpus
    assert len(found.evictions) == pods
    assert found.termination.optimal
