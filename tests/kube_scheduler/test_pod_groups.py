"""Kubernetes' own gangs (PodGroups of 1.36) go to the nodes that the service answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from placement.advice_marks import CONDITION, GATE
from tests.cluster.api import PODS, Body, Resource
from tests.cluster.apiserver import ApiServer
from tests.cluster.binaries import Binaries
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.controller.conftest import controller
from tests.kube_scheduler.conftest import Schedulers, Service

POD_GROUPS = Resource("scheduling.k8s.io/v1alpha2", "podgroups")
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


@pytest.fixture(scope="module")
def api_server(
    api_server_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """Its own: PodGroups are alpha."""
    server = ApiServer(
        api_server_binaries,
        tmp_path_factory.mktemp("alpha"),
        arguments=(
            f"--feature-gates={GATES}",
            "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        ),
    )
    server.start()
    try:
        server.install_crds()
        yield server
    finally:
        server.stop()


def pod_group(cluster: Cluster, name: str, minimum: int, level: str = "") -> None:
    spec: Body = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    if level:
        spec["schedulingConstraints"] = {"topology": [{"key": level}]}
    cluster.api.create(
        POD_GROUPS,
        {
            "apiVersion": POD_GROUPS.api_version,
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": cluster.namespace},
            "spec": spec,
        },
    )


def members(cluster: Cluster, group: str, count: int, **spec: Any) -> None:
    cluster.api.create_all(
        PODS,
        [
            {
                "metadata": {"name": f"{group}{i}", "namespace": cluster.namespace},
                "spec": {**pod_spec(gpus=1), "schedulingGroup": {"podGroupName": group}, **spec},
            }
            for i in range(count)
        ],
    )


def test_pod_groups_go_where_the_service_answers(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    """On nodes that are alike kube-scheduler spreads; the service leaves nodes whole."""
    cluster.add_nodes(
        *(node(f"{rack}{i}", gpus=4, labels={"rack": rack}) for rack in "ab" for i in range(2))
    )
    with schedulers.placing_pod_groups(GATES, timeout="60s", timeLimit="10s"):
        pod_group(cluster, "g", 4)
        members(cluster, "g", 4)
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang runs")
        assert len(set(cluster.bound().values())) == 1, "on one node"
        # The rest of that rack is too small for the next one.
        pod_group(cluster, "h", 8, "rack")
        members(cluster, "h", 8)
        cluster.wait_until(lambda: len(cluster.bound()) == 12, "so does the next")
        used = {name[0]: node for name, node in cluster.bound().items()}
        assert used["g"][0] != used["h"][0]
        # Nothing is left for a third, until a node comes.
        pod_group(cluster, "w", 5)
        members(cluster, "w", 5)
        cluster.add_nodes(node("c0", gpus=4, labels={"rack": "c"}))
        cluster.wait_until(
            lambda: Counter(name[0] for name in cluster.bound())["w"] == 5, "it runs later"
        )


def test_without_the_service_pod_groups_are_placed_within_their_level(
    cluster: Cluster, schedulers: Schedulers
) -> None:
    cluster.add_nodes(
        node("a0", gpus=3, labels={"rack": "a"}),
        *(node(f"b{i}", gpus=2, labels={"rack": "b"}) for i in range(2)),
    )
    with schedulers.placing_pod_groups(GATES, timeout="1s"):
        pod_group(cluster, "g", 4, "rack")
        members(cluster, "g", 4)
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang runs")
        assert Counter(cluster.bound().values()) == {"b0": 2, "b1": 2}


def test_advice_to_a_plain_kube_scheduler_places_pod_groups(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    """Gated members of a PodGroup are pinned where the service answers; the scheduler binds."""
    cluster.add_nodes(
        *(node(name, gpus=4, labels={"rack": name[0]}) for name in ("a0", "a1", "b0"))
    )
    gates = [{"name": GATE}]
    with (
        schedulers.plain(f"--feature-gates={GATES}"),
        controller(
            cluster.kubeconfig(),
            service.target,
            mode="advise",
            advise=("kube-scheduler",),
            advice_timeout=0.0,
        ),
    ):
        pod_group(cluster, "g", 4)
        members(cluster, "g", 4, schedulingGates=gates)
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang runs")
        assert len(set(cluster.bound().values())) == 1, "on one node, though nodes are alike"
        # A gang that no rack holds now is not let go.
        pod_group(cluster, "w", 9, "rack")
        members(cluster, "w", 9, schedulingGates=gates)
        pod_group(cluster, "h", 4, "rack")
        members(cluster, "h", 4, schedulingGates=gates)
        cluster.wait_until(lambda: len(cluster.bound()) == 8, "so does the next")
        cluster.wait_until(lambda: outcomes(cluster)["Followed"] == 8, "both follow the advice")
        gated = [p["metadata"]["name"] for p in cluster.pods() if p["spec"].get("schedulingGates")]
        assert {name[0] for name in gated} == {"w"}
        assert len(gated) == 9


def outcomes(cluster: Cluster) -> Counter[str]:
    """What became of advice, by pods."""
    return Counter(
        one["reason"]
        for pod in cluster.pods()
        for one in pod["status"].get("conditions", ())
        if one["type"] == CONDITION
    )
