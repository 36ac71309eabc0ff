"""What Kueue says to a Workload whatever quota is left, and which quota Workloads hold."""

from __future__ import annotations

from typing import Any

import pytest

from placement import v1
from tests.kubernetes.build import Body, container, node, pod, request, thing, translated

GPU = "nvidia.com/gpu"
VERSION = "kueue.x-k8s.io/v1beta2"


def cluster_queue(*resources: str, name: str = "cq", **spec: Any) -> Body:
    quotas = [{"name": r, "nominalQuota": 8} for r in resources or (GPU, "cpu", "memory")]
    groups = [{"flavors": [{"name": "default", "resources": quotas}]}]
    served: dict[str, Any] = {"namespaceSelector": {}}
    return thing("ClusterQueue", VERSION, name, spec={**served, "resourceGroups": groups, **spec})


def local_queue(**spec: Any) -> Body:
    return thing("LocalQueue", VERSION, "lq", namespace="ml", spec={"clusterQueue": "cq", **spec})


def workload(name: str = "w", *, count: int = 2, **fields: Any) -> Body:
    template = {"spec": {"containers": [container(gpu="2")]}}
    spec = {
        "queueName": "lq",
        "podSets": [{"name": "main", "count": count, "template": template}],
    }
    return thing("Workload", VERSION, name, namespace="ml", spec=spec, **fields)


def refusals(*bodies: Body) -> list[str]:
    (gang,) = request(node(), workload(), *bodies).gangs
    return list(gang.unsupported)


def test_nothing_is_admitted_by_a_queue_that_is_held() -> None:
    assert refusals(local_queue(), cluster_queue(stopPolicy="None")) == []
    assert refusals(local_queue(), cluster_queue(stopPolicy="Hold")) == [
        "ClusterQueue cq: spec.stopPolicy Hold"
    ]
    assert refusals(local_queue(stopPolicy="HoldAndDrain"), cluster_queue()) == [
        "LocalQueue lq: spec.stopPolicy HoldAndDrain"
    ]


@pytest.mark.parametrize(
    ("selector", "namespaces"),
    [
        ({"matchLabels": {"kubernetes.io/metadata.name": "ops"}}, []),
        ({"matchLabels": {"team": "a"}}, [{"team": "b"}]),
    ],
)
def test_a_cluster_queue_serves_the_namespaces_that_it_selects(
    selector: Body, namespaces: list[dict[str, str]]
) -> None:
    known = [thing("Namespace", "v1", "ml", metadata={"labels": labels}) for labels in namespaces]
    assert refusals(local_queue(), cluster_queue(namespaceSelector=selector), *known) == [
        "ClusterQueue cq: spec.namespaceSelector, which leaves out ml"
    ]


def test_namespaces_of_which_the_labels_are_not_known_are_served_with_a_warning() -> None:
    selector = {"matchLabels": {"team": "a"}}
    found = translated(node(), workload(), local_queue(), cluster_queue(namespaceSelector=selector))
    assert list(found.request.gangs[0].unsupported) == []
    assert "selects namespaces by labels that are not known: taken as all" in {
        warning.message for warning in found.warnings
    }


def test_pods_ask_for_nothing_of_which_there_is_no_quota() -> None:
    lone = cluster_queue("cpu")
    assert refusals(local_queue(), lone) == [
        "nvidia.com/gpu, of which ClusterQueue cq has no quota"
    ]


def admitted(*, count: int = 2, **status: Any) -> Body:
    """A Workload of pods with 2 GPUs each that holds quota, made for the Job "train"."""
    usage = {GPU: str(2 * count), "cpu": f"{count}"}
    assigned = [{"name": "main", "count": count, "resourceUsage": usage}]
    return workload(
        "job-train",
        metadata={"ownerReferences": [{"kind": "Job", "name": "train"}]},
        status={
            "admission": {"clusterQueue": "cq", "podSetAssignments": assigned},
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            **status,
        },
    )


def train(**labels: str) -> Body:
    owner = {"kind": "Job", "name": "train"}
    metadata = {"ownerReferences": [owner]}
    return pod(
        "train-0", labels=labels, metadata=metadata, nodeName="n1",
        containers=[container(gpu="2", cpu="1")],
    )  # fmt: skip


def used(*bodies: Body) -> dict[str, int]:
    found: v1.ComputePlacementRequest = request(node("n1"), cluster_queue(), local_queue(), *bodies)
    (queue,) = found.snapshot.queues
    return dict(queue.used)


def test_a_workload_holds_its_quota_until_it_has_finished() -> None:
    assert used(admitted()) == {"gpus": 4, "cpu": 2000}
    assert used(admitted(reclaimablePods=[{"name": "main", "count": 1}])) == {
        "gpus": 2, "cpu": 1000
    }  # fmt: skip
    done = [{"type": t, "status": "True"} for t in ("QuotaReserved", "Finished")]
    assert used(admitted(conditions=done)) == {}


@pytest.mark.parametrize("labels", [{}, {"kueue.x-k8s.io/queue-name": "lq"}])
def test_pods_of_a_workload_that_holds_quota_count_once(labels: dict[str, str]) -> None:
    assert used(admitted(), train(**labels)) == {"gpus": 4, "cpu": 2000}


def job_set() -> Body:
    """One of which Kueue made the Workload "js-1"."""
    template = {"spec": {"containers": [container(gpu="2", cpu="1")]}}
    job = {"spec": {"parallelism": 2, "completions": 2, "template": template}}
    return thing(
        "JobSet", "jobset.x-k8s.io/v1alpha2", "js", namespace="ml",
        metadata={"labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        spec={"replicatedJobs": [{"name": "w", "template": job}]},
    )  # fmt: skip


def test_a_workload_that_waits_stands_for_its_owner() -> None:
    owner = {"ownerReferences": [{"kind": "JobSet", "name": "js"}]}
    found = request(
        node(), cluster_queue(), local_queue(), job_set(), workload("js-1", metadata=owner)
    )
    assert [gang.name.rpartition("/")[2] for gang in found.gangs] == ["js-1"]


def test_pods_that_are_still_to_be_made_have_the_quota_of_their_workload() -> None:
    held = admitted()
    held["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "js"}]
    assert used(held) == {"gpus": 4, "cpu": 2000}
    assert used(held, job_set()) == {}
