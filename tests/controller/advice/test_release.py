"""`placementctl release` on a real API server: nothing is left that makes a pod wait."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from placement.advice_marks import ADVICE, GANG, GATE, KAI_HOLD, KAI_NODE_POOL, MADE_FOR
from placement.cli.commands.release import command
from placement.cli.failures import Failure
from placement.cli.releasing import releases
from placement.cluster import Page
from placement.resources import PODS as RUNNING
from tests.cluster.api import PODS, Api, Body, Resource
from tests.cluster.build import pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.proxy import FaultProxy, Refuse
from tests.cluster.schedulers import (
    BIND_REQUESTS,
    KAI_POD_GROUPS,
    RESERVATIONS,
    install_kinds,
)

LABELS = {MADE_FOR: "1"}


@pytest.fixture
def left(cluster: Cluster) -> Cluster:
    """A cluster whose controller is gone for good, with advice under way."""
    install_kinds(cluster.api)
    namespace = cluster.namespace
    for name, mark in (("advised", {ADVICE: "{}"}), ("waits", {})):
        metadata = {"name": name, "namespace": namespace, "annotations": mark}
        gates = [{"name": GATE}, {"name": "example.com/other"}]
        cluster.api.create(
            PODS, {"metadata": metadata, "spec": {**pod_spec(), "schedulingGates": gates}}
        )

    def create(resource: Resource, kind: str, version: str, body: Body) -> None:
        cluster.api.create(resource, {"apiVersion": version, "kind": kind, **body})

    for name, labels in (("ours", LABELS), ("theirs", {})):
        create(
            BIND_REQUESTS,
            "BindRequest",
            "scheduling.run.ai/v1alpha2",
            {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {}},
        )
        create(
            RESERVATIONS,
            "Reservation",
            "scheduling.koordinator.sh/v1alpha1",
            {
                "metadata": {"name": f"{namespace}-{name}", "labels": labels},
                "spec": {"template": {"metadata": {"namespace": namespace}}},
            },
        )
        pool = KAI_HOLD if name == "ours" else "gold"
        create(
            KAI_POD_GROUPS,
            "PodGroup",
            "scheduling.run.ai/v2alpha2",
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {KAI_NODE_POOL: pool},
                },
                "spec": {},
            },
        )
    return cluster


def names(api: Api, resource: Resource, namespace: str | None = None) -> list[str]:
    return sorted(one["metadata"]["name"] for one in api.items(resource, namespace))


def release(kubeconfig: Path, *arguments: str) -> str:
    result = CliRunner().invoke(command, ["--kubeconfig", str(kubeconfig), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_all_that_advice_left_goes_and_nothing_else(left: Cluster) -> None:
    config, namespace = left.kubeconfig(), left.namespace
    would = release(config, "--dry-run")
    assert names(left.api, BIND_REQUESTS, namespace) == ["ours", "theirs"]
    assert release(config) == would
    assert would.splitlines() == [
        f"BindRequest {namespace}/ours: deleted",
        f"Reservation {namespace}-ours: deleted",
        f"Pod {namespace}/advised: advice taken away",
        f"PodGroup {namespace}/ours: hold taken away",
        f"Pod {namespace}/advised: gate taken away",
        f"Pod {namespace}/waits: gate taken away",
    ]
    assert names(left.api, BIND_REQUESTS, namespace) == ["theirs"]
    assert names(left.api, RESERVATIONS) == [f"{namespace}-theirs"]
    for pod in left.pods():
        assert pod["spec"]["schedulingGates"] == [{"name": "example.com/other"}]
        assert ADVICE not in (pod["metadata"].get("annotations") or {})
    groups = {
        one["metadata"]["name"]: one["metadata"].get("labels")
        for one in left.api.items(KAI_POD_GROUPS, namespace)
    }
    assert groups == {"ours": None, "theirs": {KAI_NODE_POOL: "gold"}}
    assert release(config) == "There is nothing to release.\n"


def test_what_may_be_decided_still_is_left_to_the_controller(left: Cluster) -> None:
    """Old pods wait with young ones of their gang; those that have waited long enough go."""
    config, namespace = left.kubeconfig(), left.namespace
    assert release(config, "--after", "3600") == "There is nothing to release.\n"
    time.sleep(3.0)
    mark = {"annotations": {GANG: "g"}}
    for name in ("waits", "young"):
        if name == "young":
            metadata = {"name": name, "namespace": namespace, **mark}
            spec = {**pod_spec(), "schedulingGates": [{"name": GATE}]}
            left.api.create(PODS, {"metadata": metadata, "spec": spec})
        else:
            left.api.merge(PODS, name, {"metadata": mark}, namespace)
    assert release(config, "--after", "2").splitlines() == [
        f"BindRequest {namespace}/ours: deleted",
        f"Reservation {namespace}-ours: deleted",
        f"Pod {namespace}/advised: advice taken away",
        f"PodGroup {namespace}/ours: hold taken away",
        f"Pod {namespace}/advised: gate taken away",
    ]


def test_a_namespace_is_released_alone(left: Cluster) -> None:
    assert release(left.kubeconfig(), "--namespace", "other") == "There is nothing to release.\n"
    assert len(left.pods()) == 2


def test_a_pod_that_cannot_be_changed_keeps_no_other_waiting(
    left: Cluster, fault_proxy: FaultProxy
) -> None:
    """Such as by a webhook that is down: it would hold all others, each time."""
    fault_proxy.fault(Refuse(403), method="PATCH", path=r"/pods/advised$")
    config = str(left.kubeconfig(url=fault_proxy.url))
    done = CliRunner().invoke(command, ["--kubeconfig", config])
    assert isinstance(done.exception, Failure)
    assert [line.partition(":")[0] for line in done.exception.problems] == [
        "not all was released",
        "and 1 more",
    ]
    assert done.output.splitlines()[-1] == f"Pod {left.namespace}/waits: gate taken away"


def test_pods_that_something_could_still_bind_go_on_waiting(
    left: Cluster, fault_proxy: FaultProxy
) -> None:
    fault_proxy.fault(Refuse(403), method="DELETE", path=r"/bindrequests/ours$")
    config = str(left.kubeconfig(url=fault_proxy.url))
    done = CliRunner().invoke(command, ["--kubeconfig", config])
    assert isinstance(done.exception, Failure)
    assert done.output.splitlines() == [f"Reservation {left.namespace}-ours: deleted"]


class Large:
    """A cluster of many pods that nobody waits for, each with as much in it as real ones have."""

    PAGES, PODS, BYTES = 40, 25, 10_000

    def pages(self, resource: object, *, fields: str = "") -> Iterator[Page]:
        for page in range(self.PAGES if resource is RUNNING else 0):
            yield Page(tuple(self._pod(page * self.PODS + i) for i in range(self.PODS)), "1")

    def _pod(self, number: int) -> Body:
        metadata = {"name": f"p-{number}", "namespace": "ml", "uid": f"uid-{number}"}
        metadata["creationTimestamp"] = "2026-11-21T08:00:00Z"
        marks = {"annotations": {"example.com/long": f"{number:0{self.BYTES}d}"}}
        return {"metadata": {**metadata, **marks}, "spec": {"nodeName": "a"}}


def test_of_a_large_cluster_only_what_is_released_is_kept() -> None:
    """The CronJob has half a GiB; twenty thousand pods were more."""
    large = Large()
    tracemalloc.start()
    try:
        found = list(releases(cast("Any", large), before=datetime.now(UTC)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == []
    assert most < large.PAGES * large.PODS * large.BYTES / 5
