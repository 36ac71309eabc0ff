"""Where a queue is full, running gangs of that queue give way, though there is room elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import PodGang, Snapshot
from tests.service.evictions import PREEMPT, running, urgent
from tests.service.heuristic.first_plans import evicted, first_plan
from tests.service.questions import gang, node


def full(limit: int, *gangs: PodGang, wants: PodGang | None = None) -> Snapshot:
    """Gangs run in a queue below "a"; a gang of "a" waits; one of four nodes is free."""
    queues = (Queue("queues/a", limit={GPUS: limit}), Queue("queues/b", "queues/a"), Queue("c"))
    mine = (replace(one, queue=one.queue or "queues/b") for one in gangs)
    waits = replace(wants or urgent(), queue="queues/a")
    nodes = tuple(node(f"n{i}", used=8 * (i < 3)) for i in range(4))
    return Snapshot(nodes, (*mine, waits), queues=queues)


def elsewhere(*nodes: str, gpus: int = 4) -> PodGang:
    """A gang of another queue, whose pods would be cheaper."""
    return replace(running("elsewhere", *nodes, gpus=gpus, priority=-9), queue="c")


def test_the_least_important_of_a_full_queue_give_way() -> None:
    low, high = running("low", "n0", "n0"), running("high", "n1", "n1", priority=5)
    plan = first_plan(full(16, high, low, elsewhere("n2")), PREEMPT)
    assert evicted(plan) == ["low", "low"]
    assert len(plan.bindings) == 1


def test_no_more_extras_go_than_a_queue_lacks() -> None:
    elastic = running("elastic", *["n0"] * 4, *["n1"] * 4, gpus=2, minimum=1)
    wants = replace(urgent(gpus=3), priority=9)
    assert evicted(first_plan(full(16, elastic, wants=wants), PREEMPT)) == ["elastic"] * 2


def test_nobody_goes_who_may_stay() -> None:
    """They are as important as the gang that waits."""
    equal = running("equal", "n0", "n0", priority=100)
    low = running("low", "n1", "n1", gpus=1)
    assert not first_plan(full(10, equal, low), PREEMPT).evictions


@pytest.mark.parametrize(("limit", "placed"), [(12, True), (8, True), (7, False)])
def test_a_queue_above_its_limit_has_to_come_below_it(limit: int, placed: bool) -> None:
    low, lower = running("low", "n0", gpus=4), running("lower", "n1", "n1", priority=-1)
    plan = first_plan(full(limit, low, lower), PREEMPT)
    assert bool(plan.bindings) == placed
    assert len(plan.evictions) == {12: 2, 8: 3, 7: 0}[limit]


def test_a_queue_above_its_limit_keeps_its_gangs_when_others_come() -> None:
    """The gang in the way is of another queue, and cheaper."""
    asked = full(4, running("over", "n0", "n0"), elsewhere("n1", "n1"))
    nodes = tuple(replace(n, requested={"nvidia.com/gpu": 8}) for n in asked.nodes)
    waits = replace(gang("urgent", pods=2, gpus=4), priority=100, queue="c")
    plan = first_plan(replace(asked, nodes=nodes, gangs=(*asked.gangs[:-1], waits)), PREEMPT)
    assert evicted(plan) == ["elsewhere", "elsewhere"]
