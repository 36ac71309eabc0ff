"""The order in which Grove replaces the pods of an old template."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tests.cluster.api import Body
from tests.cluster.rollout import HASH, Clique, is_current, next_old


def pod(
    name: str,
    template: str,
    labels: Mapping[str, str] = MappingProxyType({}),
    *,
    ready: bool = True,
) -> Body:
    return {
        "metadata": {"name": name, "labels": {HASH: template, **labels}},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def scaled(replica: int, *pods: Body) -> Clique:
    labels = {
        "grove.io/podcliquescalinggroup": "s-0-g",
        "grove.io/podcliquescalinggroup-replica-index": str(replica),
    }
    return Clique([pod("template", "new", labels) for _ in pods], pods)


def alone(*pods: Body) -> Clique:
    return Clique([pod("template", "new") for _ in pods], pods)


def names(*cliques: Clique) -> list[str]:
    return sorted(one["metadata"]["name"] for one in next_old(cliques))


def test_a_replica_of_a_scaling_group_goes_at_once() -> None:
    first = scaled(0, pod("a0", "old"), pod("a1", "old"))
    second = scaled(1, pod("b0", "old"))
    assert names(first, second) == ["a0", "a1"]


def test_the_next_replica_waits_until_the_one_before_is_ready() -> None:
    second = scaled(1, pod("b0", "old"))
    assert names(scaled(0, pod("a0", "new", ready=False)), second) == []
    assert names(scaled(0, pod("a0", "new")), second) == ["b0"]


def test_a_clique_that_stands_alone_goes_pod_by_pod() -> None:
    assert names(alone(pod("a", "old"), pod("b", "old"))) == ["a"]
    assert names(alone(pod("a", "new", ready=False), pod("b", "old"))) == []


def test_what_is_new_and_ready_is_current() -> None:
    assert is_current([alone(pod("a", "new"))])
    assert not is_current([alone(pod("a", "new", ready=False))])
    assert not is_current([alone(pod("a", "old"))])
