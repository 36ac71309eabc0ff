"""Gangs without an object of their own: pods that name their gang in an annotation.

    placement-service/gang: train-7
    placement-service/gang-minimum: "4"                        (default: all of its pods)
    placement-service/required-level: example.com/rack         (a node label; optional)
    placement-service/preferred-level: example.com/block       (a node label; optional)

The first pod by name decides for all. Until as many pods exist as the minimum, the gang waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.cluster.gang_state import Body, Key
from placement.advice_marks import GANG, GANG_MINIMUM, PREFERRED_LEVEL, REQUIRED_LEVEL


def plain_gangs(pods: Mapping[Key, Body], taken: Iterable[Key]) -> list[Body]:
    """A PodGang for each gang that pods name; those whose name is taken are left out."""
    members: dict[Key, list[str]] = {}
    for namespace, name in sorted(pods):
        if gang := _annotations(pods[namespace, name]).get(GANG):
            members.setdefault((namespace, gang), []).append(name)
    named = set(taken)
    return [_gang(key, names, pods) for key, names in members.items() if key not in named]


def _gang(key: Key, names: list[str], pods: Mapping[Key, Body]) -> Body:
    namespace, name = key
    said = _annotations(pods[namespace, names[0]])
    text = said.get(GANG_MINIMUM, "")
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


def _annotations(pod: Body) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found
