"""The stand-in writes what Grove writes, in Grove's order."""

from __future__ import annotations

import random

import pytest

from tests.cluster.api import POD_GANGS, PODS, Body, Resource
from tests.cluster.build import clique, clique_set, node, scaling_group
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.grove_gangs import GATE
from tests.cluster.kubelet import FakeKubelet


def _workers(cluster: Cluster, pods: int = 4) -> Body:
    return clique_set("g", clique("worker", pods), namespace=cluster.namespace)


def _scaled(cluster: Cluster) -> Body:
    """A base gang of a router and one replica of the group, and a scaled gang of the other."""
    return clique_set(
        "g",
        clique("router", 1),
        clique("decode", 2),
        groups=[scaling_group("pair", ["decode"], replicas=2, least=1)],
        namespace=cluster.namespace,
    )


def _gated(pods: list[Body]) -> int:
    return sum(pod["spec"].get("schedulingGates") == [{"name": GATE}] for pod in pods)


def _references(gang: Body) -> list[str]:
    groups = gang["spec"]["podgroups"]
    return [reference["name"] for group in groups for reference in group["podReferences"]]


def _of_gang(cluster: Cluster, gang: str) -> list[Body]:
    return [p for p in cluster.pods() if p["metadata"]["labels"]["grove.io/podgang"] == gang]


def test_a_gang_comes_to_life_step_by_step(cluster: Cluster, grove: GroveStandIn) -> None:
    grove.apply(_workers(cluster))

    assert grove.make_gangs() == 1
    assert _references(cluster.gangs()["g-0"]) == []
    initialized = cluster.condition("g-0", "Initialized")
    assert initialized is not None
    assert initialized["status"] == "False"
    assert cluster.gangs()["g-0"]["status"]["phase"] == "Pending"

    assert grove.open_gates() == 0
    assert grove.initialize() == 0
    assert grove.make_pods() == 4
    assert _gated(cluster.pods()) == 4
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods()} == {"placement-service"}

    # Not referenced yet.
    assert grove.open_gates() == 0
    assert grove.refer() == 1
    names = sorted(pod["metadata"]["name"] for pod in cluster.pods())
    assert _references(cluster.gangs()["g-0"]) == names

    assert grove.initialize() == 1
    initialized = cluster.condition("g-0", "Initialized")
    assert initialized is not None
    assert initialized["status"] == "True"

    # In pieces: one, two, and what is left of four.
    assert [grove.open_gates() for _ in range(4)] == [1, 2, 1, 0]
    assert _gated(cluster.pods()) == 0
    assert grove.step() == 0


def test_initialized_wipes_out_what_a_scheduler_wrote_before(
    cluster: Cluster, grove: GroveStandIn
) -> None:
    grove.apply(_workers(cluster))
    grove.make_gangs()
    ours = {
        "type": "Scheduled",
        "status": "False",
        "reason": "Early",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"phase": "Starting", "conditions": [ours]}}
    cluster.api.merge(POD_GANGS, "g-0", status, cluster.namespace, "status")
    grove.settle()
    assert cluster.condition("g-0", "Scheduled") is None
    assert cluster.gangs()["g-0"]["status"]["phase"] == "Pending"


def test_pods_of_a_scaled_gang_are_held_until_the_base_is_scheduled(
    cluster: Cluster, grove: GroveStandIn
) -> None:
    grove.apply(_scaled(cluster))
    grove.settle()
    assert set(cluster.gangs()) == {"g-0", "g-0-pair-0"}
    assert _gated(_of_gang(cluster, "g-0")) == 0
    assert _gated(_of_gang(cluster, "g-0-pair-0")) == 2

    *most, last = _of_gang(cluster, "g-0")
    for pod in most:
        cluster.api.bind(pod, "a")
    grove.settle()
    assert _gated(_of_gang(cluster, "g-0-pair-0")) == 2

    cluster.api.bind(last, "a")
    grove.settle()
    assert _gated(_of_gang(cluster, "g-0-pair-0")) == 0


def test_a_deleted_pod_is_replaced_in_an_initialized_gang(
    cluster: Cluster, grove: GroveStandIn
) -> None:
    """The gang stays initialized, and so a scheduler sees it with too few pods for a while."""
    grove.apply(_workers(cluster))
    grove.settle()
    gone = cluster.pods()[0]["metadata"]["name"]
    cluster.api.delete(PODS, gone, cluster.namespace, grace=0)
    grove.refer()
    assert len(_references(cluster.gangs()["g-0"])) == 3
    grove.settle()
    names = _references(cluster.gangs()["g-0"])
    assert len(names) == 4
    assert gone not in names
    assert _gated(cluster.pods()) == 0


def test_a_set_may_grow_and_shrink_and_go(cluster: Cluster, grove: GroveStandIn) -> None:
    grove.apply(_workers(cluster, 2))
    grove.settle()
    grove.apply(_workers(cluster, 4))
    grove.settle()
    assert len(cluster.pods()) == 4
    bound = cluster.pods()[0]
    cluster.api.bind(bound, "a")
    grove.apply(_workers(cluster, 1))
    grove.settle()
    assert [pod["metadata"]["uid"] for pod in cluster.pods()] == [bound["metadata"]["uid"]]
    cluster.api.delete(PODS, bound["metadata"]["name"], cluster.namespace, grace=0)
    grove.forget(cluster.namespace, "g")
    grove.settle()
    assert cluster.pods() == []
    assert cluster.gangs() == {}


def test_a_pod_bound_since_the_operator_looked_is_kept(
    cluster: Cluster, grove: GroveStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's cache is behind: what it takes for pending may be running by now."""
    grove.apply(_workers(cluster, 4))
    grove.settle()
    before = [cluster.api.items(PODS)]
    latest = cluster.api.latest

    def behind_at_first(resource: Resource, **parameters: str) -> list[Body]:
        return before.pop() if resource is PODS and before else latest(resource, **parameters)

    bound = cluster.pods()[0]
    cluster.api.bind(bound, "a")
    grove.apply(_workers(cluster, 1))
    monkeypatch.setattr(cluster.api, "latest", behind_at_first)
    grove.settle()
    assert not before
    assert [pod["metadata"]["uid"] for pod in cluster.pods()] == [bound["metadata"]["uid"]]


@pytest.mark.parametrize("seed", range(3))
def test_stages_in_any_order_lead_to_the_same_gang(
    cluster: Cluster, grove: GroveStandIn, seed: int
) -> None:
    shuffle = random.Random(seed)
    grove.apply(_workers(cluster))
    for _ in range(20):
        grove.step(shuffle)
    assert grove.step() == 0
    assert _gated(cluster.pods()) == 0
    assert len(_references(cluster.gangs()["g-0"])) == 4


def test_in_the_background_it_works_with_the_kubelet(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet
) -> None:
    grove.apply(_scaled(cluster))
    grove.start()

    def bind_what_may_be() -> bool:
        for pod in cluster.pods():
            if not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates"):
                cluster.api.bind(pod, "a")
        running = [pod for pod in cluster.pods() if pod["status"]["phase"] == "Running"]
        return len(running) == 5

    cluster.wait_until(bind_what_may_be, "base and scaled gang run")


def test_a_new_template_is_rolled_out_pod_by_pod(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet
) -> None:
    cluster.add_nodes(node("a"))
    grove.apply(_workers(cluster, 2))
    grove.settle()

    def cpus() -> list[str]:
        return sorted(
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in cluster.pods()
        )

    def run_all() -> None:
        for pod in cluster.pods():
            if not pod["spec"].get("nodeName"):
                cluster.api.bind(pod, "a")
        cluster.wait_until(
            lambda: all(pod["status"]["phase"] == "Running" for pod in cluster.pods()), "all run"
        )

    run_all()
    grove.apply(clique_set("g", clique("worker", 2, cpu="2"), namespace=cluster.namespace))
    for want in (["1", "2"], ["2", "2"]):
        assert grove.roll() == 1
        # The next one has to wait until this one is replaced, bound and ready.
        assert grove.roll() == 0
        cluster.wait_until(lambda: len(cluster.pods()) == 1, "the old one is gone")
        grove.settle()
        assert grove.roll() == 0
        assert cpus() == want
        run_all()
    assert grove.roll() == 0
    assert sorted(_references(cluster.gangs()["g-0"])) == sorted(
        pod["metadata"]["name"] for pod in cluster.pods()
    )


def test_pods_of_an_old_template_without_a_node_go_at_once(
    cluster: Cluster, grove: GroveStandIn
) -> None:
    grove.apply(_workers(cluster, 3))
    grove.settle()
    grove.apply(clique_set("g", clique("worker", 3, cpu="2"), namespace=cluster.namespace))
    assert grove.roll() == 3
    # More pods are no other template.
    grove.settle()
    grove.apply(clique_set("g", clique("worker", 4, cpu="2"), namespace=cluster.namespace))
    assert grove.roll() == 0
