"""A placement service that is down, slow, or answers with a broken plan."""

from __future__ import annotations

import threading
import time

from placement import v1
from placement.testing import scripted_server, serve
from tests.cluster.build import (
    node,
)
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.controller.conftest import Start
from tests.controller.gang_facts import scheduled, serve_gang
from tests.ports import reserve
from tests.waiting import LONG


def test_a_service_that_is_down_is_waited_for(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    port = reserve()
    start(service=f"127.0.0.1:{port}", failure_notice=0.0)
    serve_gang(cluster, grove)
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("reason") == "NoAnswer", "that it is down is said"
    )
    assert cluster.bound() == {}
    with serve(port=port):
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")


def test_a_service_that_is_killed_while_it_is_asked_is_asked_again(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    asked, killed = threading.Event(), threading.Event()

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        asked.set()
        killed.wait(LONG)
        return v1.Placement()

    cluster.add_nodes(node("a", gpus=8))
    port = reserve()
    with scripted_server(answer, port=port) as server:
        start(service=server.address)
        serve_gang(cluster, grove)
        assert asked.wait(LONG)
        # The server ends calls first, and then waits for who answers them.
        threading.Timer(0.5, killed.set).start()
    assert cluster.bound() == {}
    with serve(port=port):
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")


def test_a_service_that_is_slow_is_not_waited_for_beyond_the_deadline(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    calls: list[v1.ComputePlacementRequest] = []
    enough = threading.Event()

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        calls.append(request)
        if len(calls) >= 2:
            enough.set()
        # The first one is asked again before it has answered.
        enough.wait(LONG)
        return v1.Placement()

    cluster.add_nodes(node("a", gpus=8))
    with scripted_server(answer) as server:
        start(service=server.address, time_limit=0.5, service_patience=0.5)
        serve_gang(cluster, grove)
        assert enough.wait(LONG)


def test_an_answer_with_bindings_that_make_no_whole_gang_is_not_carried_out(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """Whatever a service answers, nothing of a gang is bound unless all of its minimum is."""
    answered = threading.Event()

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        gang = request.gangs[0]
        pods = gang.groups[0].pod_sets[0].pods
        answered.set()
        return v1.Placement(
            bindings=[
                v1.Binding(
                    pod=pod.name,
                    uid=pod.uid,
                    node="nodes/a",
                    gang=gang.name,
                    group=gang.groups[0].name,
                )
                for pod in pods[:-1]
            ]
        )

    cluster.add_nodes(node("a", gpus=8))
    with scripted_server(answer) as server:
        start(service=server.address)
        serve_gang(cluster, grove)
        assert answered.wait(LONG)
        time.sleep(1)
        assert cluster.bound() == {}
