"""What goes wrong between the controller, the API server and the service."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack

import pytest

from controller.steps import Step
from placement import v1
from placement.testing import scripted_server, serve
from tests.cluster.api import NODES, POD_GANGS, PODS
from tests.cluster.build import (
    clique,
    clique_set,
    node,
    pack,
    priority_class,
    scaling_group,
    topology_binding,
)
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
from tests.controller.conftest import Start, controller
from tests.controller.event_judge import UNDER_FAULTS
from tests.controller.gangs import bound_of, condition, metric, scheduled, serve_gang
from tests.controller.witness import Witness
from tests.ports import reserve
from tests.waiting import LONG, wait_until

BINDING = r"/binding$"


def is_told(port: int, kind: str) -> bool:
    """Whether the controller has heard of a change since it listed a kind."""
    return metric(port, f'watch_events_total{{kind="{kind}"}}') > 0


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
    port = reserve()
    start(service=f"127.0.0.1:{port}", failure_notice=0.0)
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
    port: Future[int] = Future()

    def on_step(step: Step) -> None:
        if step is Step.APPLY and not gone.is_set():
            cluster.api.delete(NODES, "a")
            # Without knowing the pods would be bound in vain.
            wait_until(lambda: is_told(port.result(LONG), "Node"), "the watch tells")
            gone.set()

    with controller(cluster.kubeconfig(), service, on_step=on_step) as running:
        port.set_result(running.probes.port)
        assert gone.wait(LONG)
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
    port: Future[int] = Future()

    def on_step(step: Step) -> None:
        if step is Step.APPLY and not gone.is_set():
            lost = min(pod["metadata"]["name"] for pod in cluster.pods())
            cluster.api.delete(PODS, lost, cluster.namespace, grace=0)
            wait_until(lambda: is_told(port.result(LONG), "Pod"), "the watch tells")
            gone.set()

    with controller(cluster.kubeconfig(), service, on_step=on_step) as running:
        port.set_result(running.probes.port)
        assert gone.wait(LONG)
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


@pytest.mark.parametrize("seed", range(2))
def test_through_a_storm_of_faults_every_gang_is_bound_in_the_end(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    fault_proxy: FaultProxy,
    service: str,
    seed: int,
) -> None:
    """Any request may fail in any way for a while, and pods are deleted meanwhile."""
    chance = random.Random(seed)
    gangs = [
        *(clique_set(f"g{i}", clique("w", 2, gpus=2), namespace=cluster.namespace) for i in "0123"),
        clique_set(
            "packed",
            clique("w", 2, gpus=1),
            constraint=pack(required="rack", topology="default"),
            namespace=cluster.namespace,
        ),
        clique_set(
            "scaled",
            clique("router", 1, gpus=0),
            clique("decode", 1, gpus=2),
            groups=[scaling_group("d", ["decode"], replicas=2, least=1)],
            namespace=cluster.namespace,
        ),
    ]
    chance.shuffle(gangs)
    # What is lost behind the controller's back it learns a moment later.
    with Witness(cluster, UNDER_FAULTS, grace=10.0), ExitStack() as stack:
        racks = {"n0": "r", "n1": "r", "n2": "s"}
        cluster.add_nodes(
            *(node(name, labels={"example.com/rack": rack}) for name, rack in racks.items())
        )
        grove.apply(topology_binding("default", rack="example.com/rack"))
        config = cluster.kubeconfig(url=fault_proxy.url)
        stack.enter_context(controller(config, service, watch_silence=2.0))
        grove.start()
        for fault in (Refuse(409), Refuse(429), Refuse(500), Drop(), LoseAnswer(), Hang(0.2)):
            fault_proxy.fault(fault, when=lambda _: chance.random() < 0.08)
        fault_proxy.fault(Cut(after=2), when=lambda _: chance.random() < 0.3)
        for gang in gangs:
            grove.apply(gang)
            time.sleep(0.4)
            if bound := sorted(cluster.bound()):
                cluster.api.delete(PODS, chance.choice(bound), cluster.namespace, grace=0)
        time.sleep(1.0)
        fault_proxy.clear()
        cluster.wait_until(lambda: len(cluster.bound()) == 13, "every pod is bound")
        cluster.wait_until(
            lambda: all(
                scheduled(cluster, name).get("status") == "True" for name in cluster.gangs()
            ),
            "every gang says so",
        )
