"""Gangs that move to other devices of their own nodes, so that others get those that they had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.devices import (
    Device,
    DevicePartition,
    DeviceShare,
    PartitionPolicy,
)
from placement_service.entities.request import (
    HOSTNAME,
    PODS,
    BoundPod,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Snapshot,
)
from placement_service.entities.solution import TierName
from placement_service.formulation.eviction import staying_or_moving
from tests.judged import oracle
from tests.service import nics
from tests.service.evictions import REPACK
from tests.service.questions import GPU
from tests.service.search.answering import answer

BOARD = ((0, 1), (2, 3), (4, 5), (6, 7), (0, 1, 2, 3), (4, 5, 6, 7))


def node(*used: int) -> Node:
    """Eight GPUs of which pods of two or four get such parts only."""
    devices = tuple(
        Device(i, used_milli=1000 * (i in used), used_memory_milli=1000 * (i in used))
        for i in range(8)
    )
    parts = tuple(map(DevicePartition, (*((i,) for i in range(8)), *BOARD)))
    return Node(
        "nodes/a", {HOSTNAME: "a"}, {GPU: 8, PODS: 110}, {GPU: len(used), PODS: len(used)},
        devices=devices, partitions=parts, partition_policy=PartitionPolicy.HONOR,
    )  # fmt: skip


def runs(name: str, *pods: tuple[int, ...], minimum: int | None = None) -> PodGang:
    bound = tuple(
        BoundPod(f"namespaces/ml/pods/{name}-{i}", "nodes/a", devices=devices)
        for i, devices in enumerate(pods)
    )
    sets = (PodSet(PodTemplate({GPU: len(pods[0]), PODS: 1}), (), bound),)
    least = len(pods) if minimum is None else minimum
    return PodGang(f"namespaces/ml/podgangs/{name}", (PodGroup("w", least, sets),))


def four() -> PodGang:
    sets = (PodSet(PodTemplate({GPU: 4, PODS: 1}), (Pod("namespaces/ml/pods/new"),)),)
    return PodGang("namespaces/ml/podgangs/new", (PodGroup("w", 1, sets),))


def test_a_pod_moves_beside_another_one() -> None:
    """One GPU of each half is taken, and the node is the only one."""
    found = answer(Snapshot((node(0, 4),), (runs("a", (0,)), runs("b", (4,)), four())), REPACK)
    assert len(found.bindings) == 1
    [moved] = found.evictions
    assert (moved.node, moved.to_node) == ("nodes/a", "nodes/a")
    assert not {*moved.to_devices} & {*found.bindings[0].devices}
    assert found.tier(TierName.DISRUPTION) == 1
    assert found.solution.proven


def test_a_pod_without_whole_gpus_that_stays_on_its_node_is_not_misplaced_anew() -> None:
    """Each half of the node has a device with a small share."""
    third = PodTemplate({PODS: 1}, device_share=DeviceShare(300, 300))
    devices = tuple(
        replace(d, used_milli=300, used_memory_milli=300) if d.index in (0, 4) else d
        for d in node().devices
    )
    there = replace(node(), requested={PODS: 2}, devices=devices)
    old = []
    for name, at in (("a", 0), ("b", 4)):
        gang = runs(name, (at,))
        [group] = gang.groups
        sets = (replace(group.pod_sets[0], template=third),)
        old.append(replace(gang, groups=(replace(group, pod_sets=sets),)))
    found = answer(Snapshot((there,), (*old, four())), REPACK)
    assert len(found.bindings) == len(found.evictions) == 1
    # The node of which the new gang uses whole GPUs counts, and the pod that moves does not.
    assert found.tier(TierName.FRAGMENTATION) == 1


def test_its_other_pods_come_to_their_nodes_again() -> None:
    """Pods without GPUs run on other nodes that have some, and no other node takes them."""
    others = tuple(
        Node(f"nodes/{name}", {HOSTNAME: name}, {GPU: 8, PODS: pods}, {GPU: 8, PODS: pods})
        for name, pods in (("b", 1), ("c", 2))
    )
    gang = runs("a", (0,))
    [group] = gang.groups
    bound = tuple(
        BoundPod(f"namespaces/ml/pods/cpu-{i}", f"nodes/{n}") for i, n in enumerate("ccb")
    )
    light = PodSet(PodTemplate({PODS: 1}), (), bound)
    whole = replace(group, min_replicas=4, pod_sets=(*group.pod_sets, light))
    mixed = replace(gang, groups=(whole,))
    fixed = replace(runs("b", (4,)), not_preemptible=True)
    there = replace(node(0, 4), allocatable={GPU: 8, PODS: 3})
    found = answer(Snapshot((there, *others), (mixed, fixed, four())), REPACK)
    assert found.evicted() == ["a"] * 4
    assert all(e.node == e.to_node for e in found.evictions)


def test_the_smaller_of_two_gangs_moves() -> None:
    pair = runs("pair", (0,), (1,))
    question = Snapshot((node(0, 1, 4),), (pair, runs("one", (4,)), four()))
    found = answer(question, REPACK)
    assert found.evicted() == ["one"]
    assert found.solution.proven


def test_a_gang_that_may_not_move_keeps_its_devices() -> None:
    gangs = [replace(runs(name, (i,)), not_preemptible=True) for name, i in (("a", 0), ("b", 4))]
    found = answer(Snapshot((node(0, 4),), (*gangs, four())), REPACK)
    assert not found.bindings
    assert found.solution.proven


def test_nobody_moves_where_a_part_is_free() -> None:
    found = answer(Snapshot((node(0, 1),), (runs("a", (0,)), runs("b", (1,)), four())), REPACK)
    assert not found.evictions
    assert len(found.bindings) == 1


def test_a_pod_with_a_better_device_than_it_asks_for_takes_another_one_of_its_node() -> None:
    there = nics.node("a", nics.A_FAST_ONE, nics.ANY, fast=1, slow=2)
    old = (nics.runs("one", ("a", nics.A_FAST_ONE)), nics.runs("two", ("a", None)))
    found = answer(Snapshot((there,), (*old, nics.waits("new"))), REPACK)
    assert found.evicted() == ["one"]
    assert found.solution.proven


def test_many_such_gangs_stay_and_no_proof_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staying_or_moving, "MOST_AGAIN", 1)
    found = answer(Snapshot((node(0, 4),), (runs("a", (0,)), runs("b", (4,)), four())), REPACK)
    assert not found.bindings
    assert not found.solution.proven


def test_extras_do_not_move_in_place_alone_and_no_proof_is_claimed() -> None:
    """Either pod would be enough. That is left out, so how many have to move stays open."""
    elastic = runs("a", (0,), (4,), minimum=1)
    found = answer(Snapshot((node(0, 4),), (elastic, four())), REPACK)
    assert found.evicted() == ["a", "a"]
    assert not found.solution.proven


def test_nothing_is_proven_where_columns_leave_plans_out() -> None:
    """Three pods of two halves each have room beside the one that runs, and columns say no."""
    devices = (
        Device(0, used_milli=900, used_memory_milli=900),
        *(Device(i, used_milli=0, used_memory_milli=0) for i in (1, 2, 3)),
    )
    board = replace(node(), allocatable={GPU: 4, PODS: 110}, devices=devices, partitions=())
    third = PodTemplate({PODS: 1}, device_share=DeviceShare(300, 300))
    halves = PodTemplate({PODS: 1}, device_share=DeviceShare(500, 500, count=2))
    old = replace(runs("old", (0,)).groups[0].pod_sets[0], template=third)
    new = PodSet(halves, tuple(Pod(f"namespaces/ml/pods/new-{i}") for i in range(3)))
    gangs = (
        PodGang("namespaces/ml/podgangs/old", (PodGroup("w", 1, (old,)),)),
        PodGang("namespaces/ml/podgangs/new", (PodGroup("w", 3, (new,)),)),
    )
    question = Snapshot((replace(board, requested={PODS: 1}),), gangs)
    assert len(oracle(question, REPACK).plan) == 3
    found = answer(question, REPACK)
    assert len(found.bindings) == 3 or not found.solution.proven
