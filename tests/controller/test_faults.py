"""What goes wrong between the controller, the API server and the service."""

from __future__ import annotations

import itertools
import random
import threading
import time
from typing import Any

import pytest

from controller.steps import Step
from placement import v1
from placement.testing import scripted_server, serve
from tests.cluster.api import NODES, POD_GANGS, PODS
from tests.cluster.build import clique, clique_set, node, priority_class
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.proxy import (
    Cut,
    Drop,
    Fault,
    FaultProxy,
    Hang,
    LoseAnswer,
    Refuse,
    WatchError,
    count,
)
from tests.controller import crashing
from tests.controller.conftest import Start, controller
from tests.controller.gangs import bound_of, condition, scheduled

BINDING = r"/binding$"


def serve_gang(
    cluster: Cluster, grove: GroveStandIn, name: str = "g", *, pods: int = 4, gpus: int = 2
) -> None:
    """A gang with all its pods, ready to be placed."""
    grove.apply(clique_set(name, clique("worker", pods, gpus=gpus), namespace=cluster.namespace))
    grove.settle()


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
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), parallel_calls=1)
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


def test_a_service_that_is_down_is_waited_for(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    with serve() as address:
        port = int(address.rpartition(":")[2])
    start(service=address, waiting_notice=0.0)
    serve_gang(cluster, grove)
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("reason") == "NoAnswer", "that it is down is said"
    )
    assert cluster.bound() == {}
    with serve(port=port):
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")


def test_a_node_that_goes_between_plan_and_binding_gets_nothing(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str
) -> None:
    """The plan is for the only node with room; it goes while the answer is awaited."""
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    gone = threading.Event()

    def entered(step: Step) -> None:
        if step is Step.APPLY and not gone.is_set():
            cluster.api.delete(NODES, "a")
            gone.set()
            # Time for the watch to tell; without it the pods would be bound in vain.
            time.sleep(0.5)

    with controller(cluster.kubeconfig(), service, entered=entered):
        assert gone.wait(20)
        time.sleep(1.0)
        assert cluster.bound() == {}
        cluster.add_nodes(node("b", gpus=8))
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound elsewhere")
    assert set(cluster.bound().values()) == {"b"}


def test_a_pod_that_goes_between_plan_and_binding_stops_its_gang(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    serve_gang(cluster, grove)
    gone = threading.Event()

    def entered(step: Step) -> None:
        if step is Step.APPLY and not gone.is_set():
            lost = min(pod["metadata"]["name"] for pod in cluster.pods())
            cluster.api.delete(PODS, lost, cluster.namespace, grace=0)
            gone.set()
            time.sleep(0.5)

    with controller(cluster.kubeconfig(), service, entered=entered):
        assert gone.wait(20)
        time.sleep(1.0)
        assert cluster.bound() == {}
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

    def entered(step: Step) -> None:
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

    with controller(cluster.kubeconfig(), service, entered=entered, parallel_calls=1):
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the new pods are bound")
    assert bound_then == [False]


def test_a_service_that_is_killed_while_it_is_asked_is_asked_again(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    asked = threading.Event()

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        asked.set()
        time.sleep(30)
        return v1.Placement()

    cluster.add_nodes(node("a", gpus=8))
    with scripted_server(answer) as server:
        port = int(server.address.rpartition(":")[2])
        start(service=server.address)
        serve_gang(cluster, grove)
        assert asked.wait(20)
    assert cluster.bound() == {}
    with serve(port=port):
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang is bound")


def test_a_service_that_is_slow_is_not_waited_for_beyond_the_deadline(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    calls: list[float] = []
    enough = threading.Event()

    def answer(request: v1.ComputePlacementRequest) -> v1.Placement:
        calls.append(time.monotonic())
        if len(calls) >= 2:
            enough.set()
        time.sleep(3)
        return v1.Placement()

    cluster.add_nodes(node("a", gpus=8))
    with scripted_server(answer) as server:
        start(service=server.address, time_limit=0.5, service_patience=0.5)
        serve_gang(cluster, grove)
        assert enough.wait(20)
    assert calls[1] - calls[0] < 3


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
        assert answered.wait(20)
        time.sleep(1)
        assert cluster.bound() == {}


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
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url))
    serve_gang(cluster, grove)
    cluster.wait_until(lambda: len(cluster.events()) == 5, "gang and pods have an event each")
    fault_proxy.forget_requests()
    time.sleep(3)
    assert len(cluster.events()) == 5
    written = [r for r in fault_proxy.requests if r.request.method in ("POST", "PATCH", "PUT")]
    assert written == []


@pytest.mark.parametrize("seed", range(3))
def test_through_a_storm_of_faults_every_gang_is_bound_in_the_end(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
    seed: int,
) -> None:
    """Any request may fail in any way for a while, and pods are deleted meanwhile."""
    chance = random.Random(seed)
    cluster.add_nodes(*(node(f"n{i}", gpus=8) for i in range(3)))
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), watch_silence=2.0)
    grove.start()
    for fault in (Refuse(409), Refuse(429), Refuse(500), Drop(), LoseAnswer(), Hang(0.2)):
        fault_proxy.fault(fault, when=lambda _: chance.random() < 0.08)
    fault_proxy.fault(Cut(after=2), when=lambda _: chance.random() < 0.3)
    for index in range(6):
        grove.apply(clique_set(f"g{index}", clique("w", 2, gpus=2), namespace=cluster.namespace))
        time.sleep(0.4)
        if bound := sorted(cluster.bound()):
            cluster.api.delete(PODS, chance.choice(bound), cluster.namespace, grace=0)
    time.sleep(1.0)
    fault_proxy.clear()
    gangs = [f"g{index}-0" for index in range(6)]
    cluster.wait_until(lambda: len(cluster.bound()) == 12, "every pod is bound")
    cluster.wait_until(
        lambda: all(scheduled(cluster, gang).get("status") == "True" for gang in gangs),
        "every gang says so",
    )


LEASE: dict[str, Any] = {
    "leader_election": True,
    "lease_namespace": "default",
    "lease_duration": 3.0,
    "renew_deadline": 1.5,
    "renew_period": 0.3,
    "bind_timeout": 1.0,
}


def test_when_the_leader_is_killed_the_other_takes_over_within_the_lease(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    first = crashing.begin(cluster.kubeconfig(), service, **LEASE)
    serve_gang(cluster, grove, "g")
    cluster.wait_until(lambda: bound_of(cluster, "g-0") == 4, "the first one leads")
    second = crashing.begin(cluster.kubeconfig(), service, **LEASE)
    try:
        time.sleep(1.0)
        crashing.kill(first)
        killed = time.monotonic()
        grove.forget(cluster.namespace, "g")
        serve_gang(cluster, grove, "h")
        cluster.wait_until(lambda: bound_of(cluster, "h-0") == 4, "the second one leads")
        print(f"taken over and bound after {time.monotonic() - killed:.1f} s")
    finally:
        crashing.kill(first)
        crashing.kill(second)


def test_a_leader_that_ends_in_good_order_hands_over_at_once(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, service: str
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    slow: dict[str, Any] = {**LEASE, "lease_duration": 60.0, "renew_deadline": 50.0}
    first = crashing.begin(cluster.kubeconfig(), service, **slow)
    serve_gang(cluster, grove, "g")
    cluster.wait_until(lambda: bound_of(cluster, "g-0") == 4, "the first one leads")
    second = crashing.begin(cluster.kubeconfig(), service, **slow)
    try:
        time.sleep(1.0)
        first.terminate()
        first.join(20)
        assert first.exitcode == 0
        grove.forget(cluster.namespace, "g")
        serve_gang(cluster, grove, "h")
        cluster.wait_until(lambda: bound_of(cluster, "h-0") == 4, "the second one leads")
    finally:
        crashing.kill(first)
        crashing.kill(second)


def test_a_leader_that_cannot_renew_stops_acting(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    start: Start,
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    start(kubeconfig=cluster.kubeconfig(url=fault_proxy.url), **LEASE)
    serve_gang(cluster, grove, "g")
    cluster.wait_until(lambda: bound_of(cluster, "g-0") == 4, "it leads")
    fault_proxy.fault(Refuse(500), path="/leases")
    time.sleep(2.5)
    fault_proxy.forget_requests()
    grove.forget(cluster.namespace, "g")
    serve_gang(cluster, grove, "h")
    time.sleep(1.5)
    assert count(fault_proxy.requests, method="POST", path=BINDING) == 0
    fault_proxy.clear()
    cluster.wait_until(lambda: bound_of(cluster, "h-0") == 4, "it leads again")
