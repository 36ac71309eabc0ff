"""Changes of single pods that several adapters make: remove gates, set conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controller.advice.advice import Advice
from controller.advice.objects import Objects
from controller.cluster.gang_state import Body, Key
from placement.advice_marks import CONDITION, GATE
from placement.cluster import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiError, Cluster
from placement.resources import PODS


def gates(pod: Body) -> list[str]:
    """The names of a pod's scheduling gates."""
    return [gate.get("name", "") for gate in pod["spec"].get("schedulingGates") or ()]


def is_gated_by_us_alone(pod: Body) -> bool:
    """Whether a pod waits for our advice, and no other gate holds it."""
    return (
        gates(pod) == [GATE]
        and not pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
    )


def is_any_let_go(advice: Advice, objects: Objects) -> bool:
    """Whether some pod of the advice no longer waits for it."""
    pods = (objects.pods.get(binding.pod) for binding in advice.bindings)
    return any(pod is not None and GATE not in gates(pod) for pod in pods)


def without_gate(pod: Body) -> Body:
    """A pod without our gate."""
    spec = dict(pod["spec"])
    kept = [gate for gate in spec.pop("schedulingGates", None) or () if gate["name"] != GATE]
    if kept:
        spec["schedulingGates"] = kept
    return {**pod, "spec": spec}


def ungate(
    cluster: Cluster,
    key: Key,
    uid: str,
    *,
    spec: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str | None] | None = None,
) -> None:
    """Removes our gate, and makes further changes in the same patch. Gates of others stay. A pod
    that is gone is left alone, and so is another one of its name. Raises `ApiError`.
    """
    patch: dict[str, Any] = {
        "metadata": {"uid": uid, **({"annotations": annotations} if annotations else {})},
        "spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}], **(spec or {})},
    }
    _patch(cluster, key, patch, STRATEGIC_MERGE_PATCH)


def ungate_all(cluster: Cluster, pods: Iterable[Body]) -> None:
    """Takes our gate away from every pod that has it. A pod for which the API server refuses this
    keeps no other one waiting. Raises `ApiError` afterwards, for one of those.
    """
    refused: ApiError | None = None
    for pod in pods:
        metadata = pod["metadata"]
        try:
            if GATE in gates(pod):
                ungate(cluster, (metadata["namespace"], metadata["name"]), metadata.get("uid", ""))
        except ApiError as error:
            refused = error
    if refused is not None:
        raise refused


def annotate(cluster: Cluster, key: Key, uid: str, changes: Mapping[str, str | None]) -> bool:
    """Sets annotations, or removes those that are None; returns whether the pod was there."""
    patch = {"metadata": {"uid": uid, "annotations": dict(changes)}}
    return _patch(cluster, key, patch, MERGE_PATCH)


def set_condition(
    cluster: Cluster, key: Key, uid: str, *, status: bool, reason: str, message: str, now: str
) -> None:
    """Writes on a pod what became of its advice."""
    condition = {
        "type": CONDITION,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
    patch = {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
    _patch(cluster, key, patch, STRATEGIC_MERGE_PATCH, part="status")


def _patch(
    cluster: Cluster, key: Key, patch: Mapping[str, Any], content_type: str, *, part: str = ""
) -> bool:
    namespace, name = key
    try:
        cluster.request(
            "PATCH", PODS.path_of(name, namespace, part=part), body=patch, content_type=content_type
        )
    except ApiError as error:
        if error.is_gone:
            return False
        raise
    return True
