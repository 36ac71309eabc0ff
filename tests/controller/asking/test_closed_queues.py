"""A queue that cannot be read lets nothing in: without it there would be no limit."""

from __future__ import annotations

from typing import Any

import pytest

from controller.asking.request import Query
from controller.cluster.cache import ClusterCache
from placement.resources import CLUSTER_QUEUES, ELASTIC_QUOTAS, KAI_QUEUES, VOLCANO_QUEUES, Resource
from tests.controller.asked import ask, sent
from tests.controller.bodies import OURS, gang, member
from tests.kubernetes import build

GPUS = "nvidia.com/gpu"


def asked(resource: Resource, *queues: build.Body) -> Query:
    cache = ClusterCache(OURS, others=[resource])
    for body in (build.node("n1"), member("a"), gang("g", "a")):
        cache.observe(body["kind"], body)
    for body in queues:
        cache.of(resource).observe(resource.kind, body)
    return ask(cache)


def queue(resource: Resource, name: str, spec: Any, namespace: str = "") -> build.Body:
    return build.thing(resource.kind, resource.api_version, name, namespace=namespace, spec=spec)


def limits(query: Query) -> dict[str, tuple[str, int | None]]:
    """Parent and limit of GPUs of each queue."""
    return {q.name: (q.parent, q.limit.get("gpus")) for q in query.request.snapshot.queues}


@pytest.mark.parametrize(
    ("resource", "spec", "namespace"),
    [
        (KAI_QUEUES, {"preemptMinRuntime": "1x", "resources": {"gpu": {"limit": 8}}}, ""),
        (KAI_QUEUES, 5, ""),
        (KAI_QUEUES, {"parentQueue": ["org"]}, ""),
        (VOLCANO_QUEUES, {"capability": {GPUS: "many"}}, ""),
        (ELASTIC_QUOTAS, {"max": {GPUS: "many"}}, "ml"),
        (CLUSTER_QUEUES, {"resourceGroups": 5}, ""),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
def test_the_only_queue_lets_nothing_in(resource: Resource, spec: Any, namespace: str) -> None:
    query = asked(resource, queue(resource, "team", spec, namespace))
    assert sent(query) == ["g"]
    assert limits(query) == {"queues/team": ("", 0)}
    title = f"{namespace}/team" if namespace else "team"
    assert list(query.left_out) == [f"{resource.kind} {title}"]


def test_it_stays_in_the_tree_and_closes_those_below() -> None:
    bad = {"parentQueue": "org", "reclaimMinRuntime": []}
    query = asked(
        KAI_QUEUES,
        queue(KAI_QUEUES, "org", {"resources": {"gpu": {"limit": 8}}}),
        queue(KAI_QUEUES, "team", bad),
        queue(KAI_QUEUES, "leaf", {"parentQueue": "team"}),
    )
    assert limits(query) == {
        "queues/org": ("", 8),
        "queues/team": ("queues/org", 0),
        "queues/leaf": ("queues/team", None),
    }


def test_queues_above_themselves_stand_alone() -> None:
    query = asked(
        KAI_QUEUES,
        queue(KAI_QUEUES, "a", {"parentQueue": "b"}),
        queue(KAI_QUEUES, "b", {"parentQueue": "a"}),
        queue(KAI_QUEUES, "c", {"parentQueue": "c"}),
    )
    closed = limits(query)
    assert {name: limit for name, (_, limit) in closed.items()} == dict.fromkeys(
        ("queues/a", "queues/b", "queues/c"), 0
    )
    assert closed["queues/c"] == ("", 0)


def test_a_quota_without_a_sound_place_is_closed_all_the_same() -> None:
    odd = queue(ELASTIC_QUOTAS, "team", {"max": {GPUS: 8}}, "ml")
    odd["metadata"]["labels"] = {"quota.scheduling.koordinator.sh/parent": "team"}
    assert limits(asked(ELASTIC_QUOTAS, odd)) == {"queues/team": ("", 0)}


def test_many_faults_of_one_queue_are_one_reason_to_close_it() -> None:
    bad = {
        "parentQueue": "org",
        "preemptMinRuntime": "1x",
        "reclaimMinRuntime": "1x",
        "resources": {"gpu": {"limit": "many"}, "cpu": {"limit": "many"}},
    }
    query = asked(KAI_QUEUES, queue(KAI_QUEUES, "org", {}), queue(KAI_QUEUES, "team", bad))
    assert limits(query)["queues/team"] == ("queues/org", 0)


def test_what_has_the_name_of_a_queue_and_cannot_be_read_is_no_fault_of_it() -> None:
    """Here a node, in the round before that of the queue."""
    cache = ClusterCache(OURS, others=[KAI_QUEUES])
    team = build.node("team", allocatable={"cpu": "many"})
    for body in (team, member("a"), gang("g", "a")):
        cache.observe(body["kind"], body)
    for name, spec in (("org", {}), ("team", {"parentQueue": "org", "preemptMinRuntime": "1x"})):
        cache.of(KAI_QUEUES).observe("Queue", queue(KAI_QUEUES, name, spec))
    assert limits(ask(cache))["queues/team"] == ("queues/org", 0)


def test_what_is_wrong_is_told_as_it_was_found_first() -> None:
    """A closed queue may be refused for its place once more."""
    bad = {"parentQueue": "team", "preemptMinRuntime": "1x"}
    told = asked(KAI_QUEUES, queue(KAI_QUEUES, "team", bad)).left_out["Queue team"]
    assert told.startswith("spec.preemptMinRuntime")
