"""Kubernetes objects for tests, written as short as they can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from placement import v1
from placement.kubernetes import InputError, Objects, Problem, Translation, translate

Body = dict[str, Any]


def node(
    name: str = "n1", *, labels: Body | None = None, spec: Body | None = None, **status: Any
) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec or {},
        "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}, **status},
    }


def container(**requests: str) -> Body:
    """A container; an argument `gpu` stands for nvidia.com/gpu."""
    names = {"gpu": "nvidia.com/gpu"}
    return {
        "name": "main",
        "resources": {"requests": {names.get(k, k): v for k, v in requests.items()}},
    }


def pod(
    name: str,
    *,
    labels: Body | None = None,
    metadata: Body | None = None,
    phase: str = "Pending",
    **spec: Any,
) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "ml", "name": name, "labels": labels or {}, **(metadata or {})},
        "spec": {"containers": [container(gpu="1")], **spec},
        "status": {"phase": phase},
    }


def gang(
    name: str = "g", *, status: Body | None = None, metadata: Body | None = None, **spec: Any
) -> Body:
    body: Body = {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"namespace": "ml", "name": name, **(metadata or {})},
        "spec": spec,
    }
    if status is not None:
        body["status"] = status
    return body


def group(name: str, *pods: str, least: int | None = None, **more: Any) -> Body:
    return {
        "name": name,
        "minReplicas": len(pods) if least is None else least,
        "podReferences": [{"namespace": "ml", "name": p} for p in pods],
        **more,
    }


def pack(required: str = "", preferred: str = "") -> Body:
    keys = {"required": required, "preferred": preferred}
    return {"topologyConstraint": {"packConstraint": {k: v for k, v in keys.items() if v}}}


def priority_class(name: str, value: int, **more: Any) -> Body:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def translated(*bodies: Body) -> Translation:
    return translate(Objects.of(bodies))


def request(*bodies: Body) -> v1.ComputePlacementRequest:
    return translated(*bodies).request


def queues(*bodies: Body) -> dict[str, v1.Queue]:
    """The queues of a request, by name."""
    return {q.name.removeprefix("queues/"): q for q in request(*bodies).snapshot.queues}


def only_gang(*bodies: Body) -> v1.PodGang:
    (only,) = request(*bodies).gangs
    return only


def template(*others: Body, **spec: Any) -> v1.PodTemplate:
    """The template of a lone pod with this spec, beside other objects."""
    bodies = node(), pod("a", **spec), gang(podgroups=[group("w", "a")]), *others
    (pod_set,) = only_gang(*bodies).groups[0].pod_sets
    return pod_set.template


def problems(*bodies: Any) -> list[tuple[str, str, str]]:
    """Object, field and message of everything that is wrong with the bodies."""
    try:
        translate(Objects.of(bodies))
    except InputError as error:
        return [(p.object, p.field, p.message) for p in error.problems]
    return []


def said(warnings: Iterable[Problem]) -> tuple[str, ...]:
    """Warnings as people read them."""
    return tuple(map(str, warnings))


def pod_problems(**spec: Any) -> dict[str, str]:
    """Field to message for a lone pod with this spec."""
    return {field: message for _, field, message in problems(pod("a", **spec))}


def thing(kind: str, version: str, name: str, *, namespace: str = "", **fields: Any) -> Body:
    """Any other object. `metadata` is laid over the name."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def kai_pod_group(name: str = "g", **spec: Any) -> Body:
    metadata = spec.pop("metadata", {})
    return thing(
        "PodGroup", "scheduling.run.ai/v2alpha2", name, namespace="ml", metadata=metadata, spec=spec
    )


def kai_pod(name: str, gang_name: str = "g", sub_group: str = "", **spec: Any) -> Body:
    labels = {"kai.scheduler/subgroup-name": sub_group} if sub_group else {}
    labels |= spec.pop("labels", {})
    return pod(name, labels=labels, metadata={"annotations": {"pod-group-name": gang_name}}, **spec)


def kai_queue(name: str, parent: str = "", *, limit: Any = -1, quota: Any = 0, **spec: Any) -> Body:
    resources = {"gpu": {"limit": limit, "quota": quota}}
    resources |= spec.pop("resources", {})
    if parent:
        spec["parentQueue"] = parent
    return thing("Queue", "scheduling.run.ai/v2", name, spec={"resources": resources, **spec})
