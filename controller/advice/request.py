"""The request for advice: all gangs that wait for it, as their scheduler's objects describe them.

A pod that runs takes its room, and so does one that advice under way sends to a node. Pods that
wait for another scheduler alone hold nothing and are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controller.advice.adapter import Adapter
from controller.advice.advice import read_advice
from controller.advice.gpu_groups import group_labels, noted_groups
from controller.advice.objects import Objects
from controller.apply import Binding
from controller.gang_state import Body, Key, key_of_resource, node_of
from controller.plain_gangs import plain_gangs
from controller.unreadable import node_closed_by
from placement import v1
from placement.kubernetes import InputError, Translation, translate
from placement.kubernetes import Objects as Input
from placement.kubernetes.memberships import group_of
from placement.resources import NODES, POD_GANGS, PODS, Resource

logger = logging.getLogger(__name__)

#: Kind, namespace and name, and the API version where kinds have the same name.
_Place = tuple[str, Key, str]


@dataclass(frozen=True, slots=True)
class Room:
    """The uids of pods that take room, and the nodes that take pods."""

    taken: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()

    def is_more_than(self, before: Room) -> bool:
        """Whether a pod that took room is gone, or a node was added."""
        return not (self.taken >= before.taken and self.nodes <= before.nodes)


@dataclass(frozen=True, slots=True, eq=False)
class AdviceRequest:
    """The request; the gangs whose minimum waits for advice, with their pods that wait; and the
    adapter of each pod.
    """

    request: v1.ComputePlacementRequest
    waiting: Mapping[Key, tuple[Key, ...]]
    adapters: Mapping[Key, Adapter]
    refused: Mapping[Key, str]
    #: KAI's names of shared GPUs, by node and device.
    gpu_groups: Mapping[str, Mapping[int, str]]
    room: Room
    #: Pods that wait for advice and will get none: their gang cannot be read, or has lost pods for
    #: good, or their adapter cannot advise them.
    strays: frozenset[Key]


def build_request(objects: Objects, adapters: Sequence[Adapter], now: float) -> AdviceRequest:
    """The request as of `now`, in seconds since the epoch."""
    # Advice that has expired holds no room, even if it is not taken back yet.
    standing = [one for one in read_advice(objects.pods).values() if one.until > now]
    advised = {binding.pod: binding for advice in standing for binding in advice.bindings}
    # It will be taken back: the rest of the gang must not be let go meanwhile.
    torn = {advice.gang for advice in standing if not advice.is_whole}
    by_pod: dict[Key, Adapter] = {}
    pods: dict[Key, Body] = {}
    for key, pod in objects.pods.items():
        if node_of(pod):
            pods[key] = pod
        elif key in advised:
            pods[key] = _as_advised(pod, advised[key])
        elif any(adapter.is_decided(pod, objects) for adapter in adapters):
            pods[key] = pod
        elif (found := next((a for a in adapters if a.waits(pod, objects)), None)) is not None:
            by_pod[key] = found
            pods[key] = found.opened(pod)
    in_vain = {
        key: found
        for key, pod in objects.pods.items()
        if not (node_of(pod) or key in advised or key in by_pod)
        if (found := next((a for a in adapters if a.cannot_advise(pod, objects)), None)) is not None
    }
    nodes = {
        key: body
        for key, body in objects.of(NODES).items()
        if not adapters or any(adapter.may_use(body) for adapter in adapters)
    }
    bodies: dict[_Place, Body] = {("Node", key, ""): body for key, body in nodes.items()}
    bodies |= {("Pod", key, ""): body for key, body in pods.items()}
    taken: set[Key] = set()
    for resource, store in objects.stores.items():
        if resource not in (NODES, PODS):
            for key, body in store.items():
                bodies[resource.kind, key, resource.api_version] = {**_names(resource), **body}
            if resource.kind in ("PodGang", "PodGroup"):
                taken |= store.keys()
    for gang in plain_gangs(pods, taken):
        key = gang["metadata"]["namespace"], gang["metadata"]["name"]
        bodies[POD_GANGS.kind, key, ""] = gang
    translation, refused = _translated(bodies, now)
    message = translation.request
    waiting = {}
    kept = []
    strays = set(by_pod)
    for one in message.gangs:
        members = _waiting(one)
        runs = any(True for group in one.groups for _ in _bound(group))
        if members or not runs or one.uninitialized:
            # A gang that runs below its minimum has lost pods for good: it does not wait for them.
            strays -= {
                key_of_resource(p.name) for g in one.groups for ps in g.pod_sets for p in ps.pods
            }
        name = key_of_resource(one.name)
        if members and name not in torn and all(key in by_pod for key in members):
            waiting[name] = members
        if members or runs:
            kept.append(one)
    del message.gangs[:]
    message.gangs.extend(kept)
    return AdviceRequest(
        message,
        waiting,
        {**in_vain, **by_pod},
        refused,
        translation.gpu_groups,
        Room(
            frozenset(p["metadata"].get("uid", "") for key, p in pods.items() if key not in by_pod),
            frozenset(
                one.name
                for one in message.snapshot.nodes
                if not (one.unschedulable or one.not_ready)
            ),
        ),
        frozenset(strays | in_vain.keys() | _left_alone(by_pod, waiting, objects, bodies)),
    )


def _left_alone(
    by_pod: Mapping[Key, Adapter],
    waiting: Mapping[Key, tuple[Key, ...]],
    objects: Objects,
    bodies: Mapping[_Place, Body],
) -> set[Key]:
    """Pods that wait while others of their gang are not in the request: those cannot be read, or
    their scheduler has them already.
    """
    asked = {key for members in waiting.values() for key in members}
    outside = {
        group
        for key, pod in objects.pods.items()
        if ("Pod", key, "") not in bodies and not pod["metadata"].get("deletionTimestamp")
        if (group := group_of(pod)) is not None
    }
    return {key for key in by_pod if key not in asked and group_of(objects.pods[key]) in outside}


def _as_advised(pod: Body, binding: Binding) -> Body:
    """A pod as if its advice had been followed."""
    spec = {k: v for k, v in pod["spec"].items() if k != "schedulingGates"}
    labels = pod["metadata"].get("labels") or {}
    shared = group_labels(noted_groups(binding.notes))
    return {
        **pod,
        "metadata": {**pod["metadata"], "labels": {**labels, **shared}},
        "spec": {**spec, "nodeName": binding.node},
    }


def _names(resource: Resource) -> dict[str, str]:
    return {"kind": resource.kind, "apiVersion": resource.api_version}


def _waiting(gang: v1.PodGang) -> tuple[Key, ...]:
    """The pods of a gang that could be placed, when its minimum could be met; else none."""
    if gang.uninitialized:
        return ()
    for group in gang.groups:
        there = sum(len(pods.pods) for pods in group.pod_sets) + len(_bound(group))
        if there < group.min_replicas:
            return ()
    return tuple(
        key_of_resource(pod.name)
        for group in gang.groups
        for pods in group.pod_sets
        for pod in pods.pods
    )


def _bound(group: v1.PodGroup) -> list[v1.BoundPod]:
    return [*group.bound_pods, *(pod for pods in group.pod_sets for pod in pods.bound_pods)]


def _translated(bodies: dict[_Place, Body], now: float) -> tuple[Translation, dict[Key, str]]:
    """The message, without the objects that cannot be read, and what is wrong with those."""
    refused: dict[Key, str] = {}
    moment = datetime.fromtimestamp(now, UTC)
    while True:
        try:
            return translate(Input.of(bodies.values()), as_of=moment), refused
        except InputError as error:
            before = len(bodies)
            for problem in error.problems:
                kind, _, name = problem.object.partition(" ")
                namespace, _, own = name.rpartition("/")
                refused[namespace, own] = f"{kind}: {problem.field}: {problem.message}"
                for place in [one for one in bodies if one[:2] == (kind, (namespace, own))]:
                    body = bodies.pop(place)
                    bodies.pop(("Node", ("", node_closed_by(kind, body)), ""), None)
            if len(bodies) == before:
                raise
