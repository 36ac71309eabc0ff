"""What is kept of objects in memory translates as the whole objects do."""

from __future__ import annotations

import json
from typing import Any

from placement.kubernetes import Objects, translate
from placement.kubernetes.trimming import Trimmer
from tests.kubernetes.build import (
    container,
    gang,
    group,
    kai_pod,
    kai_pod_group,
    kai_queue,
    node,
    pod,
    thing,
)

USES = "scheduling.koordinator.sh/reservation-allocated"
GIVEN = "scheduling.koordinator.sh/device-allocated"
STARTED = "kai.scheduler/last-start-timestamp"


def test_nothing_that_counts_is_lost() -> None:
    rich = pod(
        "a",
        nodeName="n1",
        labels={"app": "x", "runai-gpu-group": "g"},
        containers=[{**container(gpu="1"), "env": [{"name": "A", "value": "secret"}]}],
        volumes=[
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "token", "secret": {"secretName": "s"}},
        ],
        resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}],
        schedulingGroup={"podGroupName": "native"},
        preemptionPolicy="Never",
        metadata={
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {
                USES: json.dumps({"name": "held"}),
                GIVEN: json.dumps({"gpu": [{"minor": 1, "resources": {}}]}),
                "noise": "x" * 1000,
            },
            "managedFields": [{"manager": "m"}],
            "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
        },
    )
    rich["status"] |= {
        "startTime": "2026-01-01T00:01:00Z",
        "resourceClaimStatuses": [{"name": "r", "resourceClaimName": "a-r"}],
    }
    bodies = [
        node("n1"),
        rich,
        kai_pod("k"),
        kai_pod_group(metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}),
        gang(podgroups=[group("w", "b")], metadata={"name": "h", "labels": {"a": "b"}}),
        pod("b", schedulingGates=[{"name": "g"}]),
        kai_queue("q", preemptMinRuntime="1h"),
        gang(podgroups=[group("w", "r")],
             metadata={"name": "runs", "labels": {"kai.scheduler/queue": "q"},
                       "annotations": {STARTED: "2026-01-01T00:00:00Z", "noise": "x"}}),
        pod("r", nodeName="n1"),
        thing("PodGroup", "scheduling.k8s.io/v1alpha2", "native", namespace="ml",
              spec={"schedulingPolicy": {"gang": {"minCount": 1}}}),
        thing("PersistentVolumeClaim", "v1", "c", namespace="ml", spec={"volumeName": "pv"}),
        thing("PersistentVolume", "v1", "pv", spec={}),
    ]  # fmt: skip
    trimmer = Trimmer()
    trimmed = [trimmer.trim(body) for body in bodies]
    assert translate(Objects.of(trimmed)).request == translate(Objects.of(bodies)).request
    text = json.dumps(trimmed)
    assert "secret" not in text
    assert "noise" not in text
    assert "managedFields" not in text


def test_pods_that_name_their_workload_still_do_so() -> None:
    """What it holds of its queue is not counted beside what they ask for."""
    named = {"annotations": {"kueue.x-k8s.io/workload": "w"}}
    flavor = {"name": "any", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [flavor]}]
    assigned = {"name": "main", "count": 1, "resourceUsage": {"nvidia.com/gpu": "1"}}
    bodies = [
        node("n1"),
        thing("ClusterQueue", "kueue.x-k8s.io/v1beta2", "q", spec={"resourceGroups": groups}),
        thing("LocalQueue", "kueue.x-k8s.io/v1beta2", "l", namespace="ml",
              spec={"clusterQueue": "q"}),
        thing("Workload", "kueue.x-k8s.io/v1beta2", "w", namespace="ml",
              status={"admission": {"clusterQueue": "q", "podSetAssignments": [assigned]},
                      "conditions": [{"type": "QuotaReserved", "status": "True"}]}),
        pod("a", nodeName="n1", labels={"kueue.x-k8s.io/queue-name": "l"}, metadata=named),
    ]  # fmt: skip
    trimmer = Trimmer()
    for known in (bodies, [trimmer.trim(body) for body in bodies]):
        (queue,) = translate(Objects.of(known)).request.snapshot.queues
        assert queue.used["gpus"] == 1


def test_equal_parts_of_objects_of_other_kinds_are_stored_once() -> None:
    """Five thousand nodes have forty thousand devices, alike but for a few words."""

    def told(device: str) -> dict[str, Any]:
        model = {"productName": {"string": "a GPU"}, "uuid": {"string": device}}
        marks = {
            "name": device,
            "managedFields": [{"manager": "driver"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "kept": "yes",
            },
        }
        spec = {"devices": [{"name": "0", "attributes": model}]}
        return {"kind": "ResourceSlice", "metadata": marks, "spec": spec}

    trimmer = Trimmer()
    one, other = (trimmer.trim(json.loads(json.dumps(told(device)))) for device in ("x", "y"))
    assert one["spec"] == told("x")["spec"]
    assert one["metadata"] == {"name": "x", "annotations": {"kept": "yes"}}
    models = [each["spec"]["devices"][0]["attributes"] for each in (one, other)]
    assert models[0]["productName"] is models[1]["productName"]
    assert models[0]["uuid"] != models[1]["uuid"]
