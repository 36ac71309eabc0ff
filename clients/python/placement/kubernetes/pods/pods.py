"""Pods: what each asks for, and whether it runs, waits or is being deleted. Only some differences
between the phases of a pod matter to placement: a pod that has finished holds nothing and is left
out; one with a node holds its requests there, also while it is being deleted; any other waits. A
waiting pod that is gated, or is being deleted, cannot be bound. A pod that a scheduler has decided
about but not bound yet counts as bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from placement.kubernetes.objects import Object, is_name, not_a_name
from placement.kubernetes.pods.needs import Needs, NeedsReader
from placement.kubernetes.pods.podspec import PodSpec, PodSpecReader
from placement.kubernetes.pods.preemption import says_never
from placement.kubernetes.pods.shares import gpus_in, share_of_queue
from placement.kubernetes.problems import Problem
from placement.kubernetes.queues import GPUS, WHOLE
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.times import is_deleted, read_time

#: Fields by which a pod names its native gang.
_GROUPS: Final = frozenset({"schedulingGroup", "workloadRef"})
_FINISHED: Final = ("Succeeded", "Failed")
_PHASES: Final = ("Pending", "Running", *_FINISHED, "Unknown")

#: KAI's label of pods on one shared GPU.
KAI_GROUP: Final = "runai-gpu-group"


class Decision(NamedTuple):
    """The decision of a scheduler about a pod: its node, and which GPUs it shares there."""

    node: str = ""
    gpu_groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """A pod that has not finished.

    `node` is the name of the node that it is bound to, or empty. `priority` is what the API
    server wrote. `started` is None for a pod that has not, or where it is not known.
    """

    object: Object
    spec: PodSpec
    needs: Needs
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    uid: str
    node: str
    #: KAI's names of the GPUs that it shares with others.
    gpu_groups: tuple[str, ...]
    gated: bool
    terminating: bool
    priority: int | None
    priority_class: str
    never_preempts: bool
    created: datetime | None
    started: datetime | None
    #: The PodGroup of Kubernetes' own gang API that it belongs to, or empty.
    pod_group: str

    @property
    def key(self) -> tuple[str, str]:
        return self.object.key

    @property
    def namespace(self) -> str:
        return self.object.namespace

    @property
    def resource_name(self) -> str:
        return f"namespaces/{self.object.namespace}/pods/{self.object.name}"

    @property
    def waits(self) -> bool:
        """Whether it may be bound now."""
        return not (self.node or self.gated or self.terminating)

    @property
    def unsupported(self) -> list[str]:
        """What it uses that cannot be honoured, by field."""
        return [f"spec.{path}" for path in self.spec.unsupported] + [*self.needs.unsupported]

    def queue_amounts(self, gpu_resources: Collection[str], memory: int) -> dict[str, int]:
        """What it takes of a queue: GPUs of all names together, shares of them included; `memory`
        is that of the smallest device.
        """
        amounts = dict(self.needs.requests)
        share = self.needs.share
        gpus = gpus_in(amounts, gpu_resources) * WHOLE
        if share is not None:
            gpus += share_of_queue(share, memory)
        if gpus:
            amounts[GPUS] = gpus
        return amounts

    def __str__(self) -> str:
        return f"pod {self.object.namespace}/{self.object.name}"


def read_pods(
    objects: Iterable[Object],
    specs: PodSpecReader,
    needs: NeedsReader,
    assigned: Mapping[tuple[str, str], Decision],
    problems: list[Problem],
) -> dict[tuple[str, str], Pod]:
    """All pods that have not finished, by namespace and name, in input order.

    `assigned` are the places of pods that are as good as bound.
    """
    pods = {}
    for one in objects:
        findings: Findings = {}
        pod = _read_pod(
            one, At(one.body, findings), specs, needs, assigned.get(one.key, Decision())
        )
        problems += [one.problem(*finding) for finding in findings]
        if pod is not None:
            problems += [one.problem(f"spec.{p}", text) for p, text in pod.spec.findings]
            pods[one.key] = pod
    return pods


def _read_pod(
    one: Object, at: At, specs: PodSpecReader, needs: NeedsReader, assigned: Decision
) -> Pod | None:
    status = at.get("status")
    phase = status.get("phase")
    if phase.value and phase.choice("", _PHASES) in _FINISHED:
        return None
    metadata, spec = at.get("metadata"), at.get("spec")
    if not isinstance(spec.value, dict):
        spec.problem("is missing" if spec.absent else "must be a mapping")
        return None
    annotations = metadata.get("annotations").labels()
    labels = metadata.get("labels").labels()
    priority = spec.get("priority")
    node = spec.get("nodeName").text()
    if node and not is_name(node):
        spec.get("nodeName").problem(not_a_name(node))
    node = node or assigned.node
    facts = specs.read(spec.value)
    return Pod(
        object=one,
        spec=facts,
        needs=needs.read(one, facts, labels, annotations, metadata, status, runs=bool(node)),
        labels=labels,
        annotations=annotations,
        uid=metadata.get("uid").text(),
        node=node,
        gpu_groups=assigned.gpu_groups or _gpu_groups(labels),
        gated=any(True for _ in spec.get("schedulingGates").items()),
        terminating=is_deleted(metadata),
        priority=None if priority.absent else priority.integer(least=-(2**31)),
        priority_class=spec.get("priorityClassName").text(),
        never_preempts=says_never(spec.get("preemptionPolicy")),
        created=read_time(metadata.get("creationTimestamp")),
        started=read_time(status.get("startTime")),
        pod_group=_pod_group(spec) if not _GROUPS.isdisjoint(spec.value) else "",
    )


def _gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """By the label of a pod with a share of one GPU, or the labels of one with several."""
    names = (name for name in labels if name == KAI_GROUP or name.startswith(f"{KAI_GROUP}/"))
    return tuple(dict.fromkeys(labels[name] for name in sorted(names)))


def _pod_group(spec: At) -> str:
    """The native gang of a pod: a PodGroup, or in older versions a part of a Workload."""
    group = spec.get("schedulingGroup").get("podGroupName").text()
    reference = spec.get("workloadRef")
    if group or reference.absent:
        return group
    parts = (reference.get(f).text() for f in ("name", "podGroup", "podGroupReplicaKey"))
    return "/".join(part for part in parts if part)
