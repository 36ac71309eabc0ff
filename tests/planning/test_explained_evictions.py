"""Who would have to go for a gang that waits, rule by rule."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from placement import v1
from placement.client import PlacementClient
from tests.planning.clusters import GPU, HOST, RACK, gang, node, request, resource_name
from tests.planning.explaining import bound, explained, pods, remedies


def test_the_fewest_pods_are_evicted_and_only_of_lower_priority(client: PlacementClient) -> None:
    """n1 holds two pods of "two", n2 four of "four", n3 one of "equal" and n4 a fixed one."""
    gangs = [
        gang("two", 0, gpus=4, on=["n1"] * 2),
        gang("four", 0, gpus=2, on=["n2"] * 4),
        gang("equal", 0, on=["n3"], priority=10),
        gang("fixed", 0, on=["n4"], fixed=True),
        gang("urgent", 1, priority=10),
    ]
    found = remedies(client, request([node(f"n{i}") for i in (1, 2, 3, 4)], gangs), "urgent")
    assert found["evict"] == ((resource_name("two"),), pods("two", 0, 1))


def test_an_eviction_is_proven_though_a_gang_that_the_plan_places_could_lie_elsewhere(
    client: PlacementClient,
) -> None:
    """Alone "urgent" would need nobody to go: n1 is free. But "first" needs a node as well."""
    gangs = [
        gang("low", 0, gpus=4, on=["n2"] * 2),
        gang("first", 1, priority=20),
        gang("urgent", 1, priority=10),
    ]
    found = remedies(client, request([node("n1"), node("n2")], gangs), "urgent")
    assert found["evict"] == ((resource_name("low"),), pods("low", 0, 1))


def test_evictions_also_make_room_for_gangs_of_the_plan_that_have_to_lie_elsewhere(
    client: PlacementClient,
) -> None:
    """Only "beside" and one half of "low" are on the node that "urgent" needs, and "beside" fits
    nowhere else unless the other half goes, too.
    """
    nodes = [node("n1"), node("n2", gpus=4)]
    asked = request(
        nodes,
        [
            gang("low", 0, gpus=4, on=["n1", "n2"], minimum=1),
            gang("beside", 1, gpus=4),
            gang("urgent", 1, priority=10),
        ],
    )
    assert remedies(client, asked, "urgent")["evict"] == (
        (resource_name("low"),), pods("low", 0, 1)
    )  # fmt: skip


def test_fewer_are_evicted_where_gangs_that_the_plan_places_lie_elsewhere(
    client: PlacementClient,
) -> None:
    """The plan keeps rack r3 whole, and puts "first" beside the pod in rack r1."""
    nodes = [node(f"n{i}", rack=f"r{(i + 1) // 2}") for i in range(1, 6)]
    gangs = [
        gang("one", 0, on=["n2"]),
        gang("four", 0, gpus=2, on=["n3"] * 4),
        gang("five", 0, gpus=2, on=["n4"] * 4),
        gang("first", 1, priority=20),
        gang("urgent", 2, required=RACK, priority=10),
    ]
    asked = request(nodes, gangs)
    found = explained(client, asked, "urgent")
    assert [binding.node for binding in found.placement.bindings] == ["nodes/n1"]
    assert remedies(client, asked, "urgent")["evict"] == ((resource_name("one"),), pods("one", 0))


def test_extras_go_before_whole_gangs(client: PlacementClient) -> None:
    gangs = [
        gang("whole", 0, gpus=4, on=["n1"] * 2),
        gang("extras", 0, on=["n2", "n3"], minimum=1),
        gang("urgent", 1, priority=10),
    ]
    asked = request([node("n1"), node("n2"), node("n3")], gangs)
    names, gone = remedies(client, asked, "urgent")["evict"]
    assert names == (resource_name("extras"),)
    assert gone in (pods("extras", 0), pods("extras", 1))


def test_a_pod_that_breaks_the_last_partition_goes(client: PlacementClient) -> None:
    """Four GPUs in a row are a partition. One pod has GPU 0; two others have GPUs 4 and 5."""
    gangs = [
        gang("pair", 0, gpus=1, on=["n1"] * 2),
        gang("one", 0, gpus=1, on=["n1"]),
        gang("urgent", 1, gpus=4, priority=10),
    ]
    asked = request([node("n1")], gangs)
    (there,) = asked.snapshot.nodes
    for taken, pod in zip((4, 5, 0), [p for g in asked.gangs for p in bound(g)], strict=True):
        pod.devices.append(taken)
    for i in range(8):
        used = 1000 * (i in (0, 4, 5))
        there.devices.add(index=i, used_milli=used, used_memory_milli=used)
    there.partitions.add(devices=range(4))
    there.partitions.add(devices=range(4, 8))
    there.partition_policy = v1.PartitionPolicy.PARTITION_POLICY_HONOR
    found = remedies(client, asked, "urgent")
    assert found["evict"] == ((resource_name("one"),), pods("one", 0))


def test_who_has_the_host_port_goes(client: PlacementClient) -> None:
    """There is room everywhere, and the first gang has no port."""
    gangs = [
        gang("other", 0, gpus=1, on=["n1"]),
        gang("has", 0, gpus=1, on=["n1"]),
        gang("urgent", 1, gpus=1, priority=10),
    ]
    asked = request([node("n1")], gangs)
    for one in asked.gangs[1:]:
        one.groups[0].pod_sets[0].template.host_ports.add(port=80, protocol="TCP")
    asked.snapshot.nodes[0].host_ports.add(port=80, protocol="TCP")
    found = remedies(client, asked, "urgent")
    assert found["evict"] == ((resource_name("has"),), pods("has", 0))


def test_as_many_leave_as_hold_a_host_port_that_all_pods_of_a_gang_need(
    client: PlacementClient,
) -> None:
    """Others, who have no port, leave in vain, however few there are."""
    names = [f"n{i}" for i in range(8)]
    others = [gang(f"other{i}", 0, gpus=1, on=[at]) for i, at in enumerate(names * 2)]
    holders = [gang(f"has{i}", 0, gpus=1, on=[at]) for i, at in enumerate(names)]
    asked = request(map(node, names), [*others, *holders, gang("urgent", 3, gpus=1, priority=10)])
    for one in asked.gangs[len(others) :]:
        one.groups[0].pod_sets[0].template.host_ports.add(port=80, protocol="TCP")
    for there in asked.snapshot.nodes:
        there.host_ports.add(port=80, protocol="TCP")
    gone, _ = remedies(client, asked, "urgent")["evict"]
    assert isinstance(gone, tuple)
    assert len(gone) == 3
    assert all("/has" in name for name in gone)


@pytest.mark.parametrize("theirs", [False, True])
def test_who_keeps_a_gang_away_leaves_though_there_is_room(
    client: PlacementClient, theirs: bool
) -> None:
    """Either side may avoid the other; on "n4" one pod does that and not two."""
    pairs = [gang(f"pair{i}", 0, gpus=1, on=[f"n{i}"] * 2) for i in range(4)]
    asked = request(
        [node(f"n{i}") for i in range(5)],
        [*pairs, gang("one", 0, gpus=1, on=["n4"]), gang("urgent", 2, gpus=1, priority=10)],
    )
    avoided, avoids = ("urgent", "runs") if theirs else ("runs", "urgent")
    for one in asked.gangs:
        template = one.groups[0].pod_sets[0].template
        template.labels["app"] = "urgent" if one.name.endswith("urgent") else "runs"
        if template.labels["app"] == avoids:
            term = template.required_anti_affinity.add(topology_key=HOST, namespaces=["ml"])
            term.selector.match_labels["app"] = avoided
        for pod in bound(one):
            there = asked.snapshot.pods.add(name=pod.name, node=pod.node, labels={"app": "runs"})
            there.required_anti_affinity.extend(template.required_anti_affinity)
    found = remedies(client, asked, "urgent")
    assert found["evict"] == ((resource_name("one"),), pods("one", 0))


def test_as_many_leave_a_full_queue_as_a_gang_has_pods(client: PlacementClient) -> None:
    """Every node has room, and those outside the queue give nothing back to it."""
    nodes = [f"n{i}" for i in range(8)]
    inside = [gang(f"in{i}", 0, gpus=1, on=[at]) for i, at in enumerate(nodes * 2)]
    outside = [gang(f"out{i}", 0, gpus=1, on=[at]) for i, at in enumerate(nodes * 2)]
    urgent = gang("urgent", 8, gpus=1, priority=10)
    for one in (*inside, urgent):
        one.queue = "queues/team"
    asked = request(map(node, nodes), [*outside, *inside, urgent])
    asked.snapshot.queues.add(name="queues/team", limit={"gpus": 16})
    names, gone = remedies(client, asked, "urgent")["evict"]
    assert isinstance(names, tuple)
    assert isinstance(gone, tuple)
    assert len(names) == len(gone) == 8
    assert all("/in" in name for name in names)


@pytest.mark.parametrize(("allowed", "helps"), [(1, False), (2, True)])
def test_a_disruption_budget_protects_the_pods_that_it_selects(
    client: PlacementClient, allowed: int, helps: bool
) -> None:
    gangs = [gang("kept", 0, gpus=4, on=["n1", "n1"]), gang("urgent", 1, priority=10)]
    asked = request([node("n1")], gangs)
    asked.gangs[0].groups[0].pod_sets[0].template.labels["app"] = "kept"
    budget = asked.snapshot.disruption_budgets.add(
        name="namespaces/ml/poddisruptionbudgets/b", allowed=allowed
    )
    budget.selector.match_labels["app"] = "kept"
    assert ("evict" in remedies(client, asked, "urgent")) == helps


@pytest.mark.parametrize(("ran", "helps"), [(59, False), (60, True)])
def test_a_gang_is_protected_until_its_minimum_run_time_is_over(
    client: PlacementClient, ran: int, helps: bool
) -> None:
    asked = request([node("n1")], [gang("runs", 0, on=["n1"]), gang("urgent", 1, priority=1)])
    asked.gangs[0].minimum_run_time.seconds = 60
    asked.gangs[0].start_time.seconds = 1000
    asked.snapshot.as_of.seconds = 1000 + ran
    assert ("evict" in remedies(client, asked, "urgent")) == helps


def test_a_gang_that_does_not_say_since_when_it_runs_is_not_protected(
    client: PlacementClient,
) -> None:
    asked = request([node("n1")], [gang("runs", 0, on=["n1"]), gang("urgent", 1, priority=1)])
    asked.gangs[0].minimum_run_time.seconds = 60
    asked.snapshot.as_of.seconds = 1000
    assert "evict" in remedies(client, asked, "urgent")


def test_one_pod_is_always_the_least(client: PlacementClient) -> None:
    """Spread constraints are not counted where the least is looked for."""
    asked = request(
        [node("n0"), node("n1")],
        [gang("a", 0, on=["n0"]), gang("b", 0, on=["n1"]), gang("urgent", 1, priority=10)],
    )
    spread = (
        asked.gangs[-1]
        .groups[0]
        .pod_sets[0]
        .template.spread_constraints.add(max_skew=1, topology_key=HOST)
    )
    spread.selector.match_labels["app"] = "urgent"
    _, gone = remedies(client, asked, "urgent")["evict"]
    assert isinstance(gone, tuple)
    assert len(gone) == 1


def shared(gpus: int, *pods: v1.BoundPod) -> list[v1.Device]:
    """GPUs of which some are in use: by each of these pods half of what it has."""
    used = [500 * sum(i in pod.devices for pod in pods) for i in range(gpus)]
    return [
        v1.Device(index=i, used_milli=milli, used_memory_milli=milli)
        for i, milli in enumerate(used)
    ]


@pytest.mark.parametrize(("halves", "whole", "leave"), [(5, 0, 5), (1, 3, 7), (3, 1, 5)])
def test_shares_of_gpus_leave_as_many_as_have_the_gpus_that_are_needed(
    client: PlacementClient, halves: int, whole: int, leave: int
) -> None:
    """Two nodes of 8 GPUs, each of which two pods have half of."""
    asked = request(
        [node("n0"), node("n1")],
        [
            *(gang(f"half{i}", 0, gpus=0, on=[f"n{i % 2}"]) for i in range(32)),
            gang("urgent", halves, gpus=0, priority=10),
        ],
    )
    if whole:
        group = asked.gangs[-1].groups.add(name="whole", min_replicas=whole)
        pods_of = group.pod_sets.add(
            pods=[v1.Pod(name=f"namespaces/ml/pods/whole-{i}") for i in range(whole)]
        )
        pods_of.template.requests.extended[GPU] = 1
    for i, one in enumerate(asked.gangs):
        share = one.groups[0].pod_sets[0].template.device_share
        share.compute_milli, share.memory_milli, share.count = 500, 500, 1
        for pod in bound(one):
            pod.devices.append(i // 4)
    for n, there in enumerate(asked.snapshot.nodes):
        mine = [p for one in asked.gangs for p in bound(one) if p.node == f"nodes/n{n}"]
        there.devices.extend(shared(8, *mine))
    _, gone = remedies(client, asked, "urgent")["evict"]
    assert isinstance(gone, tuple)
    assert len(gone) == leave


def test_of_extras_that_are_alike_those_leave_that_have_the_partition(
    client: PlacementClient,
) -> None:
    """Four GPUs in a row are a partition. One of five pods has a GPU of the first."""
    asked = request(
        [node("n1")],
        [
            gang("extras", 0, gpus=1, on=["n1"] * 5, minimum=1),
            gang("urgent", 1, gpus=4, priority=9),
        ],
    )
    (there,) = asked.snapshot.nodes
    for taken, pod in zip((4, 5, 6, 0, 7), bound(asked.gangs[0]), strict=True):
        pod.devices.append(taken)
    for i in range(8):
        used = 1000 * (i not in (1, 2, 3))
        there.devices.add(index=i, used_milli=used, used_memory_milli=used)
    there.partitions.add(devices=range(4))
    there.partitions.add(devices=range(4, 8))
    there.partition_policy = v1.PartitionPolicy.PARTITION_POLICY_HONOR
    found = remedies(client, asked, "urgent")
    assert found["evict"] == ((resource_name("extras"),), pods("extras", 3))


def test_the_least_is_proven_for_pods_that_are_spread(client: PlacementClient) -> None:
    """Both pods could have the room of one gang, but not in one rack."""
    nodes = [node(f"n{i}", rack=f"r{i}") for i in (1, 2)]
    gangs = [gang(f"low{i}", 0, gpus=4, on=[f"n{i % 2 + 1}"]) for i in range(4)]
    asked = request(nodes, [*gangs, gang("urgent", 2, gpus=4, priority=10)])
    template = asked.gangs[-1].groups[0].pod_sets[0].template
    template.labels["app"] = "urgent"
    constraint = template.spread_constraints.add(max_skew=1, topology_key=RACK)
    constraint.selector.match_labels["app"] = "urgent"
    names, _ = remedies(client, asked, "urgent")["evict"]
    assert isinstance(names, tuple)
    assert len({int(name[-1]) % 2 for name in names}) == len(names) == 2


def draw_to_x(asked: v1.ComputePlacementRequest, *, y: Collection[str]) -> None:
    """Make all pods "x" but those of the gangs `y`; the fourth gang requires a rack of "x"."""
    for one in asked.gangs:
        template = one.groups[0].pod_sets[0].template
        template.labels["app"] = "y" if one.name.rpartition("/")[2] in y else "x"
        for pod in bound(one):
            asked.snapshot.pods.add(name=pod.name, node=pod.node, labels=template.labels)
    drawn = asked.gangs[3].groups[0].pod_sets[0].template
    term = drawn.required_affinity.add(topology_key=RACK, namespaces=["ml"])
    term.selector.match_labels["app"] = "x"


def test_nothing_is_proven_where_a_gang_that_waits_besides_may_open_a_rack(
    client: PlacementClient,
) -> None:
    """Once "low1" is gone "first" comes there, and "urgent" may follow it."""
    nodes = [node(f"n{i}", gpus=gpus, rack=f"r{i}") for i, gpus in enumerate((2, 4, 2))]
    gangs = [
        gang("low0", 0, gpus=1, on=["n0", "n0", "n2"]),
        gang("low1", 0, gpus=2, on=["n1", "n1"]),
        gang("low2", 0, gpus=1, on=["n2"]),
        gang("urgent", 1, gpus=2, priority=10),
        gang("first", 1, gpus=1, priority=20),
    ]
    asked = request(nodes, gangs)
    draw_to_x(asked, y=["low1"])
    found = explained(client, asked, "urgent").remedies
    evictions = [one for one in found if one.WhichOneof("kind") == "evict"]
    assert [one.proven for one in evictions if len(one.evict.pods) > 2] in ([], [False])


def test_who_draws_a_pod_to_a_rack_without_room_leaves_too(client: PlacementClient) -> None:
    """Where no "x" is left "urgent", which is one itself, may begin in any rack."""
    nodes = [node(f"n{i}", gpus=2, rack=f"r{i}") for i in (0, 1)]
    gangs = [
        gang("x", 0, gpus=1, on=["n0"]),
        gang("fixed", 0, gpus=1, on=["n0"], fixed=True),
        gang("y", 0, gpus=2, on=["n1"]),
        gang("urgent", 1, gpus=2, priority=10),
    ]
    asked = request(nodes, gangs)
    draw_to_x(asked, y=["fixed", "y"])
    names, _ = remedies(client, asked, "urgent")["evict"]
    assert names == (resource_name("x"), resource_name("y"))
