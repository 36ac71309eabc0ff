"""What is written about gangs on a real API server, and what is left alone."""

from __future__ import annotations

import time
from functools import partial

from tests.cluster.api import POD_GANGS
from tests.cluster.build import (
    clique,
    clique_set,
    node,
    priority_class,
)
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import (
    FaultProxy,
    count,
)
from tests.controller.conftest import Start
from tests.controller.gang_facts import add_gang, bound_of, condition, scheduled, serve_gang


def test_a_gang_that_cannot_be_read_does_not_stop_the_others(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    cluster.api.apply(priority_class("high", 1000))
    grove.apply(
        clique_set(
            "bad", clique("worker", 1), namespace=cluster.namespace, priority_class="missing"
        ),
        clique_set("good", clique("worker", 2), namespace=cluster.namespace, priority_class="high"),
    )
    grove.settle()
    start()
    cluster.wait_until(lambda: bound_of(cluster, "good-0") == 2, "the good gang is bound")
    cluster.wait_until(
        lambda: scheduled(cluster, "bad-0").get("reason") == "Refused", "the bad one is refused"
    )
    assert "missing" in scheduled(cluster, "bad-0")["message"]
    cluster.api.apply(priority_class("missing", 1))
    cluster.wait_until(lambda: bound_of(cluster, "bad-0") == 1, "mended, it is bound as well")


def is_refused(cluster: Cluster, gang: str) -> bool:
    return bool(scheduled(cluster, gang).get("reason") == "Refused")


def test_a_gang_that_is_refused_is_not_called_scheduled(cluster: Cluster, start: Start) -> None:
    cluster.add_nodes(node("a", gpus=8))
    add_gang(cluster, "negative", pods=2, minimum=-1)
    add_gang(cluster, "nothing", pods=2, minimum=0, priority_class="missing")
    add_gang(cluster, "extras", pods=2, minimum=0)
    start()
    for name, about in (("negative", "minReplicas"), ("nothing", "missing")):
        cluster.wait_until(partial(is_refused, cluster, name), f"{name} is refused")
        assert scheduled(cluster, name)["status"] == "False"
        assert about in scheduled(cluster, name)["message"]
        assert cluster.gangs()[name]["status"]["phase"] == "Pending"
    cluster.wait_until(
        lambda: scheduled(cluster, "extras").get("status") == "True", "a gang of extras is bound"
    )


def test_conditions_of_others_are_kept(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    conditions = [
        condition(cluster, "g-0", "Initialized"),
        {
            "type": "DisruptionTarget",
            "status": "False",
            "reason": "None",
            "message": "not ours",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
    ]
    cluster.api.merge(
        POD_GANGS,
        "g-0",
        {"status": {"conditions": conditions}},
        cluster.namespace,
        "status",
    )
    start()
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("status") == "True", "the gang is bound"
    )
    assert condition(cluster, "g-0", "DisruptionTarget")["message"] == "not ours"
    assert condition(cluster, "g-0", "Initialized")["status"] == "True"


def test_events_are_not_repeated(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    cluster.add_nodes(node("a", gpus=2))
    serve_gang(cluster, grove)
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url))
    # The server shows an event before the proxy has written the call down.
    cluster.wait_until(
        lambda: count(fault_proxy.requests, method="POST", path=r"/events$") == 5,
        "gang and pods have an event each",
    )
    fault_proxy.forget_requests()
    time.sleep(3)
    assert len(cluster.events()) == 5
    written = [r for r in fault_proxy.requests if r.request.method in ("POST", "PATCH", "PUT")]
    assert written == []
