"""What if: each change alone, and what it leaves as it is."""

from __future__ import annotations

import pytest

from placement import v1
from placement.planning import changes
from placement.planning.levels import levels_of
from placement.planning.selectors import parse_selector
from tests.planning.clusters import BLOCK, GPU, HOST, RACK, gang, node, request, resource_name


def two_racks() -> v1.ComputePlacementRequest:
    nodes = [
        node("n1", block="b1", rack="r1"),
        node("n2", block="b1", rack="r1"),
        node("n3", block="b1", rack="r2"),
    ]
    return request(nodes, [gang("runs", 0, on=["n1", "n3"]), gang("waits", 2, required=RACK)])


def test_a_change_leaves_the_old_request_alone() -> None:
    asked = two_racks()
    before = asked.SerializeToString(deterministic=True)
    changes.drained(asked, {"nodes/n1"})
    changes.without(asked, resource_name("runs"))
    changes.with_nodes(asked, {"nodes/n1": 2})
    assert asked.SerializeToString(deterministic=True) == before


def test_drained_nodes_are_closed_and_their_pods_wait_again() -> None:
    new = changes.drained(two_racks(), {"nodes/n1"})
    n1, _, n3 = new.snapshot.nodes
    assert n1.unschedulable
    assert n1.requested.extended[GPU] == 0
    assert n3.requested.extended[GPU] == 8
    [pod_set] = new.gangs[0].groups[0].pod_sets
    assert [pod.name for pod in pod_set.pods] == ["namespaces/ml/pods/runs-r0"]
    assert [pod.node for pod in pod_set.bound_pods] == ["nodes/n3"]


def test_a_drained_pod_leaves_what_it_held_and_asks_for_what_its_template_says() -> None:
    asked = two_racks()
    bound = asked.gangs[0].groups[0].pod_sets[0].bound_pods[0]
    held = {GPU: 8, "nic": 1}
    bound.held.extended.update(held)
    asked.snapshot.nodes[0].requested.extended.update(held)
    new = changes.drained(asked, {bound.node})
    assert not any(new.snapshot.nodes[0].requested.extended.values())
    [pod_set] = new.gangs[0].groups[0].pod_sets
    assert dict(pod_set.template.requests.extended) == {GPU: 8}


def test_what_a_pod_uses_up_of_a_restricted_reservation_is_said_until_it_goes() -> None:
    asked = two_racks()
    held = asked.snapshot.reservations.add(name="reservations/r", node="nodes/n1", restricted=True)
    held.held.extended[GPU] = 8
    held.held.cpu_millis = 1
    template = asked.gangs[0].groups[0].pod_sets[0].template
    pod = asked.gangs[0].groups[0].pod_sets[0].bound_pods[0]
    pod.reservation = held.name
    changes.occupy(asked, asked.snapshot.nodes[0], pod, template)
    assert list(held.used_up) == [GPU]
    assert list(changes.released(asked, {pod.name}).snapshot.reservations[0].used_up) == []


def test_without_a_gang_its_room_is_free() -> None:
    new = changes.without(two_racks(), resource_name("runs"))
    assert [one.name for one in new.gangs] == [resource_name("waits")]
    assert all(node.requested.extended.get(GPU, 0) == 0 for node in new.snapshot.nodes)


def test_without_a_base_what_is_based_on_it_stands_alone() -> None:
    asked = two_racks()
    asked.gangs[1].base_gang = resource_name("runs")
    assert changes.without(asked, resource_name("runs")).gangs[0].base_gang == ""


def test_pods_whose_requests_are_not_told_cannot_be_left_out_or_drained() -> None:
    asked = two_racks()
    asked.gangs[0].groups[0].bound_pods.add(name="namespaces/ml/pods/x", node="nodes/n1")
    with pytest.raises(ValueError, match="ml/runs cannot be left out"):
        changes.without(asked, resource_name("runs"))
    with pytest.raises(ValueError, match="ml/runs cannot be drained"):
        changes.drained(asked, {"nodes/n1"})
    changes.drained(asked, {"nodes/n2"})


def test_added_nodes_are_empty_healthy_and_themselves() -> None:
    asked = two_racks()
    asked.snapshot.nodes[0].unschedulable = True
    asked.snapshot.nodes[0].closed_because = "pod ml/x holds a claim"
    asked.snapshot.nodes[0].taints.add(key="node.kubernetes.io/unschedulable", effect=1)
    asked.snapshot.nodes[0].taints.add(key="team", value="a", effect=1)
    new = changes.with_nodes(asked, {"nodes/n1": 2})
    added = new.snapshot.nodes[3:]
    assert len({one.name for one in new.snapshot.nodes}) == 5
    for one in added:
        assert one.labels[HOST] == one.name.removeprefix("nodes/")
        assert one.labels[RACK] == "r1"
        assert one.allocatable == asked.snapshot.nodes[0].allocatable
        assert not one.unschedulable
        assert not one.closed_because
        assert one.requested == v1.Resources()
        assert [taint.key for taint in one.taints] == ["team"]


def test_added_domains_keep_their_parents_and_have_domains_of_their_own_below() -> None:
    asked = two_racks()
    levels = levels_of(asked, [BLOCK, RACK, HOST])
    new = changes.with_domains(asked, RACK, "r1", 2, levels=levels)
    added = new.snapshot.nodes[3:]
    assert {one.labels[BLOCK] for one in added} == {"b1"}
    assert sorted(one.labels[RACK] for one in added) == [
        "r1-added-0",
        "r1-added-0",
        "r1-added-1",
        "r1-added-1",
    ]
    block = changes.with_domains(asked, BLOCK, "b1", 1, levels=levels)
    assert {one.labels[RACK] for one in block.snapshot.nodes[3:]} == {"r1-added-0", "r2-added-0"}


def test_domains_that_are_added_twice_are_domains_of_their_own() -> None:
    """Else the second one would make the first one larger."""
    once = changes.with_domains(two_racks(), RACK, "r1", 1, levels=(RACK,))
    twice = changes.with_domains(once, RACK, "r1", 1, levels=(RACK,))
    assert [one.labels[RACK] for one in twice.snapshot.nodes[3:]] == [
        *["r1-added-0"] * 2,
        *["r1-added-1"] * 2,
    ]


def test_an_added_node_has_no_label_that_its_model_lacks() -> None:
    asked = two_racks()
    del asked.snapshot.nodes[0].labels[RACK]
    new = changes.with_domains(asked, BLOCK, "b1", 1, levels=(BLOCK, RACK))
    assert [one.labels.get(RACK) for one in new.snapshot.nodes[3:]] == [
        None,
        "r1-added-0",
        "r2-added-0",
    ]


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ("rack=r1", f"no node label rack; did you mean {RACK}"),
        ("topology.example.com/rak=r1", f"no node label .*rak; did you mean {RACK}"),
        (f"{RACK}=r11", f"no node with {RACK} r11; did you mean r1"),
        (f"{RACK} in (r7,r8)", f"no node with {RACK} r7"),
        (f"{RACK}=r1,{RACK}!=r1", "no node matches"),
    ],
)
def test_a_selector_that_matches_no_node_is_a_mistake(selector: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        changes.matching(two_racks(), parse_selector(selector))


@pytest.mark.parametrize(
    ("change", "near"),
    [
        (lambda r: changes.without(r, resource_name("wait")), "ml/waits"),
        (lambda r: changes.with_priority(r, resource_name("wait"), 5), "ml/waits"),
        (lambda r: changes.with_nodes(r, {"nodes/n11": 1}), "n1"),
        (lambda r: changes.with_domains(r, "topology.example.com/rak", "r1", 1, levels=()), RACK),
        (lambda r: changes.with_domains(r, RACK, "rr1", 1, levels=()), "r1"),
    ],
)
def test_what_is_not_there_is_answered_with_the_nearest_name(change, near: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"did you mean {near}"):
        change(two_racks())


def test_devices_ports_and_reservations_are_given_back() -> None:
    asked = request([node("n1")], [gang("runs", 0, gpus=2, on=["n1"])])
    n1 = asked.snapshot.nodes[0]
    n1.devices.extend(v1.Device(index=i, used_milli=1000 if i < 2 else 0) for i in range(8))
    n1.host_ports.add(port=80)
    n1.compute_domain = "c"
    pod_set = asked.gangs[0].groups[0].pod_sets[0]
    pod_set.template.host_ports.add(port=80)
    pod_set.template.compute_domain = "c"
    pod_set.bound_pods[0].devices.extend([0, 1])
    pod_set.bound_pods[0].reservation = "reservations/r"
    asked.snapshot.reservations.add(name="reservations/r", node="nodes/n1")
    new = changes.without(asked, resource_name("runs"))
    after = new.snapshot.nodes[0]
    assert [device.used_milli for device in after.devices] == [0] * 8
    assert not after.host_ports
    assert after.compute_domain == ""
    assert new.snapshot.reservations[0].held.extended[GPU] == 2


@pytest.mark.parametrize(("members", "left"), [(1, ("", 0)), (2, ("c", 1))])
def test_a_compute_domain_ends_with_the_last_of_its_pods(
    members: int, left: tuple[str, int]
) -> None:
    asked = request([node("n1")], [gang("runs", 0, gpus=2, on=["n1"])])
    n1 = asked.snapshot.nodes[0]
    n1.compute_domain, n1.compute_domain_pods = "c", members
    asked.gangs[0].groups[0].pod_sets[0].template.compute_domain = "c"
    after = changes.without(asked, resource_name("runs")).snapshot.nodes[0]
    assert (after.compute_domain, after.compute_domain_pods) == left


def test_a_gang_gets_another_priority() -> None:
    asked = two_racks()
    new = changes.with_priority(asked, resource_name("waits"), 5)
    assert changes.find_gang(new, resource_name("waits")).priority == 5
    assert changes.find_gang(asked, resource_name("waits")).priority == 0


def test_a_limit_of_gpus_takes_the_place_of_those_of_each_kind() -> None:
    asked = two_racks()
    asked.snapshot.queues.add(name="queues/b", limit={GPU: 8, "gpus": 16, "cpu": 1000})
    assert changes.with_gpu_limit(asked, "queues/b", 24).snapshot.queues[-1].limit == {
        "gpus": 24,
        "cpu": 1000,
    }
    with pytest.raises(ValueError, match="there is no queue c"):
        changes.with_gpu_limit(asked, "queues/c", 24)
