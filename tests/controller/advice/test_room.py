"""Why advice is taken back, told by the nodes and the pods on them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, cast

import pytest

from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.room import fingerprint, overbooked
from controller.advice.schedulers.kai import Kai
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body
from placement.cluster import ApiError, Cluster, Page
from placement.kubernetes.nodes.devices import KAI_HOLDERS
from placement.kubernetes.pods.pods import KAI_GROUP
from placement.resources import BIND_REQUESTS, NODES, PODS, Resource
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
    """A node, if there is one, and what is on it, or will be: `requests` of KAI, or a status with
    which they are refused, and `elsewhere` the pods that are not on the node yet.
    """

    def __init__(
        self,
        there: Body | None,
        *pods: Body,
        requests: Sequence[dict[str, Any]] | int = (),
        elsewhere: Mapping[str, Body] = MappingProxyType({}),
        status: int = 404,
    ) -> None:
        self._there, self._pods = there, list(pods)
        self._requests, self._elsewhere, self._status = requests, elsewhere, status

    def request(self, _: str, path: str, **__: Any) -> Body:
        if path == PODS.path:
            return {"items": self._pods}
        found = self._there if path == NODES.path_of("a") else None
        if path.startswith(PODS.path_of("", "ml")):
            found = self._elsewhere.get(path.rpartition("/")[2])
        if found is None:
            raise ApiError(self._status, "there is none")
        return found

    def pages(self, resource: Resource) -> Iterator[Page]:
        assert resource is BIND_REQUESTS
        if isinstance(self._requests, int):
            raise ApiError(self._requests, "no")
        yield Page(tuple(self._requests), "1")


def told(cluster: FakeCluster, seen: Body, *, kai: bool = False) -> str:
    """Why a pod of eight GPUs cannot go to the node as it was seen."""
    binding = Binding(ADVISED, "g-0", "a")
    prints = {"a": fingerprint(seen)}
    advice = Advice("1" * 16, ("ml", "g"), "kube-scheduler", (binding,), 0.0, 1, prints)
    stores = {PODS: {ADVISED: pod("g-0", "", 8)}, NODES: {("", "a"): seen}}
    objects = Objects(1, {**stores, BIND_REQUESTS: {}} if kai else stores)
    ways = [Kai(cast("Any", None), cast("Any", None))] if kai else []
    with ThreadPoolExecutor(1) as executor:
        return overbooked(cast("Cluster", cluster), advice, objects, ways, 0.0, executor)


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


def test_the_number_of_pods_counts_too() -> None:
    """A node that does not say how many takes 110."""
    small, advised = pod("small", "a", 0), pod("g-0", "a", 8)
    assert told(FakeCluster(node("a", pods=2), small, advised), node("a")) == ""
    why = "pods on a was given away"
    assert told(FakeCluster(node("a", pods=1), small, advised), node("a")) == why
    silent = node("a")
    del silent["status"]["allocatable"]["pods"]
    many = [pod(f"small-{i}", "a", 0) for i in range(110)]
    assert told(FakeCluster(silent, *many[:109], advised), node("a")) == ""
    assert told(FakeCluster(silent, *many, advised), node("a")) == why


def test_a_node_that_cannot_be_read_is_no_reason() -> None:
    with pytest.raises(ApiError):
        told(FakeCluster(None, status=500), node("a"))


def request(of: str, on: str = "a") -> dict[str, Any]:
    """What KAI has decided about a pod that it has yet to bind."""
    return {
        "apiVersion": BIND_REQUESTS.api_version,
        "kind": "BindRequest",
        "metadata": {"name": of, "namespace": "ml"},
        "spec": {"podName": of, "selectedNode": on},
    }


@pytest.mark.parametrize(
    ("decided", "why"),
    [
        pytest.param("a", "nvidia.com/gpu on a was given away", id="for the node"),
        pytest.param("b", "", id="for another node"),
    ],
)
def test_a_pod_that_kai_is_about_to_bind_came_first(decided: str, why: str) -> None:
    cluster = FakeCluster(
        node("a"),
        pod("g-0", "a", 8),
        requests=[request("theirs", decided)],
        elsewhere={"theirs": pod("theirs", "", 1)},
    )
    assert told(cluster, node("a"), kai=True) == why
    # Without its kinds there is nobody to ask.
    assert told(cluster, node("a")) == ""


def test_a_pod_that_is_gone_takes_no_room() -> None:
    there, advised = node("a"), pod("g-0", "a", 8)
    assert told(FakeCluster(there, advised, requests=[request("gone")]), there, kai=True) == ""
    with pytest.raises(ApiError):
        told(FakeCluster(there, advised, requests=[request("x")], status=500), there, kai=True)


def test_kinds_that_are_not_served_any_more_hold_nothing() -> None:
    there, advised = node("a"), pod("g-0", "a", 8)
    assert told(FakeCluster(there, advised, requests=404), there, kai=True) == ""
    with pytest.raises(ApiError):
        told(FakeCluster(there, advised, requests=500), there, kai=True)


def test_a_gpu_that_is_shared_counts_once() -> None:
    """As soon as its holder runs, that is what asks for it."""
    group = {"labels": {KAI_GROUP: "one"}}
    parts = [pod(f"part-{i}", "a", 0) for i in range(2)]
    for part in parts:
        part["metadata"].update(group, annotations={"gpu-fraction": "0.5"})
    advised = pod("g-0", "a", 7)
    assert told(FakeCluster(node("a"), *parts, advised), node("a")) == ""
    holder = pod("holder", "a", 1)
    holder["metadata"].update(group, namespace=KAI_HOLDERS)
    assert told(FakeCluster(node("a"), *parts, holder, advised), node("a")) == ""
    why = "nvidia.com/gpu on a was given away"
    advised = pod("g-0", "a", 8)
    assert told(FakeCluster(node("a"), *parts, advised), node("a")) == why
    # In another namespace than that of holders, a pod that looks like one is none.
    elsewhere = pod("other", "a", 1)
    elsewhere["metadata"].update(group)
    advised = pod("g-0", "a", 7)
    assert told(FakeCluster(node("a"), *parts, elsewhere, advised), node("a")) == why
