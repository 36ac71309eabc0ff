"""Moves as a script, run on a real API server; the pods' controllers are left out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from placement import v1
from placement.cli.findings.eviction_script import as_script
from placement.cli.options.option_values import Freeing
from tests.cluster.api import NODES, PODS, Body, Resource
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.waiting import LONG

RACK = "example.com/rack"
BUDGETS = Resource("policy/v1", "poddisruptionbudgets")

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")


def moves(namespace: str, *pods: str, freed: str = "r1") -> v1.ComputeRepackingResponse:
    """Each pod in a step of its own, from node a to node b."""
    return v1.ComputeRepackingResponse(
        freed=[freed],
        moves=[
            v1.Move(
                step=step,
                pod=f"namespaces/{namespace}/pods/{pod}",
                gang=f"namespaces/{namespace}/podgangs/g",
                from_node="nodes/a",
                to_node="nodes/b",
            )
            for step, pod in enumerate(pods, start=1)
        ],
    )


def run(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The script, with Enter pressed between steps."""
    return subprocess.run(
        ["sh", "-c", script],
        input="\n" * 9,
        env=os.environ | env,
        timeout=LONG,
        capture_output=True,
        check=False,
        text=True,
    )


def add_pod(cluster: Cluster, name: str, on: str) -> None:
    metadata = {"name": name, "namespace": cluster.namespace, "labels": {"app": name}}
    pod = cluster.api.create(PODS, {"metadata": metadata, "spec": pod_spec()})
    cluster.api.bind(pod, on)


def names(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["name"] for pod in cluster.pods() if not is_leaving(pod)}


def is_leaving(pod: Body) -> bool:
    return "deletionTimestamp" in pod["metadata"]


@needs_kubectl
def test_pods_are_evicted_where_the_plan_saw_them_and_only_there(cluster: Cluster) -> None:
    """Run again, when successors have the names of pods that went, it evicts none of them."""
    cluster.add_nodes(node("a", labels={RACK: "r1"}), node("b", labels={RACK: "r2"}))
    for name in ("p", "q", "other"):
        add_pod(cluster, name, on="a")
    add_pod(cluster, "moved", on="b")
    script = as_script(Freeing(RACK, 1), moves(cluster.namespace, "p", "moved", "gone", "q"))
    kubeconfig = str(cluster.kubeconfig())
    done = run(script, KUBECONFIG=kubeconfig)
    assert done.returncode == 0, done.stderr
    assert names(cluster) == {"other", "moved"}
    assert [bool(cluster.api.get(NODES, n)["spec"].get("unschedulable")) for n in "ab"] == [1, 0]
    assert f"{cluster.namespace}/gone is no longer on a" in done.stderr
    cluster.wait_until(lambda: len(cluster.pods()) == 2, "what was evicted is gone")
    add_pod(cluster, "p", on="b")
    assert run(script, KUBECONFIG=kubeconfig).returncode == 0
    assert names(cluster) == {"other", "moved", "p"}


@needs_kubectl
def test_a_disruption_budget_is_waited_for(cluster: Cluster) -> None:
    cluster.add_nodes(node("a", labels={RACK: "r1"}))
    add_pod(cluster, "p", on="a")
    # Budgets are for pods that run.
    cluster.api.merge(PODS, "p", {"status": {"phase": "Running"}}, cluster.namespace, "status")
    selector = {"matchLabels": {"app": "p"}}
    metadata = {"name": "p", "namespace": cluster.namespace}
    budget = {"metadata": metadata, "spec": {"maxUnavailable": 1, "selector": selector}}
    made = cluster.api.create(BUDGETS, budget)
    script = as_script(Freeing(RACK, 1), moves(cluster.namespace, "p"))
    with subprocess.Popen(
        ["sh", "-c", script],
        env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig())},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stderr is not None
        assert "waits for its disruption budget" in running.stderr.readline()
        assert names(cluster) == {"p"}
        # There is no disruption controller here.
        status = {
            "observedGeneration": made["metadata"]["generation"], "disruptionsAllowed": 1,
            "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 1,
        }  # fmt: skip
        cluster.api.merge(BUDGETS, "p", {"status": status}, cluster.namespace, "status")
        assert running.wait(LONG) == 0
    assert names(cluster) == set()


@needs_kubectl
def test_a_pod_that_goes_in_the_last_moment_stops_nobody(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_nodes(node("a", labels={RACK: "r1"}))
    add_pod(cluster, "q", on="a")
    # As if the pod p went after the script had looked for it.
    (tmp_path / "kubectl").write_text(
        f'#!/bin/sh\n[ "$1 $5" = "get p" ] && echo a || exec {shutil.which("kubectl")} "$@"\n'
    )
    (tmp_path / "kubectl").chmod(0o755)
    script = as_script(Freeing(RACK, 1), moves(cluster.namespace, "p", "q"))
    paths = f"{tmp_path}:{os.environ['PATH']}"
    done = run(script, KUBECONFIG=str(cluster.kubeconfig()), PATH=paths)
    assert done.returncode == 0, done.stderr
    assert f"{cluster.namespace}/p is no longer there" in done.stderr
    assert names(cluster) == set()


def test_a_line_break_in_a_label_is_no_command(tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_text("#!/bin/sh\n")
    (tmp_path / "kubectl").chmod(0o755)
    made = tmp_path / "made"
    script = as_script(Freeing(RACK, 1), moves("ml", "p", freed=f"r1\ntouch {made}"))
    done = run(script, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, made.exists()) == (0, False)
