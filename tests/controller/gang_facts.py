"""What tests of the controller look at, and gangs to begin with, with Grove and without."""

from __future__ import annotations

import re
import urllib.request

from tests.cluster.api import POD_GANGS, PODS, Body
from tests.cluster.build import clique, clique_set, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn


def bound_of(cluster: Cluster, gang: str) -> int:
    """How many pods of a gang are bound."""
    return sum(
        bool(pod["spec"].get("nodeName"))
        for pod in cluster.pods()
        if pod["metadata"]["labels"].get("grove.io/podgang") == gang
    )


def scheduled(cluster: Cluster, gang: str) -> Body:
    """The condition Scheduled of a gang, empty when it has none, or is not there yet."""
    return condition(cluster, gang, "Scheduled")


def condition(cluster: Cluster, gang: str, kind: str) -> Body:
    """A condition of a gang, empty when it has none, or is not there yet."""
    status = cluster.gangs().get(gang, {}).get("status", {})
    found: list[Body] = [c for c in status.get("conditions", ()) if c["type"] == kind]
    return found[0] if found else {}


def metric(port: int, name: str) -> float:
    """A metric of the controller whose probes listen there, such as ``leader`` or
    ``lists_total{kind="Pod"}``; 0 where there is none yet."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found = re.search(rf"^placement_controller_{re.escape(name)} (\S+)$", text, re.M)
    return float(found[1]) if found else 0.0


def serve_gang(
    cluster: Cluster, grove: GroveStandIn, name: str = "g", *, pods: int = 4, gpus: int = 2
) -> None:
    """A gang of Grove's with all its pods, ready to be placed."""
    grove.apply(clique_set(name, clique("worker", pods, gpus=gpus), namespace=cluster.namespace))
    grove.settle()


def add_gang(
    cluster: Cluster,
    name: str,
    *,
    pods: int,
    gpus: int = 1,
    scheduler: str = "placement-service",
    minimum: int | None = None,
    priority_class: str = "",
) -> None:
    """A gang without Grove: pods, then the gang that refers to them, initialized. All pods are its
    minimum, unless that is given.
    """
    namespace = cluster.namespace
    names = [f"{name}-{index}" for index in range(pods)]
    cluster.api.create_all(
        PODS,
        [
            {
                "metadata": {"name": pod, "namespace": namespace},
                "spec": {**pod_spec(gpus=gpus), "schedulerName": scheduler},
            }
            for pod in names
        ],
    )
    group = {
        "name": "all",
        "minReplicas": pods if minimum is None else minimum,
        "podReferences": [{"namespace": namespace, "name": pod} for pod in names],
    }
    cluster.api.create(
        POD_GANGS,
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"podgroups": [group], "priorityClassName": priority_class},
        },
    )
    initialized = {
        "type": "Initialized",
        "status": "True",
        "reason": "PodGangPodsCreated",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"phase": "Pending", "conditions": [initialized]}
    cluster.api.merge(POD_GANGS, name, {"status": status}, namespace, "status")
