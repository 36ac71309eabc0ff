"""Gangs that run and may give way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from placement_service.entities.eviction import DisruptionBudget
from placement_service.entities.queues import Queue
from placement_service.entities.request import (
    HOSTNAME,
    PODS,
    BoundPod,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    RunningPod,
    Snapshot,
)
from placement_service.entities.selectors import LabelSelector
from tests.strategies.devices import with_devices, with_served_domains
from tests.strategies.nodes import host_ports
from tests.strategies.pods import affinity_terms, spread_constraints
from tests.strategies.queues import in_a_queue, memberships, queue_trees
from tests.strategies.words import APPS, FULL, GPU, NAMESPACE, NOW, Size, rarely, with_sets

#: Whom evictions spare, and why: a gang's fields.
protections: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.just({}),
    st.just({}),
    st.just({"not_preemptible": True}),
    st.just({"never_preempts": True}),
    st.builds(lambda ran: {"start": NOW - ran, "minimum_run_time": 60}, st.sampled_from([10, 100])),
    st.just({"start": NOW - 10, "minimum_run_time_before_reclaim": 20}),
)


@st.composite
def with_told_pods(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """The pods that run in pod sets are on their nodes, which have room for them."""
    requested = {node.name: dict(node.requested) for node in snapshot.nodes}
    for bound, template in _told(snapshot):
        for resource, amount in template.requests.items():
            here = requested[bound.node]
            here[resource] = here.get(resource, 0) + amount
    ports = {node.name: dict.fromkeys(node.host_ports) for node in snapshot.nodes}
    if not draw(rarely):
        for bound, template in _told(snapshot):
            ports[bound.node] |= dict.fromkeys(template.host_ports)
    nodes = []
    for node in snapshot.nodes:
        here = requested[node.name]
        grown = {r: max(node.allocatable.get(r, 0), n) for r, n in here.items()}
        room = {**node.allocatable, **grown}
        there = tuple(ports[node.name])
        nodes.append(replace(node, requested=here, allocatable=room, host_ports=there))
    selector = LabelSelector((("app", draw(st.sampled_from(APPS))),))
    budget = DisruptionBudget(
        f"namespaces/{NAMESPACE}/poddisruptionbudgets/b", selector, draw(st.integers(0, 2))
    )
    return replace(
        snapshot,
        nodes=tuple(nodes),
        gangs=tuple(replace(gang, **draw(protections)) for gang in snapshot.gangs),
        as_of=NOW,
        disruption_budgets=(budget,) if draw(rarely) else (),
    )


@st.composite
def full_clusters(draw: st.DrawFn, size: Size = FULL) -> Snapshot:
    """Nodes of four GPUs, mostly full of gangs that may give way, and gangs that want in."""
    nodes = [
        Node(
            f"nodes/n{i}",
            {HOSTNAME: f"n{i}", "rack": f"r{i // 2}"},
            {GPU: 4, PODS: 110},
        )
        for i in range(draw(st.integers(1, size.nodes)))
    ]
    running: dict[tuple[int, int], list[BoundPod]] = {}
    for node in nodes:
        left = draw(st.sampled_from([4, 4, 4, 3, 2, 2]))
        while left:
            gang = draw(st.integers(0, 1))
            gpus = draw(st.sampled_from([g for g in (1, 2, 4) if g <= left]))
            pods = running.setdefault((gang, gpus), [])
            name = f"namespaces/{NAMESPACE}/pods/old{gang}-{gpus}-{len(pods)}"
            pods.append(BoundPod(name, node.name))
            left -= gpus
    gangs = []
    for gang in sorted({gang for gang, _ in running}):
        sets = tuple(
            PodSet(_asks(gpus), (), tuple(pods))
            for (mine, gpus), pods in sorted(running.items())
            if mine == gang
        )
        count = sum(len(s.bound_pods) for s in sets)
        minimum = draw(st.one_of(st.just(count), st.integers(0, count)))
        gangs.append(_one_group(f"old{gang}", minimum, sets, draw(st.integers(0, 1))))
    pods_left = size.pods
    for index in range(draw(st.integers(1, size.gangs))):
        count = draw(st.integers(1, max(1, pods_left)))
        pods_left -= count
        names = (f"namespaces/{NAMESPACE}/pods/new{index}-{i}" for i in range(count))
        waiting = (PodSet(_asks(draw(st.sampled_from([1, 2, 4]))), tuple(map(Pod, names))),)
        minimum = draw(st.one_of(st.just(count), st.integers(1, count)))
        gangs.append(_one_group(f"new{index}", minimum, waiting, draw(st.integers(0, 2))))
        if pods_left <= 0:
            break
    queues: tuple[Queue, ...] = ()
    if draw(st.booleans()):
        queues = draw(queue_trees())
        gangs = [in_a_queue(gang, *draw(memberships)) for gang in gangs]
    snapshot = Snapshot(tuple(nodes), tuple(gangs), queues=queues)
    if draw(st.booleans()):
        snapshot = draw(with_rules_between_pods(snapshot))
    snapshot = draw(with_told_pods(snapshot))
    return draw(with_devices(snapshot)) if draw(st.booleans()) else snapshot


@st.composite
def with_rules_between_pods(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """Some pod sets have a host port or a rule about other pods; all that runs is listed."""
    ruled = {
        id(s): draw(_rules_of(s))
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
    }
    gangs = with_sets(snapshot, lambda s: replace(s, template=replace(s.template, **ruled[id(s)])))
    ruled_snapshot = replace(snapshot, gangs=gangs)
    ruled_snapshot = draw(with_served_domains(ruled_snapshot))
    running = tuple(
        RunningPod(bound.name, bound.node, template.labels, template.required_anti_affinity)
        for bound, template in _told(ruled_snapshot)
    )
    return replace(ruled_snapshot, running_pods=running)


def _rules_of(pod_set: PodSet) -> st.SearchStrategy[dict[str, Any]]:
    """Of pods that share nodes rarely any: most rules keep them apart."""
    nodes = [pod.node for pod in pod_set.bound_pods]
    crowded = len(set(nodes)) < len(nodes)
    return rarely.flatmap(lambda any_rule: _rules if any_rule or not crowded else st.just({}))


_rules: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.builds(lambda port: {"host_ports": (port,)}, host_ports),
    st.builds(lambda term: {"required_anti_affinity": (term,)}, affinity_terms),
    st.builds(lambda term: {"required_affinity": (term,)}, affinity_terms),
    st.builds(lambda domain: {"compute_domain": domain}, st.sampled_from("de")),
    st.builds(lambda spread: {"spread_constraints": (spread,)}, spread_constraints),
)


def _told(snapshot: Snapshot) -> Iterator[tuple[BoundPod, PodTemplate]]:
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                for bound in pod_set.bound_pods:
                    yield bound, pod_set.template


def _asks(gpus: int) -> PodTemplate:
    return PodTemplate({GPU: gpus, PODS: 1}, {"app": "a" if gpus == 1 else "b"})


def _one_group(name: str, minimum: int, sets: tuple[PodSet, ...], priority: int) -> PodGang:
    return PodGang(
        f"namespaces/{NAMESPACE}/podgangs/{name}", (PodGroup("w", minimum, sets),), priority
    )
