"""Bound pods run, deleted pods go."""

from __future__ import annotations

from tests.cluster.api import PODS, Body
from tests.cluster.build import pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.kubelet import FakeKubelet


def _pod(cluster: Cluster, name: str, **spec: object) -> Body:
    metadata = {"name": name, "namespace": cluster.namespace}
    return cluster.api.create(PODS, {"metadata": metadata, "spec": {**pod_spec(), **spec}})


def _phase(cluster: Cluster, name: str) -> str:
    phase: str = cluster.api.get(PODS, name, cluster.namespace)["status"]["phase"]
    return phase


def test_a_bound_pod_becomes_running_and_ready(cluster: Cluster, kubelet: FakeKubelet) -> None:
    pod = _pod(cluster, "p")
    cluster.api.bind(pod, "a")
    cluster.wait_until(lambda: _phase(cluster, "p") == "Running", "the pod runs")
    status = cluster.api.get(PODS, "p", cluster.namespace)["status"]
    true = {one["type"] for one in status["conditions"] if one["status"] == "True"}
    assert true >= {"PodScheduled", "Initialized", "ContainersReady", "Ready"}
    assert [one["ready"] for one in status["containerStatuses"]] == [True]


def test_a_pod_that_is_not_bound_stays_pending(cluster: Cluster, kubelet: FakeKubelet) -> None:
    _pod(cluster, "left")
    cluster.api.bind(_pod(cluster, "taken"), "a")
    cluster.wait_until(lambda: _phase(cluster, "taken") == "Running", "the other runs")
    assert _phase(cluster, "left") == "Pending"


def test_a_running_pod_that_is_deleted_goes_away(cluster: Cluster, kubelet: FakeKubelet) -> None:
    pod = _pod(cluster, "p", terminationGracePeriodSeconds=3600)
    cluster.api.bind(pod, "a")
    cluster.wait_until(lambda: _phase(cluster, "p") == "Running", "the pod runs")
    cluster.api.delete(PODS, "p", cluster.namespace)
    cluster.wait_until(lambda: not cluster.pods(), "the pod is gone")


def test_a_node_may_refuse_a_pod(cluster: Cluster) -> None:
    kubelet = FakeKubelet(cluster.api, refuses=lambda pod: "OutOfcpu")
    kubelet.start()
    try:
        cluster.api.bind(_pod(cluster, "p"), "a")
        cluster.wait_until(lambda: _phase(cluster, "p") == "Failed", "the pod failed")
    finally:
        kubelet.stop()
    assert cluster.api.get(PODS, "p", cluster.namespace)["status"]["reason"] == "OutOfcpu"


def test_a_pod_that_is_replaced_before_it_runs_is_another_s_affair(cluster: Cluster) -> None:
    kubelet = FakeKubelet(cluster.api, delay=0.5)
    kubelet.start()
    try:
        cluster.api.bind(_pod(cluster, "p"), "a")
        cluster.api.delete(PODS, "p", cluster.namespace, grace=0)
        cluster.api.bind(_pod(cluster, "p"), "a")
        cluster.wait_until(lambda: _phase(cluster, "p") == "Running", "the second one runs")
    finally:
        kubelet.stop()


def test_it_lives_through_a_restart_of_the_api_server(
    cluster: Cluster, kubelet: FakeKubelet
) -> None:
    pod = _pod(cluster, "p")
    cluster.server.restart(kill=True)
    cluster.api.bind(pod, "a")
    cluster.wait_until(lambda: _phase(cluster, "p") == "Running", "the pod runs")
