"""What is asked: all gangs that wait, what they depend on, and no gang that cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from controller.asking.request import Query, without
from controller.cluster.cache import ClusterCache
from placement.advice_marks import GANG
from placement.errors import InvalidRequestError, Violation
from placement.resources import BIND_REQUESTS, DEVICES, RESERVATIONS, Resource
from tests.controller.asked import ask, cache_of, sent
from tests.controller.bodies import OURS, gang, member
from tests.kubernetes import build


def query(*bodies: build.Body, most: int = 100, also: tuple[str, ...] = ()) -> Query:
    return ask(cache_of(*bodies), most=most, also=also)


def test_gangs_that_run_are_left_out_unless_a_base_is_shared() -> None:
    asked = query(
        member("a", node="n1"),
        member("b", node="n1", base="base"),
        member("c", base="base"),
        member("x", node="n1"),
        gang("base", "a"),
        gang("runs", "b"),
        gang("waits", "c"),
        gang("stranger", "x"),
    )
    assert asked.asked == (("ml", "waits"),)
    assert set(sent(asked)) == {"waits", "base", "runs"}
    assert asked.bases["ml", "waits"] == ("ml", "base")


def test_gangs_beyond_the_limit_are_not_sent() -> None:
    asked = query(
        *(member(name) for name in "abc"), *(gang(f"g{name}", name) for name in "abc"), most=2
    )
    assert sent(asked) == ["ga", "gb"]


def test_gangs_without_a_score_may_be_asked_about_too() -> None:
    asked = query(member("a", node="n1"), gang("g", "a"), also=("g",))
    assert asked.asked == ()
    assert sent(asked) == ["g"]


def test_pods_that_wait_for_another_scheduler_are_not_sent() -> None:
    theirs = build.pod("b", schedulerName="kube")
    asked = query(member("a"), theirs, gang("g", "a"), gang("h", "b"))
    assert sent(asked) == ["g"]


def test_a_gang_that_cannot_be_read_is_refused_with_what_is_wrong() -> None:
    asked = query(
        member("a"), member("b"), gang("good", "a"), gang("bad", "b", priorityClassName="missing")
    )
    assert sent(asked) == ["good"]
    assert "PriorityClass missing" in asked.refused["ml", "bad"]


@pytest.mark.parametrize("name", ["ml/g", "a/b/c", "G", "a\nb", " "])
def test_a_gang_that_pods_name_oddly_is_refused_alone(name: str) -> None:
    odd = member("a")
    odd["metadata"]["annotations"] = {GANG: name}
    asked = query(odd, member("b"), gang("good", "b"))
    assert sent(asked) == ["good"]
    assert list(asked.refused) == [("ml", name)]


def test_what_scales_a_refused_base_is_refused_with_it() -> None:
    asked = query(
        member("a"),
        member("b", base="base"),
        gang("base", "a", priorityClassName="missing"),
        gang("scaled", "b"),
    )
    assert sent(asked) == []
    assert asked.refused["ml", "scaled"] == "its base base is refused"


def test_a_running_pod_that_cannot_be_read_closes_its_node() -> None:
    bad = member("bad", node="n1", containers=[build.container(gpu="two")])
    asked = query(build.node("n2"), bad, member("a"), gang("g", "a"))
    assert [node.name for node in asked.request.snapshot.nodes] == ["nodes/n2"]
    assert sent(asked) == ["g"]


def test_what_is_left_out_is_told_by_its_name() -> None:
    bad = member("bad", node="n1", containers=[build.container(gpu="two")])
    asked = query(build.node("n2", allocatable={"cpu": "many"}), bad, member("a"), gang("g", "a"))
    fault = "spec.containers[0].resources.requests[nvidia.com/gpu]: 'two' is not a quantity"
    assert asked.left_out == {
        "Node n2": "status.allocatable[cpu]: 'many' is not a quantity",
        "Pod ml/bad": fault,
    }


@pytest.mark.parametrize(
    ("resource", "name", "fields"),
    [
        (
            RESERVATIONS,
            "held",
            {
                "spec": {"owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}]},
                "status": {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "many"}},
            },
        ),
        (BIND_REQUESTS, "ml/held", {"spec": {"podName": 5, "selectedNode": "n1"}}),
        (DEVICES, "n1", {"spec": {"devices": [{"type": "gpu", "minor": "many"}]}}),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
def test_what_holds_room_and_cannot_be_read_closes_its_node(
    resource: Resource, name: str, fields: dict[str, Any]
) -> None:
    namespace, _, own = name.rpartition("/")
    cache = ClusterCache(OURS, others=[resource])
    for body in (build.node("n1"), build.node("n2"), member("a"), gang("g", "a")):
        cache.observe(body["kind"], body)
    held = build.thing(resource.kind, resource.api_version, own, namespace=namespace, **fields)
    cache.of(resource).observe(resource.kind, held)
    asked = ask(cache)
    assert [node.name for node in asked.request.snapshot.nodes] == ["nodes/n2"]
    assert list(asked.left_out) == [f"{resource.kind} {name}"]


def test_what_the_service_finds_fault_with_is_left_out() -> None:
    asked = query(*(member(name) for name in "abc"), *(gang(f"g{name}", name) for name in "abc"))
    error = InvalidRequestError(
        violations=[
            Violation("gangs[1].groups[0].min_replicas", "is negative"),
            Violation("snapshot.nodes[0].name", "is odd"),
        ]
    )
    smaller = without(asked, error)
    assert smaller is not None
    assert sent(smaller) == ["ga", "gc"]
    assert smaller.asked == (("ml", "ga"), ("ml", "gc"))
    assert smaller.refused == {("ml", "gb"): "groups[0].min_replicas: is negative"}
    assert len(smaller.request.snapshot.nodes) == 0
    assert smaller.left_out == {"Node n1": "name: is odd"}


def test_a_fault_of_no_gang_and_no_node_cannot_be_left_out() -> None:
    asked = query(member("a"), gang("g", "a"))
    assert without(asked, InvalidRequestError(violations=[Violation("policy", "is odd")])) is None
