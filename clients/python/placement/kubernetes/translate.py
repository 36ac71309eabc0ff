"""Kubernetes objects to one question for the service.

The proto is the language of both sides: this package turns objects into messages,
and knows nothing of how they are answered. PodCliqueSets without PodGangs are
expanded first, so that a manifest can be planned before it is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from placement import v1
from placement.kubernetes.all_queues import read_queues
from placement.kubernetes.gang_messages import GangMessages
from placement.kubernetes.gangs import Gang, Key
from placement.kubernetes.grove.expand import Expansion, expand_all
from placement.kubernetes.grove.pod_gangs import read_pod_gangs
from placement.kubernetes.joined_gangs import Parts
from placement.kubernetes.kai.gangs import read_bind_requests, read_kai_gangs, read_topologies
from placement.kubernetes.koordinator.gangs import read_koordinator_gangs, read_layers
from placement.kubernetes.koordinator.reservations import Reservations, read_reservations
from placement.kubernetes.kueue.kueue import Kueue, read_kueue
from placement.kubernetes.kueue.workloads import (
    level_labels,
    make_kueue_workloads,
    owners_of_waiting,
)
from placement.kubernetes.native_gangs import read_native_gangs
from placement.kubernetes.nodes.devices import Devices, read_devices
from placement.kubernetes.nodes.label_paths import LabelPaths, node_labels
from placement.kubernetes.nodes.nodes import Surroundings, is_unmanaged, read_nodes
from placement.kubernetes.objects import Object, Objects
from placement.kubernetes.pods.budgets import Budget, read_budgets
from placement.kubernetes.pods.claims.claims import Claims, claim_users, read_claims
from placement.kubernetes.pods.claims.compute_domains import read_compute_domains
from placement.kubernetes.pods.claims.resource_slices import read_slices
from placement.kubernetes.pods.namespaces import read_namespaces
from placement.kubernetes.pods.needs import NeedsReader
from placement.kubernetes.pods.pods import Pod, read_pods
from placement.kubernetes.pods.podspec import PodSpecReader
from placement.kubernetes.pods.priorities import read_priorities, read_workload_priorities
from placement.kubernetes.pods.shares import GPU_RESOURCES
from placement.kubernetes.pods.templates import Templates
from placement.kubernetes.pods.volumes import read_volumes
from placement.kubernetes.problems import Diagnostics, InputError, Problem
from placement.kubernetes.queue_use import count_use
from placement.kubernetes.schema import kinds
from placement.kubernetes.values.selectors import LabelSelector
from placement.kubernetes.values.times import newest
from placement.kubernetes.volcano.gangs import (
    in_node_groups,
    label_tiers,
    make_jobs,
    read_volcano_gangs,
)
from placement.kubernetes.volcano.queues import VolcanoQueues, read_volcano_queues
from placement.kubernetes.workloads.jobs import make_job_sets, make_plain
from placement.kubernetes.workloads.leader_worker import (
    make_leader_worker_sets,
    make_role_based_groups,
)
from placement.kubernetes.workloads.workloads import Made

#: What makes gangs and pods of workloads whose pods are not in the input.
_WORKLOADS: Final = {
    kinds.JOB_SETS: make_job_sets,
    kinds.LEADER_WORKER_SETS: make_leader_worker_sets,
    kinds.ROLE_BASED_GROUPS: make_role_based_groups,
}


@dataclass(frozen=True, slots=True, eq=False)
class Translation:
    """The request, and warnings for people.

    The request has its snapshot and gangs, and where claims are for GPUs the policy's
    `gpu_resources`, which name these besides the usual ones. `parts` are gangs that are one in the
    request, because their scheduler runs them only together; `in_parts` gives them their own names
    again. `gpu_groups` are KAI's names of shared GPUs, by node and device. `own_levels` are the
    labels of levels whose domains are paths, by the label that stands for them in the request.
    """

    request: v1.ComputePlacementRequest
    warnings: tuple[Problem, ...]
    parts: Parts = field(default_factory=dict)
    gpu_groups: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    own_levels: Mapping[str, str] = field(default_factory=dict)


def translate(
    objects: Objects, *, as_of: datetime | None = None, plain_gangs: bool = False
) -> Translation:
    """The question that the objects pose: place all waiting gangs.

    With `plain_gangs` Jobs, Deployments and StatefulSets are gangs of all their pods, too.

    Waiting times and run times count to `as_of` (without an offset it is UTC), else to the
    newest time that an object names. Raises `InputError` with every problem of every object,
    those of loading first.
    """
    # 1. Expand PodCliqueSets, and read every object.
    expansion = expand_all(objects)
    diagnostics = Diagnostics(
        [*objects.problems, *expansion.problems], [*objects.warnings, *expansion.warnings]
    )
    moment = _moment(objects, as_of)
    paths = LabelPaths([node_labels(node.body, node.name) for node in objects.nodes])
    kueue = read_kueue(objects, diagnostics)
    volcano = read_volcano_queues(objects.of_kind(kinds.VOLCANO_QUEUES), diagnostics)
    made = _make_workloads(objects, kueue, volcano, plain_gangs, paths, diagnostics)
    known = in_node_groups(objects.pods, objects.of_kind(kinds.VOLCANO_POD_GROUPS), volcano)
    everyone = (*known, *expansion.pods, *made.pods)
    claims = _read_claims(objects, everyone, diagnostics)
    listed = {one.name for one in objects.of_kind(kinds.DEVICES)}
    by_name = any(is_unmanaged(node, listed) for node in objects.nodes)
    pods = _read_pods(objects, everyone, claims, diagnostics, by_name=by_name)
    gangs = _read_gangs(objects, expansion, made, volcano, pods, paths, diagnostics)
    queues = read_queues(objects, kueue, volcano, diagnostics)
    priorities = read_priorities(objects.priority_classes, diagnostics.problems)
    budgets = read_budgets(objects.of_kind(kinds.DISRUPTION_BUDGETS), pods, diagnostics.problems)
    reservations = read_reservations(
        objects.of_kind(kinds.RESERVATIONS),
        pods,
        (node.name for node in objects.nodes),
        moment,
        diagnostics,
    )

    # 2. Which pods run where, and which wait for a place.
    by_node: dict[str, list[Pod]] = {}
    for pod in pods.values():
        if pod.node:
            by_node.setdefault(pod.node, []).append(pod)
    members = {pod.key: pod for gang in gangs for pod in gang.members(pods) if gang.has_home(pod)}
    waiting = [pod for pod in members.values() if pod.waits]
    workloads = objects.of_kind(kinds.KUEUE_WORKLOADS)
    gpu_resources = (*GPU_RESOURCES, *claims.gpus)
    devices = Devices(
        read_devices(objects.of_kind(kinds.DEVICES), diagnostics.problems),
        everywhere=any(pod.needs.share is not None for pod in waiting),
        diagnostics=diagnostics,
    )
    nodes = read_nodes(
        objects.nodes,
        Surroundings(by_node, paths, devices, claims.on_nodes, by_name),
        diagnostics,
    )
    count_use(
        queues,
        gangs,
        pods,
        members,
        workloads,
        kueue.queues,
        gpu_resources,
        nodes,
        diagnostics.problems,
    )

    # 3. The messages.
    templates = Templates(
        pending=waiting,
        running=(p for several in by_node.values() for p in several),
        movable=(pod for pod in members.values() if pod.node),
        watched=_watched(budgets, reservations),
        added=reservations.labels,
    )
    messages = GangMessages(
        gangs, pods, templates, priorities, queues, reservations, devices.given
    ).messages(diagnostics)
    if diagnostics.problems:
        raise InputError(dict.fromkeys(diagnostics.problems))
    diagnostics.warnings += queues.warnings()
    general = _warnings(objects, pods, gangs, by_node)
    diagnostics.warnings += [Problem("", "", "", text) for text in general]
    diagnostics.warnings += _preferred_in_vain(gangs, nodes)
    snapshot = v1.ClusterSnapshot(
        nodes=nodes,
        pods=templates.running_pods(),
        queues=queues.messages(),
        reservations=reservations.messages,
        disruption_budgets=[budget.message() for budget in budgets],
    )
    if moment is not None:
        snapshot.as_of.FromDatetime(moment)
    request = v1.ComputePlacementRequest(snapshot=snapshot, gangs=messages)
    if claims.gpus:
        request.policy.gpu_resources.extend(gpu_resources)
    told = tuple(dict.fromkeys(diagnostics.warnings))
    return Translation(request, told, _parts(gangs), devices.groups, paths.own)


def _moment(objects: Objects, as_of: datetime | None) -> datetime | None:
    """What times count to; None where no object names any."""
    every = (one for several in objects.by_kind.values() for one in several)
    moment = as_of if as_of is not None else newest(every)
    if moment is not None and moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment


def _parts(gangs: Iterable[Gang]) -> Parts:
    """Gangs that are one in the request, by its name and the names of their groups there."""
    return {
        gang.resource_name: {
            group.name: part for group, part in zip(gang.groups, gang.parts, strict=True)
        }
        for gang in gangs
        if len(gang.parts) > 1
    }


def _make_workloads(
    objects: Objects,
    kueue: Kueue,
    volcano: VolcanoQueues,
    plain: bool,
    paths: LabelPaths,
    diagnostics: Diagnostics,
) -> Made:
    """The gangs and pods of workloads whose pods are not in the input."""
    problems = diagnostics.problems
    topologies = read_topologies(objects.of_kind(kinds.KUEUE_TOPOLOGIES), problems)
    claims = frozenset(one.key for one in objects.of_kind(kinds.VOLUME_CLAIMS))
    classes = read_workload_priorities(objects.of_kind(kinds.KUEUE_PRIORITIES), problems)
    made = Made(level_labels(topologies, paths), claims, classes, diagnostics.warnings)
    pods = objects.pods
    # Kueue's Workloads stand for the objects that own them.
    owned = owners_of_waiting(objects.of_kind(kinds.KUEUE_WORKLOADS))

    def others(kind: kinds.Kind) -> list[Object]:
        return [one for one in objects.of_kind(kind) if (kind.name, *one.key) not in owned]

    for kind, make in _WORKLOADS.items():
        # Without workloads there is no need to know which pods exist already.
        if several := others(kind):
            make(several, pods, made, problems)
    if several := others(kinds.VOLCANO_JOBS):
        make_jobs(several, pods, volcano, made, problems)
    make_kueue_workloads(objects, kueue, made, diagnostics)
    for kind in kinds.PLAIN:
        several = others(kind)
        if plain:
            make_plain(several, pods, made, problems)
        elif several:
            text = f"{len(several)} left out: placementctl takes them for gangs with --plain-gangs"
            diagnostics.warnings.append(Problem("", f"{kind.name} ({kind.group})", "", text))
    return made


def _read_claims(objects: Objects, pods: Iterable[Object], diagnostics: Diagnostics) -> Claims:
    templates = objects.of_kind(kinds.RESOURCE_CLAIM_TEMPLATES)
    return read_claims(
        read_compute_domains(
            objects.of_kind(kinds.COMPUTE_DOMAINS), templates, diagnostics.problems
        ),
        objects.of_kind(kinds.RESOURCE_CLAIMS),
        templates,
        objects.of_kind(kinds.DEVICE_CLASSES),
        read_slices(
            objects.of_kind(kinds.RESOURCE_SLICES),
            {node.name for node in objects.nodes},
            diagnostics,
        ),
        claim_users(pods),
        diagnostics,
    )


def _read_pods(
    objects: Objects,
    everyone: tuple[Object, ...],
    claims: Claims,
    diagnostics: Diagnostics,
    *,
    by_name: bool,
) -> dict[Key, Pod]:
    volumes = read_volumes(
        objects.of_kind(kinds.VOLUME_CLAIMS),
        objects.of_kind(kinds.VOLUMES),
        objects.of_kind(kinds.STORAGE_CLASSES),
        everyone,
        diagnostics.problems,
    )
    namespaces = read_namespaces(
        objects.of_kind(kinds.NAMESPACES), {one.namespace for one in everyone}, diagnostics.problems
    )
    return read_pods(
        everyone,
        PodSpecReader(namespaces),
        NeedsReader(volumes, claims, by_name=by_name),
        read_bind_requests(
            objects.of_kind(kinds.KAI_BIND_REQUESTS),
            {one.key for one in everyone},
            diagnostics,
        ),
        diagnostics.problems,
    )


def _read_gangs(
    objects: Objects,
    expansion: Expansion,
    made: Made,
    volcano: VolcanoQueues,
    pods: Mapping[Key, Pod],
    paths: LabelPaths,
    diagnostics: Diagnostics,
) -> list[Gang]:
    """The gangs of all kinds; a pod is in the first that has it."""
    problems = diagnostics.problems
    gangs = read_pod_gangs((*objects.pod_gangs, *expansion.pod_gangs), problems)
    gangs += made.gangs
    label_tiers(
        objects.of_kind(kinds.HYPER_NODES),
        {one.name: labels for one, labels in zip(objects.nodes, paths.nodes, strict=True)},
        paths,
        diagnostics,
    )
    taken = _owners(gangs)
    kai, changed = read_kai_gangs(
        objects.of_kind(kinds.KAI_POD_GROUPS),
        pods,
        read_topologies(objects.of_kind(kinds.KAI_TOPOLOGIES), problems),
        paths,
        taken,
        diagnostics,
    )
    gangs = [changed.get(gang.key, gang) for gang in gangs] + kai
    gangs += read_koordinator_gangs(
        (
            *objects.of_kind(kinds.KOORDINATOR_POD_GROUPS),
            *objects.of_kind(kinds.COSCHEDULING_POD_GROUPS),
        ),
        pods,
        read_layers(objects.of_kind(kinds.NETWORK_TOPOLOGIES), diagnostics),
        paths,
        _owners(gangs),
        diagnostics,
    )
    gangs += read_native_gangs(
        objects.of_kind(kinds.NATIVE_POD_GROUPS),
        objects.of_kind(kinds.NATIVE_WORKLOADS),
        pods,
        _owners(gangs),
        problems,
    )
    gangs += read_volcano_gangs(
        objects.of_kind(kinds.VOLCANO_POD_GROUPS), pods, _owners(gangs), volcano, problems
    )
    first: dict[Key, Gang] = {}
    for gang in gangs:
        other = first.setdefault(gang.key, gang)
        if other is not gang:
            problems.append(gang.object.problem("", f"is also the name of {other.object}"))
    return list(first.values())


def _owners(gangs: Iterable[Gang]) -> dict[Key, Gang]:
    return {key: gang for gang in gangs for group in gang.groups for key in group.pods}


def _watched(
    budgets: Iterable[Budget], reservations: Reservations
) -> Iterable[tuple[str, LabelSelector]]:
    for budget in budgets:
        if budget.selector is not None:
            yield budget.namespace, budget.selector
    for selector in reservations.selectors:
        yield "", selector


def _warnings(
    objects: Objects,
    pods: Mapping[Key, Pod],
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
    away = [one for one in objects.of_kind(kinds.DEVICES) if one.name not in known]
    if away and objects.nodes:
        several = "s" if len(away) > 1 else ""
        text = f"{len(away)} Device{several} of nodes that are not in the input, first {away[0]}"
        result.append(text)
    if lost and objects.nodes:
        result.append(
            f"{_count(lost, 'running')} on nodes that are not in the input, first {lost[0]} on"
            f" {lost[0].node}"
        )
    return result


def _preferred_in_vain(gangs: Iterable[Gang], nodes: Sequence[v1.Node]) -> Iterator[Problem]:
    """Levels that gangs prefer and no node has; one that is required is told with the answer."""
    known = {label for node in nodes for label in node.labels}
    first: dict[str, Gang] = {}
    for gang in gangs:
        for scope in gang.scopes:
            if nodes and scope.preferred_level and scope.preferred_level not in known:
                first.setdefault(scope.preferred_level, gang)
    for level, gang in first.items():
        yield gang.object.problem("", f"prefers the level {level}, which no node has")


def _count(pods: Sized, state: str = "waiting") -> str:
    return f"{len(pods)} {state} pod{'s' if len(pods) > 1 else ''}"
