"""Kubernetes objects to one question for the service.

The proto is the language of both sides: this package turns objects into messages,
and knows nothing of how they are answered. PodCliqueSets without PodGangs are
expanded first, so that a manifest can be planned before it is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass

from placement import v1
from placement.kubernetes.expand import expand_all
from placement.kubernetes.gangs import Gang, GangMessages, read_gangs
from placement.kubernetes.nodes import read_nodes
from placement.kubernetes.objects import Objects
from placement.kubernetes.pods import Pod, read_pods
from placement.kubernetes.priorities import read_priorities
from placement.kubernetes.problems import InputError, Problem
from placement.kubernetes.templates import Templates


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """The request (snapshot and gangs, nothing else set), and warnings for people."""

    request: v1.ComputePlacementRequest
    warnings: tuple[Problem, ...]


def translate(objects: Objects) -> Translation:
    """The question that the objects pose: place all waiting gangs.

    Raises `InputError` with every problem of every object, those of loading first.
    """
    # 1. What PodCliqueSets stand for, and what every object says.
    expansion = expand_all(objects)
    problems = [*objects.problems, *expansion.problems]
    warnings = [*objects.warnings, *expansion.warnings]
    pods = read_pods((*objects.pods, *expansion.pods), problems)
    gangs = read_gangs((*objects.pod_gangs, *expansion.pod_gangs), problems)
    priorities = read_priorities(objects.priority_classes, problems)

    # 2. Who runs where, and who waits for a place.
    by_node: dict[str, list[Pod]] = {}
    for pod in pods.values():
        if pod.node:
            by_node.setdefault(pod.node, []).append(pod)
    nodes = read_nodes(objects.nodes, by_node, problems)
    waiting = _waiting(gangs, pods)

    # 3. The messages.
    templates = Templates(
        pending=waiting.values(), running=(p for several in by_node.values() for p in several)
    )
    messages = GangMessages(gangs, pods, templates, priorities).messages(problems, warnings)
    if problems:
        raise InputError(dict.fromkeys(problems))
    warnings += [Problem("", "", "", text) for text in _warnings(objects, pods, gangs, by_node)]
    snapshot = v1.ClusterSnapshot(nodes=nodes, pods=templates.running_pods())
    return Translation(
        v1.ComputePlacementRequest(snapshot=snapshot, gangs=messages), tuple(warnings)
    )


def _waiting(
    gangs: Iterable[Gang], pods: Mapping[tuple[str, str], Pod]
) -> dict[tuple[str, str], Pod]:
    """The pods of all gangs that may be bound now."""
    return {
        pod.key: pod
        for gang in gangs
        for pod in gang.members(pods)
        if not (pod.node or pod.gated or pod.terminating)
    }


def _warnings(
    objects: Objects,
    pods: Mapping[tuple[str, str], Pod],
    gangs: Iterable[Gang],
    by_node: Mapping[str, list[Pod]],
) -> list[str]:
    result = []
    referenced = {key for gang in gangs for group in gang.groups for key in group.pods}
    if not objects.nodes:
        result.append("the input holds no Node")
    if not referenced and not any(True for _ in gangs):
        result.append("the input holds no PodGang")
    missing = [
        (gang, key)
        for gang in gangs
        for group in gang.groups
        for key in group.pods
        if key not in pods
    ]
    if missing:
        gang, (namespace, name) = missing[0]
        is_or_are = "is" if len(missing) == 1 else "are"
        result.append(
            f"{_count(missing, 'referenced')} {is_or_are} not in the input or finished, first"
            f" {namespace}/{name} of {gang.object}"
        )
    alone = [
        pod
        for key, pod in pods.items()
        if not pod.node and not pod.terminating and key not in referenced
    ]
    if alone:
        result.append(f"{_count(alone)} that no PodGang refers to left alone, first {alone[0]}")
    known = {node.name for node in objects.nodes}
    lost = [pod for node, several in by_node.items() if node not in known for pod in several]
    if lost and objects.nodes:
        result.append(
            f"{_count(lost, 'running')} on nodes that are not in the input, first {lost[0]} on"
            f" {lost[0].node}"
        )
    return result


def _count(pods: Sized, state: str = "waiting") -> str:
    return f"{len(pods)} {state} pod{'s' if len(pods) > 1 else ''}"
