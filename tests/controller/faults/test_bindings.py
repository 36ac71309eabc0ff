"""Bindings that fail, on their way to the API server or in it."""

from __future__ import annotations

import itertools

import pytest

from tests.cluster.build import (
    clique,
    clique_set,
    node,
)
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import (
    Drop,
    Fault,
    FaultProxy,
    Hang,
    LoseAnswer,
    Refuse,
)
from tests.controller.conftest import Start
from tests.controller.gang_facts import scheduled, serve_gang

BINDING = r"/binding$"


@pytest.mark.parametrize(
    "fault",
    [
        Refuse(409),
        Refuse(429, retry_after=1),
        Refuse(500),
        Refuse(504),
        Hang(0.5),
        Drop(),
        LoseAnswer(),
    ],
    ids=str,
)
def test_bindings_that_fail_in_passing_are_made_good(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
    fault: Fault,
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    rule = fault_proxy.fault(fault, method="POST", path=BINDING, times=2)
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url))
    serve_gang(cluster, grove)
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("status") == "True", "the gang is bound"
    )
    assert len(cluster.bound()) == 4
    assert rule.hits == 2


@pytest.mark.parametrize("which", range(1, 5))
def test_whichever_binding_of_a_gang_fails_the_gang_is_finished(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
    which: int,
) -> None:
    cluster.add_nodes(node("a", gpus=4), node("b", gpus=4))
    serve_gang(cluster, grove)
    turns = itertools.count(1)
    rule = fault_proxy.fault(
        Refuse(409), method="POST", path=BINDING, when=lambda _: next(turns) == which, times=1
    )
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), parallel_calls=1)
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")
    assert rule.hits == 1

    # The pods before it stayed where they were, and nothing was bound twice.
    def answers() -> list[int | None]:
        sent = fault_proxy.requests
        return [r.status for r in sent if r.request.path.endswith("/binding")]

    # The server has bound a pod before the proxy has written its answer down.
    cluster.wait_until(lambda: answers().count(201) == 4, "all answers are there")
    assert len(answers()) == 5


def test_a_gang_that_stays_half_bound_is_reported_and_finished_later(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    stubborn = max(pod["metadata"]["name"] for pod in cluster.pods())
    fault_proxy.fault(Refuse(403), method="POST", path=f"/{stubborn}/binding$")
    # One call after another, so that the others are bound before it.
    config = cluster.kubeconfig(url=fault_proxy.url)
    start(kubeconfig=config, parallel_calls=1, half_bound_limit=0.5)
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("reason") == "HalfBound",
        "what is half done is reported",
    )
    message = scheduled(cluster, "g-0")["message"]
    assert "runs 3 of 4 pods" in message
    assert stubborn in message
    assert "403" in message
    before = cluster.bound()
    fault_proxy.clear()
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is finished")
    assert before.items() <= cluster.bound().items()
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("status") == "True", "and that is reported"
    )


def test_a_gang_waits_for_another_of_the_same_answer_that_its_pods_must_be_near(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    cluster.add_nodes(node("a", gpus=2), node("b", gpus=2))
    near_cache = {
        "labelSelector": {"matchLabels": {"app": "cache"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near_cache]}}
    web = clique("web", 1, affinity=affinity)
    cache = clique("cache", 1, labels={"app": "cache"})
    grove.apply(
        clique_set("a", web, namespace=cluster.namespace),
        clique_set("b", cache, namespace=cluster.namespace),
    )
    grove.settle()
    rule = fault_proxy.fault(Refuse(403), method="POST", path="/b-0-cache-.*/binding$")
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url))
    cluster.wait_until(lambda: rule.hits >= 2, "what it needs near is refused twice")
    assert cluster.bound() == {}
    fault_proxy.clear()
    cluster.wait_until(lambda: len(cluster.bound()) == 2, "both are bound")
    assert len(set(cluster.bound().values())) == 1


@pytest.mark.parametrize("fault", [Drop(), LoseAnswer()], ids=str)
def test_a_binding_whose_fate_is_unknown_is_looked_into_until_it_is_known(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
    fault: Fault,
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    # Neither is the binding answered, nor can the pod be looked at, nor the watch tell.
    fault_proxy.fault(fault, method="POST", path=BINDING)
    looks = fault_proxy.fault(Refuse(503), method="GET", path=r"/pods/[^/]+$")
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), bind_timeout=0.5)
    cluster.wait_until(lambda: looks.hits >= 6, "pods are looked at in vain")
    fault_proxy.clear()
    cluster.wait_until(
        lambda: len(cluster.bound()) == 4 and scheduled(cluster, "g-0").get("status") == "True",
        "the gang is bound",
    )


def test_a_gang_that_a_webhook_keeps_from_being_bound_is_told_and_holds_up_no_other(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    """The API server answers 500 where a webhook does not answer it."""
    cluster.add_nodes(node("a", gpus=16))
    serve_gang(cluster, grove, "g")
    serve_gang(cluster, grove, "h")
    fault_proxy.fault(Refuse(500), method="POST", path="/g-0-.*/binding$")
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), waiting_notice=1.0)
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "the other one is bound")
    cluster.wait_until(lambda: scheduled(cluster, "g-0") != {}, "it is told")
    assert scheduled(cluster, "g-0")["reason"] == "NotBound"
    fault_proxy.clear()
    cluster.wait_until(lambda: len(cluster.bound()) == 8, "both are bound")
