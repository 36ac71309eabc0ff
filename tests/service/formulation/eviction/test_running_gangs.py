"""Running gangs become gangs to decide about, and keep the room that no gang may take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.devices import Device, DeviceShare
from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    PODS,
    PodGang,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.entities.selectors import LabelSelector
from placement_service.formulation.eviction.running_gangs import open_running_gangs
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.open_gangs import MUST_RUN
from tests.service.evictions import PREEMPT, RECLAIM, REPACK, cluster, opened, running, urgent
from tests.service.questions import GPU, gang, node


def test_without_a_policy_nothing_is_open() -> None:
    question = cluster(running("old", "n0", gpus=8), urgent())
    assert open_running_gangs(question, Policy()).snapshot is question


def test_a_gang_of_lower_priority_is_open_with_its_room_free() -> None:
    result = open_running_gangs(cluster(running("old", "n0", gpus=8), urgent()), PREEMPT)
    assert result.opened == {0}
    assert [(h.node, h.pods) for h in result.homes] == [(0, 1)]
    assert result.snapshot.nodes[0].requested.get(GPU, 0) == 0
    [pod_set] = result.snapshot.gangs[0].groups[0].pod_sets
    assert [pod.name for pod in pod_set.pods] == ["namespaces/ml/pods/old-0"]


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param(running("old", "n0", priority=100), id="of the same priority"),
        pytest.param(replace(running("old", "n0"), not_preemptible=True), id="not preemptible"),
        pytest.param(running("old", "n0", minimum=2), id="that lacks a pod"),
        pytest.param(running("old", "gone"), id="on a node that is not there"),
    ],
)
def test_a_gang_stays_closed(victim: PodGang) -> None:
    assert not opened(cluster(victim, urgent()))


def test_a_budget_that_allows_nothing_keeps_its_gangs() -> None:
    selector = LabelSelector((("app", "old"),))
    budget = DisruptionBudget("namespaces/ml/poddisruptionbudgets/b", selector, 0)
    question = cluster(running("old", "n0", gpus=8), urgent())
    assert not opened(replace(question, disruption_budgets=(budget,)))
    assert opened(replace(question, disruption_budgets=(replace(budget, allowed=1),)))


def test_a_gang_that_never_preempts_opens_nothing() -> None:
    waiting = replace(urgent(), never_preempts=True)
    assert not opened(cluster(running("old", "n0", gpus=8), waiting))


def test_the_minimum_of_a_young_gang_has_to_run() -> None:
    young = replace(running("young", "n0", "n0", minimum=1), start=1000, minimum_run_time=600)
    question = replace(cluster(young, urgent(gpus=4)), as_of=1500)
    assert open_running_gangs(question, PREEMPT).snapshot.gangs[0].priority == MUST_RUN
    later = replace(question, as_of=1600)
    assert open_running_gangs(later, PREEMPT).snapshot.gangs[0].priority == 0


def test_room_of_victims_serves_only_higher_priorities() -> None:
    """Of two waiting gangs only the one above the victim counts against less room."""
    middle = replace(gang("middle", pods=1, gpus=4), priority=10)
    victim = running("old", "n0", gpus=8, priority=10)
    result = open_running_gangs(cluster(victim, urgent(), middle), PREEMPT)
    [column] = [r for r in result.snapshot.nodes[0].allocatable if r.endswith(f" {GPU}")]
    asks = [g.groups[0].pod_sets[0].template.requests for g in result.snapshot.gangs]
    assert result.snapshot.nodes[0].free(column) == 0
    assert [column in a for a in asks] == [False, False, True]


def test_a_queue_below_its_guarantee_reclaims_from_one_above() -> None:
    queues = (
        Queue("queues/a", guaranteed={GPUS: 8}),
        Queue("queues/b", guaranteed={GPUS: 8}),
    )
    theirs = replace(running("old", "n0", "n1", gpus=8), queue="queues/b")
    mine = replace(urgent(priority=0), queue="queues/a")
    question = replace(cluster(theirs, mine, nodes=2), queues=queues)
    assert not opened(question, PREEMPT)
    assert opened(question, RECLAIM) == [0]
    within = replace(running("old", "n0", gpus=8), queue="queues/b")
    assert not opened(replace(question, gangs=(within, mine)), RECLAIM)


def test_reclaiming_compares_the_first_queues_that_differ() -> None:
    queues = (
        Queue("queues/left", guaranteed={GPUS: 0}),
        Queue("queues/a", "queues/left", guaranteed={GPUS: 8}),
        Queue("queues/right", guaranteed={GPUS: 0}),
        Queue("queues/b", "queues/right", guaranteed={GPUS: 8}),
    )
    theirs = replace(running("old", "n0", gpus=16), queue="queues/b")
    mine = replace(urgent(priority=0), queue="queues/a")
    question = replace(cluster(theirs, mine), queues=queues)
    rights = EvictionRights(question, RECLAIM)
    assert rights.kind(rights.winner(mine), rights.victim(theirs)) is None


def test_what_is_moved_has_to_run_whole() -> None:
    result = open_running_gangs(
        cluster(running("old", "n0", "n1", minimum=1), urgent(), nodes=2), REPACK
    )
    [old, _] = result.snapshot.gangs
    assert old.priority == MUST_RUN
    assert old.groups[0].min_replicas == 2
    assert result.minimums == {(0, 0): 1}
    assert sum(h.pods for h in result.homes) == 2


def test_a_share_of_a_gpu_gives_way_also_where_not_all_that_wait_may_use_its_room() -> None:
    old = running("old", "n0", gpus=0)
    [group] = old.groups
    [pod_set] = group.pod_sets
    template = PodTemplate({PODS: 1}, device_share=DeviceShare(500, 500))
    [pod] = pod_set.bound_pods
    sets = (PodSet(template, (), (replace(pod, devices=(0,)),)),)
    shared = replace(old, groups=(replace(group, pod_sets=sets),))
    devices = (Device(0, used_milli=500, used_memory_milli=500), Device(1))
    question = Snapshot((replace(node("n0", gpus=2), devices=devices),), (shared, urgent(gpus=2)))
    assert opened(question) == [0]
    other = replace(gang("other", pods=1, gpus=1), priority=0)
    assert opened(replace(question, gangs=(*question.gangs, other))) == [0]


@pytest.mark.parametrize(
    ("priority", "minimum_run_times", "minimum_runs", "all_said"),
    [
        # It has not run long enough for any gang with a right to it, but its extras may be
        # reclaimed.
        pytest.param(0, (0, 600), True, True, id="only extras are reclaimed"),
        # As a whole for the more important one, its extras also for the guarantee.
        pytest.param(5, (0, 600), False, True, id="one right says more"),
        pytest.param(5, (600, 0), False, False, id="reclaimed whole, extras preempted"),
        pytest.param(5, (600, 600), True, True, id="only extras by both rights"),
    ],
)
def test_what_may_be_reclaimed_of_a_young_gang(
    priority: int, minimum_run_times: tuple[int, int], minimum_runs: bool, all_said: bool
) -> None:
    """Where its class does not say all rights, bounds are those of looser ones."""
    preempt, reclaim = minimum_run_times
    young = replace(
        running("young", "n0", "n0", minimum=1),
        start=1000,
        minimum_run_time=preempt,
        minimum_run_time_before_reclaim=reclaim,
        queue="queues/b",
    )
    mine = replace(urgent(gpus=4, priority=priority), queue="queues/a")
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b"))
    result = open_running_gangs(replace(cluster(young, mine), queues=queues, as_of=1500), RECLAIM)
    assert result.opened == {0}
    assert (result.snapshot.gangs[0].priority == MUST_RUN) is minimum_runs
    assert (result.relaxed is None) is all_said
    assert result.exact
