"""Weights and priorities of queues are not honoured, which is said where they would matter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kubernetes.build import Body, kai_queue, said, thing, translated

IGNORED = "is ignored: what is beyond guaranteed amounts goes to gangs by priority and waiting time"
WEIGHT = "quota.scheduling.koordinator.sh/shared-weight"


def weighed(name: str, weight: int, parent: str = "") -> Body:
    return kai_queue(name, parent, resources={"gpu": {"limit": -1, "overQuotaWeight": weight}})


def quota(name: str, weight: str) -> Body:
    return thing(
        "ElasticQuota", "scheduling.sigs.k8s.io/v1alpha1", name, namespace="ml",
        metadata={"annotations": {WEIGHT: weight}}, spec={},
    )  # fmt: skip


def volcano(name: str, **spec: Any) -> Body:
    return thing("Queue", "scheduling.volcano.sh/v1beta1", name, spec=spec)


def kueue(kind: str, name: str, **spec: Any) -> Body:
    return thing(kind, "kueue.x-k8s.io/v1beta2", name, spec=spec)


def local(name: str, **spec: Any) -> Body:
    version = "kueue.x-k8s.io/v1beta2"
    return thing("LocalQueue", version, name, namespace="ml", spec={"clusterQueue": "q", **spec})


FAIR = {"fairSharing": {"weight": "3"}}

UNLIKE = {
    "Queue b: spec.resources.gpu.overQuotaWeight": [weighed("a", 1), weighed("b", 3)],
    "Queue b: spec.priority": [kai_queue("a"), kai_queue("b", priority=200)],
    f"ElasticQuota ml/b: metadata.annotations.{WEIGHT}": [
        quota("a", '{"cpu": "1"}'),
        quota("b", '{"cpu": "2"}'),
    ],
    "Queue b: spec.weight": [volcano("a"), volcano("b", weight=4)],
    "ClusterQueue b: spec.fairSharing.weight": [
        kueue("ClusterQueue", "a", cohortName="all"),
        kueue("ClusterQueue", "b", cohortName="all", **FAIR),
    ],
    "Cohort b: spec.fairSharing.weight": [
        kueue("Cohort", "a", parentName="all"),
        kueue("Cohort", "b", parentName="all", **FAIR),
    ],
    "LocalQueue ml/b: spec.fairSharing.weight": [
        kueue("ClusterQueue", "q"),
        local("a"),
        local("b", **FAIR),
    ],
}


@pytest.mark.parametrize(("where", "objects"), UNLIKE.items(), ids=UNLIKE)
def test_siblings_that_weigh_unlike_are_warned_of(where: str, objects: list[Body]) -> None:
    warned = said(translated(*objects).warnings)
    assert [one for one in warned if IGNORED in one] == [f"{where}: {IGNORED}"]


def test_weights_that_change_nothing_are_not_warned_of() -> None:
    """One queue has no sibling, others weigh the same as theirs, or share nothing."""
    objects = [weighed("top", 5), weighed("a", 3, "top"), weighed("b", 3, "top")]
    objects += [kueue("ClusterQueue", "x"), kueue("ClusterQueue", "y", **FAIR)]
    assert not any("is ignored" in one for one in said(translated(*objects).warnings))


def default(weight: str) -> Body:
    return {"fairSharing": {"weight": weight}}


ALIKE = {
    "KAI": [kai_queue("a"), weighed("b", 1), kai_queue("c", priority=100)],
    "Volcano": [volcano("a"), volcano("b", weight=1), volcano("c", priority=0)],
    "ClusterQueues": [
        kueue("ClusterQueue", "a", cohortName="all"),
        kueue("ClusterQueue", "b", cohortName="all", **default("1")),
    ],
    "Cohorts": [
        kueue("Cohort", "a", parentName="all"),
        kueue("Cohort", "b", parentName="all", **default("1")),
    ],
    "LocalQueues": [kueue("ClusterQueue", "q"), local("a"), local("b", **default("1"))],
}


@pytest.mark.parametrize("objects", ALIKE.values(), ids=ALIKE)
def test_what_counts_where_nothing_is_said_is_no_other_weight(objects: list[Body]) -> None:
    assert not any("is ignored" in one for one in said(translated(*objects).warnings))


def test_siblings_are_those_of_one_parent_in_every_version() -> None:
    parent = {"quota.scheduling.koordinator.sh/parent": "other"}
    quotas = [quota("top", ""), quota("other", ""), quota("a", "1")]
    quotas[2]["metadata"]["labels"] = parent
    assert not any("is ignored" in one for one in said(translated(*quotas).warnings))
    older = "kueue.x-k8s.io/v1beta1"
    for kind, field in (("ClusterQueue", "cohort"), ("Cohort", "parent")):
        version = older if kind == "ClusterQueue" else "kueue.x-k8s.io/v1alpha1"
        specs = {"a": {field: "all"}, "b": {field: "all", **FAIR}}
        objects = [thing(kind, version, name, spec=spec) for name, spec in specs.items()]
        assert any(IGNORED in one for one in said(translated(*objects).warnings))


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("queueingStrategy", "StrictFIFO", "Workloads behind one that waits may come first"),
        ("admissionChecks", ["provision"], "its Workloads count as checked"),
        (
            "admissionChecksStrategy",
            {"admissionChecks": [{"name": "provision"}]},
            "its Workloads count as checked",
        ),
    ],
)
def test_what_kueue_would_check_besides_is_warned_of(field: str, value: Any, why: str) -> None:
    warned = said(translated(kueue("ClusterQueue", "q", **{field: value})).warnings)
    assert f"ClusterQueue q: spec.{field}: is ignored: {why}" in warned


def test_the_strategy_that_is_followed_is_not_warned_of() -> None:
    queue = kueue("ClusterQueue", "q", queueingStrategy="BestEffortFIFO", admissionChecks=[])
    assert not any("is ignored" in one for one in said(translated(queue).warnings))
