"""Safe from reclaim: for a minimum run time, or in queues from which nothing is reclaimed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionKind
from placement_service.entities.queues import GPUS, Queue
from tests.service.evictions import RECLAIM, cluster, running, urgent
from tests.service.search.answering import answer


def test_extras_of_a_gang_that_has_not_run_long_enough_to_be_reclaimed_are_reclaimed() -> None:
    young = replace(
        running("young", "n0", "n0", minimum=1),
        start=1000,
        minimum_run_time_before_reclaim=600,
        queue="queues/b",
    )
    mine = replace(urgent(gpus=4, priority=0), queue="queues/a")
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    question = replace(cluster(young, mine), queues=queues, as_of=1500)
    found = answer(question, RECLAIM)
    assert found.evicted() == ["young"]
    assert [b.gang for b in found.bindings] == [mine.name]
    assert found.solution.proven


@pytest.mark.parametrize(
    ("mine", "times", "goes"),
    [
        # The time of the first queue that differs counts, whatever the queues below it say.
        pytest.param("queues/a", {"queues/b": 600}, False, id="not yet for another tree"),
        pytest.param("queues/a", {"queues/bx": 600}, True, id="not said for another tree"),
        pytest.param("queues/by", {"queues/bx": 600}, False, id="not yet for a sibling"),
        pytest.param("queues/by", {"queues/b": 600}, True, id="not said for a sibling"),
        pytest.param("queues/a", {"queues/b": 500}, True, id="over"),
    ],
)
def test_the_queue_that_is_compared_says_how_long_a_gang_is_safe_from_reclaim(
    mine: str, times: dict[str, int], goes: bool
) -> None:
    tree = {"queues/a": "", "queues/b": "", "queues/bx": "queues/b", "queues/by": "queues/b"}
    queues = tuple(
        Queue(
            name,
            parent,
            guaranteed={GPUS: 8} if name == mine else {},
            minimum_run_time_before_reclaim=times.get(name, 0),
        )
        for name, parent in tree.items()
    )
    old = replace(running("old", "n0", gpus=8, minimum=1), start=1000, queue="queues/bx")
    waiting = replace(urgent(priority=0), queue=mine)
    found = answer(replace(cluster(old, waiting), queues=queues, as_of=1500), RECLAIM)
    assert found.evicted() == (["old"] if goes else [])
    assert found.solution.proven


def test_nothing_is_reclaimed_from_a_queue_that_is_not_reclaimable() -> None:
    old = replace(running("old", "n0", gpus=8, minimum=1), queue="queues/b")
    mine = replace(urgent(priority=0), queue="queues/a")
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b", not_reclaimable=True))
    question = replace(cluster(old, mine), queues=queues)
    found = answer(question, RECLAIM)
    assert (found.bindings, found.evicted()) == ((), [])
    assert found.solution.proven
    above = replace(question, gangs=(old, replace(mine, priority=10)))
    assert [e.kind for e in answer(above, RECLAIM).evictions] == [EvictionKind.PREEMPT]
