"""Gangs that are no PodGang, bound by us: PodGroups of others, and pods that name their gang."""

from __future__ import annotations

from typing import Any

from tests.cluster.api import PODS, Body, Resource
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.schedulers import KAI_POD_GROUPS, KOORDINATOR_POD_GROUPS, install_kinds
from tests.controller.conftest import controller

RACK = "example.com/rack"
SCHEDULER = "placement-service"


def pods(
    cluster: Cluster,
    gang: str,
    count: int,
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> None:
    cluster.api.create_all(
        PODS,
        [
            {
                "metadata": {
                    "name": f"{gang}-{index}",
                    "namespace": cluster.namespace,
                    "annotations": annotations or {},
                    "labels": labels or {},
                },
                "spec": {**pod_spec(gpus=1), "schedulerName": SCHEDULER},
            }
            for index in range(count)
        ],
    )


def pod_group(cluster: Cluster, resource: Resource, name: str, **spec: Any) -> None:
    body = {
        "apiVersion": resource.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": cluster.namespace},
        "spec": spec,
    }
    cluster.api.create(resource, body)


def of(cluster: Cluster, gang: str) -> set[str]:
    """The nodes of a gang's pods."""
    return {at for pod, at in cluster.bound().items() if pod.rpartition("-")[0] == gang}


def reasons(cluster: Cluster, name: str) -> list[Body]:
    return [e for e in cluster.events() if e["involvedObject"]["name"] == name]


def test_gangs_of_every_kind_are_bound_whole_or_not_at_all(cluster: Cluster, service: str) -> None:
    install_kinds(cluster.api)
    racks = {"a": "r", "b": "r", "c": "s"}
    cluster.add_nodes(*(node(n, gpus=2, labels={RACK: rack}) for n, rack in racks.items()))
    # Only rack r holds three pods; then two places are left in rack s, and one in r.
    pods(
        cluster,
        "plain",
        3,
        annotations={"placement-service/gang": "plain", "placement-service/required-level": RACK},
    )
    pod_group(cluster, KAI_POD_GROUPS, "kai", minMember=2)
    pods(cluster, "kai", 2, annotations={"pod-group-name": "kai"})
    pod_group(cluster, KOORDINATOR_POD_GROUPS, "koord", minMember=2)
    pods(cluster, "koord", 2, labels={"pod-group.scheduling.sigs.k8s.io": "koord"})
    # Another scheduler's gang of the same kind is not ours.
    pod_group(cluster, KAI_POD_GROUPS, "theirs", minMember=1)
    cluster.api.create(
        PODS,
        {
            "metadata": {
                "name": "theirs-0",
                "namespace": cluster.namespace,
                "annotations": {"pod-group-name": "theirs"},
            },
            "spec": {**pod_spec(gpus=1), "schedulerName": "kai-scheduler"},
        },
    )
    with controller(cluster.kubeconfig(), service, waiting_notice=0.0):
        cluster.wait_until(lambda: len(cluster.bound()) == 5, "two of the three gangs are bound")
        assert of(cluster, "plain") == {"a", "b"}
        (waits,) = [gang for gang in ("kai", "koord") if not of(cluster, gang)]
        cluster.wait_until(lambda: bool(reasons(cluster, waits)), "the third is told why")
        assert reasons(cluster, waits)[0]["reason"] == "FailedScheduling"
        cluster.add_nodes(node("d", gpus=2))
        cluster.wait_until(lambda: len(cluster.bound()) == 7, "the third is bound")
    assert of(cluster, "theirs") == set()
    assert "Scheduled" in {e["reason"] for e in reasons(cluster, waits)}
