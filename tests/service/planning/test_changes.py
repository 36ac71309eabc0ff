"""Snapshots in which pods run or are gone, and what their nodes then hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.devices import Device
from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.request import HOSTNAME, Effect, PodGang, Snapshot, Taint
from placement_service.planning import changes
from placement_service.planning.changes import Place
from placement_service.planning.explain import carried_out
from placement_service.planning.levels import inside
from tests.service.evictions import running
from tests.service.questions import gang, node

POD = "namespaces/ml/pods/mine-0"
GPUS_ONLY = Taint("gpu", "", Effect.NO_SCHEDULE)


def with_domain(one: PodGang) -> PodGang:
    [group] = one.groups
    [pods] = group.pod_sets
    pods = replace(pods, template=replace(pods.template, compute_domain="ml/d"))
    return replace(one, groups=(replace(group, pod_sets=(pods,)),))


def test_a_pod_that_comes_and_goes_leaves_others_in_their_compute_domain() -> None:
    at = replace(node("n0", used=1), compute_domain="ml/d", compute_domain_pods=1)
    before = Snapshot((at,), (with_domain(gang("mine", pods=1, gpus=1)),))
    there = changes.assigned(before, {POD: Place("nodes/n0")})
    assert there.nodes[0].compute_domain_pods == 2
    after = changes.without_pods(there, {POD})
    assert (after.nodes[0].compute_domain, after.nodes[0].compute_domain_pods) == ("ml/d", 1)


@pytest.mark.parametrize("members", [0, 1])
def test_a_compute_domain_ends_with_its_last_pod(members: int) -> None:
    """Also where it is not said how many pods are in it."""
    at = replace(node("n0", used=1), compute_domain="ml/d", compute_domain_pods=members)
    old = with_domain(running("old", "n0", gpus=1))
    after = changes.without_pods(Snapshot((at,), (old,)), {"namespaces/ml/pods/old-0"})
    assert (after.nodes[0].compute_domain, after.nodes[0].compute_domain_pods) == ("", 0)


def test_rules_see_a_pod_where_it_moved_to() -> None:
    old = running("old", "n0", gpus=1)
    before = Snapshot((node("n0", used=1), node("n1")), (old,))
    after = changes.moved(before, {"namespaces/ml/pods/old-0": Place("nodes/n1")})
    [seen] = after.running_pods
    assert (seen.name, seen.node) == ("namespaces/ml/pods/old-0", "nodes/n1")
    assert seen.labels == {"app": "old"}
    assert [n.requested.get("nvidia.com/gpu", 0) for n in after.nodes] == [0, 1]


def test_a_pod_that_moves_takes_its_devices() -> None:
    free = tuple(Device(i) for i in range(2))
    full = tuple(replace(d, used_milli=1000, used_memory_milli=1000) for d in free)
    nodes = replace(node("n0", used=2), devices=full), replace(node("n1"), devices=free)
    old = running("old", "n0", gpus=1)
    [group] = old.groups
    [pods] = group.pod_sets
    pods = replace(pods, bound_pods=(replace(pods.bound_pods[0], devices=(1,)),))
    old = replace(old, groups=(replace(group, pod_sets=(pods,)),))
    place = Place("nodes/n1", (0,))
    after = changes.moved(Snapshot(nodes, (old,)), {"namespaces/ml/pods/old-0": place})
    assert [[d.used_milli for d in n.devices] for n in after.nodes] == [[1000, 0], [1000, 0]]
    assert after.gangs[0].groups[0].pod_sets[0].bound_pods[0].devices == (0,)


def test_extras_that_move_stay_extras() -> None:
    old = running("old", "n0", "n0", gpus=1, minimum=1)
    before = Snapshot((node("n0", used=2), node("n1")), (old,))
    move = Eviction(
        "namespaces/ml/pods/old-1", old.name, "nodes/n0", EvictionKind.MOVE, to_node="nodes/n1"
    )
    [after] = carried_out(before, [move]).gangs
    assert [group.min_replicas for group in after.groups] == [1]
    assert sorted(pod.node for pod in after.groups[0].running_pods) == ["nodes/n0", "nodes/n1"]


def test_a_node_that_is_added_has_no_trouble_of_its_model() -> None:
    taints = Taint("node.kubernetes.io/unreachable", "", Effect.NO_EXECUTE), GPUS_ONLY
    model = replace(node("n0", used=4), ready=False, unschedulable=True, taints=taints)
    added = changes.twin(model, "nodes/new")
    assert (added.ready, added.unschedulable, added.taints) == (True, False, (GPUS_ONLY,))
    assert (added.requested, added.labels) == ({}, {HOSTNAME: "new"})


def test_domains_in_no_broader_one_do_not_hide_that_others_lie_in_one() -> None:
    in_block, in_none = node("n0", rack="r0", block="b0"), node("n1", rack="r1")
    assert inside(Snapshot((in_block, in_none), ()), "rack", "block")
    assert not inside(Snapshot((in_none,), ()), "rack", "block")
    # A rack that is in a block only in part.
    assert not inside(Snapshot((in_block, node("n2", rack="r0")), ()), "rack", "block")
