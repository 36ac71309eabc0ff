"""Gangs as Grove's own end-to-end tests shape them: minimums first, bases first, and again.

A pod takes the one GPU of a node, so what is bound can be counted in nodes.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cluster.api import NODES, PODS, Body
from tests.cluster.build import clique, clique_set, node, scaling_group
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.controller.conftest import Start
from tests.controller.gang_facts import add_gang, bound_of, scheduled


def nodes(cluster: Cluster, count: int, *, prefix: str = "n") -> None:
    cluster.add_nodes(*(node(f"{prefix}{i}", gpus=1) for i in range(count)))


def whole(cluster: Cluster) -> Body:
    """Ten pods in one gang, all of them its minimum."""
    return clique_set(
        "w",
        clique("a", 2),
        clique("b", 1),
        clique("c", 3),
        groups=[scaling_group("x", ["b", "c"], replicas=2, least=2)],
        namespace=cluster.namespace,
    )


def elastic(cluster: Cluster, *, replicas: int = 1) -> Body:
    """Ten pods: a base with a minimum of three of its six, a scaled gang of two of four."""
    return clique_set(
        "w",
        clique("a", 2, least=1),
        clique("b", 1, least=1),
        clique("c", 3, least=1),
        groups=[scaling_group("x", ["b", "c"], replicas=2, least=1)],
        replicas=replicas,
        namespace=cluster.namespace,
    )


def bound_by_clique(cluster: Cluster) -> Counter[str]:
    return Counter(
        pod["metadata"]["labels"]["grove.io/podclique"]
        for pod in cluster.pods()
        if pod["spec"].get("nodeName")
    )


def test_with_a_node_too_few_nothing_is_bound_and_with_it_everything(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    nodes(cluster, 9)
    grove.apply(whole(cluster))
    grove.start()
    start()
    cluster.wait_until(
        lambda: scheduled(cluster, "w-0").get("status") == "False", "the gang says that it waits"
    )
    assert cluster.bound() == {}
    nodes(cluster, 1, prefix="more")
    cluster.wait_until(lambda: len(cluster.bound()) == 10, "all of it is bound")


def test_minimums_come_before_extras_of_any_gang(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    nodes(cluster, 3)
    grove.apply(elastic(cluster))
    grove.settle()
    start()
    grove.start()
    # Its scaled gang may be bound only now; no node is left for it, nor for extras.
    cluster.wait_until(
        lambda: scheduled(cluster, "w-0-x-0").get("status") == "False", "the scaled gang waits"
    )
    assert bound_by_clique(cluster) == {"w-0-a": 1, "w-0-x-0-b": 1, "w-0-x-0-c": 1}
    # Room for two: the scaled gang's minimum, and not two extras of the base.
    cluster.add_nodes(node("two", gpus=2))
    cluster.wait_until(
        lambda: scheduled(cluster, "w-0-x-0").get("status") == "True", "the scaled gang is bound"
    )
    assert bound_of(cluster, "w-0-x-0") == 2
    assert bound_of(cluster, "w-0") == 3
    cluster.add_nodes(node("five", gpus=5))
    cluster.wait_until(lambda: len(cluster.bound()) == 10, "extras of both are bound")


def test_two_replicas_get_their_minimums_before_either_gets_extras(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    nodes(cluster, 6)
    grove.apply(elastic(cluster, replicas=2))
    grove.settle()
    start()
    cluster.wait_until(lambda: len(cluster.bound()) == 6, "both minimums are bound")
    assert (bound_of(cluster, "w-0"), bound_of(cluster, "w-1")) == (3, 3)


@pytest.mark.parametrize("which", range(3))
def test_what_replaces_a_pod_returns_to_its_node(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start, which: int
) -> None:
    """All nodes would do as well; only on one of them are image and model there."""
    # The first ones to come into question, were they not closed at first.
    cluster.add_nodes(*(node(f"a{i}", gpus=1, unschedulable=True) for i in range(2)))
    nodes(cluster, 3)
    grove.apply(clique_set("w", clique("a", 3), namespace=cluster.namespace))
    start()
    grove.start()
    cluster.wait_until(
        lambda: scheduled(cluster, "w-0").get("status") == "True", "the gang is bound"
    )
    for name in ("a0", "a1"):
        cluster.api.merge(NODES, name, {"spec": {"unschedulable": None}})
    before = cluster.bound()
    lost = sorted(before)[which]
    cluster.api.delete(PODS, lost, cluster.namespace, grace=0)
    cluster.wait_until(
        lambda: lost not in cluster.bound() and len(cluster.bound()) == 3, "it is replaced"
    )
    assert sorted(cluster.bound().values()) == sorted(before.values())


@pytest.mark.parametrize(("keep", "want"), [(30.0, "g-0-x-0"), (0.0, "late")])
def test_room_is_kept_while_grove_holds_a_scaled_gang_back(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    start: Start,
    keep: float,
    want: str,
) -> None:
    """Another gang arrives before the gate opens; where nothing is kept it gets the room."""
    nodes(cluster, 2)
    grove.apply(
        clique_set(
            "g",
            clique("a", 1),
            groups=[scaling_group("x", ["a"], replicas=2, least=1)],
            namespace=cluster.namespace,
        )
    )
    grove.start()
    start(keep_gated=keep)
    cluster.wait_until(lambda: bound_of(cluster, "g-0") == 1, "the base runs")
    add_gang(cluster, "late", pods=1)
    other = "late" if want != "late" else "g-0-x-0"
    cluster.wait_until(
        lambda: (
            scheduled(cluster, want).get("status") == "True"
            and scheduled(cluster, other).get("status") == "False"
        ),
        "one of them is bound, and the other is told why not",
    )


def test_every_node_serves_one_compute_domain(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """Grove makes a domain for each replica of a set with an MNNVL group: the base and what it
    scales are in one, by a claim of each pod that has GPUs (GREP-417)."""
    served = clique_set(
        "m",
        clique("router", 1, gpus=0),
        clique("decode", 1),
        groups=[scaling_group("x", ["decode"], replicas=2, least=1)],
        replicas=2,
        namespace=cluster.namespace,
    )
    served["metadata"]["annotations"] = {"grove.io/mnnvl-group": "default"}
    cluster.add_nodes(node("n0", gpus=8))
    grove.apply(served)
    grove.settle()
    start()
    grove.start()

    def gpu_pods() -> Counter[tuple[str, str]]:
        """Bound pods by node and by the template of their claim."""
        return Counter(
            (pod["spec"]["nodeName"], claim["resourceClaimTemplateName"])
            for pod in cluster.pods()
            for claim in pod["spec"].get("resourceClaims") or ()
            if pod["spec"].get("nodeName")
        )

    # A domain has the node, though it has GPUs for both.
    cluster.wait_until(lambda: list(gpu_pods().values()) == [2], "one replica runs")
    assert len(cluster.bound()) == 3
    cluster.add_nodes(node("n1", gpus=8))
    cluster.wait_until(lambda: list(gpu_pods().values()) == [2, 2], "the other runs on its own")
    assert {at for at, _ in gpu_pods()} == {"n0", "n1"}
    assert {claim for _, claim in gpu_pods()} == {"m-0-default", "m-1-default"}
