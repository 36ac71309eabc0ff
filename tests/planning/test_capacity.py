"""Copies of a gang, domains that are missing, and the table of both."""

from __future__ import annotations

import pytest

from placement import v1
from placement.client import PlacementClient
from placement.errors import InvalidRequestError
from tests.planning.clusters import BLOCK, GPU, HOST, RACK, gang, node, request, resource_name


def asked(question: v1.ComputePlacementRequest, **what: object) -> v1.ComputeCapacityRequest:
    one = v1.ComputeCapacityRequest(question=question, levels=[BLOCK, RACK], **what)  # type: ignore[arg-type]
    one.time_limit.seconds = 30
    return one


def copies(client: PlacementClient, question: v1.ComputePlacementRequest, name: str) -> int:
    """The proven number."""
    what = v1.CopiesOfGang(gang=resource_name(name))
    amount = client.capacity(asked(question, copies=what)).amount
    assert amount.value == amount.bound
    return amount.value


def missing(
    client: PlacementClient, question: v1.ComputePlacementRequest, level: str, like: str = ""
) -> v1.ComputeCapacityResponse:
    what = v1.FurtherDomains(level=level, like=like)
    return client.capacity(asked(question, domains=what))


def test_a_gang_that_waits_is_its_own_first_copy(client: PlacementClient) -> None:
    """Racks of 5 and 4 nodes hold two gangs of 3 nodes in one rack, not three."""
    nodes = [node(f"a{i}", rack="r1") for i in range(5)]
    nodes += [node(f"b{i}", rack="r2") for i in range(4)]
    assert copies(client, request(nodes, [gang("three", 3, required=RACK)]), "three") == 2


def test_of_a_gang_that_runs_further_copies_are_counted(client: PlacementClient) -> None:
    question = request([node(f"n{i}") for i in range(3)], [gang("runs", 0, on=["n0"])])
    assert copies(client, question, "runs") == 2


def test_of_a_gang_that_is_made_whole_further_copies_are_counted(client: PlacementClient) -> None:
    question = request([node(f"n{i}") for i in range(4)], [gang("lost", 1, on=["n0"], minimum=2)])
    assert copies(client, question, "lost") == 1


def test_copies_stand_beside_all_that_the_plan_places(client: PlacementClient) -> None:
    gangs = [gang("other", 2), gang("one", 1)]
    assert copies(client, request([node(f"n{i}") for i in range(4)], gangs), "one") == 2


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "root",
    [
        v1.Queue(name="queues/root", limit={"gpus": 20}),
        v1.Queue(name="queues/root", guaranteed={"gpus": 20}),
        v1.Queue(name="queues/root", limit={"memory": 2}),
    ],
)
def test_copies_share_what_their_queue_allows(
    client: PlacementClient, root: v1.Queue, waits: bool
) -> None:
    """Six empty nodes, but 20 GPUs or two bytes for gangs of 8 GPUs and a byte: two in all."""
    one = gang("one", 1, fixed=True) if waits else gang("one", 0, on=["n0"], fixed=True)
    one.queue = "queues/leaf"
    one.groups[0].pod_sets[0].template.requests.memory_bytes = 1
    question = request([node(f"n{i}") for i in range(6)], [one])
    for each in question.snapshot.nodes:
        each.allocatable.memory_bytes = 100
    question.snapshot.queues.extend([root, v1.Queue(name="queues/leaf", parent=root.name)])
    assert copies(client, question, "one") == (2 if waits else 1)


def test_a_gang_that_lost_a_pod_is_not_asked_for_beside_copies(client: PlacementClient) -> None:
    """Of each copy one pod is enough, and of those that ask for 2 GPUs four fit."""
    one, lost = gang("one", 2, minimum=1), gang("lost", 0, gpus=1, on=["n1"], minimum=2)
    small = one.groups[0].pod_sets.add(template=one.groups[0].pod_sets[0].template)
    small.template.requests.extended[GPU] = 2
    small.pods.add(name="namespaces/ml/pods/small")
    assert copies(client, request([node("n0"), node("n1", gpus=1)], [one, lost]), "one") == 4


def spread(one: v1.PodGang, over: str, app: str) -> None:
    """Pods of the gang are spread over domains, so that those with a label lie evenly."""
    template = one.groups[0].pod_sets[0].template
    constraint = template.spread_constraints.add(max_skew=1, topology_key=over)
    constraint.selector.match_labels["app"] = app


def test_copies_come_under_rules_that_nobody_had_before(client: PlacementClient) -> None:
    """Both pods of "a" lie in the only rack with room for them: two more than in the other."""
    nodes = [node("n1", rack="r1"), node("n2", used=7, rack="r2")]
    first = gang("a", 2, gpus=1, required=RACK, priority=1)
    first.groups[0].pod_sets[0].template.labels["app"] = "a"
    late = gang("b", 2, gpus=1, required=RACK)
    spread(late, RACK, "a")
    assert copies(client, request(nodes, [first, late]), "b") == 0


def test_two_copies_may_fit_where_one_does_not(client: PlacementClient) -> None:
    """Each has two pods in one rack, and no rack may have two more than the other."""
    one = gang("a", 2, gpus=4, required=RACK)
    one.groups[0].pod_sets[0].template.labels["app"] = "a"
    spread(one, RACK, "a")
    nodes = [node(f"n{i}", rack=f"r{i}") for i in (1, 2)]
    assert copies(client, request(nodes, [one]), "a") == 2


def test_fewer_copies_may_fit_with_more_domains(client: PlacementClient) -> None:
    """Beside three pods in rack r1 four more fit into r2, beside one in a further rack two."""
    nodes = [node("n1", gpus=4, used=4, rack="r1"), node("n2", gpus=16, rack="r2")]
    one = gang("a", 1, gpus=4)
    one.groups[0].pod_sets[0].template.labels["app"] = "a"
    spread(one, RACK, "a")
    question = request(nodes, [one])
    for i in range(3):
        name = f"namespaces/ml/pods/running{i}"
        question.snapshot.pods.add(name=name, node="nodes/n1", labels={"app": "a"})
    domains = v1.FurtherDomains(level=RACK, like="r1")
    frontier = v1.Frontier(domains=domains, gangs=[one.name], most=1)
    rows = client.capacity(asked(question, frontier=frontier)).rows
    assert [[(c.value, c.bound) for c in row.copies] for row in rows] == [[(4, 4)], [(3, 3)]]


def test_what_does_not_fit_at_all_has_no_copies(client: PlacementClient) -> None:
    assert copies(client, request([node("n1")], [gang("large", 2)]), "large") == 0


def test_copies_of_two_shapes_share_what_counting_alone_would_give_twice(
    client: PlacementClient,
) -> None:
    """Racks of 5 nodes hold one gang of 3 and one of 2; counting nodes alone sees room for 3."""
    nodes = [node(f"{rack}{i}", rack=rack) for rack in ("a", "b", "c") for i in range(4)]
    gangs = [gang("two", 2, required=RACK), gang("three", 3, required=RACK)]
    assert copies(client, request(nodes, gangs), "three") == 2


def test_the_fewest_further_domains_are_proven(client: PlacementClient) -> None:
    nodes = [node(f"n{i}", block="b1", rack="r1") for i in range(3)]
    question = request(nodes, [gang(f"g{i}", 2, required=RACK) for i in range(3)])
    found = missing(client, question, RACK, "r1")
    assert (found.amount.value, found.amount.bound) == (2, 2)
    assert all(one.placed for one in found.placement.gangs)


def test_nodes_are_domains_of_one_host(client: PlacementClient) -> None:
    found = missing(client, request([node("n1")], [gang("a", 4)]), HOST, "n1")
    assert (found.amount.value, found.amount.bound) == (3, 3)


def test_a_further_domain_makes_its_parents_larger(client: PlacementClient) -> None:
    """The gang needs one block, so a rack of its own is of use only beside the others."""
    nodes = [node("n1", block="b1", rack="r1"), node("n2", block="b2", rack="r2")]
    found = missing(client, request(nodes, [gang("a", 3, required=BLOCK)]), RACK, "r2")
    assert (found.amount.value, found.amount.bound) == (2, 2)


def test_nothing_is_missing_when_all_are_placed(client: PlacementClient) -> None:
    found = missing(client, request([node("n1", rack="r1")], [gang("a", 1)]), RACK)
    assert (found.amount.value, found.amount.bound) == (0, 0)
    assert found.domains.like == "r1"


def test_no_number_of_domains_helps_a_pod_larger_than_a_node(client: PlacementClient) -> None:
    found = missing(client, request([node("n1", rack="r1")], [gang("a", 1, gpus=9)]), RACK)
    assert not found.amount.HasField("value")
    assert found.amount.impossible
    assert not found.HasField("placement")


@pytest.mark.parametrize(
    ("level", "like", "said"),
    [
        ("example.com/rack", "", "there is no node label example.com/rack; did you mean"),
        ("rack", "", f"there is no node label rack; did you mean {RACK}?"),
        (RACK, "r11", f"there is no {RACK} r11; did you mean r1?"),
    ],
)
def test_what_is_not_there_is_answered_with_the_nearest_name(
    client: PlacementClient, level: str, like: str, said: str
) -> None:
    question = request([node("n1", rack="r1")], [gang("a", 2)])
    with pytest.raises(InvalidRequestError) as error:
        missing(client, question, level, like)
    assert said in error.value.violations[0].description


def test_a_table_shows_what_each_further_domain_brings(client: PlacementClient) -> None:
    nodes = [node(f"n{i}", rack="r1") for i in range(3)]
    question = request(nodes, [gang("two", 2, required=RACK), gang("one", 1)])
    frontier = v1.Frontier(
        domains=v1.FurtherDomains(level=RACK, like="r1"),
        gangs=[resource_name("two"), resource_name("one")],
        most=2,
    )
    rows = client.capacity(asked(question, frontier=frontier)).rows
    # Both run, so "one" has no room left, and each rack holds one "two" or three "one" more.
    assert [[amount.value for amount in row.copies] for row in rows] == [[1, 1], [2, 4], [3, 7]]
    assert all(amount.value == amount.bound for row in rows for amount in row.copies)


def test_a_search_closes_what_counting_leaves_open_in_a_table(client: PlacementClient) -> None:
    """Three racks of three hold a "two" each, and "three" in what is left, though it runs in one
    rack at first."""
    nodes = [node(f"n{i}", rack="r1") for i in range(3)]
    question = request(nodes, [gang("two", 2, required=RACK), gang("three", 3)])
    domains = v1.FurtherDomains(level=RACK, like="r1")
    frontier = v1.Frontier(domains=domains, gangs=[resource_name("two")], most=2)
    rows = client.capacity(asked(question, frontier=frontier)).rows
    assert [(row.copies[0].value, row.copies[0].bound) for row in rows] == [(0, 0), (1, 1), (3, 3)]


def test_what_fits_does_not_depend_on_what_a_policy_prefers(client: PlacementClient) -> None:
    """An extra that comes before a lower minimum would need a node more."""
    gangs = [gang("first", 2, minimum=1, priority=10), gang("a", 1)]
    question = request([node("n1"), node("n2")], gangs)
    question.policy.extras = v1.ExtrasPolicy.EXTRAS_POLICY_WITH_PRIORITY
    found = missing(client, question, HOST, "n1")
    assert (found.amount.value, found.amount.bound) == (0, 0)
    assert all(one.placed for one in found.placement.gangs)


def test_a_gang_whose_base_waits_has_no_copies(client: PlacementClient) -> None:
    base, scaled = gang("base", 3), gang("scaled", 1)
    scaled.base_gang = base.name
    assert copies(client, request([node("n1"), node("n2")], [base, scaled]), "scaled") == 0


def test_no_domain_helps_a_gang_that_must_be_near_pods_that_are_not_there(
    client: PlacementClient,
) -> None:
    """No counting says so; but two pods are in two domains at most."""
    one = gang("one", 2)
    term = (
        one.groups[0]
        .pod_sets[0]
        .template.required_affinity.add(topology_key=RACK, namespaces=["elsewhere"])
    )
    term.selector.match_labels["app"] = "cache"
    found = missing(client, request([node("n1", rack="r1")], [one]), RACK)
    assert found.amount.impossible
    assert not found.amount.HasField("value")
