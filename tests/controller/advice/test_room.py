"""Why advice is taken back, told by the nodes and the pods on them alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.room import fingerprint, overbooked
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body
from placement.cluster import ApiError, Cluster
from placement.resources import NODES, PODS
from tests.cluster.build import node

ADVISED = ("ml", "g-0")


def pod(name: str, on: str, gpus: int) -> Body:
    asks = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": name},
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": asks}]},
        "status": {"phase": "Running" if on else "Pending"},
    }


class FakeCluster:
    """A node, if there is one, and the pods on it."""

    def __init__(self, there: Body | None, *pods: Body) -> None:
        self._there, self._pods = there, list(pods)

    def request(self, _: str, path: str, **__: Any) -> Body:
        if path == PODS.path:
            return {"items": self._pods}
        assert path == NODES.path_of("a")
        if self._there is None:
            raise ApiError(404, "there is no such node")
        return self._there


def told(cluster: FakeCluster, seen: Body) -> str:
    """Why a pod of eight GPUs cannot go to the node as it was seen."""
    binding = Binding(ADVISED, "g-0", "a")
    prints = {"a": fingerprint(seen)}
    advice = Advice("1" * 16, ("ml", "g"), "kube-scheduler", (binding,), 0.0, 1, prints)
    objects = Objects(1, {PODS: {ADVISED: pod("g-0", "", 8)}, NODES: {("", "a"): seen}})
    with ThreadPoolExecutor(1) as executor:
        return overbooked(cast("Cluster", cluster), advice, objects, (), 0.0, executor)


def not_ready() -> Body:
    there = node("a")
    there["status"] = {
        **there["status"],
        "conditions": [{"type": "Ready", "status": "False"}],
    }
    return there


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (lambda: node("a"), ""),
        (lambda: None, "node a is gone"),
        (lambda: node("a", unschedulable=True), "node a is cordoned"),
        (not_ready, "node a is not ready"),
        (lambda: node("a", labels={"pool": "other"}), "node a has changed"),
    ],
)
def test_a_node_that_takes_pods_no_longer_ends_advice(
    now: Callable[[], Body | None], why: str
) -> None:
    assert told(FakeCluster(now()), node("a")) == why


@pytest.mark.parametrize(("gpus", "why"), [(0, ""), (1, "nvidia.com/gpu on a was given away")])
def test_a_pod_that_came_first_ends_advice(gpus: int, why: str) -> None:
    other = pod("other", "a", gpus) if gpus else pod("small", "a", 0)
    advised = pod("g-0", "a", 8)
    assert told(FakeCluster(node("a"), other, advised), node("a")) == why


def test_advice_is_not_to_blame_for_what_is_overbooked_without_it() -> None:
    pods = (pod("one", "a", 8), pod("other", "a", 8))
    assert told(FakeCluster(node("a"), *pods), node("a")) == ""
