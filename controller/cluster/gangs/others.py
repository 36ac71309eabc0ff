"""Gangs that are no PodGang: PodGroups of KAI, Koordinator, coscheduling, Volcano and
Kubernetes itself, and pods that name their gang in an annotation.

The rest of the controller knows PodGangs. For each of these gangs this module makes one, with its
groups, its minimums and references to its pods. It is not in the cluster: reports about it are
written on the object that it stands for. Levels, queues and priorities are read from the original
objects when the request is made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from controller.cluster.gang_state import Body, Key, key_of, key_of_resource
from placement import v1
from placement.kubernetes import InputError, Objects, translate
from placement.kubernetes.annotated_gangs import plain_gangs
from placement.resources import (
    COSCHEDULING_POD_GROUPS,
    KAI_POD_GROUPS,
    KOORDINATOR_POD_GROUPS,
    NATIVE_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)

#: The kinds whose objects are gangs.
POD_GROUPS: Final = (
    KAI_POD_GROUPS,
    KOORDINATOR_POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    NATIVE_POD_GROUPS,
    VOLCANO_POD_GROUPS,
)

_STANDS_FOR: Final = "standsFor"
_INITIALIZED: Final = {"conditions": [{"type": "Initialized", "status": "True"}]}


def stands_for(gang: Body) -> Body | None:
    """The object that a PodGang of ours stands for; None for PodGangs of the cluster."""
    found: Body | None = gang.get(_STANDS_FOR)
    return found


def is_plain(gang: Body) -> bool:
    """Whether a PodGang stands for pods alone: it is all that says how they belong together."""
    original = stands_for(gang)
    return original is not None and original.get("kind") == "Pod"


def other_gangs(
    pods: Mapping[Key, Body], others: Iterable[Body], taken: Collection[Key]
) -> dict[Key, Body]:
    """A PodGang for each gang of these pods that no PodGang of the cluster refers to.

    `others` are the objects of other kinds that a plan is made from, `taken` the names of the
    PodGangs that the cluster has. Objects that cannot be read make no gang.
    """
    found: dict[Key, Body] = {}
    for gang in plain_gangs(pods, taken):
        first = gang["spec"]["podgroups"][0]["podReferences"][0]
        found[key_of(gang)] = _standing_for(gang, pods[first["namespace"], first["name"]])
    groups = {key_of(one): one for one in others if one.get("kind") == "PodGroup"}
    for message in _gangs(pods, others):
        key = key_of_resource(message.name)
        if key in found or key in taken:
            continue
        members = [pod.name for group in message.groups for s in group.pod_sets for pod in s.pods]
        if members:
            first_pod = pods[key_of_resource(members[0])]
            found[key] = _standing_for(_pod_gang(key, message), groups.get(key, first_pod))
    return found


def _gangs(pods: Mapping[Key, Body], others: Iterable[Body]) -> list[v1.PodGang]:
    """Which pods belong together, by the readers of all kinds."""
    bodies = [*map(_open, pods.values()), *others]
    while True:
        try:
            return list(translate(Objects.of(bodies)).request.gangs)
        except InputError as error:
            wrong = {problem.object for problem in error.problems}
            kept = [one for one in bodies if _title(one) not in wrong]
            if len(kept) == len(bodies):
                return []
            bodies = kept


def _title(body: Body) -> str:
    """An object as problems name it."""
    return f"{body.get('kind', '')} {'/'.join(key_of(body)).lstrip('/')}"


def _open(pod: Body) -> Body:
    """A pod as if it waited only for a node: where it runs does not decide which gang it is in."""
    spec = {k: v for k, v in pod["spec"].items() if k not in ("nodeName", "schedulingGates")}
    return {**pod, "spec": spec}


def _pod_gang(key: Key, message: v1.PodGang) -> dict[str, Any]:
    namespace, name = key
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "podgroups": [
                {
                    "name": group.name,
                    "minReplicas": group.min_replicas,
                    "podReferences": [
                        dict(zip(("namespace", "name"), key_of_resource(pod.name), strict=True))
                        for pods in group.pod_sets
                        for pod in pods.pods
                    ],
                }
                for group in message.groups
            ]
        },
    }


def _standing_for(gang: Body, original: Body) -> Body:
    metadata = {**gang["metadata"], "uid": original["metadata"].get("uid", "")}
    return {**gang, "metadata": metadata, "status": _INITIALIZED, _STANDS_FOR: original}
