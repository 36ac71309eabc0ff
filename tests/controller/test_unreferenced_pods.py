"""Pods that ask for us and belong to no PodGang: they wait for ever, and are told so."""

from __future__ import annotations

from tests.cluster.api import PODS, Body
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.controller.conftest import Start
from tests.controller.gang_facts import add_gang


def pod_scheduled(cluster: Cluster, name: str) -> Body:
    pod = cluster.api.get(PODS, name, cluster.namespace)
    found: list[Body] = [
        c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"
    ]
    return found[0] if found else {}


def test_a_pod_without_a_gang_says_that_it_waits_for_one(cluster: Cluster, start: Start) -> None:
    cluster.add_nodes(node("a", gpus=8))
    for name, spec in (
        ("alone", {"schedulerName": "placement-service"}),
        ("theirs", {"schedulerName": "default-scheduler"}),
    ):
        body = {
            "metadata": {"name": name, "namespace": cluster.namespace},
            "spec": {**pod_spec(gpus=1), **spec},
        }
        cluster.api.create(PODS, body)
    start(waiting_notice=0.0)
    cluster.wait_until(lambda: bool(pod_scheduled(cluster, "alone")), "it says so")
    recorded = pod_scheduled(cluster, "alone")
    # More room would not help: no autoscaler should add nodes for it.
    assert (recorded["status"], recorded["reason"]) == ("False", "SchedulerError")
    assert recorded["message"].startswith("NoPodGang: no PodGang refers to this pod")
    cluster.wait_until(
        lambda: [e["involvedObject"]["name"] for e in cluster.events()] == ["alone"],
        "so does an event",
    )
    # Other pods are not affected, and pods of other schedulers do not concern us.
    add_gang(cluster, "g", pods=2)
    cluster.wait_until(lambda: len(cluster.bound()) == 2, "gangs are bound meanwhile")
    assert pod_scheduled(cluster, "theirs") == {}
