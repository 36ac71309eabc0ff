"""Pins for schedulers of gangs, by stand-ins: KAI and Volcano stay the only ones that bind.

Three nodes of one rack hold the gang, and first fit by name would begin in the other rack.
"""

from __future__ import annotations

from typing import Any

import pytest

from controller.runtime.steps import Step
from placement.advice_marks import ADVICE, GATE
from tests.cluster.api import PODS
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.schedulers import (
    HYPER_NODES,
    KAI_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    GangScheduler,
    install_kinds,
)
from tests.controller import crashing

RACK = "example.com/rack"
ADVISING: dict[str, Any] = {"mode": "advise", "advice_timeout": 0.0}
HOST = "kubernetes.io/hostname"


@pytest.fixture
def racks(cluster: Cluster) -> Cluster:
    """Nodes a0 and a1 of rack a, b0 to b2 of rack b, two GPUs each."""
    install_kinds(cluster.api)
    cluster.add_nodes(
        *(
            node(f"{rack}{n}", gpus=2, labels={RACK: rack, HOST: f"host-{rack}{n}"})
            for rack, count in (("a", 2), ("b", 3))
            for n in range(count)
        )
    )
    return cluster


def gated_pods(racks: Cluster, count: int, scheduler: str, group: str) -> None:
    racks.api.create_all(
        PODS,
        [
            {
                "metadata": {
                    "name": f"g-{n}",
                    "namespace": racks.namespace,
                    "annotations": {group: "g"},
                },
                "spec": {
                    **pod_spec(gpus=2),
                    "schedulerName": scheduler,
                    "schedulingGates": [{"name": GATE}],
                },
            }
            for n in range(count)
        ],
    )


def killed_at_every_write(racks: Cluster, service: str, mode: str) -> None:
    """The gang is bound nevertheless, and nothing is under way."""

    def is_over() -> bool:
        return len(racks.bound()) == 3 and not any(
            ADVICE in pod["metadata"]["annotations"] for pod in racks.pods()
        )

    assert crashing.kill_again_and_again(
        racks.kubeconfig(), service, at=Step.ADVISE, until=is_over, advise=(mode,), **ADVISING
    )


def test_volcano_binds_where_its_hyper_nodes_let_the_gang_be_together(
    racks: Cluster, service: str
) -> None:
    group = "scheduling.k8s.io/group-name"
    for rack in "ab":
        member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: rack}}}}
        racks.api.create(
            HYPER_NODES,
            {
                "apiVersion": HYPER_NODES.api_version,
                "kind": "HyperNode",
                "metadata": {"name": f"rack-{rack}"},
                "spec": {"tier": 1, "members": [member]},
            },
        )
    racks.api.create(
        VOLCANO_POD_GROUPS,
        {
            "apiVersion": VOLCANO_POD_GROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": racks.namespace},
            "spec": {
                "minMember": 3,
                "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
            },
        },
    )
    gated_pods(racks, 3, "volcano", group)
    with GangScheduler(racks.api, scheduler="volcano", group=group):
        killed_at_every_write(racks, service, "volcano")
    assert set(racks.bound().values()) == {"b0", "b1", "b2"}


def test_kai_binds_where_node_selectors_say(racks: Cluster, service: str) -> None:
    racks.api.create(
        KAI_POD_GROUPS,
        {
            "apiVersion": KAI_POD_GROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": racks.namespace},
            "spec": {"minMember": 3},
        },
    )
    gated_pods(racks, 3, "kai-scheduler", "pod-group-name")
    with GangScheduler(racks.api, scheduler="kai-scheduler", group="pod-group-name"):
        killed_at_every_write(racks, service, "kai-pins")
    for pod in racks.pods():
        assert pod["spec"]["nodeSelector"] == {HOST: f"host-{pod['spec']['nodeName']}"}
