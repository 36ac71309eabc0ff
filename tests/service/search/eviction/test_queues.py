"""Queues reclaim what is guaranteed to them, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import Snapshot
from tests.service.evictions import (
    PREEMPT,
    RECLAIM,
    cluster,
    running,
    urgent,
)
from tests.service.questions import gang, node
from tests.service.search.answering import answer


def test_a_queue_reclaims_what_is_guaranteed_to_it() -> None:
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b", guaranteed={GPUS: 8}))
    victims = [replace(running(f"b{i}", f"n{i}", gpus=8), queue="queues/b") for i in (0, 1)]
    mine = replace(urgent(priority=0), queue="queues/a")
    question = replace(cluster(*victims, mine, nodes=2), queues=queues)
    result = answer(question, RECLAIM)
    assert [e.kind for e in result.evictions] == [EvictionKind.RECLAIM]
    assert len(result.bindings) == 1


def test_gangs_of_a_queue_reclaim_no_more_together_than_it_is_guaranteed() -> None:
    queues = (
        Queue("queues/a", guaranteed={GPUS: 8}),
        Queue("queues/b", guaranteed={GPUS: 8}),
    )
    theirs = [replace(running(f"old{i}", f"n{i}", gpus=8), queue="queues/b") for i in range(3)]
    mine = [replace(gang(f"mine{i}", pods=1, gpus=8), queue="queues/a") for i in range(2)]
    question = replace(cluster(*theirs, *mine, nodes=3), queues=queues)
    result = answer(question, RECLAIM)
    assert len(result.bindings) == len(result.evictions) == 1


@pytest.mark.parametrize("below", [{}, {GPUS: 0}])
def test_of_what_no_guarantee_says_gangs_that_are_not_preemptible_take_it(
    below: dict[str, int],
) -> None:
    """Of the queue that reclaims GPUs are guaranteed, and of the one in it nothing is said, or
    that none is.
    """
    queues = (
        Queue("queues/a", guaranteed={GPUS: 8}),
        Queue("queues/own", "queues/a", guaranteed=below),
        Queue("queues/b"),
    )
    old = replace(running("old", "n0", gpus=8), queue="queues/b")
    mine = replace(urgent(), queue="queues/own", not_preemptible=True, never_preempts=True)
    result = answer(replace(cluster(old, mine), queues=queues), RECLAIM)
    assert len(result.bindings) == len(result.evictions) == (not below)
    assert result.solution.proven


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        pytest.param(8, ["mine0"], id="one pod for both"),
        pytest.param(4, ["mine0", "mine1"], id="a pod for each"),
    ],
)
def test_gangs_share_what_is_reclaimed_for_their_queue(gpus: int, said: list[str]) -> None:
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    theirs = replace(running("old", *["n0"] * (8 // gpus), gpus=gpus), queue="queues/b")
    mine = [replace(gang(f"mine{i}", pods=1, gpus=4), queue="queues/a") for i in range(2)]
    result = answer(replace(cluster(theirs, *mine), queues=queues), RECLAIM)
    assert len(result.bindings) == 2
    assert [e.for_gang.removeprefix("namespaces/ml/podgangs/") for e in result.evictions] == said
    assert result.solution.proven


def test_a_pod_is_reclaimed_where_a_gang_above_it_shares_its_room() -> None:
    """Said to be preempted, it would leave room only for the gang above it."""
    queues = (Queue("queues/a", guaranteed={GPUS: 4}), Queue("queues/b"))
    old = replace(running("old", "n0", gpus=8), queue="queues/b")
    reclaims = replace(gang("waits", pods=1, gpus=4), queue="queues/a")
    above = replace(urgent(gpus=4), queue="queues/b")
    result = answer(replace(cluster(old, above, reclaims), queues=queues), RECLAIM)
    assert len(result.bindings) == 2
    assert [e.kind for e in result.evictions] == [EvictionKind.RECLAIM]
    assert result.solution.proven


def test_the_minimum_of_a_gang_reclaims_where_its_extras_are_not_guaranteed() -> None:
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b", guaranteed={GPUS: 8}))
    theirs = [replace(running(f"old{i}", f"n{i}", gpus=8), queue="queues/b") for i in range(2)]
    mine = replace(gang("mine", pods=2, gpus=8), queue="queues/a")
    mine = replace(mine, groups=(replace(mine.groups[0], min_replicas=1),))
    result = answer(replace(cluster(*theirs, mine, nodes=2), queues=queues), RECLAIM)
    assert len(result.bindings) == len(result.evictions) == 1
    assert result.solution.proven


def test_nobody_goes_only_to_bring_a_queue_below_its_limit() -> None:
    """Extras would make room below the limit for a gang of their own priority, and nobody with a
    right to them can come.
    """
    queues = (Queue("queues/a", limit={GPUS: 10}), Queue("queues/b", limit={GPUS: 0}))
    peer = replace(running("peer", *["n0"] * 3, gpus=2, minimum=1), queue="queues/a")
    like = replace(urgent(priority=0), queue="queues/a")
    above = replace(gang("above", pods=1, gpus=2), queue="queues/b", priority=1)
    question = Snapshot((node("n0", used=6), node("n1")), (peer, like, above), queues=queues)
    result = answer(question, PREEMPT)
    assert not result.bindings
    assert result.solution.proven
