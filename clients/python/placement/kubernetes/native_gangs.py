"""Gangs of Kubernetes' own API (scheduling.k8s.io): PodGroups, and before them Workloads.

- A pod names its PodGroup in `schedulingGroup`; in the first version of the API it names a
  part of a Workload in `workloadRef`. Each PodGroup, or part and replica key, is a gang of one
  group.
- A gang policy says the minimum. Pods of the basic policy are no gang: any of them may run.
- A topology constraint is required packing over one node label.
- A disruption mode of single pods says that pods may go one by one; here whole gangs and
  extras go, which is stricter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from placement import v1
from placement.kubernetes.gangs import Gang, Group, Key
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.times import is_deleted, read_time

#: Between the parts of the name of a gang that a Workload defines.
_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class _Policy:
    minimum: int
    key: str
    priority_class: str
    priority: int | None
    unsupported: tuple[str, ...]


def read_native_gangs(
    pod_groups: Iterable[Object],
    workloads: Iterable[Object],
    pods: Mapping[Key, Pod],
    taken: Mapping[Key, Gang],
    problems: list[Problem],
) -> list[Gang]:
    """All gangs in the order of their objects. `taken` are the gangs that pods are in already."""
    members: dict[Key, list[Key]] = {}
    waiting: dict[Key, Pod] = {}
    for pod in pods.values():
        if pod.pod_group and pod.key not in taken:
            key = pod.namespace, pod.pod_group
            members.setdefault(key, []).append(pod.key)
            waiting.setdefault(key, pod)
    gangs = []
    for one in pod_groups:
        findings: Findings = {}
        at = At(one.body, findings)
        policy = _policy(at.get("spec"), "schedulingPolicy")
        gangs.append(_gang(one, at, policy, members.pop(one.key, [])))
        problems += [one.problem(*finding) for finding in findings]
    for one in workloads:
        findings = {}
        at = At(one.body, findings)
        for entry in at.get("spec").get("podGroups").items():
            name = entry.get("name").required_text()
            policy = _policy(entry, "policy")
            mine = [
                key
                for key in members
                if key[0] == one.namespace and key[1].split(_SEPARATOR)[:2] == [one.name, name]
            ]
            for key in mine:
                own = Object(
                    "Workload", one.namespace, key[1].replace(_SEPARATOR, "."), one.body, one.file,
                    one.document, one,
                )  # fmt: skip
                gangs.append(_gang(own, at, policy, members.pop(key)))
        problems += [one.problem(*finding) for finding in findings]
    gangs += [_missing(key, waiting[key], members[key]) for key in members]
    return gangs


def _policy(at: At, field: str) -> _Policy:
    gang = at.get(field).get("gang")
    minimum = gang.get("minCount")
    if not gang.absent and minimum.absent:
        minimum.problem("is missing")
    keys = []
    unsupported = []
    constraints = at.get("schedulingConstraints")
    for constraint in constraints.get("topology").items():
        keys.append(constraint.get("key").required_text())
    if len(keys) > 1:
        unsupported.append(f"{constraints.get('topology').path}: more than one constraint")
    if at.get("resourceClaims").value:
        unsupported.append(at.get("resourceClaims").path)
    parent = at.get("parentCompositePodGroupName")
    if parent.value:
        unsupported.append(parent.path)
    priority = at.get("priority")
    return _Policy(
        minimum=0 if gang.absent else minimum.integer(1, least=1),
        key=keys[0] if keys else "",
        priority_class=at.get("priorityClassName").text(),
        priority=None if priority.absent else priority.integer(least=-(2**31)),
        unsupported=tuple(unsupported),
    )


def _gang(one: Object, at: At, policy: _Policy, pods: list[Key]) -> Gang:
    metadata = at.get("metadata")
    scope = v1.PackingScope(name=one.name, required_level=policy.key)
    return Gang(
        object=one,
        groups=(Group("pods", policy.minimum, tuple(pods)),),
        scopes=(scope,) if policy.key else (),
        priority_class=policy.priority_class,
        priority=policy.priority,
        created=read_time(metadata.get("creationTimestamp")),
        terminating=is_deleted(metadata),
        unsupported=policy.unsupported,
    )


def _missing(key: Key, pod: Pod, pods: list[Key]) -> Gang:
    """The gang of pods whose PodGroup or Workload is not in the input: it waits for that."""
    name = key[1].replace(_SEPARATOR, ".")
    one = Object("PodGroup", key[0], name, {}, pod.object.file, pod.object.document)
    return Gang(
        object=one,
        groups=(Group("pods", 1, tuple(pods)),),
        unsupported=(f"PodGroup {key[1]} is not in the input",),
    )
