"""Pods: what each asks for, and whether it runs, waits or is on its way out.

The phases of a pod reduce to what placement cares about: a pod that has finished
holds nothing and is left out; one with a node holds its requests there, also
while it is being deleted; any other waits. A waiting pod that is gated, or is
being deleted, cannot be bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from placement.kubernetes.objects import Object, is_name, not_a_name
from placement.kubernetes.podspec import PodSpec, PodSpecReader
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At, Findings

_FINISHED: Final = ("Succeeded", "Failed")

#: Annotations by which pods share GPUs; what is left of a GPU is not known here.
GPU_SHARING: Final = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """A pod that has not finished.

    `node` is the name of the node that it is bound to, or empty. `unsupported`
    are the paths of the fields that cannot be honoured.
    """

    object: Object
    spec: PodSpec
    labels: Mapping[str, str]
    uid: str
    node: str
    gated: bool
    terminating: bool
    priority: int | None
    priority_class: str
    unsupported: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str]:
        return self.object.key

    @property
    def namespace(self) -> str:
        return self.object.namespace

    @property
    def resource_name(self) -> str:
        return f"namespaces/{self.object.namespace}/pods/{self.object.name}"

    def __str__(self) -> str:
        return f"pod {self.object.namespace}/{self.object.name}"


def read_pods(objects: Iterable[Object], problems: list[Problem]) -> dict[tuple[str, str], Pod]:
    """All pods that have not finished, by namespace and name, in input order."""
    reader = PodSpecReader()
    pods = {}
    for one in objects:
        findings: Findings = {}
        pod = _read_pod(one, At(one.body, findings), reader)
        problems += [one.problem(*finding) for finding in findings]
        if pod is not None:
            problems += [one.problem(f"spec.{p}", text) for p, text in pod.spec.findings]
            pods[one.key] = pod
    return pods


def _read_pod(one: Object, at: At, reader: PodSpecReader) -> Pod | None:
    if at.get("status").get("phase").text() in _FINISHED:
        return None
    metadata, spec = at.get("metadata"), at.get("spec")
    if not isinstance(spec.value, dict):
        spec.problem("is missing" if spec.absent else "must be a mapping")
        return None
    annotations = metadata.get("annotations").labels()
    priority = spec.get("priority")
    node = spec.get("nodeName").text()
    if node and not is_name(node):
        spec.get("nodeName").problem(not_a_name(node))
    facts = reader.read(spec.value)
    unsupported = [f"spec.{path}" for path in facts.unsupported]
    unsupported += [f"metadata.annotations[{key}]" for key in GPU_SHARING if key in annotations]
    return Pod(
        object=one,
        spec=facts,
        labels=metadata.get("labels").labels(),
        uid=metadata.get("uid").text(),
        node=node,
        gated=any(True for _ in spec.get("schedulingGates").items()),
        terminating=not metadata.get("deletionTimestamp").absent,
        priority=None if priority.absent else priority.integer(least=-(2**31)),
        priority_class=spec.get("priorityClassName").text(),
        unsupported=tuple(unsupported),
    )
