"""Moves as PodMigrationJobs: what Koordinator takes of them."""

from __future__ import annotations

from typing import Any

import yaml

from placement import v1
from placement.cli.findings.migration_jobs import as_jobs
from tests.cli.question import GPU, gang, node, question


def jobs(template: v1.PodTemplate, *namespaces: str) -> list[dict[str, Any]]:
    """Jobs for a pod of the template in each namespace, from node a to node b."""
    gangs = []
    moves = []
    for namespace in namespaces:
        pod = f"namespaces/{namespace}/pods/p"
        one = gang("g", pods=1, namespace=namespace)
        del one.groups[0].pod_sets[:]
        bound = v1.BoundPod(name=pod, node="nodes/a")
        one.groups[0].pod_sets.add(template=template, bound_pods=[bound])
        gangs.append(one)
        moves.append(
            v1.Move(step=1, pod=pod, gang=one.name, from_node="nodes/a", to_node="nodes/b")
        )
    asked = question([node("a"), node("b")], gangs)
    text = as_jobs(asked, v1.ComputeRepackingResponse(freed=["r"], moves=moves))
    return list(yaml.safe_load_all(text))


def test_a_job_reserves_what_the_pod_asks_for_on_its_new_node() -> None:
    """A node named in the template would be erased, and an empty template reserves nothing."""
    template = v1.PodTemplate(
        requests=v1.Resources(cpu_millis=1_500, memory_bytes=1 << 30, extended={GPU: 4}),
        labels={"quota.scheduling.koordinator.sh/name": "team-a", "app": "x"},
    )
    template.tolerations.add(
        key=GPU, operator=v1.TolerationOperator.TOLERATION_OPERATOR_EXISTS, effect=1
    )
    [job] = jobs(template, "ml")
    assert job["spec"]["podRef"] == {"namespace": "ml", "name": "p"}
    made = job["spec"]["reservationOptions"]["template"]
    assert made["metadata"]["labels"] == {"quota.scheduling.koordinator.sh/name": "team-a"}
    assert made["spec"]["template"]["spec"] == {
        "schedulerName": "koord-scheduler",
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["b"]}
                            ]
                        }
                    ]
                }
            }
        },
        "containers": [
            {
                "name": "room",
                "image": "none",
                "resources": {
                    "requests": {"cpu": "1500m", "memory": "1073741824", GPU: "4"},
                    "limits": {GPU: "4"},
                },
            }
        ],
    }


def test_a_share_of_a_gpu_is_asked_for_in_the_words_of_koordinator() -> None:
    share = v1.DeviceShare(compute_milli=500, memory_milli=250, count=2)
    [job] = jobs(v1.PodTemplate(device_share=share), "ml")
    room = job["spec"]["reservationOptions"]["template"]["spec"]["template"]["spec"]
    assert room["containers"][0]["resources"]["requests"] == {
        "koordinator.sh/gpu.shared": "2",
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory-ratio": "50",
    }


def test_pods_of_one_name_in_two_namespaces_have_jobs_of_their_own() -> None:
    names = [job["metadata"]["name"] for job in jobs(v1.PodTemplate(), "a", "b")]
    assert len(set(names)) == 2
