"""Remedies: each kind on the smallest cluster where it is the way in."""

from __future__ import annotations

import pytest

from placement import v1
from placement.client import PlacementClient
from placement.errors import InvalidRequestError
from tests.planning.clusters import BLOCK, GPU, HOST, RACK, gang, node, request, resource_name
from tests.planning.explaining import explained, placed, pods, remedies


def test_a_gang_that_is_placed_needs_no_remedy(client: PlacementClient) -> None:
    found = explained(client, request([node("n1")], [gang("a", 1)]), "a")
    assert placed(found, "a")
    assert not found.remedies


def test_an_unknown_gang_is_answered_with_the_nearest_name(client: PlacementClient) -> None:
    with pytest.raises(InvalidRequestError, match="did you mean"):
        explained(client, request([node("n1")], [gang("serve", 1)]), "sreve")


def test_a_name_as_long_as_a_book_is_not_told_back(client: PlacementClient) -> None:
    asked = v1.ExplainGangRequest(question=request([node("a")], [gang("g", 1)]), gang="x" * 100_000)
    with pytest.raises(InvalidRequestError, match="there is no gang") as caught:
        client.explain(asked)
    assert len(str(caught.value)) < 2000


def test_each_kind_of_remedy_is_the_least(client: PlacementClient) -> None:
    """Three whole nodes in one rack; rack r1 has three, of which n3 is closed."""
    nodes = [node(f"n{i}", block="b1", rack="r1", closed=i == 3) for i in (1, 2, 3)]
    nodes += [node(f"n{i}", block="b1", rack="r2") for i in (4, 5)]
    asked = request(nodes, [gang("a", 3, required=RACK)])
    assert remedies(client, asked, "a") == {
        "uncordon": (("nodes/n3",),),
        "relax": (RACK, BLOCK),
        "reduce": ("w", 3, 2),
        "add_nodes": ("nodes/n1", 1),
    }


def test_the_rule_of_the_only_group_is_not_called_the_gangs(client: PlacementClient) -> None:
    """The gang requires one block, its group one rack."""
    nodes = [node(f"n{i}", block="b1", rack=f"r{i}") for i in (1, 2)]
    asked = gang("a", 2, required=BLOCK)
    asked.packing_scopes.add(name="w", groups=["w"], required_level=RACK)
    assert remedies(client, request(nodes, [asked]), "a")["relax"] == ("w", RACK, BLOCK)


def test_relaxing_skips_levels_that_do_not_help(client: PlacementClient) -> None:
    nodes = [node("n1", block="b1", rack="r1"), node("n2", block="b2", rack="r2")]
    found = remedies(client, request(nodes, [gang("a", 2, required=RACK)]), "a")
    assert found["relax"] == (RACK,)


def test_a_further_node_is_like_an_open_one(client: PlacementClient) -> None:
    """Two kinds would do, and of each the first by name is closed."""
    nodes = [node("a", closed=True), node("b"), node("c", gpus=16, closed=True)]
    [added] = [
        one
        for one in explained(client, request(nodes, [gang("two", 2)]), "two").remedies
        if one.HasField("add_nodes")
    ]
    assert (added.add_nodes.like, added.add_nodes.count) == ("nodes/b", 1)


def test_nothing_helps_a_pod_that_is_larger_than_every_node(client: PlacementClient) -> None:
    assert remedies(client, request([node("n1")], [gang("a", 1, gpus=16)]), "a") == {}


def test_of_all_kinds_of_nodes_that_is_added_of_which_fewest_do_beside_others_that_wait(
    client: PlacementClient,
) -> None:
    """The first two small nodes, or the first large one, would go to "first" and "second"."""
    nodes = [node("n1", used=8), node("n2", gpus=16, used=16)]
    gangs = [gang("first", 1, priority=10), gang("second", 1, priority=10), gang("a", 1)]
    asked = request(nodes, gangs)
    assert remedies(client, asked, "a")["add_nodes"] == ("nodes/n2", 2)


def test_a_remedy_displaces_no_gang_that_the_plan_places(client: PlacementClient) -> None:
    """One more node lets "a" in only if "b", which is placed now, still has its own."""
    found = remedies(client, request([node("n1", rack="r1")], [gang("b", 1), gang("a", 2)]), "a")
    assert found == {"add_nodes": ("nodes/n1", 2)}


def test_a_remedy_serves_the_gang_though_others_wait_as_well(client: PlacementClient) -> None:
    """A node more would go to "large"; two nodes hold both."""
    gangs = [gang("small", 1, gpus=4), gang("large", 1, gpus=8)]
    found = remedies(client, request([node("n1", used=8)], gangs), "small")
    assert found == {"add_nodes": ("nodes/n1", 2)}


def test_a_plan_that_is_told_is_not_computed_again(client: PlacementClient) -> None:
    """The plan places "b" though "a" would do as well, so "a" is what waits."""
    asked = request([node("n1")], [gang("a", 1), gang("b", 1)])
    binding = v1.Binding(
        pod="namespaces/ml/pods/b-0", node="nodes/n1", gang=resource_name("b"), group="w"
    )
    question = v1.ExplainGangRequest(question=asked, gang=resource_name("a"))
    question.plan.bindings.append(binding)
    [found] = client.explain(question).remedies
    assert found.add_nodes.count == 1
    question.plan.bindings.append(binding)
    question.plan.bindings[1].pod = "namespaces/ml/pods/a-0"
    with pytest.raises(InvalidRequestError, match=r"nvidia.com/gpu"):
        client.explain(question)


def test_several_closed_nodes_are_opened_only_as_far_as_needed(client: PlacementClient) -> None:
    nodes = [node("n1"), *(node(f"c{i}", closed=True) for i in range(4))]
    [opened] = [
        one.uncordon.nodes
        for one in explained(client, request(nodes, [gang("a", 3)]), "a").remedies
        if one.HasField("uncordon") and one.proven
    ]
    assert len(opened) == 2


@pytest.mark.parametrize("minimum", [4, 5])
def test_the_fewest_are_opened_also_where_only_a_search_finds_a_plan(
    client: PlacementClient, minimum: int
) -> None:
    """The plan has "b" on the nodes that "a" needs; all of its minimum fits the node in block y."""
    nodes = [node(f"n{i}", gpus=5, block="x") for i in range(2)]
    nodes += [node(f"c{i}", gpus=5, block="xyy"[i], closed=True) for i in range(3)]
    gangs = [gang("a", 3, gpus=5, required=BLOCK), gang("b", 5, gpus=1, minimum=minimum)]
    found = remedies(client, request(nodes, gangs), "a")
    assert found["uncordon"] == (("nodes/c0", "nodes/c1"),)


def test_closed_nodes_are_told_apart_by_who_runs_there(client: PlacementClient) -> None:
    """Two pods of "y" have to be near an "x": the second large node has room for both beside one,
    and the small nodes have room for one each.
    """
    sizes = {"large1": 10, "large2": 10, "small1": 6, "small2": 6}
    nodes = [node(name, gpus=gpus, used=2, closed=True) for name, gpus in sizes.items()]
    asked = request([node("full", used=8), *nodes], [gang("y", 2, gpus=4)])
    for name in sizes:
        pod = f"namespaces/ml/pods/on-{name}"
        labels = {"app": "z" if name == "large1" else "x"}
        asked.snapshot.pods.add(name=pod, node=f"nodes/{name}", labels=labels)
    template = asked.gangs[0].groups[0].pod_sets[0].template
    term = template.required_affinity.add(topology_key=HOST, namespaces=["ml"])
    term.selector.match_labels["app"] = "x"
    assert remedies(client, asked, "y")["uncordon"] == (("nodes/large2",),)


def near_x(asked: v1.ComputePlacementRequest, name: str) -> v1.PodTemplate:
    """All pods of gang "x" are labelled so; those of another gang have to be in a rack of one."""
    templates = {one.name: one.groups[0].pod_sets[0].template for one in asked.gangs}
    templates[resource_name("x")].labels["app"] = "x"
    template = templates[resource_name(name)]
    term = template.required_affinity.add(topology_key=RACK, namespaces=["ml"])
    term.selector.match_labels["app"] = "x"
    return template


def test_fewer_nodes_do_where_a_gang_that_waits_comes_with_them(client: PlacementClient) -> None:
    """An "x" runs where nodes are small; one large node has room for another "x" and all of "y"."""
    nodes = [node("large", gpus=12, used=12, rack="r1"), node("small", gpus=4, used=4, rack="r2")]
    asked = request(nodes, [gang("x", 1, gpus=4), gang("y", 2, gpus=4)])
    near_x(asked, "y")
    asked.snapshot.pods.add(name="namespaces/ml/pods/x", node="nodes/small", labels={"app": "x"})
    assert remedies(client, asked, "y")["add_nodes"] == ("nodes/large", 1)


def test_nodes_are_added_for_a_gang_that_has_to_come_first(client: PlacementClient) -> None:
    asked = request([node("n", used=8, rack="r")], [gang("x", 1), gang("y", 1)])
    near_x(asked, "y")
    assert remedies(client, asked, "y") == {"add_nodes": ("nodes/n", 2)}


def test_a_node_is_opened_for_a_gang_that_has_to_come_first(client: PlacementClient) -> None:
    nodes = [node("n1", rack="r1", gpus=4), node("n2", rack="r1", closed=True)]
    asked = request(nodes, [gang("x", 1), gang("y", 1, gpus=4)])
    near_x(asked, "y")
    assert remedies(client, asked, "y")["uncordon"] == (("nodes/n2",),)


def test_a_gang_that_waits_may_fill_the_emptiest_rack(client: PlacementClient) -> None:
    """Rack r1 has two "x" more than r2, where a further node would get one."""
    nodes = [node("n1", used=4, rack="r1"), node("n2", used=8, rack="r2")]
    asked = request(nodes, [gang("x", 1), gang("y", 1, gpus=4)])
    template = near_x(asked, "y")
    del template.required_affinity[:]
    template.node_selector[RACK] = "r1"
    constraint = template.spread_constraints.add(
        max_skew=1, topology_key=RACK, ignore_node_affinity=True
    )
    constraint.selector.match_labels["app"] = "x"
    for i in (1, 2):
        name = f"namespaces/ml/pods/x{i}"
        asked.snapshot.pods.add(name=name, node="nodes/n1", labels={"app": "x"})
    assert remedies(client, asked, "y") == {"add_nodes": ("nodes/n2", 1)}


def test_a_gang_that_waits_may_leave_some_of_a_reservation(client: PlacementClient) -> None:
    """One pod of "x" needs half of what is held for it once, and the other a further node."""
    nodes = [node("n1"), node("n2", used=8)]
    asked = request(nodes, [gang("x", 1, gpus=4), gang("y", 1, gpus=4)])
    other = asked.gangs[0].groups.add(name="other", min_replicas=1).pod_sets.add()
    other.template.requests.extended[GPU] = 8
    other.pods.add(name="namespaces/ml/pods/x-other")
    asked.gangs[1].groups[0].pod_sets[0].template.node_selector[HOST] = "n1"
    held = asked.snapshot.reservations.add(
        name="reservations/held", node="nodes/n1", allocate_once=True
    )
    held.held.extended[GPU] = 8
    held.owners.add(gang=resource_name("x"))
    assert remedies(client, asked, "y") == {"add_nodes": ("nodes/n1", 1)}


def test_a_rack_that_was_one_node_gets_further_ones(client: PlacementClient) -> None:
    """Pods of 4, 4, 3, 4 and 5 GPUs would fill two nodes of 10, but no two or three make 10."""
    nodes = [node("n1", gpus=10, rack="r1"), node("n2", used=8, rack="r2")]
    gangs = [gang("a", 2, gpus=4, required=RACK, priority=1), gang("b", 1, gpus=3, required=RACK)]
    asked = request(nodes, gangs)
    for gpus in (4, 5):
        name = f"with-{gpus}"
        other = asked.gangs[1].groups.add(name=name, min_replicas=1).pod_sets.add()
        other.template.requests.extended[GPU] = gpus
        other.pods.add(name=f"namespaces/ml/pods/b-{name}")
    assert remedies(client, asked, "b")["add_nodes"] == ("nodes/n1", 2)


def test_nodes_are_added_for_the_base_as_well(client: PlacementClient) -> None:
    """The base needs two nodes, and what is based on it one more."""
    base, scaled = gang("base", 2), gang("scaled", 1)
    scaled.base_gang = base.name
    found = remedies(client, request([node("n1", used=8)], [base, scaled]), "scaled")
    assert found == {"add_nodes": ("nodes/n1", 3)}


def test_no_node_helps_where_a_queue_has_no_room_beside_the_base(client: PlacementClient) -> None:
    asked = request([node("n", used=8)], [gang("base", 1, gpus=2), gang("more", 1)])
    asked.gangs[1].base_gang = asked.gangs[0].name
    for one in asked.gangs:
        one.queue = "queues/q"
    asked.snapshot.queues.add(name="queues/q").limit["gpus"] = 8
    assert remedies(client, asked, "more") == {}


def test_what_waits_of_a_gang_that_runs_in_part_may_get_the_nodes_first(
    client: PlacementClient,
) -> None:
    part = gang("part", 1, on=["n1"], priority=10)
    found = remedies(client, request([node("n1")], [part, gang("small", 1)]), "small")
    assert found == {"add_nodes": ("nodes/n1", 2)}


def test_extras_that_come_before_lower_minimums_get_the_nodes_first(
    client: PlacementClient,
) -> None:
    gangs = [gang("first", 2, minimum=1, priority=10), gang("small", 1)]
    asked = request([node("n1")], gangs)
    asked.policy.extras = v1.ExtrasPolicy.EXTRAS_POLICY_WITH_PRIORITY
    assert remedies(client, asked, "small")["add_nodes"] == ("nodes/n1", 2)


@pytest.mark.parametrize("rival", [-1, 10])
def test_an_opened_node_that_somebody_else_would_get_is_no_remedy(
    client: PlacementClient, rival: int
) -> None:
    """The pod of "half" would go to the small node, and leave n1 to one of the others."""
    gangs = [gang("half", 1, gpus=4, priority=20), gang("a", 1), gang("b", 1, priority=rival)]
    asked = request([node("n1"), node("c1", gpus=4, closed=True)], gangs)
    found = explained(client, asked, "a").remedies
    assert [list(r.uncordon.nodes) for r in found if r.HasField("uncordon")] == (
        [["nodes/c1"]] if rival < 0 else []
    )


def test_nodes_of_a_kind_that_others_cannot_use_are_fewer(client: PlacementClient) -> None:
    """A node like n1 would go to "first", which no node like n2 serves."""
    nodes = [node("n1", used=8, rack="r1"), node("n2", used=8, rack="r2")]
    asked = request(nodes, [gang("first", 1, priority=10), gang("a", 1)])
    asked.gangs[0].groups[0].pod_sets[0].template.node_selector[RACK] = "r1"
    assert remedies(client, asked, "a")["add_nodes"] == ("nodes/n2", 1)


def test_who_is_in_another_compute_domain_goes(client: PlacementClient) -> None:
    """There is room on the node, but it serves one domain at a time."""
    gangs = [gang("old", 0, gpus=2, on=["n1"]), gang("urgent", 1, gpus=2, priority=10)]
    asked = request([node("n1")], gangs)
    for one, domain in zip(asked.gangs, ("ml/old", "ml/new"), strict=True):
        one.groups[0].pod_sets[0].template.compute_domain = domain
    asked.snapshot.nodes[0].compute_domain = "ml/old"
    asked.snapshot.nodes[0].compute_domain_pods = 1
    found = explained(client, asked, "urgent").remedies
    assert [list(r.evict.pods) for r in found if r.HasField("evict")] == [list(pods("old", 0))]


def test_groups_of_one_host_that_need_no_pod_may_all_go(client: PlacementClient) -> None:
    old = gang("old", 0, gpus=4, minimum=0, on=["n1"], required=HOST)
    old.groups.append(gang("also", 0, gpus=4, minimum=0, on=["n1"]).groups[0])
    old.groups[1].name = "v"
    old.groups[1].pod_sets[0].template.host_ports.add(port=80)
    asked = request([node("n1")], [old, gang("urgent", 1, priority=10)])
    for one, domain in zip(asked.gangs, ("ml/old", "ml/new"), strict=True):
        for group in one.groups:
            group.pod_sets[0].template.compute_domain = domain
    found = remedies(client, asked, "urgent")
    assert found["evict"] == ((old.name,), (*pods("also", 0), *pods("old", 0)))


@pytest.mark.parametrize("never", [False, True])
def test_a_gang_that_never_preempts_is_offered_no_evictions(
    client: PlacementClient, never: bool
) -> None:
    asked = request([node("n1")], [gang("low", 0, on=["n1"]), gang("urgent", 1, priority=10)])
    asked.gangs[1].never_preempts = never
    assert ("evict" in remedies(client, asked, "urgent")) != never


@pytest.mark.parametrize("fixed", [False, True])
def test_a_base_goes_only_with_what_is_based_on_it(client: PlacementClient, fixed: bool) -> None:
    gangs = [
        gang("base", 0, on=["n1"]),
        gang("scaled", 0, gpus=4, on=["n2"], fixed=fixed),
        gang("urgent", 1, priority=10),
    ]
    gangs[1].base_gang = gangs[0].name
    asked = request([node("n1"), node("n2", used=4)], gangs)
    found = remedies(client, asked, "urgent")
    both = (resource_name("base"), resource_name("scaled"))
    want = None if fixed else (both, (*pods("base", 0), *pods("scaled", 0)))
    assert found.get("evict") == want
