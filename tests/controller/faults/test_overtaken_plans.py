"""What changes in the cluster between a plan and its bindings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from controller.runtime.steps import Step
from tests.cluster.api import NODES, PODS
from tests.cluster.build import (
    node,
)
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.controller.conftest import controller
from tests.controller.gang_facts import metric, serve_gang
from tests.waiting import LONG, wait_until


def is_told(port: int, kind: str) -> bool:
    """Whether the controller has heard of a change since it listed a kind."""
    return metric(port, f'watch_events_total{{kind="{kind}"}}') > 0


@contextmanager
def overtaken(
    cluster: Cluster, service: str, kind: str, change: Callable[[], object]
) -> Iterator[None]:
    """A controller that hears of a change when its plan is there, and binds nothing."""
    changed = threading.Event()
    port: Future[int] = Future()

    def on_step(step: Step) -> None:
        if step is Step.APPLY and not changed.is_set():
            change()
            # Without knowing the pods would be bound in vain.
            wait_until(lambda: is_told(port.result(LONG), kind), "the watch tells")
            changed.set()

    with controller(cluster.kubeconfig(), service, on_step=on_step) as running:
        port.set_result(running.probes.port)
        assert changed.wait(LONG)
        time.sleep(1.0)
        assert cluster.bound() == {}
        yield


def test_a_node_that_goes_between_plan_and_binding_gets_nothing(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str
) -> None:
    """The plan is for the only node with room; it goes while the answer is awaited."""
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    with overtaken(cluster, service, "Node", lambda: cluster.api.delete(NODES, "a")):
        cluster.add_nodes(node("b", gpus=8))
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound elsewhere")
    assert set(cluster.bound().values()) == {"b"}


def test_a_pod_that_goes_between_plan_and_binding_stops_its_gang(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)

    def lose_one() -> None:
        lost = min(pod["metadata"]["name"] for pod in cluster.pods())
        cluster.api.delete(PODS, lost, cluster.namespace, grace=0)

    with overtaken(cluster, service, "Pod", lose_one):
        grove.settle()
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound, whole again")


def test_a_pod_of_the_same_name_is_not_bound_in_its_place(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str
) -> None:
    """Deleted and made anew behind the controller's back: the uid keeps them apart."""
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    swapped = threading.Event()
    bound_then: list[bool] = []

    def on_step(step: Step) -> None:
        if step is Step.BIND and not swapped.is_set():
            swapped.set()
            for pod in cluster.pods():
                metadata = pod["metadata"]
                cluster.api.delete(PODS, metadata["name"], cluster.namespace, grace=0)
                fresh = {
                    k: v
                    for k, v in metadata.items()
                    if k in ("name", "namespace", "labels", "ownerReferences")
                }
                cluster.api.create(PODS, {"metadata": fresh, "spec": pod["spec"]})
            bound_then.append(bool(cluster.bound()))

    with controller(cluster.kubeconfig(), service, on_step=on_step, parallel_calls=1):
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the new pods are bound")
    assert bound_then == [False]
