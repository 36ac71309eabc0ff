"""Queues in the place of those that cannot be read.

Without a queue its limit would be gone, and those of the queues below it would be all that counts.
So nothing more comes into one that cannot be read, nor into those below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from placement.kubernetes.koordinator.elastic_quotas import PARENT_LABEL
from placement.kubernetes.schema import kinds

Body = Mapping[str, Any]

_NOTHING: Final = {resource: {"limit": 0} for resource in ("cpu", "memory", "gpu")}
_NO_AMOUNT: Final = {"cpu": 0, "memory": 0, "nvidia.com/gpu": 0}


def closed_queue(body: Body, *, below: bool) -> dict[str, Any] | None:
    """A queue of the same name that lets nothing in, and with `below` stays where it was in the
    tree; None where an object is no queue.
    """
    kind, group = str(body.get("kind")), str(body.get("apiVersion")).partition("/")[0]
    metadata, spec = body["metadata"], body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if (group, kind) == (kinds.ELASTIC_QUOTAS.group, kinds.ELASTIC_QUOTAS.name):
        labels = dict(metadata.get("labels") or {})
        if not below:
            labels.pop(PARENT_LABEL, None)
        # Of this kind: pods of its namespace are in it without naming it.
        named = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels}
        return {**body, "metadata": named, "spec": {"max": _NO_AMOUNT}}
    parents = {
        (kinds.KAI_QUEUES.group, kinds.KAI_QUEUES.name): "parentQueue",
        (kinds.VOLCANO_QUEUES.group, kinds.VOLCANO_QUEUES.name): "parent",
        (kinds.CLUSTER_QUEUES.group, kinds.CLUSTER_QUEUES.name): "",
    }
    if (group, kind) not in parents:
        return None
    parent = spec.get(parents[group, kind])
    return {
        "apiVersion": f"{kinds.KAI_QUEUES.group}/v2",
        "kind": kinds.KAI_QUEUES.name,
        "metadata": {"name": metadata["name"]},
        "spec": {
            "parentQueue": parent if below and isinstance(parent, str) else "",
            "resources": _NOTHING,
        },
    }
