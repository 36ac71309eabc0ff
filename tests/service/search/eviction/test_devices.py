"""Who gives way where nodes list their GPUs: those whose devices are of use together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.devices import Device, DevicePartition, DeviceShare
from placement_service.entities.queues import GPUS, MILLIGPUS, Queue
from placement_service.entities.request import (
    PODS,
    BoundPod,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import TierName
from tests.brute import optimum
from tests.judged import no_answer_is_false
from tests.questions.ask import ask
from tests.questions.everything import draw
from tests.service.boards import board, near, pods_of, shared, with_nics
from tests.service.evictions import PREEMPT, RECLAIM, REPACK, running, urgent
from tests.service.questions import GPU, gang, node
from tests.service.search.answering import answer


def has(
    name: str, on: str, *devices: int, share: DeviceShare | None = None, priority: int = 0
) -> PodGang:
    """A gang of one running pod with these devices."""
    asks = {PODS: 1} if share else {PODS: 1, GPU: len(devices)}
    pod = BoundPod(f"namespaces/ml/pods/{name}", f"nodes/{on}", devices=devices)
    sets = (PodSet(PodTemplate(asks, {"app": name}, device_share=share), (), (pod,)),)
    return PodGang(f"namespaces/ml/podgangs/{name}", (PodGroup("w", 1, sets),), priority)


def singles(priorities: str) -> list[PodGang]:
    """A gang on each GPU of a board."""
    return [has(f"s{i}", "h0", i, priority=int(p)) for i, p in enumerate(priorities)]


@pytest.mark.parametrize(
    ("priorities", "gpus", "want"),
    [
        pytest.param("99990000", 4, {4, 5, 6, 7}, id="the four that are a partition"),
        pytest.param("90999999", 1, {1}, id="the one that may"),
        pytest.param("09099900", 2, {6, 7}, id="not two that are none"),
        pytest.param("09090909", 2, set(), id="nobody for nothing"),
    ],
)
def test_those_go_whose_gpus_form_a_partition(priorities: str, gpus: int, want: set[int]) -> None:
    question = Snapshot((board(*range(8)),), (*singles(priorities), urgent(gpus, 5)))
    result = answer(question, PREEMPT)
    assert {int(e.pod[-1]) for e in result.evictions} == want
    assert {d for b in result.bindings for d in b.devices} == want
    assert result.solution.proven


HALF = DeviceShare(500, 500)


def halves(*priorities: int) -> list[PodGang]:
    """Two gangs with half of each GPU."""
    return [has(f"s{i}", "h0", i // 2, share=HALF, priority=p) for i, p in enumerate(priorities)]


def asking(share: DeviceShare, pods: int = 1) -> PodGang:
    """A gang of pods that each want a share of a GPU."""
    whole = gang("urgent", pods=pods, gpus=1)
    [group] = whole.groups
    [pod_set] = group.pod_sets
    part = replace(pod_set, template=PodTemplate({PODS: 1}, device_share=share))
    return replace(whole, groups=(replace(group, pod_sets=(part,)),))


def test_both_shares_of_one_gpu_go_for_a_whole_one() -> None:
    question = Snapshot((shared(1000, 1000),), (*halves(0, 9, 0, 0), urgent(1, 5)))
    result = answer(question, PREEMPT)
    assert result.evicted() == ["s2", "s3"]
    assert [b.devices for b in result.bindings] == [(1,)]
    assert result.solution.proven


def test_one_share_goes_for_another() -> None:
    mine = replace(asking(HALF), priority=5)
    result = answer(Snapshot((shared(1000, 1000),), (*halves(9, 9, 9, 0), mine)), PREEMPT)
    assert result.evicted() == ["s3"]
    assert [b.devices for b in result.bindings] == [(1,)]


def test_what_shares_leave_is_for_those_alone_who_may_evict_them() -> None:
    """Both pods of the pair go for the urgent one, and half of their GPU stays empty."""
    pair = has("pair", "h0", 0, share=HALF)
    [group] = pair.groups
    [pod_set] = group.pod_sets
    twin = BoundPod("namespaces/ml/pods/twin", "nodes/h0", devices=(0,))
    pods = replace(pod_set, bound_pods=(*pod_set.bound_pods, twin))
    pair = replace(pair, groups=(PodGroup("w", 2, (pods,)),))
    others = [has(f"s{i}", "h0", 1, share=HALF, priority=9) for i in range(2)]
    [asked] = asking(HALF).groups
    low = PodGang("namespaces/ml/podgangs/low", (replace(asked, pod_sets=(_named("low", asked),)),))
    mine = replace(asking(HALF), priority=5)
    question = Snapshot((shared(1000, 1000),), (pair, *others, low, mine))
    result = answer(question, PREEMPT)
    assert result.evicted() == ["pair", "pair"]
    assert [b.gang for b in result.bindings] == [mine.name]
    no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)


@pytest.mark.parametrize(("wanted", "gone"), [(600, ["s0"]), (400, ["s1"])])
def test_shares_that_do_not_divide_a_gpu_go_for_their_like(wanted: int, gone: list[str]) -> None:
    """What one of them leaves is not for another gang of their priority."""
    milli = 600, 400
    old = [has(f"s{i}", "h0", 0, share=DeviceShare(m, m)) for i, m in enumerate(milli)]
    mine = replace(asking(DeviceShare(wanted, wanted)), priority=5)
    low = renamed(asking(DeviceShare(400, 400)), "low")
    result = answer(Snapshot((shared(1000),), (*old, low, mine)), PREEMPT)
    assert result.evicted() == gone
    assert [b.gang for b in result.bindings] == [mine.name]
    assert result.solution.proven


def test_who_is_on_the_switch_of_a_network_device_goes() -> None:
    """Another gang, which may evict nobody, gets the GPU that is free already."""
    there = with_nics((1, 1), (2, 0))
    busy = tuple(
        replace(d, used_milli=1000, used_memory_milli=1000) if d.index < 2 else d
        for d in there.devices
    )
    full = replace(node("h0", gpus=3, used=2), devices=busy)
    old = [has(f"s{i}", "h0", i) for i in range(2)]
    mine = replace(pods_of("near", 1, near(1, 1)), priority=5)
    result = answer(Snapshot((full,), (*old, renamed(urgent(1, 0), "low"), mine)), PREEMPT)
    assert result.evicted() == ["s0"]
    assert sorted(b.devices for b in result.bindings) == [(0,), (2,)]
    assert result.solution.proven


def _named(name: str, group: PodGroup) -> PodSet:
    [pod_set] = group.pod_sets
    return replace(pod_set, pods=(Pod(f"namespaces/ml/pods/{name}"),))


def test_memory_that_stays_leaves_the_compute_of_a_gpu() -> None:
    """Two pods with half of the memory of a GPU each, and two that want half of its compute."""
    old = [has(f"s{i}", "h0", 0, share=DeviceShare(0, 500)) for i in range(2)]
    mine = replace(asking(DeviceShare(500, 0), pods=2), priority=5)
    full = replace(node("h0", gpus=1), devices=(Device(0, used_memory_milli=1000),))
    result = answer(Snapshot((full,), (*old, mine)), PREEMPT)
    assert len(result.bindings) == 2
    assert not result.evictions


def test_more_shares_than_can_be_told_apart_leave_some_in_place() -> None:
    """Sixteen pods, each of which may go alone, on eight GPUs: not all of them are open."""
    question = Snapshot((shared(*[1000] * 8),), (*halves(*[0] * 16), urgent(1, 5)))
    result = answer(question, PREEMPT)
    assert len(result.evictions) == 2
    assert len(result.bindings) == 1
    assert not result.solution.proven


def test_a_move_makes_a_partition_whole() -> None:
    question = Snapshot(
        (board(0, 4), board(*range(1, 8), name="h1")),
        (has("a", "h0", 0), has("b", "h0", 4), urgent(4, 0)),
    )
    result = answer(question, REPACK)
    assert [e.to_node for e in result.evictions] == ["nodes/h1"]
    assert [len(b.devices) for b in result.bindings] == [4]


def test_a_move_of_a_share_makes_a_gpu_whole() -> None:
    question = Snapshot(
        (shared(500, 500), shared(500, name="h1")),
        (has("a", "h0", 0, share=HALF), has("b", "h0", 1, share=HALF), urgent(1, 0)),
    )
    result = answer(question, REPACK)
    assert len(result.evictions) == 1
    assert len(result.bindings) == 1


def test_room_is_made_within_the_limit_of_a_queue() -> None:
    """Two gangs that wait and are in one queue, for which running gangs go one by one."""
    queues = (Queue("queues/q", limit={GPUS: 2}),)
    one = replace(urgent(1), queue="queues/q")
    two = replace(gang("two", pods=1, gpus=2), priority=100, queue="queues/q")
    question = Snapshot(
        (node("n0", used=8),), (running("old", "n0", "n0", gpus=4), one, two), queues=queues
    )
    result = answer(question, Policy(eviction=PREEMPT.eviction))
    assert [b.gang[-3:] for b in result.bindings] == ["two"]


@pytest.mark.parametrize(("limit", "gone"), [(2, ["s0", "s1"]), (3, ["s0"])])
def test_a_queue_above_its_limit_changes_beside_shares_that_wait(
    limit: int, gone: list[str]
) -> None:
    """Four GPUs run in it, for one of which the room of one gang would be enough."""
    queues = (Queue("queues/q", limit={GPUS: limit}),)
    old = [replace(has(f"s{i}", f"h{i}", 0, 1), queue="queues/q") for i in range(2)]
    mine = replace(urgent(1, 5), queue="queues/q")
    shares = renamed(asking(HALF, pods=9), "shares")
    nodes = tuple(board(*range(2), gpus=2, name=f"h{i}") for i in range(2))
    result = answer(Snapshot(nodes, (*old, mine, shares), queues=queues), PREEMPT)
    assert result.evicted() == gone
    assert [b.gang for b in result.bindings] == [mine.name]
    assert result.solution.proven


def test_half_a_gpu_that_is_guaranteed_is_reclaimed() -> None:
    half = {MILLIGPUS: 500}
    queues = (Queue("queues/a", guaranteed=half), Queue("queues/b", guaranteed=half))
    theirs = [replace(one, queue="queues/b") for one in halves(0, 0)]
    mine = replace(asking(HALF), queue="queues/a")
    result = answer(Snapshot((shared(1000),), (*theirs, mine), queues=queues), RECLAIM)
    assert len(result.evictions) == 1
    assert result.solution.proven
    # Both halves would leave b with less than it is guaranteed.
    two = replace(asking(HALF, pods=2), queue="queues/a")
    assert not answer(Snapshot((shared(1000),), (*theirs, two), queues=queues), RECLAIM).evictions


def test_a_gpu_that_shares_leave_is_not_for_those_who_may_not_evict_them() -> None:
    """Two GPUs, one shared by gangs of priority 0: another gang of priority 0 gets none."""
    question = Snapshot(
        (shared(1000, 0),), (*halves(0, 0), urgent(1, 0), renamed(urgent(1, 0), "other"))
    )
    result = answer(question, PREEMPT)
    assert not result.evictions
    assert [b.devices for b in result.bindings] == [(1,)]
    assert result.solution.proven


def test_what_devices_bound_is_what_each_gang_may_reclaim() -> None:
    """A queue may have one board more. The first of two gangs fits none, the other could come."""
    queues = (Queue("queues/a", guaranteed={GPUS: 8}), Queue("queues/b", guaranteed={GPUS: 8}))
    nodes = tuple(board(*range(8), name=f"h{i}") for i in (0, 1))
    theirs = [replace(has(f"s{i}", f"h{i}", *range(8)), queue="queues/b") for i in (0, 1)]
    first, other = (
        replace(renamed(urgent(8, 0), name), queue="queues/a") for name in ("first", "other")
    )
    [group] = first.groups
    [pods] = group.pod_sets
    nowhere = replace(pods, template=replace(pods.template, node_selector=(("is", "nowhere"),)))
    first = replace(first, groups=(replace(group, pod_sets=(nowhere,)),))
    result = answer(Snapshot(nodes, (*theirs, first, other), queues=queues), RECLAIM)
    [admitted] = [t for t in result.solution.tiers if t.name is TierName.ADMITTED]
    assert admitted.bound is not None
    assert admitted.bound >= 8


def renamed(of: PodGang, name: str) -> PodGang:
    (group,) = of.groups
    (pods,) = group.pod_sets
    other = tuple(p._replace(name=f"namespaces/ml/pods/{name}") for p in pods.pods)
    return replace(
        of,
        name=f"namespaces/ml/podgangs/{name}",
        groups=(replace(group, pod_sets=(replace(pods, pods=other),)),),
    )


@pytest.mark.parametrize(
    ("elsewhere", "admitted"),
    [
        pytest.param(0, 0, id="no room but on devices that it would get no more"),
        pytest.param(2, 8, id="room elsewhere"),
    ],
)
def test_a_pod_on_devices_that_are_no_partition_stays_only_with_its_gang(
    elsewhere: int, admitted: int
) -> None:
    """Both pods move or none, and of four free GPUs of the board one pair is a partition."""
    old = running("old", "h0", "n1", gpus=2)
    (group,) = old.groups
    (pods,) = group.pod_sets
    at_odds = tuple(
        replace(pod, devices=(1, 2)) if pod.node == "nodes/h0" else pod for pod in pods.bound_pods
    )
    old = replace(old, groups=(replace(group, pod_sets=(replace(pods, bound_pods=at_odds),)),))
    nodes = (board(0, 1, 2, 3, 6, 7), node("n1", used=2), node("n2", used=8 - elsewhere))
    result = answer(Snapshot(nodes, (old, urgent())), REPACK)
    assert result.tier(TierName.ADMITTED) == admitted
    assert {e.to_node for e in result.evictions} == (
        {"nodes/h0", "nodes/n2"} if elsewhere else set()
    )


@pytest.mark.parametrize("small", [1, 2])
def test_gangs_that_may_evict_nobody_leave_the_proof_whole(small: int) -> None:
    """One partition has two pods of a gang, the other one of another gang, and the waiting gang
    fits.
    """
    pair = tuple(BoundPod(f"namespaces/ml/pods/pair{i}", "nodes/h0", devices=(i,)) for i in (0, 1))
    sets = (PodSet(PodTemplate({PODS: 1, GPU: 1}), (), pair),)
    two = PodGang("namespaces/ml/podgangs/pair", (PodGroup("w", 2, sets),))
    low = [renamed(urgent(1, 0), f"low{i}") for i in range(small)]
    question = Snapshot((board(0, 1, 4),), (two, has("old", "h0", 4), *low, urgent(4, 5)))
    result = answer(question, PREEMPT)
    assert result.evicted() == ["old"]
    assert len(result.bindings) == 1 + small
    assert result.solution.proven


def test_a_share_that_counts_with_another_one_does_not_stay_alone() -> None:
    """Elsewhere is room for one of two shares of a GPU. The other one keeps its node from being
    empty, though columns count both as one while they stay."""
    share = DeviceShare(250, 250)
    pods = [BoundPod(f"namespaces/ml/pods/old{i}", "nodes/h0", devices=(0,)) for i in range(2)]
    sets = (PodSet(PodTemplate({PODS: 1}, {"app": "old"}, device_share=share), (), tuple(pods)),)
    old = PodGang("namespaces/ml/podgangs/old", (PodGroup("w", 2, sets),))
    nodes = (shared(500, 0), shared(750, name="h1"))
    result = answer(Snapshot(nodes, (old, urgent(2))), REPACK)
    assert (result.bindings, result.evictions) == ((), ())
    larger = (shared(500, 0), shared(500, name="h1"))
    result = answer(Snapshot(larger, (old, urgent(2))), REPACK)
    assert {e.to_node for e in result.evictions} == {"nodes/h1"}
    assert len(result.bindings) == 1


def test_a_gang_that_runs_on_no_partition_may_stay_there() -> None:
    """Nothing comes beside one on GPUs of two pairs, nor may the gangs leave: that is the best."""
    table = tuple(DevicePartition((i,)) for i in range(4))
    there = replace(board(*range(4), gpus=4), partitions=table)
    gangs = (has("odd", "h0", 0, 2), has("even", "h0", 1, 3), asking(DeviceShare(600, 600)))
    result = answer(Snapshot((there,), gangs), REPACK)
    assert not result.evictions
    assert result.solution.proven
    assert result.solution.tiers[0].value == 0


def test_a_share_moves_beside_one_that_fills_its_gpu() -> None:
    """Shares of 600 and 400 thousandths do not divide a GPU."""
    old = [
        has(name, on, 0, share=DeviceShare(m, m))
        for name, on, m in (("a", "h0", 600), ("b", "h1", 400))
    ]
    nodes = (shared(600), shared(400, name="h1"))
    result = answer(Snapshot(nodes, (*old, urgent(1))), REPACK)
    assert [(e.pod[-1], e.to_node) for e in result.evictions] == [("a", "nodes/h1")]
    assert [b.node for b in result.bindings] == ["nodes/h0"]
    assert result.solution.proven


def test_who_is_on_the_switch_of_a_network_device_moves() -> None:
    there = with_nics((1, 1))
    busy = replace(there.devices[0], used_milli=1000, used_memory_milli=1000)
    nodes = (replace(node("h0", gpus=1, used=1), devices=(busy,)), node("h1", gpus=1))
    gangs = (has("old", "h0", 0), pods_of("near", 1, near(1, 1)))
    result = answer(Snapshot(nodes, gangs), REPACK)
    assert [e.to_node for e in result.evictions] == ["nodes/h1"]
    assert len(result.bindings) == 1
    assert result.solution.proven


def test_a_gang_on_no_partition_stays_beside_shares_that_do_not_divide_a_gpu() -> None:
    table = tuple(DevicePartition((i,)) for i in range(3))
    there = replace(board(0, 1, gpus=3), partitions=table)
    shares = [
        renamed(asking(DeviceShare(m, m)), name) for name, m in (("large", 600), ("small", 400))
    ]
    question = Snapshot((there,), (has("odd", "h0", 0, 1), *shares))
    result = answer(question, REPACK)
    assert not result.evictions
    assert len(result.bindings) == 2
    no_answer_is_false(optimum(question, REPACK), question, REPACK)


def test_pods_of_whole_gpus_stay_beside_shares_that_do_not_divide_one() -> None:
    """They are alike wherever they run, and count like pods that come."""
    pods = tuple(BoundPod(f"namespaces/ml/pods/old{i}", "nodes/h0", devices=(i,)) for i in (0, 1))
    sets = (PodSet(PodTemplate({PODS: 1, GPU: 1}), (), pods),)
    old = PodGang("namespaces/ml/podgangs/old", (PodGroup("w", 2, sets),))
    shares = [renamed(asking(DeviceShare(m, m)), f"share{m}") for m in (600, 400)]
    question = Snapshot((board(0, 1, gpus=3),), (old, *shares))
    result = answer(question, REPACK)
    assert not result.evictions
    assert len(result.bindings) == 2
    assert result.solution.proven


def test_no_bound_is_false_where_pods_are_alike_wherever_they_run() -> None:
    """A random question with network devices and whole GPUs that may move."""
    assert not ask(223, draw(6001, 223)).fault


def test_gpus_that_a_victim_leaves_are_not_for_all_where_others_are_not_healthy() -> None:
    """Two more GPUs are free by their number, but neither is healthy."""
    listed = board(2, 3, gpus=4)
    sick = [replace(d, healthy=d.index > 1) for d in listed.devices]
    old = has("old", "h0", 2, 3)
    modest = replace(urgent(2), never_preempts=True)
    also = replace(gang("also", pods=1, gpus=4), priority=50)
    question = Snapshot((replace(listed, devices=tuple(sick)),), (old, modest, also))
    assert no_answer_is_false(optimum(question, PREEMPT), question, PREEMPT)
    assert not answer(question, PREEMPT).evictions
