"""Watches that fail or fall silent, and an API server that restarts."""

from __future__ import annotations

import pytest

from tests.cluster.build import (
    node,
)
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import (
    Cut,
    Fault,
    FaultProxy,
    Hang,
    Refuse,
    WatchError,
)
from tests.controller.conftest import Start
from tests.controller.gang_facts import bound_of, serve_gang


@pytest.mark.parametrize(
    "fault",
    [Refuse(410), Refuse(429), Refuse(500), Cut(after=0), Cut(after=3), WatchError(410, after=1)],
    ids=str,
)
def test_watches_that_fail_come_back(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
    fault: Fault,
) -> None:
    rule = fault_proxy.fault(fault, watch=True, times=8)
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url))
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")
    assert rule.hits >= 1


def test_a_watch_that_falls_silent_is_opened_anew(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    fault_proxy.fault(Hang(60), watch=True, times=5)
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), watch_silence=1.0)
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")


def test_it_outlives_a_restart_of_the_api_server(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    start()
    serve_gang(cluster, grove, "g")
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "the first gang is bound")
    cluster.server.restart(kill=True)
    grove.forget(cluster.namespace, "g")
    serve_gang(cluster, grove, "h")
    cluster.wait_until(lambda: bound_of(cluster, "h-0") == 4, "the second gang is bound")
