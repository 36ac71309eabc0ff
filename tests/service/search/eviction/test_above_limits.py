"""Queues in which more runs than their limit: nothing new comes before enough of it goes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import PodGang, Snapshot, Tolerance
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import units_of
from placement_service.search.incumbent import State
from tests.service.evictions import PREEMPT, RECLAIM, running, urgent
from tests.service.questions import gang, node
from tests.service.search.answering import answer
from tests.waiting import LONG


def question(*gangs: PodGang, limit: int = 16) -> Snapshot:
    """Three nodes that are full, and a free one; all gangs are in one queue."""
    nodes = (*(node(f"n{i}", used=8) for i in range(3)), node("n3"))
    mine = tuple(replace(g, queue="queues/q") for g in gangs)
    return Snapshot(nodes, mine, queues=(Queue("queues/q", limit={GPUS: limit}),))


OLD = running("old", "n0", "n1", "n2", gpus=8, minimum=1)


def test_as_much_goes_as_runs_beyond_the_limit_with_what_comes() -> None:
    result = answer(question(OLD, urgent()), PREEMPT)
    assert result.evicted() == ["old", "old"]
    assert [b.gang for b in result.bindings] == [urgent().name]
    assert result.solution.proven


@pytest.mark.parametrize("tier", ["admitted", "waiting", "extra", "disruption"])
def test_as_much_goes_where_something_may_be_spent_of_a_tier(tier: str) -> None:
    policy = replace(PREEMPT, tolerances=(Tolerance(tier, 0.1),))
    result = answer(question(OLD, urgent()), policy)
    assert result.evicted() == ["old", "old"]
    assert [b.gang for b in result.bindings] == [urgent().name]


def test_whole_gangs_go_where_the_limit_is_smaller_still() -> None:
    result = answer(question(OLD, urgent(), limit=8), PREEMPT)
    assert result.evicted() == ["old"] * 3
    assert result.solution.proven


def test_nothing_goes_for_what_does_not_fit_the_limit_alone() -> None:
    result = answer(question(OLD, urgent(), limit=7), PREEMPT)
    assert not result.evictions
    assert not result.bindings
    assert result.solution.proven


def test_who_may_evict_nobody_waits_and_that_is_proven() -> None:
    waiting = gang("waiting", pods=1, gpus=8)
    result = answer(question(OLD, waiting), PREEMPT)
    assert not result.evictions
    assert not result.bindings
    assert result.solution.proven


def test_what_is_guaranteed_is_reclaimed_within_the_limit_of_both() -> None:
    queues = (
        Queue("queues/both", limit={GPUS: 16}),
        Queue("queues/a", "queues/both"),
        Queue("queues/b", "queues/both", guaranteed={GPUS: 8}),
    )
    theirs = [replace(running(f"old{i}", f"n{i}", gpus=8), queue="queues/a") for i in range(3)]
    mine = replace(gang("mine", pods=1, gpus=8), queue="queues/b")
    result = answer(replace(question(), gangs=(*theirs, mine), queues=queues), RECLAIM)
    assert len(result.evictions) == 2
    assert [b.gang for b in result.bindings] == [mine.name]
    assert result.solution.proven


def test_a_plan_is_taken_where_all_is_within_the_limit() -> None:
    problem = formulate(question(OLD, urgent()), PREEMPT)
    assert problem.relaxation is not None
    home = problem.gangs[0].home
    for one in (problem, problem.relaxation):
        start = to_solution(one, {GangIdx(0): home})
        state = State(one, start, time.monotonic() + LONG, None)
        units = units_of({(0, 3): 1})
        assert not state.accept({GangIdx(0): home[:2], GangIdx(1): units})
        assert state.accept({GangIdx(0): home[:1], GangIdx(1): units})
