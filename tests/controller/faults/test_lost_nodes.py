"""Nodes that go while pods are on their way to them, or run there."""

from __future__ import annotations

import threading

from controller.runtime.steps import Step
from tests.cluster.api import NODES, PODS
from tests.cluster.build import clique, clique_set, node
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import FaultProxy, Hang
from tests.controller.conftest import Start, controller
from tests.controller.gang_facts import scheduled


def collect(cluster: Cluster) -> None:
    """Deletes the pods of nodes that are gone, as Kubernetes' pod garbage collector does."""
    there = {body["metadata"]["name"] for body in cluster.api.items(NODES)}
    for name, where in cluster.bound().items():
        if where not in there:
            cluster.api.delete(PODS, name, cluster.namespace, grace=0)


def test_pods_bound_to_a_node_that_nobody_knew_was_gone_are_replaced(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    service: str,
) -> None:
    """The API server binds pods to nodes that are not there; no check of ours can be so
    late that the node could not go after it."""
    cluster.add_nodes(node("a", gpus=8))
    grove.apply(clique_set("g", clique("worker", 4, gpus=2), namespace=cluster.namespace))
    grove.settle()
    # The node was listed; what becomes of it later is not told.
    fault_proxy.fault(Hang(60), watch=True, path="/nodes$")
    gone = threading.Event()

    def on_step(step: Step) -> None:
        if step is Step.APPLY and not gone.is_set():
            cluster.api.delete(NODES, "a")
            gone.set()

    kubeconfig = cluster.kubeconfig(url=fault_proxy.url)
    with controller(kubeconfig, service, on_step=on_step, watch_silence=2.0, waiting_notice=0.0):
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the pods are bound in vain")
        fault_proxy.clear()
        cluster.wait_until(
            lambda: "4 are on nodes that are gone" in scheduled(cluster, "g-0").get("message", ""),
            "the gang says so",
        )
        assert scheduled(cluster, "g-0")["status"] == "False"
        collect(cluster)
        grove.settle()
        cluster.add_nodes(node("b", gpus=8))
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the replacements are bound")
        cluster.wait_until(
            lambda: scheduled(cluster, "g-0").get("status") == "True", "and that is said"
        )
    assert set(cluster.bound().values()) == {"b"}


def test_when_one_node_of_a_gang_goes_the_rest_stays_and_is_made_whole(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=4), node("b", gpus=4))
    grove.apply(clique_set("g", clique("worker", 4, gpus=2), namespace=cluster.namespace))
    start(waiting_notice=0.0)
    grove.start()
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("status") == "True", "the gang is bound"
    )
    stay = {name for name, where in cluster.bound().items() if where == "a"}
    cluster.api.delete(NODES, "b")
    cluster.wait_until(
        lambda: "2 are on nodes that are gone" in scheduled(cluster, "g-0").get("message", ""),
        "the gang says what it lost",
    )
    collect(cluster)
    cluster.add_nodes(node("c", gpus=4))
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("status") == "True", "the gang is whole again"
    )
    bound = cluster.bound()
    assert {name for name, where in bound.items() if where == "a"} == stay
    assert sorted(bound.values()) == ["a", "a", "c", "c"]
