"""Advice to KAI on a real API server, with a stand-in for KAI's binder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from controller.steps import Step
from placement.advice_marks import ADVICE, KAI_HOLD, KAI_NODE_POOL, MADE_FOR
from tests.cluster.api import PODS, Body
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.schedulers import BIND_REQUESTS, KAI_POD_GROUPS, KaiBinder, install_kinds
from tests.controller import crashing
from tests.controller.conftest import controller

ADVISING: dict[str, Any] = {"mode": "advise", "advise": ("kai",), "advice_timeout": 0.0}


@pytest.fixture
def kai(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with KAI's kinds, and none of its objects."""
    install_kinds(cluster.api)
    yield cluster
    cluster.api.delete_all(BIND_REQUESTS, cluster.namespace)


def gang(kai: Cluster, name: str, pods: int, *, pool: str = KAI_HOLD) -> None:
    """A PodGroup as KAI's pod grouper makes it, and its pods."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": kai.namespace,
            "labels": {KAI_NODE_POOL: pool} if pool else {},
        },
        "spec": {"minMember": pods},
    }
    kai.api.create(KAI_POD_GROUPS, group)
    kai.api.create_all(
        PODS,
        [
            {
                "metadata": {
                    "name": f"{name}-{index}",
                    "namespace": kai.namespace,
                    "annotations": {"pod-group-name": name},
                },
                "spec": {**pod_spec(gpus=1), "schedulerName": "kai-scheduler"},
            }
            for index in range(pods)
        ],
    )


def pool_of(kai: Cluster, name: str) -> str:
    found = kai.api.get(KAI_POD_GROUPS, name, kai.namespace)
    return str((found["metadata"].get("labels") or {}).get(KAI_NODE_POOL, ""))


def is_over(kai: Cluster) -> bool:
    return not any(ADVICE in pod["metadata"]["annotations"] for pod in kai.pods())


def requests(kai: Cluster) -> dict[str, Body]:
    return {r["metadata"]["name"]: r for r in kai.api.items(BIND_REQUESTS, kai.namespace)}


def test_a_held_gang_is_bound_whole_and_handed_to_kai(kai: Cluster, service: str) -> None:
    kai.add_nodes(node("a", gpus=2), node("b", gpus=2, labels={KAI_NODE_POOL: "gold"}))
    gang(kai, "g", 3)
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **ADVISING):
        kai.wait_until(lambda: len(kai.bound()) == 3, "the gang is bound")
        kai.wait_until(lambda: pool_of(kai, "g") == "", "and held no more")
        kai.wait_until(
            lambda: is_over(kai),
            "the advice has ended",
        )
    for name, request in requests(kai).items():
        (pod,) = (one for one in kai.pods() if one["metadata"]["name"] == name)
        (owner,) = request["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", pod["metadata"]["uid"])
        labels = request["metadata"]["labels"]
        assert labels["selected-node"] == request["spec"]["selectedNode"] == pod["spec"]["nodeName"]
        assert labels.get(KAI_NODE_POOL) == ("gold" if pod["spec"]["nodeName"] == "b" else None)
        assert request["spec"]["receivedGPU"] == {"count": 1, "portion": "1"}
        assert "backoffLimit" not in request["spec"]


def test_a_gang_that_is_not_held_is_kai_s_own(kai: Cluster, service: str) -> None:
    kai.add_nodes(node("a", gpus=8))
    gang(kai, "free", 2, pool="")
    gang(kai, "held", 2)
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **ADVISING):
        kai.wait_until(lambda: len(kai.bound()) == 2, "the held one is bound")
    assert set(requests(kai)) == {"held-0", "held-1"}


def test_what_finds_no_place_in_time_is_left_to_kai(kai: Cluster, service: str) -> None:
    kai.add_nodes(node("a", gpus=2))
    gang(kai, "g", 3)
    settings = {**ADVISING, "advice_timeout": 2.0}
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **settings):
        kai.wait_until(lambda: pool_of(kai, "g") == "", "it is held no more")
    assert requests(kai) == {}


def test_where_another_writer_was_first_all_is_taken_back(kai: Cluster, service: str) -> None:
    """KAI itself decided about one pod. Its request stays, and the rest is planned around it."""
    kai.add_nodes(node("a", gpus=4))
    gang(kai, "g", 3)
    theirs = {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": "g-2", "namespace": kai.namespace, "labels": {"by": "kai"}},
        "spec": {"podName": "g-2", "selectedNode": "a"},
    }

    first = threading.Lock()

    def on_step(step: Step) -> None:
        # Between the last look and the first request of ours; those are written in parallel.
        with first:
            if step is Step.ADVISE and not requests(kai):
                kai.api.create(BIND_REQUESTS, theirs)

    with controller(kai.kubeconfig(), service, on_step=on_step, **ADVISING):
        kai.wait_until(lambda: pool_of(kai, "g") == "", "the hold is gone")
        kai.wait_until(lambda: len(requests(kai)) == 3, "all pods have a request")
    ours = {name for name, one in requests(kai).items() if MADE_FOR in one["metadata"]["labels"]}
    assert ours == {"g-0", "g-1"}


def test_when_a_request_fails_the_others_go(kai: Cluster, service: str) -> None:
    kai.add_nodes(node("a", gpus=4))
    gang(kai, "g", 2)

    def fails(request: Body) -> bool:
        return True

    with (
        KaiBinder(kai.api, fails=fails),
        controller(kai.kubeconfig(), service, **ADVISING),
    ):
        kai.wait_until(lambda: pool_of(kai, "g") == "", "the hold is gone")
        kai.wait_until(lambda: requests(kai) == {}, "and all requests")
    assert kai.bound() == {}


def test_a_pool_of_ours_is_planned_on_its_own_nodes_only(kai: Cluster, service: str) -> None:
    kai.add_nodes(node("a", gpus=8), node("b", gpus=8, labels={KAI_NODE_POOL: "ours"}))
    gang(kai, "g", 2, pool="ours")
    settings = {**ADVISING, "advise": ("kai-pool",), "advise_pool": "ours"}
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **settings):
        kai.wait_until(lambda: len(kai.bound()) == 2, "the gang is bound")
    assert set(kai.bound().values()) == {"b"}
    assert pool_of(kai, "g") == "ours"


@pytest.mark.parametrize("pool", ["", "ours"], ids=["hold", "pool"])
def test_killed_at_every_write_no_gang_is_advised_by_half(
    kai: Cluster, service: str, pool: str
) -> None:
    settings = {**ADVISING}
    if pool:
        settings |= {"advise": ("kai-pool",), "advise_pool": pool}
    kai.add_nodes(node("a", gpus=4, labels={KAI_NODE_POOL: pool} if pool else {}))
    gang(kai, "g", 3, pool=pool or KAI_HOLD)

    def is_bound() -> bool:
        # It is held no more, if it was.
        return len(kai.bound()) == 3 and pool_of(kai, "g") == pool and is_over(kai)

    with KaiBinder(kai.api):
        assert crashing.kill_again_and_again(
            kai.kubeconfig(), service, at=Step.ADVISE, until=is_bound, **settings
        )
