"""Pods that wait for advice although none can come: they have to be released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from controller.advice.adapter import Adapter
from controller.advice.objects import Objects
from controller.advice.request import build_request
from controller.advice.schedulers.kai import Kai
from controller.advice.schedulers.kube_scheduler import KubeScheduler
from controller.cluster.gang_state import Body, key_of
from placement.advice_marks import GANG, GANG_MINIMUM, GATE, KAI_HOLD, KAI_NODE_POOL
from placement.resources import BIND_REQUESTS, KAI_POD_GROUPS, NODES, PODS, Resource
from tests.cluster.build import node, pod_spec

CLAIMS: Body = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]}
GATES: Body = {"schedulingGates": [{"name": GATE}]}
OTHER_GATES: Body = {"schedulingGates": [{"name": GATE}, {"name": "example.com/quota"}]}

KAI = Kai(cast("Any", None), cast("Any", None))
KUBE = KubeScheduler(cast("Any", None), cast("Any", None), mode="pin")


def pod(name: str, annotations: Mapping[str, str], **spec: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "annotations": dict(annotations),
        },
        "spec": {**pod_spec(gpus=1), **spec},
    }


def kai_pod(name: str, **spec: Any) -> Body:
    return pod(name, {"pod-group-name": "g"}, schedulerName="kai-scheduler", **spec)


def pod_group(pool: str = "") -> Body:
    return {
        "apiVersion": KAI_POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {
            "name": "g",
            "namespace": "ml",
            "labels": {KAI_NODE_POOL: pool} if pool else {},
        },
        "spec": {"minMember": 1},
    }


def bind_request(name: str) -> Body:
    return {
        "apiVersion": BIND_REQUESTS.api_version,
        "kind": "BindRequest",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"podName": name, "selectedNode": "a"},
    }


def strays(adapter: Adapter, *bodies: Body) -> set[str]:
    """The pods of which `build_request` says that no advice comes for them."""
    kinds = {"Node": NODES, "Pod": PODS, "PodGroup": KAI_POD_GROUPS, "BindRequest": BIND_REQUESTS}
    stores: dict[Resource, dict[Any, Body]] = {one: {} for one in kinds.values()}
    for body in ({"apiVersion": "v1", "kind": "Node", **node("a", gpus=8)}, *bodies):
        stores[kinds[body["kind"]]][key_of(body)] = body
    request = build_request(Objects(1, stores), [adapter], now=0.0)
    assert all(request.adapters[key] is adapter for key in request.strays)
    return {name for _, name in request.strays}


@pytest.mark.parametrize(
    ("bodies", "want"),
    [
        pytest.param([kai_pod("p", **GATES), pod_group()], set(), id="it is advised"),
        pytest.param([kai_pod("p", **GATES)], {"p"}, id="without a PodGroup"),
        pytest.param(
            [kai_pod("p", **GATES, **CLAIMS), pod_group()], {"p"}, id="claims behind our gate"
        ),
        pytest.param(
            [kai_pod("p", **OTHER_GATES, **CLAIMS), pod_group()], set(), id="behind others' gates"
        ),
        pytest.param([kai_pod("p", **CLAIMS), pod_group(KAI_HOLD)], {"p"}, id="claims held"),
        pytest.param([kai_pod("p", **CLAIMS), pod_group()], set(), id="claims, not held"),
        pytest.param(
            [kai_pod("p", nodeName="a", **CLAIMS), pod_group(KAI_HOLD)], set(), id="it runs"
        ),
        pytest.param(
            [kai_pod("p", **GATES), pod_group(), bind_request("p")],
            {"p"},
            id="a request of somebody else's",
        ),
        pytest.param(
            [kai_pod("p", **GATES), kai_pod("q", **GATES, **CLAIMS), pod_group()],
            {"q"},
            id="one of two has claims",
        ),
    ],
)
def test_what_is_held_for_kai_and_gets_no_advice_is_known(
    bodies: list[Body], want: set[str]
) -> None:
    assert strays(KAI, *bodies) == want


def plain(name: str, **spec: Any) -> Body:
    return pod(name, {GANG: "g", GANG_MINIMUM: "3"}, **spec)


def test_a_gang_whose_pods_are_yet_to_come_waits_for_them() -> None:
    assert strays(KUBE, plain("p", **GATES), plain("q", **GATES)) == set()


def test_nobody_waits_for_pods_of_a_gang_that_has_run() -> None:
    """One has finished: the others, and the one that was made anew, are fewer than the minimum."""
    assert strays(KUBE, plain("p", nodeName="a"), plain("q", **GATES)) == {"q"}


def test_one_that_is_made_anew_is_advised() -> None:
    runs = [plain(name, nodeName="a") for name in "pq"]
    assert strays(KUBE, *runs, plain("r", **GATES)) == set()


def test_a_gang_that_pods_name_oddly_is_refused_alone() -> None:
    bodies = [pod(name, {GANG: gang}, **GATES) for name, gang in (("a", "ml/g"), ("b", "sound"))]
    stores: dict[Resource, dict[Any, Body]] = {
        NODES: {("", "a"): {"apiVersion": "v1", "kind": "Node", **node("a")}},
        PODS: {key_of(body): body for body in bodies},
    }
    request = build_request(Objects(1, stores), [KUBE], now=0.0)
    assert list(request.waiting) == [("ml", "sound")]
    assert list(request.refused) == [("ml", "ml/g")]
