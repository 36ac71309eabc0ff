"""Running gangs give way: on a real API server, by the Eviction API, through crashes."""

from __future__ import annotations

from typing import Any

import pytest

from controller.runtime.steps import Step
from tests.cluster.api import CONFIG_MAPS, PODS, PRIORITY_CLASSES, Body, Resource
from tests.cluster.build import clique, clique_set, node, priority_class
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.controller import crashing
from tests.controller.conftest import Start
from tests.controller.gang_facts import bound_of, scheduled
from tests.waiting import LONG

BUDGETS = Resource("policy/v1", "poddisruptionbudgets")


def gang(cluster: Cluster, name: str, pods: int, priority: str = "") -> Body:
    return clique_set(
        name,
        clique("w", pods, labels={"set": name}),
        namespace=cluster.namespace,
        priority_class=priority,
    )


def fill(cluster: Cluster, grove: GroveStandIn) -> None:
    """Three gangs of low priority on a cluster of six GPUs: three, two and one pods."""
    cluster.api.create(PRIORITY_CLASSES, priority_class("high", 1000))
    cluster.add_nodes(node("a", gpus=6))
    for name, pods in (("three", 3), ("two", 2), ("one", 1)):
        grove.apply(gang(cluster, name, pods))
    grove.start()


def uids(cluster: Cluster, name: str) -> set[str]:
    return {
        pod["metadata"]["uid"]
        for pod in cluster.pods()
        if pod["metadata"]["labels"]["grove.io/podgang"] == name and pod["spec"].get("nodeName")
    }


def journal(cluster: Cluster) -> dict[str, str]:
    found = cluster.api.find(CONFIG_MAPS, "placement-controller-evictions", cluster.namespace)
    return {} if found is None else dict(found.get("data") or {})


def test_the_fewest_pods_give_way_and_run_again_when_there_is_room(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    fill(cluster, grove)
    start(eviction="preempt", lease_namespace=cluster.namespace)
    cluster.wait_until(lambda: len(cluster.bound()) == 6, "the cluster is full")
    before = uids(cluster, "three-0")
    grove.apply(gang(cluster, "urgent", 2, "high"))
    cluster.wait_until(lambda: bound_of(cluster, "urgent-0") == 2, "it runs")
    assert uids(cluster, "three-0") == before
    assert bound_of(cluster, "one-0") == 1
    cluster.wait_until(
        lambda: scheduled(cluster, "two-0").get("status") == "False", "the victims wait"
    )
    cluster.wait_until(lambda: journal(cluster) == {}, "nothing is under way")
    notes = [e["message"] for e in cluster.events() if e["reason"] == "Preempted"]
    assert len(notes) == 2
    assert all("gives way to PodGang" in note and "urgent-0" in note for note in notes)
    cluster.add_nodes(node("b", gpus=2))
    cluster.wait_until(lambda: bound_of(cluster, "two-0") == 2, "the victims run again")
    assert uids(cluster, "three-0") == before


def test_nothing_gives_way_unless_the_settings_say_so(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    fill(cluster, grove)
    start()
    cluster.wait_until(lambda: len(cluster.bound()) == 6, "the cluster is full")
    before = set(cluster.bound())
    grove.apply(gang(cluster, "urgent", 2, "high"))
    cluster.wait_until(
        lambda: scheduled(cluster, "urgent-0").get("status") == "False", "it has to wait"
    )
    assert set(cluster.bound()) == before


def test_what_a_budget_protects_stays_and_others_go(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    fill(cluster, grove)
    # Nobody counts pods for budgets here: it allows none.
    cluster.api.create(
        BUDGETS,
        {
            "metadata": {"name": "two", "namespace": cluster.namespace},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"set": "two"}}},
        },
    )
    start(eviction="preempt", lease_namespace=cluster.namespace)
    cluster.wait_until(lambda: len(cluster.bound()) == 6, "the cluster is full")
    before = uids(cluster, "two-0") | uids(cluster, "one-0")
    grove.apply(gang(cluster, "urgent", 2, "high"))
    cluster.wait_until(lambda: bound_of(cluster, "urgent-0") == 2, "it runs")
    assert before == uids(cluster, "two-0") | uids(cluster, "one-0")


@pytest.mark.parametrize(
    ("step", "visit"),
    [(Step.EVICT, 1), (Step.EVICT, 2), (Step.EVICT, 3), (Step.EVICTED, 1), (Step.EVICTED, 2)],
    ids=lambda value: value.name.lower() if isinstance(value, Step) else str(value),
)
def test_after_a_crash_the_same_pods_go_and_no_others(
    cluster: Cluster,
    grove: GroveStandIn,
    kubelet: FakeKubelet,
    service: str,
    step: Step,
    visit: int,
) -> None:
    fill(cluster, grove)
    settings: dict[str, Any] = {"eviction": "preempt", "lease_namespace": cluster.namespace}
    first = crashing.begin(
        cluster.kubeconfig(), service, die_at=step, visit=visit, parallel_calls=1, **settings
    )
    cluster.wait_until(lambda: len(cluster.bound()) == 6, "the cluster is full")
    stay = uids(cluster, "three-0") | uids(cluster, "one-0")
    grove.apply(gang(cluster, "urgent", 2, "high"))
    first.join(LONG)
    assert first.exitcode == -9
    second = crashing.begin(cluster.kubeconfig(), service, **settings)
    try:
        cluster.wait_until(lambda: bound_of(cluster, "urgent-0") == 2, "it runs")
        cluster.wait_until(lambda: journal(cluster) == {}, "nothing is under way")
    finally:
        crashing.kill(second)
    assert stay == uids(cluster, "three-0") | uids(cluster, "one-0")
    events = [one for one in cluster.events() if one["reason"] == "Preempted"]
    names = [one["involvedObject"]["name"] for one in events]
    assert len(names) == len(set(names)) <= 2


def test_room_of_evicted_pods_is_nobody_elses_while_they_end(
    cluster: Cluster, grove: GroveStandIn, start: Start
) -> None:
    """No kubelet takes them away: they hold their room, and the gang waits for it."""
    kubelet = FakeKubelet(cluster.api)
    kubelet.start()
    fill(cluster, grove)
    start(eviction="preempt", lease_namespace=cluster.namespace)
    cluster.wait_until(lambda: len(cluster.bound()) == 6, "the cluster is full")
    for pod in cluster.pods():
        # As if their containers took long to end.
        cluster.api.merge(
            PODS,
            pod["metadata"]["name"],
            {"metadata": {"finalizers": ["example.com/slow"]}},
            cluster.namespace,
        )
    grove.apply(gang(cluster, "urgent", 2, "high"))
    cluster.wait_until(
        lambda: scheduled(cluster, "urgent-0").get("reason") == "Evicting", "pods are evicted"
    )
    assert "waits until evicted pods are gone" in scheduled(cluster, "urgent-0")["message"]
    grove.apply(gang(cluster, "late", 1, "high"))
    cluster.wait_until(
        lambda: (
            scheduled(cluster, "late-0").get("status") == "False"
            or bound_of(cluster, "late-0") == 1
            or scheduled(cluster, "late-0").get("reason") == "Evicting"
        ),
        "another one is decided about",
    )
    assert bound_of(cluster, "urgent-0") == 0
    for pod in cluster.pods():
        if pod["metadata"].get("finalizers"):
            cluster.api.merge(
                PODS, pod["metadata"]["name"], {"metadata": {"finalizers": None}}, cluster.namespace
            )
    cluster.wait_until(lambda: bound_of(cluster, "urgent-0") == 2, "it runs")
    kubelet.stop()
