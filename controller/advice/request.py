"""The request for advice: all gangs that wait for it, as their scheduler's objects describe them.

A pod that runs takes its room, and so does one that advice under way sends to a node. Pods that
wait for another scheduler alone hold nothing and are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controller.advice.adapter import Adapter
from controller.advice.advice import Advice, read_advice
from controller.advice.gpu_groups import group_labels, noted_groups
from controller.advice.objects import Objects
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, Key, key_of, key_of_resource, node_of
from controller.cluster.unreadable import (
    ClosedQueues,
    are_the_same,
    first_of_each,
    named_by,
    node_closed_by,
)
from placement import v1
from placement.kubernetes import InputError, Translation, translate
from placement.kubernetes import Objects as Input
from placement.kubernetes.annotated_gangs import plain_gangs
from placement.kubernetes.memberships import group_of
from placement.kubernetes.queue_marks import mark_pods
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


def is_awaited(objects: Objects, adapters: Sequence[Adapter]) -> bool:
    """Whether any pod waits for advice, also in vain."""
    return any(
        adapter.waits(pod, objects) or adapter.cannot_advise(pod, objects)
        for pod in objects.pods.values()
        if not node_of(pod)
        for adapter in adapters
    )


def build_request(objects: Objects, adapters: Sequence[Adapter], now: float) -> AdviceRequest:
    """The request as of `now`, in seconds since the epoch."""
    # Advice that has expired holds no room, even if it is not taken back yet.
    standing = [one for one in read_advice(objects.pods).values() if one.until > now]
    # It will be taken back: the rest of the gang must not be let go meanwhile.
    torn = {advice.gang for advice in standing if not advice.is_whole}
    pods = _Pods.of(objects, adapters, standing)
    bodies = _bodies(objects, adapters, pods.planned)
    translation, refused = _translated(bodies, now)
    message = translation.request
    waiting = {}
    kept = []
    strays = set(pods.waiting)
    for one in message.gangs:
        members = _waiting(one)
        runs = any(True for group in one.groups for _ in bound_pods(group))
        if members or not runs or one.uninitialized:
            # A gang that runs below its minimum has lost pods for good: it does not wait for them.
            strays -= {
                key_of_resource(p.name) for g in one.groups for ps in g.pod_sets for p in ps.pods
            }
        name = key_of_resource(one.name)
        if members and name not in torn and all(key in pods.waiting for key in members):
            waiting[name] = members
        if members or runs:
            kept.append(one)
    del message.gangs[:]
    message.gangs.extend(kept)
    alone = _left_alone(pods.waiting, waiting, objects, bodies)
    return AdviceRequest(
        request=message,
        waiting=waiting,
        adapters={**pods.in_vain, **pods.waiting},
        refused=refused,
        gpu_groups=translation.gpu_groups,
        room=Room(pods.taking_room(), _open_nodes(message.snapshot)),
        strays=frozenset(strays | pods.in_vain.keys() | alone),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Pods:
    """Pods as they are planned; the adapter of those that wait for advice; and that of those that
    wait for advice but can get none.
    """

    planned: Mapping[Key, Body]
    waiting: Mapping[Key, Adapter]
    in_vain: Mapping[Key, Adapter]

    @classmethod
    def of(cls, objects: Objects, adapters: Sequence[Adapter], standing: Iterable[Advice]) -> _Pods:
        advised = {binding.pod: binding for advice in standing for binding in advice.bindings}
        planned: dict[Key, Body] = {}
        waiting: dict[Key, Adapter] = {}
        in_vain: dict[Key, Adapter] = {}
        for key, pod in objects.pods.items():
            if node_of(pod):
                planned[key] = pod
                continue
            if key in advised:
                planned[key] = _as_advised(pod, advised[key])
                continue
            if any(adapter.is_decided(pod, objects) for adapter in adapters):
                planned[key] = pod
            elif (found := next((a for a in adapters if a.waits(pod, objects)), None)) is not None:
                planned[key] = found.opened(pod)
                waiting[key] = found
                continue
            vain = next((a for a in adapters if a.cannot_advise(pod, objects)), None)
            if vain is not None:
                in_vain[key] = vain
        return cls(planned, waiting, in_vain)

    def taking_room(self) -> frozenset[str]:
        """The uids of pods that have a node, or will have one."""
        return frozenset(
            pod["metadata"].get("uid", "")
            for key, pod in self.planned.items()
            if key not in self.waiting
        )


def _bodies(
    objects: Objects, adapters: Sequence[Adapter], pods: Mapping[Key, Body]
) -> dict[_Place, Body]:
    """What is translated: those pods, the nodes that adapters may use, and all that is beside."""
    bodies: dict[_Place, Body] = {
        ("Node", key, ""): body
        for key, body in objects.of(NODES).items()
        if not adapters or any(adapter.may_use(body) for adapter in adapters)
    }
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
    return bodies


def _open_nodes(snapshot: v1.ClusterSnapshot) -> frozenset[str]:
    return frozenset(n.name for n in snapshot.nodes if not (n.unschedulable or n.not_ready))


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
        there = sum(len(pods.pods) for pods in group.pod_sets) + len(bound_pods(group))
        if there < group.min_replicas:
            return ()
    return tuple(
        key_of_resource(pod.name)
        for group in gang.groups
        for pods in group.pod_sets
        for pod in pods.pods
    )


def bound_pods(group: v1.PodGroup) -> list[v1.BoundPod]:
    """The pods of a group that run, or that advice sends to a node."""
    return [*group.bound_pods, *(pod for pods in group.pod_sets for pod in pods.bound_pods)]


def _translated(bodies: dict[_Place, Body], now: float) -> tuple[Translation, dict[Key, str]]:
    """The message, without the objects that cannot be read, and what is wrong with those."""
    refused: dict[Key, str] = {}
    moment = datetime.fromtimestamp(now, UTC)
    closed = ClosedQueues()
    while True:
        try:
            return translate(Input.of(bodies.values()), as_of=moment), refused
        except InputError as error:
            before = [*bodies.values()]
            gangs: list[Body] = []
            for problem in first_of_each(error.problems):
                kind, key = named_by(problem.object)
                refused[key] = f"{kind}: {problem.fault}"
                gone = _taken_out(bodies, kind, key, closed)
                gangs += gone if kind == POD_GANGS.kind else ()
            if are_the_same(before, bodies.values()):
                raise
            # What runs of them still counts in their queues.
            pods = {key: body for (kind, key, _), body in bodies.items() if kind == PODS.kind}
            for gang in gangs:
                mark_pods(gang, pods)
            bodies |= {(PODS.kind, key, ""): body for key, body in pods.items()}


def _taken_out(bodies: dict[_Place, Body], kind: str, key: Key, closed: ClosedQueues) -> list[Body]:
    """Takes out objects, and the nodes of which nobody knows how much is taken without them; in the
    place of queues come closed ones.
    """
    gone = [bodies.pop(place) for place in [*bodies] if place[:2] == (kind, key)]
    for body in gone:
        bodies.pop(("Node", ("", node_closed_by(kind, body)), ""), None)
        if queue := closed.in_place_of(body):
            bodies.setdefault((queue["kind"], key_of(queue), queue["apiVersion"]), queue)
    return gone
