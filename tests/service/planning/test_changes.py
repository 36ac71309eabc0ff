"""Snapshots in which pods run or are gone, and what their nodes then hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_service.entities.devices import Device
from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import (
    HOSTNAME,
    Effect,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    Policy,
    Snapshot,
    Taint,
)
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.planning import changes
from placement_service.planning.changes import Place
from placement_service.planning.explain import carried_out
from placement_service.planning.levels import inside
from tests.service.evictions import running
from tests.service.questions import gang, node
from tests.strategies import EVERYTHING, TINY, full_clusters, snapshots

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


@given(st.one_of(snapshots(TINY, EVERYTHING), full_clusters()))
def test_pods_that_come_and_go_leave_everything_as_it_was(snapshot: Snapshot) -> None:
    plan = first_answer(formulate(snapshot, Policy()))
    places = {b.pod: Place(b.node) for b in name_pods(snapshot, plan.assignments)}
    there = changes.assigned(snapshot, places)
    assert amounts(there) == Counter(amounts(snapshot)) + taken_by(there, places)
    ports = [len(n.host_ports) for n in there.nodes]
    assert sum(ports) - sum(len(n.host_ports) for n in snapshot.nodes) == sum(
        len(s.template.host_ports) * sum(pod.name in places for pod in s.bound_pods)
        for _, s in sets(there)
    )
    assert {p.name: p.node for p in there.running_pods if p.name in places} == {
        name: place.node for name, place in places.items()
    }

    gone = changes.without_pods(there, places)
    assert amounts(gone) == amounts(snapshot)
    for after, before in zip(gone.nodes, snapshot.nodes, strict=True):
        assert Counter(after.host_ports) == Counter(before.host_ports)
    assert gone.running_pods == snapshot.running_pods
    again = changes.released(there, places)
    displaced = changes.displaced(there, places)
    assert amounts(again) == amounts(snapshot)
    assert amounts(displaced) == amounts(there)
    for one in (again, displaced):
        assert names(one, waiting=True) == names(snapshot, waiting=True)
        assert names(one, waiting=False) == names(snapshot, waiting=False)


@given(full_clusters(), st.data())
def test_who_goes_gives_back_what_it_had_and_others_run_on(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    running_pods = sorted({pod.name for _, s in sets(snapshot) for pod in s.bound_pods})
    pods = set(data.draw(st.lists(st.sampled_from(running_pods)))) if running_pods else set()
    gangs = set(data.draw(st.lists(st.sampled_from([g.name for g in snapshot.gangs]), max_size=1)))
    after = changes.without_pods(snapshot, pods, gangs)
    given_back = taken_by(snapshot, pods)
    assert amounts(after) == Counter(amounts(snapshot)) - given_back
    kept = [gang for gang in snapshot.gangs if gang.name not in gangs]
    assert [gang.name for gang in after.gangs] == [gang.name for gang in kept]
    for now, then in zip(after.gangs, kept, strict=True):
        assert now.base_gang == ("" if then.base_gang in gangs else then.base_gang)
        for new, old in zip(now.groups, then.groups, strict=True):
            for one, before in zip(new.pod_sets, old.pod_sets, strict=True):
                stay = tuple(pod for pod in before.bound_pods if pod.name not in pods)
                assert (one.pods, one.bound_pods) == (before.pods, stay)
    seen = {pod.name for pod in snapshot.running_pods}
    assert {pod.name for pod in after.running_pods} == seen - pods


def sets(snapshot: Snapshot) -> Iterator[tuple[PodGroup, PodSet]]:
    return ((g, s) for gang in snapshot.gangs for g in gang.groups for s in g.pod_sets)


def names(snapshot: Snapshot, *, waiting: bool) -> list[list[str]]:
    """The pods of each set that wait, or run."""
    return [
        sorted(p.name for p in (s.pods if waiting else s.bound_pods)) for _, s in sets(snapshot)
    ]


def amounts(snapshot: Snapshot) -> Counter[tuple[str, str]]:
    """What pods have of each node."""
    return +Counter({(n.name, r): a for n in snapshot.nodes for r, a in n.requested.items()})


def taken_by(snapshot: Snapshot, pods: Collection[str]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for _, pod_set in sets(snapshot):
        for pod in pod_set.bound_pods:
            if pod.name in pods:
                found.update({(pod.node, r): a for r, a in pod_set.template.requests.items()})
    return found


def test_only_what_runs_of_other_gangs_stays() -> None:
    """The base of a gang that is kept counts only where it is kept, too."""
    runs = running("runs", "n0", gpus=1)
    waits = gang("waits", pods=2, gpus=1)
    part = replace(gang("part", pods=1, gpus=1), base_gang=waits.name)
    [group] = runs.groups
    [pods] = group.pod_sets
    more = replace(pods, pods=(Pod("namespaces/ml/pods/more"),))
    some = replace(runs, groups=(replace(group, pod_sets=(more,)),))
    left = changes.only(Snapshot((node("n0", used=1),), (some, waits, part)), {part.name})
    assert left.gangs == (runs, replace(part, base_gang=""))
    both = changes.only(left, {part.name, runs.name})
    assert both == left
