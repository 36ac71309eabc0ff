"""Gangs without an object of their own: pods that name their gang in an annotation.

    placement-service/gang: train-7
    placement-service/gang-minimum: "4"                        (default: all of its pods)
    placement-service/required-level: example.com/rack         (a node label; optional)
    placement-service/preferred-level: example.com/block       (a node label; optional)

The first pod by name decides for all. Until as many pods exist as the minimum, the gang waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from placement.advice_marks import GANG, GANG_MINIMUM, PREFERRED_LEVEL, REQUIRED_LEVEL
from placement.kubernetes.objects import Objects, is_name, not_a_name
from placement.kubernetes.problems import Problem
from placement.kubernetes.schema import kinds
from placement.kubernetes.values.reading import At

Body = dict[str, Any]
Key = tuple[str, str]

_INITIALIZED: Final = {"conditions": [{"type": "Initialized", "status": "True"}]}
_FINISHED: Final = ("Succeeded", "Failed")


def with_annotated_gangs(objects: Objects) -> Objects:
    """The objects, with a PodGang for each gang that pods name and no PodGang refers to."""
    references = [
        (gang.namespace, reference.get("name").text())
        for gang in objects.pod_gangs
        for group in At(gang.body, {}).get("spec").get("podgroups").items()
        for reference in group.get("podReferences").items()
    ]
    pods: dict[Key, Mapping[str, Any]] = {}
    problems: list[Problem] = []
    for pod in objects.pods:
        name = _annotations(pod.body).get(GANG)
        phase = At(pod.body, {}).get("status").get("phase").text()
        if not name or not isinstance(name, str) or phase in _FINISHED:
            continue
        if is_name(name):
            pods[pod.key] = pod.body
        else:
            problems.append(pod.problem(f"metadata.annotations[{GANG}]", not_a_name(name)))
    for key in references:
        pods.pop(key, None)
    objects = replace(objects, problems=(*objects.problems, *problems))
    made = plain_gangs(pods, [gang.key for gang in objects.pod_gangs])
    if not made:
        return objects
    found = Objects.of({**gang, "status": _INITIALIZED} for gang in made)
    gangs = (*objects.pod_gangs, *found.pod_gangs)
    return replace(objects, by_kind={**objects.by_kind, kinds.POD_GANGS: gangs})


def plain_gangs(pods: Mapping[Key, Mapping[str, Any]], taken: Iterable[Key]) -> list[Body]:
    """A PodGang for each gang that pods name; those whose name is taken are left out."""
    members: dict[Key, list[str]] = {}
    for namespace, name in sorted(pods):
        if gang := _annotations(pods[namespace, name]).get(GANG):
            members.setdefault((namespace, gang), []).append(name)
    named = set(taken)
    return [_gang(key, names, pods) for key, names in members.items() if key not in named]


def _gang(key: Key, names: list[str], pods: Mapping[Key, Mapping[str, Any]]) -> Body:
    namespace, name = key
    said = _annotations(pods[namespace, names[0]])
    text = str(said.get(GANG_MINIMUM, ""))
    minimum = int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else len(names)
    pack = {
        strength: said[mark]
        for strength, mark in (("required", REQUIRED_LEVEL), ("preferred", PREFERRED_LEVEL))
        if said.get(mark)
    }
    group = {
        "name": "pods",
        "minReplicas": minimum,
        "podReferences": [{"namespace": namespace, "name": one} for one in names],
    }
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "creationTimestamp": pods[namespace, names[0]]["metadata"].get("creationTimestamp"),
        },
        "spec": {
            "podgroups": [group],
            **({"topologyConstraint": {"packConstraint": pack}} if pack else {}),
        },
    }


def _annotations(pod: Mapping[str, Any]) -> Mapping[str, str]:
    found = pod["metadata"].get("annotations")
    return found if isinstance(found, dict) else {}
