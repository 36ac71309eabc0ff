"""Volumes that controllers add to the pods of their workloads."""

from __future__ import annotations

from typing import Any

from placement.kubernetes import Objects, translate
from tests.kubernetes.build import Body, container, node, thing
from tests.kubernetes.pods.volume_objects import ZONE, claim, storage_class, volume

POD = {"spec": {"containers": [container()]}}
WANTED = {"storageClassName": "late"}
DATA = [{"metadata": {"name": "data"}, "spec": WANTED}]


def zones(*bodies: Body) -> dict[str, list[str]]:
    """The zones that each waiting pod is tied to."""
    sent = translate(Objects.of([node(), *bodies]), plain_gangs=True).request
    (gang,) = sent.gangs
    assert not gang.unsupported
    return {
        pod.name.rpartition("/")[2]: [
            value
            for term in pods.template.required_node_affinity.terms
            for one in term.match_expressions
            if one.key == ZONE
            for value in one.values
        ]
        for group in gang.groups
        for pods in group.pod_sets
        for pod in pods.pods
    }


def bound(name: str, zone: str) -> list[Body]:
    return [claim(name, f"pv-{name}"), volume(f"pv-{name}", zone=[zone])]


def of_class(zone: str) -> Body:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": [zone]}]}]
    return storage_class(allowedTopologies=terms)


def stateful_set(**spec: Any) -> Body:
    spec = {"replicas": 2, "template": POD, "volumeClaimTemplates": DATA, **spec}
    return thing("StatefulSet", "apps/v1", "s", namespace="ml", spec=spec)


def test_a_pod_of_a_stateful_set_is_where_its_claim_is() -> None:
    """A claim that is still to be made goes by its class."""
    there = [*bound("data-s-1", "b"), of_class("a")]
    assert zones(stateful_set(), *there) == {"s-pod-0": ["a"], "s-pod-1": ["b"]}
    later = stateful_set(ordinals={"start": 1})
    assert zones(later, *there) == {"s-pod-0": ["b"], "s-pod-1": ["a"]}


def test_leader_and_workers_have_claims_of_their_own() -> None:
    inside = {"size": 3, "workerTemplate": POD, "volumeClaimTemplates": DATA}
    leaders = thing(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "l", namespace="ml",
        spec={"replicas": 1, "leaderWorkerTemplate": inside},
    )  # fmt: skip
    there = [*bound("data-l-0", "b"), *bound("data-l-0-2", "c"), of_class("a")]
    assert zones(leaders, *there) == {
        "l-0-leader-0": ["b"],
        "l-0-worker-0": ["a"],
        "l-0-worker-1": ["c"],
    }


def test_all_pods_of_a_job_of_volcano_mount_its_volumes() -> None:
    def job(**mounted: Any) -> Body:
        tasks = [{"name": "w", "replicas": 2, "template": POD}]
        spec = {"tasks": tasks, "volumes": [{"mountPath": "/data", **mounted}]}
        return thing("Job", "batch.volcano.sh/v1alpha1", "v", namespace="ml", spec=spec)

    there = [*bound("shared", "b"), of_class("a")]
    for mounted, zone in (
        ({"volumeClaimName": "shared"}, ["b"]),
        ({"volumeClaimName": "shared", "volumeClaim": WANTED}, ["b"]),
        ({"volumeClaimName": "new", "volumeClaim": WANTED}, ["a"]),
        ({"volumeClaim": WANTED}, ["a"]),
        ({}, []),
    ):
        assert zones(job(**mounted), *there) == {"v-w-0": zone, "v-w-1": zone}
