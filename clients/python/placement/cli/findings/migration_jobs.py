"""Moves that free domains, as PodMigrationJobs of Koordinator.

Its controller takes the template of a job's Reservation as it is, but for the node's name, which
it erases. So the template asks for what the pod asks for, and its node affinity says where.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from placement.cli.documents import yaml_documents
from placement.cli.words import namespaced, node_name
from placement.v1 import (
    ComputePlacementRequest,
    ComputeRepackingResponse,
    Move,
    PodTemplate,
    TaintEffect,
    Toleration,
    TolerationOperator,
)

_SCHEDULER: Final = "koord-scheduler"
_QUOTA: Final = "quota.scheduling.koordinator.sh/name"
_KOORDINATOR: Final = "koordinator.sh/"

_EFFECTS: Final[Mapping[int, str]] = {
    TaintEffect.TAINT_EFFECT_NO_SCHEDULE: "NoSchedule",
    TaintEffect.TAINT_EFFECT_PREFER_NO_SCHEDULE: "PreferNoSchedule",
    TaintEffect.TAINT_EFFECT_NO_EXECUTE: "NoExecute",
}


def as_jobs(question: ComputePlacementRequest, found: ComputeRepackingResponse) -> str:
    """A PodMigrationJob for each move; the label says in which step."""
    templates = {
        pod.name: pod_set.template
        for gang in question.gangs
        for group in gang.groups
        for pod_set in group.pod_sets
        for pod in pod_set.bound_pods
    }
    moves = enumerate(found.moves)
    return yaml_documents([_job(i, move, templates[move.pod]) for i, move in moves])


def _job(number: int, move: Move, template: PodTemplate) -> dict[str, Any]:
    namespace, pod = namespaced(move.pod)
    quota = {_QUOTA: template.labels[_QUOTA]} if _QUOTA in template.labels else {}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {
            # Jobs have no namespace: pods of one name in two of them are told apart by number.
            "name": f"repack-{move.step}-{number}-{pod}"[:253].rstrip("-."),
            "labels": {"placement/step": str(move.step)},
        },
        "spec": {
            "mode": "ReservationFirst",
            "podRef": {"namespace": namespace, "name": pod},
            "reservationOptions": {
                "template": {
                    "metadata": {"labels": quota},
                    "spec": {
                        "template": {
                            "metadata": {"namespace": namespace, "labels": quota},
                            "spec": _room(template, node_name(move.to_node)),
                        }
                    },
                }
            },
        },
    }


def _room(template: PodTemplate, node: str) -> dict[str, Any]:
    """A pod that asks for as much as one of the template, on that node."""
    requests = _requests(template)
    # More of these than is asked for is not allowed, so Kubernetes wants to see it said.
    extended = {name: amount for name, amount in requests.items() if "/" in name}
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return {
        "schedulerName": _SCHEDULER,
        "tolerations": [_toleration(one) for one in template.tolerations],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "containers": [
            {
                "name": "room",
                "image": "none",
                "resources": {"requests": requests, "limits": extended},
            }
        ],
    }


def _requests(template: PodTemplate) -> dict[str, str]:
    asked = template.requests
    amounts = {
        "cpu": f"{asked.cpu_millis}m" if asked.cpu_millis else "",
        "memory": str(asked.memory_bytes or ""),
        "ephemeral-storage": str(asked.ephemeral_storage_bytes or ""),
        **{name: str(amount) for name, amount in sorted(asked.extended.items())},
    }
    if template.HasField("device_share"):
        share = template.device_share
        devices = share.count or 1
        # Hundredths of a GPU, all devices together.
        amounts |= {
            f"{_KOORDINATOR}gpu.shared": str(devices),
            f"{_KOORDINATOR}gpu-core": str(share.compute_milli * devices // 10 or ""),
            f"{_KOORDINATOR}gpu-memory-ratio": str(share.memory_milli * devices // 10 or ""),
            f"{_KOORDINATOR}gpu-memory": str(share.memory_bytes * devices or ""),
        }
    return {name: amount for name, amount in amounts.items() if amount}


def _toleration(one: Toleration) -> dict[str, str]:
    exists = one.operator == TolerationOperator.TOLERATION_OPERATOR_EXISTS
    said = {
        "key": one.key,
        "operator": "Exists" if exists else "Equal",
        "value": one.value,
        "effect": _EFFECTS.get(one.effect, ""),
    }
    return {field: text for field, text in said.items() if text}
