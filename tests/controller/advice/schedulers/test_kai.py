"""Advice to KAI on a real API server, with a stand-in for KAI's binder."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from controller.runtime.steps import Step
from placement.advice_marks import ADVICE, CONDITION, GATE, KAI_HOLD, KAI_NODE_POOL, MADE_FOR
from tests.cluster.api import PODS, Body
from tests.cluster.build import node, pod_spec
from tests.cluster.fixtures import Cluster
from tests.cluster.kubelet import FakeKubelet
from tests.cluster.schedulers import (
    BIND_REQUESTS,
    GPU_GROUP,
    HOLDERS,
    KAI_POD_GROUPS,
    KaiBinder,
    install_kinds,
)
from tests.controller import crashing
from tests.controller.conftest import controller

ADVISING: dict[str, Any] = {"mode": "advise", "advise": ("kai",), "advice_timeout": 0.0}


@pytest.fixture
def kai(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with KAI's kinds, and none of its objects."""
    install_kinds(cluster.api)
    yield cluster
    cluster.api.delete_all(PODS, HOLDERS)


def gang(
    kai: Cluster,
    name: str,
    pods: int,
    *,
    pool: str = KAI_HOLD,
    gated: bool = False,
    share: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """A PodGroup as KAI's pod grouper makes it, and its pods; of whole GPUs, or of shares."""
    gates = [{"name": GATE}] if gated else []
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
                    "annotations": {"pod-group-name": name, **share},
                },
                "spec": {
                    **pod_spec(gpus=0 if share else 1),
                    "schedulerName": "kai-scheduler",
                    "schedulingGates": gates,
                },
            }
            for index in range(pods)
        ],
    )


def pool_of(kai: Cluster, name: str) -> str:
    found = kai.api.get(KAI_POD_GROUPS, name, kai.namespace)
    return str((found["metadata"].get("labels") or {}).get(KAI_NODE_POOL, ""))


def said(kai: Cluster, name: str) -> tuple[str, str]:
    """What a pod says of its advice."""
    conditions = kai.api.get(PODS, name, kai.namespace)["status"].get("conditions", [])
    found = (c for c in conditions if c["type"] == CONDITION)
    return next(((c["status"], c["reason"]) for c in found), ("", ""))


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
        assert request["spec"]["receivedGPU"] == {"count": 1, "portion": "1.00"}
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


def test_shares_of_a_gpu_are_bound_in_its_group(kai: Cluster, service: str) -> None:
    """Two fill a GPU, in a group of their own; the third opens one, which the next gang joins."""
    kai.add_nodes(node("a", gpus=2, labels={"nvidia.com/gpu.memory": "1000"}))
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **ADVISING):
        gang(kai, "g", 3, share={"gpu-fraction": "0.5"})
        kai.wait_until(lambda: is_over(kai) and len(kai.bound()) == 3, "the gang is bound")
        gang(kai, "h", 1, share={"gpu-memory": "444"})
        kai.wait_until(lambda: is_over(kai) and len(kai.bound()) == 4, "and the next one")
    made = requests(kai)
    for name, portion in {"g-0": "0.50", "h-0": "0.45"}.items():
        assert made[name]["spec"]["receivedResourceType"] == "Fraction"
        assert made[name]["spec"]["receivedGPU"] == {"count": 1, "portion": portion}
    groups = Counter(made[f"g-{i}"]["spec"]["selectedGPUGroups"][0] for i in range(3))
    half_full = next(group for group, count in groups.items() if count == 1)
    assert sorted(groups.values()) == [1, 2]
    assert made["h-0"]["spec"]["selectedGPUGroups"] == [half_full]
    holders = [p for p in kai.api.items(PODS, HOLDERS) if p["spec"]["nodeName"] == "a"]
    assert {p["metadata"]["labels"][GPU_GROUP] for p in holders} == set(groups)


def test_gated_pods_go_when_their_requests_have_stood(kai: Cluster, service: str) -> None:
    """Until then KAI counts them, and its binder tries in vain."""
    kai.add_nodes(node("a", gpus=3))
    gang(kai, "g", 3, pool="", gated=True)
    settings = {**ADVISING, "advise_kai_settle": 3.0}
    with KaiBinder(kai.api) as binder, controller(kai.kubeconfig(), service, **settings):
        kai.wait_until(lambda: len(requests(kai)) == 3, "the requests are there")
        begin = time.monotonic()
        for request in requests(kai).values():
            assert request["spec"]["backoffLimit"] > request.get("status", {}).get(
                "failedAttempts", 0
            )
        kai.wait_until(lambda: binder.requests != [], "the first is bound")
        # They are seen a little late; without a wait it is done at once.
        assert time.monotonic() - begin > 1.5
        kai.wait_until(lambda: len(kai.bound()) == 3 and is_over(kai), "the gang is bound")


def test_what_kai_decided_meanwhile_takes_gated_advice_back_whole(
    kai: Cluster, service: str
) -> None:
    """From before it saw the requests; and it is no conflict where there is room for both."""
    kai.add_nodes(node("a", gpus=3), node("b", gpus=1))
    gang(kai, "g", 2, pool="", gated=True)
    gang(kai, "theirs", 2, pool="")
    settings = {**ADVISING, "advise_kai_settle": 3.0}
    settings |= {"shortest_backoff": 60.0, "longest_backoff": 60.0}

    def decide(name: str) -> None:
        kai.api.create(
            BIND_REQUESTS,
            {
                "apiVersion": "scheduling.run.ai/v1alpha2",
                "kind": "BindRequest",
                "metadata": {"name": name, "namespace": kai.namespace},
                "spec": {"podName": name, "selectedNode": "a"},
            },
        )

    with controller(kai.kubeconfig(), service, **settings):
        kai.wait_until(lambda: len(requests(kai)) == 2, "the requests are there")
        for name in ("theirs-0", "theirs-1"):
            decide(name)
        kai.wait_until(lambda: set(requests(kai)) == {"theirs-0", "theirs-1"}, "they are gone")
        kai.wait_until(lambda: is_over(kai), "the advice has ended")
        kai.wait_until(lambda: said(kai, "g-0") == ("False", "Conflict"), "and that is said")
    assert all(pod["spec"].get("schedulingGates") for pod in kai.pods() if of(pod, "g"))


def test_a_minimum_that_is_raised_meanwhile_takes_gated_advice_back_whole(
    kai: Cluster, service: str
) -> None:
    kai.add_nodes(node("a", gpus=4))
    gang(kai, "g", 2, pool="", gated=True)
    settings = {**ADVISING, "advise_kai_settle": 3.0}
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **settings):
        kai.wait_until(lambda: len(requests(kai)) == 2, "the requests are there")
        kai.api.merge(KAI_POD_GROUPS, "g", {"spec": {"minMember": 3}}, kai.namespace)
        kai.wait_until(lambda: said(kai, "g-0") == ("False", "Conflict"), "the advice has ended")
        kai.wait_until(lambda: requests(kai) == {} and is_over(kai), "and nothing is left of it")
    assert kai.bound() == {}
    assert all(pod["spec"].get("schedulingGates") for pod in kai.pods())


def of(pod: Body, gang: str) -> bool:
    return bool(pod["metadata"]["annotations"]["pod-group-name"] == gang)


def test_what_a_crash_left_is_not_written_where_the_room_is_gone(
    kai: Cluster, service: str
) -> None:
    """The advice stands on the pods, and nothing else yet; then another takes the node."""
    kai.add_nodes(node("a", gpus=2))
    gang(kai, "g", 2)
    process = crashing.begin(kai.kubeconfig(), service, die_at=Step.ADVISE, visit=3, **ADVISING)
    kai.wait_until(lambda: process.exitcode is not None, "the controller has died")
    assert requests(kai) == {}
    other = {"name": "other", "namespace": kai.namespace, "annotations": {"a": "b"}}
    kai.api.create(PODS, {"metadata": other, "spec": {**pod_spec(gpus=1), "nodeName": "a"}})
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **ADVISING):
        kai.wait_until(lambda: is_over(kai), "the advice has ended")
    assert requests(kai) == {}
    assert set(kai.bound()) == {"other"}


def test_a_pod_that_its_kubelet_refuses_is_a_conflict(kai: Cluster, service: str) -> None:
    kai.add_nodes(node("a", gpus=2))
    gang(kai, "g", 2)
    kubelet = FakeKubelet(
        kai.api, refuses=lambda p: "OutOfnvidia.com/gpu" if p["metadata"]["name"] == "g-1" else ""
    )
    with controller(kai.kubeconfig(), service, **ADVISING):
        with KaiBinder(kai.api):
            kai.wait_until(lambda: len(kai.bound()) == 2 and is_over(kai), "the gang is bound")
        kubelet.start()
        kai.wait_until(lambda: said(kai, "g-1") == ("False", "Conflict"), "one is refused")
        kubelet.stop()
    assert said(kai, "g-0") == ("True", "Followed")


def test_in_a_pool_of_ours_what_failed_before_does_not_count(kai: Cluster, service: str) -> None:
    """No scheduler is there to take it away."""
    kai.add_nodes(node("b", gpus=8, labels={KAI_NODE_POOL: "ours"}))
    failed = {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "metadata": {"name": "g-0", "namespace": kai.namespace},
        "spec": {"podName": "g-0", "selectedNode": "b"},
    }
    kai.api.create(BIND_REQUESTS, failed)
    kai.api.merge(BIND_REQUESTS, "g-0", {"status": {"phase": "Failed"}}, kai.namespace, "status")
    gang(kai, "g", 2, pool="ours")
    settings = {**ADVISING, "advise": ("kai-pool",), "advise_pool": "ours"}
    with KaiBinder(kai.api), controller(kai.kubeconfig(), service, **settings):
        kai.wait_until(lambda: len(kai.bound()) == 2, "the gang is bound")


@pytest.mark.parametrize("how", ["hold", "gate", "shares", "pool"])
def test_killed_at_every_write_no_gang_is_advised_by_half(
    kai: Cluster, service: str, how: str
) -> None:
    settings = {**ADVISING, "advise_kai_settle": 0.5}
    pool = "ours" if how == "pool" else ""
    if pool:
        settings |= {"advise": ("kai-pool",), "advise_pool": pool}
    kai.add_nodes(node("a", gpus=4, labels={KAI_NODE_POOL: pool} if pool else {}))
    share = {"gpu-fraction": "0.6"} if how == "shares" else {}
    held = "" if how == "gate" else pool or KAI_HOLD
    gang(kai, "g", 3, pool=held, gated=how == "gate", share=share)

    def is_bound() -> bool:
        # It is held no more, if it was.
        return len(kai.bound()) == 3 and pool_of(kai, "g") == pool and is_over(kai)

    with KaiBinder(kai.api):
        assert crashing.kill_again_and_again(
            kai.kubeconfig(), service, at=Step.ADVISE, until=is_bound, **settings
        )
