"""The oracle itself: what it may not overlook, and that it gives up when asked to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from placement_service.entities.devices import Device, DevicePartition, RequiredPartition
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    BoundPod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import TierName
from placement_service.judge.score import score
from tests.brute import TooLarge, optimum, rank
from tests.questions.everything import policies, questions
from tests.service.questions import GPU, gang, node

#: Of the profile in use.
EXAMPLES = settings().max_examples


def _running(name: str, on: str, *, gpus: int, queue: str = "") -> PodGang:
    pods = (BoundPod(f"namespaces/ml/pods/{name}", f"nodes/{on}"),)
    sets = (PodSet(PodTemplate({GPU: gpus, "pods": 1}), (), pods),)
    return PodGang(f"namespaces/ml/podgangs/{name}", (PodGroup("w", 1, sets),), queue=queue)


def test_pods_get_the_partition_that_they_insist_on() -> None:
    """Of two partitions the first has too little bandwidth."""
    partitions = (DevicePartition((0,), 0, 0), DevicePartition((1,), 0, 7))
    there = replace(node("n0", gpus=2), devices=(Device(0), Device(1)), partitions=partitions)
    wants = gang("wants", pods=1, gpus=1)
    [group] = wants.groups
    [pod_set] = group.pod_sets
    template = replace(pod_set.template, required_partition=RequiredPartition(False, 7))
    group = replace(group, pod_sets=(replace(pod_set, template=template),))
    best = optimum(Snapshot((there,), (replace(wants, groups=(group,)),)), Policy())
    assert [b.devices for b in best.plan] == [(1,)]


def test_what_goes_may_have_lain_outside_what_is_guaranteed() -> None:
    """The urgent gang fills the guarantee, so the one of its queue that goes loses nothing of it.

    Of the two that could go it is worth less, and goes.
    """
    inside = _running("inside", "n0", gpus=4, queue="queues/a")
    outside = _running("outside", "n1", gpus=5)
    urgent = replace(gang("urgent", pods=1, gpus=4), priority=1, queue="queues/a")
    question = Snapshot(
        (node("n0", gpus=4, used=4), node("n1", gpus=5, used=5)),
        (inside, outside, urgent),
        queues=(Queue("queues/a", guaranteed={GPUS: 4}),),
    )
    best = optimum(question, Policy(eviction=EvictionPolicy.RECLAIM))
    assert best.value(TierName.ADMITTED) == 0
    assert [e.gang for e in best.evictions] == [inside.name]


def test_it_gives_up_beyond_the_steps_that_it_may_take() -> None:
    question = Snapshot((node("n0"), node("n1")), (gang("many", pods=6, gpus=1, minimum=1),))
    assert optimum(question, Policy()).value(TierName.EXTRA) == 5
    with pytest.raises(TooLarge):
        optimum(question, Policy(), max_steps=5)


@settings(max_examples=EXAMPLES // 2)
@given(questions, policies)
def test_its_plan_is_worth_what_it_says(snapshot: Snapshot, policy: Policy) -> None:
    try:
        best = optimum(snapshot, policy)
    except TooLarge:
        return
    reached = score(snapshot, policy, best.plan, best.evictions)
    assert best.counts == reached.counts
    if not best.floors:
        assert best.rank == rank(reached)
