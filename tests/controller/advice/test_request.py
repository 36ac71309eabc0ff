"""What the service is asked where pods wait for advice, and what of it is for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from controller.advice.adapter import Adapter
from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.advice.request import AdviceRequest, build_request, is_awaited
from controller.advice.schedulers.kai import Kai
from controller.advice.schedulers.kube_scheduler import KubeScheduler
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, key_of
from placement import v1
from placement.advice_marks import ADVICE, GANG, GANG_MINIMUM, GATE, KAI_NODE_POOL
from placement.resources import BIND_REQUESTS, KAI_POD_GROUPS, KAI_QUEUES, NODES, PODS, Resource
from tests.cluster.build import node, pod_spec

KUBE: Adapter = KubeScheduler(cast("Any", None), cast("Any", None), mode="pin")
KAI: Adapter = Kai(cast("Any", None), cast("Any", None))
POOL: Adapter = Kai(cast("Any", None), cast("Any", None), pool="ours")

KINDS = {
    "Node": NODES,
    "Pod": PODS,
    "PodGroup": KAI_POD_GROUPS,
    "BindRequest": BIND_REQUESTS,
    "Queue": KAI_QUEUES,
}


def a_node(name: str = "a", **more: Any) -> Body:
    return {"apiVersion": "v1", "kind": "Node", **node(name, gpus=8, **more)}


def pod(
    name: str, *, minimum: int = 2, advised: str = "", gated: bool = True, **more: Any
) -> dict[str, Any]:
    """Of gang g, of the scheduler of Kubernetes."""
    notes = {GANG: "g", GANG_MINIMUM: str(minimum), **({ADVICE: advised} if advised else {})}
    gates = {"schedulingGates": [{"name": GATE}]} if gated else {}
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "annotations": notes}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**pod_spec(gpus=1), **gates, **more},
    }


def kai_pod(name: str, *, gated: bool = True) -> dict[str, Any]:
    one = pod(name, gated=gated, schedulerName="kai-scheduler")
    one["metadata"]["annotations"] = {"pod-group-name": "g"}
    return one


def pod_group(pool: str = "") -> Body:
    labels = {KAI_NODE_POOL: pool} if pool else {}
    return {
        "apiVersion": KAI_POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml", "labels": labels},
        "spec": {"minMember": 1},
    }


def bind_request(name: str, on: str) -> Body:
    return {
        "apiVersion": BIND_REQUESTS.api_version,
        "kind": "BindRequest",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"podName": name, "selectedNode": on},
    }


def objects(*bodies: Body) -> Objects:
    stores: dict[Resource, dict[Any, Body]] = {one: {} for one in KINDS.values()}
    for body in bodies:
        stores[KINDS[body["kind"]]][key_of(body)] = body
    return Objects(1, stores)


def asked(*bodies: Body, adapters: Sequence[Adapter] = (KUBE,), now: float = 0.0) -> AdviceRequest:
    return build_request(objects(*bodies), adapters, now)


def waiting(found: AdviceRequest) -> dict[str, list[str]]:
    return {name: [pod for _, pod in of] for (_, name), of in found.waiting.items()}


def running(found: AdviceRequest) -> dict[str, str]:
    """The node of each pod that counts as if it ran."""
    (gang,) = found.request.gangs
    pods: list[v1.BoundPod] = [p for g in gang.groups for p in g.bound_pods]
    pods += [p for g in gang.groups for s in g.pod_sets for p in s.bound_pods]
    return {p.name.rpartition("/")[2]: p.node for p in pods}


def advice(*names: str, size: int = 0) -> list[dict[str, Any]]:
    """Pods to which advice until 100 is written."""
    bindings = tuple(Binding(("ml", name), f"uid-{name}", "a") for name in names)
    given = Advice("1" * 16, ("ml", "g"), "kube", bindings, 100.0, size or len(names))
    return [pod(one.pod[1], advised=given.annotation(one), minimum=1) for one in bindings]


def test_a_gang_with_enough_pods_waits() -> None:
    found = asked(a_node(), pod("p"), pod("q"))
    assert waiting(found) == {"g": ["p", "q"]}
    assert found.adapters == {("ml", "p"): KUBE, ("ml", "q"): KUBE}
    assert found.room.taken == frozenset()


def test_a_gang_of_too_few_is_not_asked_about() -> None:
    found = asked(a_node(), pod("p"))
    assert waiting(found) == {}
    assert list(found.request.gangs) == []


def test_pods_with_advice_run_where_it_sends_them_until_it_expires() -> None:
    """They have no gates there, and take room."""
    bodies = (a_node(), *advice("p", "q"))
    found = asked(*bodies)
    assert (waiting(found), running(found)) == ({}, {"p": "nodes/a", "q": "nodes/a"})
    assert found.room.taken == {"uid-p", "uid-q"}
    assert found.strays == frozenset()
    expired = asked(*bodies, now=100.0)
    assert waiting(expired) == {"g": ["p", "q"]}
    assert expired.room.taken == frozenset()


def test_the_rest_of_a_gang_whose_advice_is_torn_waits_until_it_is_taken_back() -> None:
    rest = pod("r", minimum=1)
    assert waiting(asked(a_node(), *advice("p"), rest)) == {"g": ["r"]}
    assert waiting(asked(a_node(), *advice("p", size=2), rest)) == {}


def test_pods_that_run_take_room_whatever_is_written_on_them() -> None:
    ran = pod("p", minimum=1, gated=False, nodeName="b")
    (said,) = advice("p")
    ran["metadata"]["annotations"] = said["metadata"]["annotations"]
    found = asked(a_node("a"), a_node("b"), ran)
    assert running(found) == {"p": "nodes/b"}
    assert found.room.taken == {"uid-p"}


def test_what_kai_has_decided_takes_room_where_it_decided() -> None:
    """Whichever adapter knows of it."""
    bodies = (a_node(), kai_pod("p"), kai_pod("q"), pod_group(), bind_request("p", "a"))
    for adapters in ([KAI], [KUBE, KAI]):
        found = asked(*bodies, adapters=adapters)
        assert running(found) == {"p": "nodes/a"}
        assert found.room.taken == {"uid-p"}
        assert waiting(found) == {"g": ["q"]}


def test_a_gang_does_not_wait_for_advice_while_one_of_its_pods_waits_for_something_else() -> None:
    """KAI is to decide about it again."""
    failed = {**bind_request("p", "a"), "status": {"phase": "Failed"}}
    bodies = (a_node(), kai_pod("p", gated=False), kai_pod("q"), pod_group())
    assert waiting(asked(*bodies, bind_request("p", "a"), adapters=[KAI])) == {"g": ["q"]}
    assert waiting(asked(*bodies, failed, adapters=[KAI])) == {}


def test_nodes_are_asked_about_that_any_adapter_may_use() -> None:
    bodies = (a_node("a", labels={KAI_NODE_POOL: "ours"}), a_node("b"))
    for adapters, want in (([POOL], "a"), ([POOL, KUBE], "ab"), ([], "ab")):
        snapshot = asked(*bodies, adapters=adapters).request.snapshot
        assert [one.name for one in snapshot.nodes] == [f"nodes/{name}" for name in want]


def test_room_is_on_nodes_that_take_pods() -> None:
    ill = a_node("ill")
    ill["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    found = asked(a_node("a"), a_node("cordoned", unschedulable=True), ill)
    assert found.room.nodes == {"nodes/a"}


def test_pods_of_a_podgroup_are_no_gang_of_their_own_beside_it() -> None:
    one = kai_pod("p")
    one["metadata"]["annotations"][GANG] = "g"
    found = asked(a_node(), one, pod_group(), adapters=[KAI])
    assert (waiting(found), found.refused) == ({"g": ["p"]}, {})
    # Whose name nobody has taken is one.
    assert asked(a_node(), pod("p", minimum=1)).request.gangs


@pytest.mark.parametrize(("ends", "alone"), [(False, {"p", "q"}), (True, set())])
def test_pods_are_let_go_whose_gang_the_scheduler_has_in_part(ends: bool, alone: set[str]) -> None:
    """A pod without the gate is its scheduler's, unless it is about to go."""
    theirs = pod("theirs", gated=False)
    if ends:
        theirs["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    theirs["spec"]["schedulingGates"] = [{"name": "example.com/other"}]
    found = asked(a_node(), pod("p", minimum=3), pod("q", minimum=3), theirs)
    assert {name for _, name in found.strays} == alone


def test_an_object_that_cannot_be_read_leaves_out_no_other() -> None:
    odd = pod("odd", minimum=1)
    odd["metadata"]["annotations"][GANG] = "h"
    odd["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "much"
    found = asked(a_node(), pod("p"), pod("q"), odd)
    assert waiting(found) == {"g": ["p", "q"]}
    assert list(found.refused) == [("ml", "odd")]


def test_what_is_wrong_with_an_object_as_a_whole_is_told_of_no_field() -> None:
    group = pod_group()
    group["spec"]["queue"] = "two words"
    queue = {
        "apiVersion": KAI_QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": "team"},
        "spec": {"resources": {}},
    }
    found = asked(a_node(), kai_pod("p"), group, queue, adapters=[KAI])
    assert found.refused == {("ml", "g"): "PodGroup: 'two words' is not a queue name"}


def test_advice_is_awaited_by_pods_behind_the_gate_also_in_vain() -> None:
    """Of the gang of a KAI pod nobody knows how many pods it needs."""
    both = [KUBE, KAI]
    assert is_awaited(objects(pod("p")), both)
    assert is_awaited(objects(kai_pod("p")), both)
    assert not is_awaited(objects(pod("p", gated=False), pod("q", nodeName="a")), both)
