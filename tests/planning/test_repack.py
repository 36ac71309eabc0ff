"""Fewest moves that free domains, each rule on its smallest cluster."""

from __future__ import annotations

import pytest

from placement import v1
from placement.client import PlacementClient
from placement.errors import InvalidRequestError
from tests.planning.clusters import GPU, HOST, RACK, gang, node, request


def racks(*names: str) -> list[v1.Node]:
    return [node(f"n-{name}", rack=name) for name in names]


def freed(
    nodes: list[v1.Node], gangs: list[v1.PodGang], client: PlacementClient, count: int = 1
) -> v1.ComputeRepackingResponse:
    asked = v1.ComputeRepackingRequest(question=request(nodes, gangs), level=RACK, count=count)
    asked.time_limit.seconds = 30
    return client.repack(asked)


def pods(found: v1.ComputeRepackingResponse) -> tuple[int, int]:
    """What was reached, and the bound."""
    return found.pods.value, found.pods.bound


def test_domains_that_are_free_already_count(client: PlacementClient) -> None:
    found = freed(racks("r1", "r2"), [gang("a", 0, on=["n-r1"])], client)
    assert (list(found.moves), list(found.freed), pods(found)) == ([], ["r2"], (0, 0))


def test_the_domain_with_fewest_pods_is_freed(client: PlacementClient) -> None:
    gangs = [gang("three", 0, gpus=2, on=["n-r1"] * 3), gang("one", 0, gpus=2, on=["n-r2"])]
    found = freed(racks("r1", "r2"), gangs, client)
    assert list(found.freed) == ["r2"]
    assert pods(found) == (1, 1)
    [move] = found.moves
    assert (move.from_node, move.to_node) == ("nodes/n-r2", "nodes/n-r1")


def test_what_is_not_preemptible_stays(client: PlacementClient) -> None:
    gangs = [
        gang("fixed", 0, gpus=2, on=["n-r1"], fixed=True),
        gang("two", 0, gpus=2, on=["n-r2"] * 2),
    ]
    found = freed(racks("r1", "r2"), gangs, client)
    assert list(found.freed) == ["r2"]
    assert pods(found) == (2, 2)


def test_what_lacks_pods_of_its_minimum_stays(client: PlacementClient) -> None:
    """Its pod would be a new one, and a gang gets these only with its minimum."""
    gangs = [
        gang("lacks", 1, gpus=2, minimum=2, on=["n-r1"]),
        gang("two", 0, gpus=2, on=["n-r2"] * 2),
    ]
    found = freed(racks("r1", "r2"), gangs, client)
    assert list(found.freed) == ["r2"]
    assert pods(found) == (2, 2)


def test_gpu_pods_without_a_gang_stay(client: PlacementClient) -> None:
    nodes = [node("n-r1", rack="r1", used=2), *racks("r2")]
    found = freed(nodes, [gang("two", 0, gpus=2, on=["n-r2"] * 2)], client)
    assert list(found.freed) == ["r2"]


def test_a_pod_that_has_a_gpu_and_asks_for_what_is_not_supported_stays(
    client: PlacementClient,
) -> None:
    there = gang("odd", 0, gpus=0, on=["n-r1"])
    there.groups[0].pod_sets[0].template.unsupported.append("spec.x")
    nodes, held = racks("r1", "r2"), there.groups[0].pod_sets[0].bound_pods[0].held
    held.extended[GPU] = 1
    nodes[0].requested.extended[GPU] = 1
    found = freed(nodes, [there, gang("two", 0, gpus=2, on=["n-r2"] * 2)], client)
    assert list(found.freed) == ["r2"]
    assert pods(found) == (2, 2)


def test_extras_move_without_their_gang(client: PlacementClient) -> None:
    gangs = [gang("a", 0, gpus=4, on=["n-r1", "n-r2"], minimum=1)]
    found = freed(racks("r1", "r2"), gangs, client)
    assert pods(found) == (1, 1)


def test_a_gang_without_extras_moves_whole_even_into_a_domain_that_was_free(
    client: PlacementClient,
) -> None:
    """Two of three racks free: the halves of "a" go together to r3, which was free."""
    gangs = [gang("a", 0, gpus=4, on=["n-r1", "n-r2"])]
    found = freed(racks("r1", "r2", "r3"), gangs, client, count=2)
    assert list(found.freed) == ["r1", "r2"]
    assert {move.to_node for move in found.moves} == {"nodes/n-r3"}
    assert found.pods.value == 2


def test_where_the_cheapest_domain_cannot_be_emptied_the_next_one_is(
    client: PlacementClient,
) -> None:
    """The pod of 8 GPUs on r1 fits nowhere else; r2's two pods fit on r3."""
    gangs = [
        gang("large", 0, gpus=8, on=["n-r1"]),
        gang("two", 0, gpus=2, on=["n-r2"] * 2),
        gang("three", 0, gpus=1, on=["n-r3"] * 3),
    ]
    found = freed(racks("r1", "r2", "r3"), gangs, client)
    assert list(found.freed) == ["r2"]
    assert pods(found) == (2, 2)


def test_who_has_room_now_leaves_room_for_the_others(client: PlacementClient) -> None:
    """Three pods, two free nodes: "two" goes first, and "one" to the node that it leaves."""
    nodes = [node("a", rack="r1"), node("b", rack="r1"), node("c"), node("d"), node("e")]
    gangs = [gang("two", 0, on=["a", "c"]), gang("one", 0, on=["b"])]
    for names in ("de", "ed"):
        found = freed([*nodes[:3], *(node(name) for name in names)], gangs, client)
        assert [move.step for move in found.moves] == [1, 1, 2]
        assert found.moves[2].to_node == "nodes/c"
        assert pods(found) == (3, 3)


def test_a_gang_that_never_has_room_beside_itself_cannot_move(client: PlacementClient) -> None:
    """The 8 free GPUs are enough in the end; but "wide" moves in one step and asks for 12."""
    gangs = [
        gang("wide", 0, gpus=4, on=["n-r1", "n-r2", "n-r3"]),
        gang("small", 0, gpus=4, on=["n-r3"]),
    ]
    found = freed(racks("r1", "r2", "r3"), gangs, client)
    assert (list(found.moves), found.pods.impossible) == ([], True)


def test_what_is_impossible_is_no_answer(client: PlacementClient) -> None:
    found = freed(racks("r1", "r2"), [gang("a", 0, on=["n-r1", "n-r2"])], client)
    assert not found.moves
    assert list(found.freed) == []
    assert found.pods.impossible


def test_more_domains_than_there_are_is_a_mistake(client: PlacementClient) -> None:
    with pytest.raises(InvalidRequestError) as error:
        freed(racks("r1"), [], client, count=2)
    assert "there are 1 domains" in error.value.violations[0].description


def test_further_gangs_move_first_where_that_makes_room(client: PlacementClient) -> None:
    nodes, gangs = _tight()
    found = freed(nodes, gangs, client)
    assert [(m.step, m.gang[-1], m.to_node) for m in found.moves] == [
        (1, "b", "nodes/small"), (1, "b", "nodes/small"), (2, "a", "nodes/partly"),
    ]  # fmt: skip
    assert (list(found.freed), pods(found)) == (["r1"], (3, 3))


def test_fewer_moves_with_a_further_gang_come_before_more_of_those_that_leave(
    client: PlacementClient,
) -> None:
    """Rack r4 could be freed by moving its four pods; r1 takes three moves."""
    nodes, gangs = _tight()
    nodes += [node("n-r4", rack="r4"), node("room", rack="r3", gpus=4)]
    gangs.append(gang("four", 0, gpus=1, on=["n-r4"] * 4))
    found = freed(nodes, gangs, client)
    assert (list(found.freed), pods(found)) == (["r1"], (3, 3))


def test_budgets_protect_further_gangs_too(client: PlacementClient) -> None:
    nodes, gangs = _tight()
    gangs[1].groups[0].pod_sets[0].template.labels["app"] = "b"
    asked = v1.ComputeRepackingRequest(question=request(nodes, gangs), level=RACK, count=1)
    budget = asked.question.snapshot.disruption_budgets.add(
        name="namespaces/ml/poddisruptionbudgets/b", allowed=1
    )
    budget.selector.match_labels["app"] = "b"
    assert not client.repack(asked).moves


def _tight() -> tuple[list[v1.Node], list[v1.PodGang]]:
    """Gang a needs the node of gang b, which would go to what is left of the small one."""
    nodes = [
        *racks("r1"),
        node("full", rack="r2", used=8),
        node("partly", rack="r2"),
        node("small", rack="r3", used=4),
    ]
    return nodes, [gang("a", 0, on=["n-r1"]), gang("b", 0, gpus=2, on=["partly"] * 2)]


def test_pods_without_gpus_may_stay_in_a_freed_domain(client: PlacementClient) -> None:
    """No other node has room for "cpu", but it need not move."""
    nodes, gangs = _tight()
    gangs.append(gang("cpu", 0, gpus=0, on=["n-r1"] * 4))
    gangs[-1].groups[0].pod_sets[0].template.requests.cpu_millis = 16_000
    for other in nodes[1:]:
        other.requested.cpu_millis = 64_000
    assert pods(freed(nodes, gangs, client)) == (3, 3)


def test_gangs_on_closed_nodes_may_stay_there(client: PlacementClient) -> None:
    """No node has room for the pod on the closed node, but it need not move."""
    nodes, gangs = _tight()
    nodes.append(node("closed", closed=True, rack="r4"))
    gangs.append(gang("c", 0, on=["closed"]))
    assert pods(freed(nodes, gangs, client)) == (3, 3)


def test_extras_of_gangs_that_stay_may_make_room(client: PlacementClient) -> None:
    """Gang b must not move whole; two of its three pods may, and so a has room."""
    nodes, gangs = _tight()
    gangs[0] = gang("a", 0, gpus=6, on=["n-r1"])
    gangs[1] = gang("b", 0, gpus=2, on=["partly"] * 3, minimum=1)
    gangs[1].minimum_run_time.seconds = 60
    gangs[1].start_time.seconds = 1000
    assert pods(freed(nodes, gangs, client)) == (3, 3)


def test_more_domains_than_the_gpus_in_use_leave_is_no_answer_at_once(
    client: PlacementClient,
) -> None:
    """Sixteen halves fill eight racks, so nine cannot be free, whichever of 11,440 sets it is."""
    names = [f"r{i:02}" for i in range(16)]
    gangs = [gang(f"half-{name}", 0, gpus=4, on=[f"n-{name}"]) for name in names]
    found = freed(racks(*names), gangs, client, count=9)
    assert (list(found.moves), list(found.freed)) == ([], [])
    assert not found.pods.HasField("bound")
    assert found.pods.impossible
    assert pods(freed(racks(*names), gangs, client, count=8)) == (8, 8)


def test_a_host_port_is_free_before_another_pod_takes_it(client: PlacementClient) -> None:
    """Rack r2 has room, but its pod keeps the port until the gang is gone."""
    gangs = [
        gang("a", 0, gpus=1, on=["n-r1", "n-r2"]),
        gang("fixed", 0, gpus=1, on=["n-r3"], fixed=True),
    ]
    gangs[0].groups[0].pod_sets[0].template.host_ports.add(port=80, protocol="TCP")
    nodes = racks("r1", "r2", "r3")
    for one in nodes[:2]:
        one.host_ports.add(port=80, protocol="TCP")
    found = freed(nodes, gangs, client)
    assert not found.moves
    assert found.pods.impossible


def test_a_gang_needs_room_outside_what_is_freed(client: PlacementClient) -> None:
    """All nodes spare as many CPUs as it asks for; those that stay open spare half as many."""
    gangs = [gang("two", 0, gpus=1, on=["n-r1", "n-r2"])]
    template = gangs[0].groups[0].pod_sets[0].template
    nodes = racks("r1", "r2")
    template.requests.cpu_millis = nodes[0].allocatable.cpu_millis // 2
    for one in nodes:
        one.requested.cpu_millis += template.requests.cpu_millis
    found = freed(nodes, gangs, client)
    assert (list(found.moves), found.pods.impossible) == ([], True)


def test_a_node_that_is_overbooked_takes_nothing_from_others(client: PlacementClient) -> None:
    nodes = [node("a", rack="r1"), node("b", rack="r2", used=12), node("c", rack="r3", used=4)]
    [move] = freed(nodes, [gang("one", 0, gpus=4, on=["a"])], client).moves
    assert (move.from_node, move.to_node) == ("nodes/a", "nodes/c")


def test_a_gang_that_moves_may_hold_less_elsewhere(client: PlacementClient) -> None:
    """ "more" has eight GPUs on node b and asks for four, so there is room for both."""
    more = gang("more", 0, gpus=4, on=["b"])
    more.groups[0].pod_sets[0].bound_pods[0].held.extended[GPU] = 8
    nodes = [node("a", rack="r1"), node("b", rack="r2", gpus=9, used=5)]
    nodes.append(node("c", rack="r3", used=4))
    found = freed(nodes, [gang("large", 0, gpus=8, on=["a"]), more], client)
    assert [(m.from_node, m.to_node) for m in found.moves] == [
        ("nodes/b", "nodes/c"),
        ("nodes/a", "nodes/b"),
    ]


def test_extras_of_a_gang_that_leaves_are_no_further_moves(client: PlacementClient) -> None:
    """Each other node has room for one of its three pods, but one of these holds its own still."""
    gangs = [gang("two", 0, gpus=4, minimum=2, on=["a", "a", "b"])]
    nodes = [node("a", rack="r1"), *(node(name, rack=name, used=1) for name in "bcd")]
    found = freed(nodes, gangs, client)
    assert (list(found.moves), found.pods.impossible) == ([], True)


def test_a_gang_comes_where_another_one_that_leaves_was(client: PlacementClient) -> None:
    """The pair needs all of node d, though the urgent one would come first."""
    gangs = [gang("urgent", 0, gpus=4, on=["b"], priority=1), gang("pair", 0, gpus=4, on="ac")]
    nodes = [node("a", rack="r1", gpus=4), node("b", rack="r1", gpus=4)]
    nodes += [node("c", rack="c", gpus=5, used=1), node("d", rack="d", gpus=9, used=1)]
    found = freed(nodes, gangs, client)
    assert found.freed == ["r1"]
    assert pods(found) == (3, 3)
    assert found.moves[-1].to_node == "nodes/c"


def test_that_a_gang_finds_no_room_at_once_is_a_bound(client: PlacementClient) -> None:
    """Rack r1 costs two pods, which have room in r2 only once one has left; rack r2 costs three."""
    gangs = [gang("two", 0, gpus=4, on=["a", "d"]), gang("one", 0, gpus=4, on=["c"])]
    nodes = [node("a", rack="r1"), node("b", rack="r1"), node("c", rack="r2")]
    nodes.append(node("d", rack="r2", gpus=4))
    found = freed(nodes, gangs, client)
    assert pods(found) == (3, 3)


def test_pods_that_stay_keep_others_away(client: PlacementClient) -> None:
    """Rack r2 has just the room that is asked for."""
    gangs = [
        gang("mine", 0, gpus=2, on=["n-r1"]),
        gang("shy", 0, gpus=6, on=["n-r2"], fixed=True),
        gang("fixed", 0, gpus=1, on=["n-r3"], fixed=True),
    ]
    gangs[0].groups[0].pod_sets[0].template.labels["app"] = "mine"
    term = gangs[1].groups[0].pod_sets[0].template.required_anti_affinity.add(topology_key=HOST)
    term.selector.match_labels["app"] = "mine"
    [move] = freed(racks("r1", "r2", "r3"), gangs, client).moves
    assert move.to_node == "nodes/n-r3"


def test_a_minimum_run_time_protects_no_gang_without_a_minimum(client: PlacementClient) -> None:
    """It requires one rack, so its extras move together."""
    gangs = [
        gang("young", 0, gpus=2, on=["n-r1"] * 2, minimum=0, required=RACK),
        gang("fixed", 0, gpus=1, on=["n-r2"], fixed=True),
    ]
    gangs[0].minimum_run_time.seconds = 60
    gangs[0].start_time.seconds = 1000
    assert pods(freed(racks("r1", "r2"), gangs, client)) == (2, 2)


def test_extras_may_move_inside_the_domain_that_they_require(client: PlacementClient) -> None:
    """One pod of b could make room on the node for a, on the other node of its rack."""
    nodes = [*racks("r1"), node("partly", rack="r2"), node("other", rack="r2", used=6)]
    gangs = [
        gang("a", 0, gpus=6, on=["n-r1"]),
        gang("b", 0, gpus=2, on=["partly"] * 2, minimum=1, required=RACK),
    ]
    assert freed(nodes, gangs, client).pods.bound == 2


def test_extras_move_alone_where_another_group_requires_a_domain(client: PlacementClient) -> None:
    one = gang("a", 0, gpus=2, on=["n-r2"] * 2)
    loose = one.groups.add(name="loose", min_replicas=1)
    loose.pod_sets.add(template=one.groups[0].pod_sets[0].template).bound_pods.extend(
        v1.BoundPod(name=f"namespaces/ml/pods/loose-{at}", node=f"nodes/n-{at}")
        for at in ("r1", "r2")
    )
    one.packing_scopes.add(name="near", groups=["w"], required_level=RACK)
    assert pods(freed(racks("r1", "r2"), [one], client)) == (1, 1)


@pytest.mark.parametrize(("allowed", "want"), [(1, "r1"), (0, "r2")])
def test_budgets_protect_from_moves(client: PlacementClient, allowed: int, want: str) -> None:
    """Rack r1 has one pod that the budget covers, rack r2 two that it does not."""
    gangs = [
        gang("kept", 0, gpus=2, on=["n-r1"]),
        gang("two", 0, gpus=2, on=["n-r2"] * 2),
    ]
    gangs[0].groups[0].pod_sets[0].template.labels["app"] = "kept"
    asked = v1.ComputeRepackingRequest(
        question=request(racks("r1", "r2"), gangs), level=RACK, count=1
    )
    asked.time_limit.seconds = 30
    budget = asked.question.snapshot.disruption_budgets.add(
        name="namespaces/ml/poddisruptionbudgets/b", allowed=allowed
    )
    budget.selector.match_labels["app"] = "kept"
    assert list(client.repack(asked).freed) == [want]
