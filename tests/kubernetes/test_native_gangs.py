"""Kubernetes' own gang API: PodGroups, and Workloads of its first version."""

from __future__ import annotations

from typing import Any

from placement import v1
from tests.kubernetes.build import (
    Body,
    gang,
    group,
    node,
    only_gang,
    pod,
    problems,
    request,
    thing,
)


def pod_group(name: str = "g", **spec: Any) -> Body:
    return thing(
        "PodGroup", "scheduling.k8s.io/v1alpha2", name, namespace="ml",
        spec={"schedulingPolicy": {"gang": {"minCount": 2}}, **spec},
    )  # fmt: skip


def member(name: str, of: str = "g", **spec: Any) -> Body:
    return pod(name, schedulingGroup={"podGroupName": of}, **spec)


def test_a_pod_group_is_a_gang_of_the_pods_that_name_it() -> None:
    sent = only_gang(
        node("n1"), pod_group(priority=7), member("a"), member("b", nodeName="n1"), pod("c")
    )
    (only,) = sent.groups
    (pod_set,) = only.pod_sets
    assert (sent.name, sent.priority, only.min_replicas) == ("namespaces/ml/podgangs/g", 7, 2)
    assert [p.name for p in pod_set.pods] == ["namespaces/ml/pods/a"]
    assert [p.name for p in pod_set.bound_pods] == ["namespaces/ml/pods/b"]


def test_a_topology_constraint_is_required_packing() -> None:
    topology = {"topology": [{"key": "rack"}]}
    sent = only_gang(pod_group(schedulingConstraints=topology))
    assert list(sent.packing_scopes) == [v1.PackingScope(name="g", required_level="rack")]


def test_two_constraints_and_shared_claims_are_refused_by_name() -> None:
    sent = only_gang(
        pod_group(
            schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]},
            resourceClaims=[{"name": "x"}],
        )
    )
    assert list(sent.unsupported) == [
        "spec.schedulingConstraints.topology: more than one constraint",
        "spec.resourceClaims",
    ]


def test_the_basic_policy_asks_for_no_minimum() -> None:
    sent = only_gang(node(), pod_group(schedulingPolicy={"basic": {}}), member("a"))
    assert sent.groups[0].min_replicas == 0


def test_parts_and_replicas_of_a_workload_are_gangs() -> None:
    workload = thing(
        "Workload", "scheduling.k8s.io/v1alpha1", "w", namespace="ml",
        spec={"podGroups": [{"name": "p", "policy": {"gang": {"minCount": 1}}}]},
    )  # fmt: skip

    def of(name: str, **more: str) -> Body:
        return pod(name, workloadRef={"name": "w", "podGroup": "p", **more})

    sent = request(node(), workload, of("a"), of("b", podGroupReplicaKey="1"), of("c"))
    assert [(g.name, len(g.groups[0].pod_sets[0].pods)) for g in sent.gangs] == [
        ("namespaces/ml/podgangs/w.p", 2),
        ("namespaces/ml/podgangs/w.p.1", 1),
    ]


def test_pods_of_a_group_that_is_not_there_wait_for_it() -> None:
    sent = only_gang(node(), member("a", "gone"))
    assert list(sent.unsupported) == ["PodGroup gone is not in the input"]


def test_a_pod_of_a_pod_gang_stays_there() -> None:
    sent = request(node(), member("a"), gang("p", podgroups=[group("w", "a")]), pod_group())
    assert [sum(len(s.pods) for s in g.groups[0].pod_sets) for g in sent.gangs] == [1, 0]


def test_a_gang_without_minimum_is_a_problem() -> None:
    assert problems(pod_group(schedulingPolicy={"gang": {}})) == [
        ("PodGroup ml/g", "spec.schedulingPolicy.gang.minCount", "is missing")
    ]
