"""The plugin in the real kube-scheduler, on a real API server: gangs run whole or not at all."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.api import PODS, Body, Resource
from tests.cluster.build import clique, clique_set, node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.grove import GroveStandIn
from tests.cluster.schedulers import install_kinds
from tests.kube_scheduler.conftest import Schedulers, Service
from tests.kube_scheduler.gangs import SIZE, member
from tests.waiting import wait_until

KAI_QUEUES = Resource("scheduling.run.ai/v2", "queues", namespaced=False)
VOLUMES = Resource("v1", "persistentvolumes", namespaced=False)
VOLUME_CLAIMS = Resource("v1", "persistentvolumeclaims")


#: Seconds that a deadlock has to stay one.
STUCK = 3.0


def create_half_placed(cluster: Cluster, is_placed: Callable[[str], bool]) -> None:
    """Two gangs of three for four GPUs, pod by pod in turn.

    A scheduler that looks at one pod at a time gives each gang two GPUs, and none to the rest.
    """
    for index, name in enumerate(("a0", "b0", "a1", "b1", "a2", "b2")):
        cluster.api.create(PODS, member(cluster, name, name[0], 3))
        if index < 4:
            wait_until(partial(is_placed, name), f"{name} is looked at")


def by_gang(names: Iterable[str]) -> Counter[str]:
    return Counter(name[0] for name in names)


def test_plain_kube_scheduler_deadlocks_two_half_placed_gangs(
    cluster: Cluster, schedulers: Schedulers
) -> None:
    """What the plugin is for. Without this the next test would show nothing."""
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    with schedulers.plain():
        create_half_placed(cluster, lambda name: name in cluster.bound())
        time.sleep(STUCK)
        assert by_gang(cluster.bound()) == {"a": 2, "b": 2}


def test_of_two_gangs_that_would_deadlock_one_runs_and_then_the_other(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    with schedulers.placing():
        create_half_placed(cluster, lambda name: True)
        cluster.wait_until(lambda: len(cluster.bound()) == 3, "one gang runs")
        time.sleep(STUCK)
        (first,) = by_gang(cluster.bound())
        assert by_gang(cluster.bound()) == {first: 3}
        assert any(
            event["reason"] == "GangWaits" and event["involvedObject"]["name"][0] != first
            for event in cluster.events()
        )
        for name in list(cluster.bound()):
            cluster.api.delete(PODS, name, cluster.namespace, grace=0)
        cluster.wait_until(lambda: len(cluster.bound()) == 3, "the other gang runs")
        assert set(by_gang(cluster.bound())) == {"a", "b"} - {first}


def test_a_gang_goes_to_the_rack_that_holds_it(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    """Rack a is emptier, and kube-scheduler would begin there; only rack b holds all four."""
    cluster.add_nodes(
        node("a0", gpus=3, labels={"rack": "a"}),
        node("b0", gpus=2, labels={"rack": "b"}),
        node("b1", gpus=2, labels={"rack": "b"}),
    )
    with schedulers.placing():
        for index in range(4):
            cluster.api.create(PODS, member(cluster, f"a{index}", "a", 4, "rack"))
        cluster.wait_until(lambda: len(cluster.bound()) == 4, "the gang runs")
        assert Counter(cluster.bound().values()) == {"b0": 2, "b1": 2}


def test_a_gang_that_is_not_complete_holds_nothing(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    cluster.add_nodes(node("n0", gpus=3))
    with schedulers.placing():
        for name in ("a0", "a1"):
            cluster.api.create(PODS, member(cluster, name, "a", 3))
        lone = {
            "metadata": {"name": "lone", "namespace": cluster.namespace},
            "spec": pod_spec(gpus=1),
        }
        cluster.api.create(PODS, lone)
        cluster.wait_until(lambda: "lone" in cluster.bound(), "a pod without gang runs")
        assert list(cluster.bound()) == ["lone"]
        cluster.api.delete(PODS, "lone", cluster.namespace, grace=0)
        cluster.api.create(PODS, member(cluster, "a2", "a", 3))
        cluster.wait_until(lambda: len(cluster.bound()) == 3, "the gang runs once it is complete")


def test_gangs_of_grove_run(cluster: Cluster, schedulers: Schedulers, service: Service) -> None:
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    grove = GroveStandIn(cluster.api, scheduler="default-scheduler")
    grove.apply(
        clique_set("g", clique("leader", 1), clique("worker", 2), namespace=cluster.namespace)
    )
    grove.settle()
    with schedulers.placing():
        cluster.wait_until(lambda: len(cluster.bound()) == 3, "the PodGang runs")


def test_a_gang_with_a_volume_goes_where_the_volume_is(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    """Both pods must share a node, and the volume of one is on the second."""
    cluster.add_nodes(node("n0", gpus=4), node("n1", gpus=2))
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
    claim = {"name": "data", "namespace": cluster.namespace}
    size = {"storage": "1Gi"}
    volume = f"{cluster.namespace}-data"
    cluster.api.create(
        VOLUMES,
        {
            "metadata": {"name": volume},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteOnce"],
                "local": {"path": "/data"},
                "claimRef": claim,
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        },
    )
    cluster.api.create(
        VOLUME_CLAIMS,
        {
            # As the controller of volumes would leave it; none runs here.
            "metadata": claim | {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": size},
                "volumeName": volume,
                "storageClassName": "",
            },
        },
    )
    pods = [member(cluster, f"a{i}", "a", 2, "kubernetes.io/hostname") for i in range(2)]
    pods[1]["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    with schedulers.placing():
        cluster.api.create_all(PODS, pods)
        cluster.wait_until(lambda: len(cluster.bound()) == 2, "the gang runs")
        assert cluster.bound() == {"a0": "n1", "a1": "n1"}
    cluster.api.delete(VOLUMES, volume)


def test_gangs_for_a_whole_cluster_are_admitted_as_answered(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    """25 gangs of eight, each in one rack of two nodes: kube-scheduler alone would mix them up."""
    cluster.add_nodes(
        *(node(f"n{i:02}", gpus=4, labels={"rack": f"r{i // 2:02}"}) for i in range(50))
    )
    pods = [
        member(cluster, f"g{gang:02}-{index}", f"g{gang:02}", 8, "rack")
        for index in range(8)
        for gang in range(25)
    ]
    with schedulers.placing():
        cluster.api.create_all(PODS, pods)
        cluster.wait_until(lambda: len(cluster.bound()) == 200, "every gang runs")
    racks: dict[str, set[int]] = {}
    for name, where in cluster.bound().items():
        racks.setdefault(name[:3], set()).add(int(where[1:]) // 2)
    assert {len(used) for used in racks.values()} == {1}
    assert len({rack for used in racks.values() for rack in used}) == 25


@pytest.mark.parametrize("how", ["absent", "silent"])
def test_without_an_answer_gangs_still_run_whole_one_by_one(
    cluster: Cluster, schedulers: Schedulers, service: Service, how: str
) -> None:
    cluster.add_nodes(node("n0", gpus=2), node("n1", gpus=2))
    if how == "absent":
        service.end()
    else:
        service.signal(signal.SIGSTOP)
    with schedulers.placing(timeout="2s", fallbackAfter="3s"):
        create_half_placed(cluster, lambda name: True)
        cluster.wait_until(lambda: len(cluster.bound()) == 3, "one gang runs")
        time.sleep(STUCK)
        assert list(by_gang(cluster.bound()).values()) == [3]


def test_a_service_that_comes_back_is_asked_again(
    cluster: Cluster, schedulers: Schedulers, service: Service, port: int, tmp_path: Path
) -> None:
    cluster.add_nodes(node("n0", gpus=3))
    service.end()
    with schedulers.placing(fallbackAfter="-1s") as scheduler:
        for index in range(3):
            cluster.api.create(PODS, member(cluster, f"a{index}", "a", 3))
        wait_until(lambda: "did not answer" in scheduler.text(), "the service is missed")
        assert not cluster.bound()
        again = Service(tmp_path, port)
        try:
            again.wait_until_ready()
            cluster.wait_until(lambda: len(cluster.bound()) == 3, "the gang runs")
        finally:
            again.end()


def test_a_gang_with_wrong_annotations_is_told_and_stops_nobody(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    cluster.add_nodes(node("n0", gpus=4))
    wrong = member(cluster, "w0", "w", 1)
    wrong["metadata"]["annotations"][SIZE] = "many"
    with schedulers.placing():
        cluster.api.create(PODS, wrong)
        cluster.api.create(PODS, member(cluster, "a0", "a", 1))
        cluster.wait_until(lambda: "a0" in cluster.bound(), "the other gang runs")
        cluster.wait_until(
            lambda: any(
                event["reason"] == "GangWaits" and "'many'" in event["message"].replace('"', "'")
                for event in cluster.events()
            ),
            "the pod is told",
        )
        assert "w0" not in cluster.bound()


def test_queues_go_along_where_the_settings_name_them(
    cluster: Cluster, schedulers: Schedulers, service: Service
) -> None:
    """Room is for both gangs, and the queue has two GPUs."""
    install_kinds(cluster.api)
    cluster.add_nodes(node("n0", gpus=8))
    queue = f"{cluster.namespace}-q"
    limit = {"gpu": {"limit": 2, "quota": 0}, "cpu": {"limit": -1}, "memory": {"limit": -1}}
    cluster.api.create(
        KAI_QUEUES,
        {
            "apiVersion": KAI_QUEUES.api_version,
            "kind": "Queue",
            "metadata": {"name": queue},
            "spec": {"resources": limit},
        },
    )

    def queued(name: str, size: int) -> list[Body]:
        pods = [member(cluster, f"{name}{i}", name, size) for i in range(size)]
        for pod in pods:
            pod["metadata"]["labels"] = {"kai.scheduler/queue": queue}
        return pods

    try:
        with schedulers.placing(alsoSend=["queues.v2.scheduling.run.ai"]):
            cluster.api.create_all(PODS, queued("a", 3))
            cluster.wait_until(
                lambda: any("queue" in event["message"] for event in cluster.events()),
                "the larger gang is told of the queue's limit",
            )
            cluster.api.create_all(PODS, queued("b", 2))
            cluster.wait_until(lambda: len(cluster.bound()) == 2, "the smaller gang runs")
            assert by_gang(cluster.bound()) == {"b": 2}
    finally:
        cluster.api.delete(KAI_QUEUES, queue)
