"""Gangs on a real API server: all or nothing, in whatever order things happen.

A `Witness` judges every moment of every test here; what a test itself looks at is how it
ends. PLACEMENT_SEEDS says how many orders of events are tried.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from controller.reports.events import REQUEST
from tests.cluster.api import NODES, POD_GANGS, PODS, Body
from tests.cluster.build import (
    clique,
    clique_set,
    node,
    pack,
    scaling_group,
    topology_binding,
)
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.kubelet import FakeKubelet
from tests.controller.conftest import Start
from tests.controller.gang_facts import add_gang, bound_of, condition, scheduled

SEEDS = int(os.environ.get("PLACEMENT_SEEDS", "6"))

pytestmark = pytest.mark.usefixtures("witness")


def test_a_gang_that_fits_is_bound_whole_and_reported(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8), node("b", gpus=8))
    grove.apply(clique_set("g", clique("worker", 4, gpus=4), namespace=cluster.namespace))
    start()
    grove.start()
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "all pods are bound")
    cluster.wait_until(
        lambda: cluster.gangs()["g-0"]["status"]["phase"] == "Running",
        "the gang is Running",
    )
    status = cluster.gangs()["g-0"]["status"]
    assert scheduled(cluster, "g-0")["status"] == "True"
    assert scheduled(cluster, "g-0")["reason"] == "Placed"
    assert "4 pods are bound" in scheduled(cluster, "g-0")["message"]
    assert status["placementScore"] == 1.0
    assert (cluster.condition("g-0", "Initialized") or {})["status"] == "True"
    assert sorted(cluster.bound().values()) == ["a", "a", "b", "b"]


def test_a_gang_that_does_not_fit_whole_gets_nothing_and_says_why(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """The reason in one word and with its numbers, wherever people and autoscalers look."""
    cluster.add_nodes(node("a", gpus=8))
    grove.apply(clique_set("g", clique("worker", 3, gpus=4), namespace=cluster.namespace))
    start()
    grove.start()
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("status") == "False", "the gang says that it waits"
    )
    told = scheduled(cluster, "g-0")
    assert told["reason"] == "InsufficientResources"
    assert "2 of 3 pods" in told["message"]
    assert "4 nvidia.com/gpu" in told["message"]
    assert told["observedGeneration"] == cluster.gangs()["g-0"]["metadata"]["generation"]
    assert cluster.gangs()["g-0"]["status"]["phase"] == "Pending"
    assert "placementScore" not in cluster.gangs()["g-0"]["status"]
    sentence = f"{told['reason']}: {told['message']}"

    def on_pods() -> list[tuple[str, str, str]]:
        return [
            (c["status"], c.get("reason", ""), c.get("message", ""))
            for pod in cluster.pods()
            for c in pod["status"].get("conditions", ())
            if c["type"] == "PodScheduled"
        ]

    # Each pod was gated at first, and says so until it is told something else.
    unschedulable = ("False", "Unschedulable", sentence)
    cluster.wait_until(lambda: on_pods() == [unschedulable] * 3, "every pod says the same")

    def events() -> set[tuple[str, ...]]:
        return {
            (
                e["type"],
                e["reason"],
                e["involvedObject"]["name"],
                e["message"],
                # The request that was answered.
                e["metadata"].get("annotations", {}).get(REQUEST, "")[:7],
            )
            for e in cluster.events()
        }

    names = {"g-0", *(pod["metadata"]["name"] for pod in cluster.pods())}
    failed = {("Warning", "FailedScheduling", name, sentence, "sha256:") for name in names}
    cluster.wait_until(lambda: events() == failed, "one event each says the same")
    assert cluster.bound() == {}
    # Room appears: the wait ends.
    cluster.add_nodes(node("b", gpus=8))
    cluster.wait_until(lambda: len(cluster.bound()) == 3, "the gang is bound")
    cluster.wait_until(
        lambda: scheduled(cluster, "g-0").get("status") == "True", "the gang says so"
    )


def test_the_reason_comes_with_what_would_let_the_gang_in(
    cluster: Cluster, grove: GroveStandIn, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    grove.apply(clique_set("g", clique("worker", 3, gpus=4), namespace=cluster.namespace))
    start(remedy_time_limit=10.0)
    grove.start()
    cluster.wait_until(
        lambda: "run only 2 of 3 pods" in scheduled(cluster, "g-0").get("message", ""),
        "a remedy is named",
    )


def test_two_gangs_that_fit_only_one_by_one_are_bound_one_by_one(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    for name in ("g", "h"):
        grove.apply(clique_set(name, clique("worker", 2, gpus=3), namespace=cluster.namespace))
    start()
    grove.start()

    def states() -> set[str]:
        return {scheduled(cluster, name).get("status", "") for name in ("g-0", "h-0")}

    cluster.wait_until(lambda: states() == {"True", "False"}, "one is bound, the other waits")
    assert len(cluster.bound()) == 2
    first = next(n for n in ("g", "h") if scheduled(cluster, f"{n}-0")["status"] == "True")
    second = "h" if first == "g" else "g"
    assert bound_of(cluster, f"{second}-0") == 0
    grove.forget(cluster.namespace, first)
    cluster.wait_until(lambda: bound_of(cluster, f"{second}-0") == 2, "the other is bound in turn")
    cluster.wait_until(
        lambda: scheduled(cluster, f"{second}-0")["status"] == "True", "and it says so"
    )


def test_the_base_is_bound_before_what_scales_it(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(*(node(f"n{i}", gpus=4) for i in range(4)))
    grove.apply(
        clique_set(
            "g",
            clique("router", 1, gpus=0),
            clique("decode", 1, gpus=4),
            groups=[scaling_group("d", ["decode"], replicas=3, least=1)],
            namespace=cluster.namespace,
        )
    )
    start()
    grove.start()
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "base and scaled gangs are bound")


def test_what_scales_a_base_that_does_not_fit_waits_with_it(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    """There is room for the scaled gang, and none for its base: neither begins."""
    cluster.add_nodes(node("a", gpus=4), node("b", gpus=2, cpu="8"))
    grove.apply(
        clique_set(
            "g",
            clique("router", 1, gpus=0, cpu="9"),
            clique("planner", 1, gpus=0, cpu="60"),
            clique("decode", 1, gpus=2),
            groups=[scaling_group("d", ["decode"], replicas=2, least=1)],
            namespace=cluster.namespace,
        )
    )
    # Grove holds the scaled pods back until the base is scheduled; here somebody does not.
    grove.settle()
    for pod in cluster.pods():
        if pod["spec"].get("schedulingGates"):
            ungated: Body = {"spec": {"schedulingGates": []}}
            cluster.api.merge(PODS, pod["metadata"]["name"], ungated, cluster.namespace)
    start()
    gangs = ("g-0", "g-0-d-0")
    cluster.wait_until(
        lambda: [scheduled(cluster, gang).get("status") for gang in gangs] == ["False", "False"],
        "both say that they wait",
    )
    assert cluster.bound() == {}
    cluster.add_nodes(node("c", gpus=4))
    cluster.wait_until(lambda: len(cluster.bound()) == 4, "both are bound")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_or_nothing_whatever_the_order_of_events(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start, seed: int
) -> None:
    """Pods, references, conditions and gates in any order, and not enough room for all."""
    cluster.add_nodes(node("a", gpus=8), node("b", gpus=8))
    shuffle = random.Random(seed)
    for name, pods in (("g", 3), ("h", 2), ("i", 4)):
        grove.apply(clique_set(name, clique("worker", pods, gpus=4), namespace=cluster.namespace))
    start()
    for _ in range(12):
        grove.step(shuffle)
    grove.settle()
    # Four pods of four GPUs fit: i alone, or g, or h alone. Which one is placed first depends on
    # the order of events; that it is placed whole does not.
    cluster.wait_until(
        lambda: (
            {scheduled(cluster, name).get("status") for name in ("g-0", "h-0", "i-0")}
            == {"True", "False"}
        ),
        "one gang is bound, and the others say why not",
    )
    for name, pods in (("g-0", 3), ("h-0", 2), ("i-0", 4)):
        whole = scheduled(cluster, name)["status"] == "True"
        assert bound_of(cluster, name) == (pods if whole else 0)
    assert len(cluster.bound()) >= 2


def test_a_required_level_is_kept_by_replacements(
    cluster: Cluster, grove: GroveStandIn, kubelet: FakeKubelet, start: Start
) -> None:
    rack = "example.com/rack"
    cluster.add_nodes(
        *(node(f"{r}{i}", gpus=4, labels={rack: r}) for r in ("r", "s") for i in range(3))
    )
    grove.apply(topology_binding("default", rack=rack))
    grove.apply(
        clique_set(
            "g",
            clique("worker", 3, gpus=4),
            constraint=pack(required="rack", topology="default"),
            namespace=cluster.namespace,
        )
    )
    start()
    grove.start()
    cluster.wait_until(lambda: len(cluster.bound()) == 3, "the gang is bound")
    racks = {name[0] for name in cluster.bound().values()}
    assert len(racks) == 1
    lost = min(cluster.bound())
    cluster.api.delete(PODS, lost, cluster.namespace, grace=0)
    cluster.wait_until(
        lambda: lost not in cluster.bound() and len(cluster.bound()) == 3,
        "its replacement is bound",
    )
    assert {name[0] for name in cluster.bound().values()} == racks


def test_gangs_of_other_schedulers_are_left_alone(
    cluster: Cluster, kubelet: FakeKubelet, start: Start
) -> None:
    cluster.add_nodes(node("a", gpus=8))
    for name, scheduler in (("theirs", "default-scheduler"), ("ours", "placement-service")):
        add_gang(cluster, name, pods=2, scheduler=scheduler)
    start()
    ours = {"ours-0", "ours-1"}
    cluster.wait_until(lambda: ours <= cluster.bound().keys(), "our gang is bound")
    assert set(cluster.bound()) == ours
    assert not condition(cluster, "theirs", "Scheduled")


def test_a_dry_run_writes_nothing(cluster: Cluster, grove: GroveStandIn, start: Start) -> None:
    cluster.add_nodes(node("a", gpus=8))
    grove.apply(clique_set("g", clique("worker", 2), namespace=cluster.namespace))
    grove.settle()
    before = [cluster.api.items(kind) for kind in (POD_GANGS, PODS, NODES)]
    start(mode="dry-run")
    time.sleep(2)
    assert before == [cluster.api.items(kind) for kind in (POD_GANGS, PODS, NODES)]
    assert cluster.events() == []
