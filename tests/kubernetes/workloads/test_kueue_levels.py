"""Topology levels in Kueue's words: slices of pod sets, groups of them, leaders and workers."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import Body, container, node, request, thing

PREFIX = "kueue.x-k8s.io/podset-"


def template(**notes: str) -> Body:
    """`notes` are Kueue's annotations, with underscores for hyphens."""
    annotations = {PREFIX + key.replace("_", "-"): text for key, text in notes.items()}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [container(gpu="1")]},
    }


def workload(*pod_sets: Body) -> v1.PodGang:
    spec = {"podSets": [{"template": template(), **one} for one in pod_sets]}
    bodies = thing("Workload", "kueue.x-k8s.io/v1beta2", "w", namespace="ml", spec=spec)
    (gang,) = request(node(), bodies).gangs
    return gang


def scopes(gang: v1.PodGang) -> list[tuple[str, list[str]]]:
    """Required level and groups of each scope."""
    return [(s.required_level, list(s.groups)) for s in gang.packing_scopes]


def slices(size: int | None, **more: Any) -> Body:
    asked = {"podSetSliceRequiredTopology": "rack", "podSetSliceSize": size, **more}
    return {"name": "main", "count": 4, "topologyRequest": asked}


def test_every_slice_of_a_pod_set_has_a_domain_of_its_own() -> None:
    gang = workload(slices(2, required="block"))
    assert [(g.name, g.min_replicas) for g in gang.groups] == [("main-0", 2), ("main-1", 2)]
    assert scopes(gang) == [
        ("block", ["main-0", "main-1"]), ("rack", ["main-0"]), ("rack", ["main-1"])
    ]  # fmt: skip


@pytest.mark.parametrize(
    "pod_set", [slices(3), slices(None), {**slices(2), "minCount": 2}], ids=["rest", "none", "few"]
)
def test_a_pod_set_that_cannot_be_cut_is_refused(pod_set: Body) -> None:
    (why,) = workload(pod_set).unsupported
    assert why.endswith("pods at rack, into which main cannot be cut")


def test_pod_sets_of_one_group_share_a_domain() -> None:
    asked = {"required": "rack", "podSetGroupName": "all"}
    gang = workload(
        {"name": "a", "count": 1, "topologyRequest": asked},
        {"name": "b", "count": 2, "topologyRequest": asked},
        {"name": "c", "count": 2, "topologyRequest": {"required": "rack"}},
    )
    assert scopes(gang) == [("rack", ["a", "b"]), ("rack", ["c"])]


def job_set(**notes: str) -> v1.PodGang:
    job = {"spec": {"parallelism": 4, "template": template(**notes)}}
    spec = {"replicatedJobs": [{"name": "w", "replicas": 2, "template": job}]}
    body = thing("JobSet", "jobset.x-k8s.io/v1alpha2", "js", namespace="ml", spec=spec)
    (gang,) = request(node(), body).gangs
    return gang


def test_jobs_of_a_job_set_are_its_slices() -> None:
    notes = {"required_topology": "block", "slice_required_topology": "rack"}
    wanted = [("block", ["w-0", "w-1"]), ("rack", ["w-0"]), ("rack", ["w-1"])]
    assert scopes(job_set(**notes)) == wanted
    assert scopes(job_set(**notes, slice_size="4")) == wanted
    assert list(job_set(**notes, slice_size="2").unsupported) == [
        "slices of 2 pods at rack, which are no Jobs of w"
    ]


def leader_worker_set(worker: Body, leader: Body | None = None) -> v1.PodGang:
    inside = {"size": 3, "workerTemplate": worker}
    if leader is not None:
        inside["leaderTemplate"] = leader
    body = thing(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "l", namespace="ml",
        spec={"leaderWorkerTemplate": inside},
    )  # fmt: skip
    (gang,) = request(node(), body).gangs
    return gang


def test_leaders_with_a_template_of_their_own_are_a_pod_set_of_their_own() -> None:
    rack = template(required_topology="rack")
    grouped = template(required_topology="rack", group_name="all")
    assert scopes(leader_worker_set(rack)) == [("rack", [])]
    assert scopes(leader_worker_set(rack, template())) == [("rack", ["worker"])]
    assert scopes(leader_worker_set(grouped, grouped)) == [("rack", [])]
