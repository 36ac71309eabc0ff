"""Whole questions."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.queues import Queue
from placement_service.entities.request import CPU, PodGang, Snapshot
from tests.strategies.devices import with_compute_domains, with_devices
from tests.strategies.gangs import gangs_of, with_bases
from tests.strategies.nodes import clusters
from tests.strategies.pods import running_pods
from tests.strategies.queues import in_a_queue, memberships, queue_trees
from tests.strategies.running import with_told_pods
from tests.strategies.words import BETWEEN_PODS, EVERYTHING, GPU, NOW, TINY, Feature, Size


@st.composite
def snapshots(
    draw: st.DrawFn, size: Size = TINY, features: frozenset[Feature] = EVERYTHING
) -> Snapshot:
    """Snapshots with at least one node and one gang."""
    # Each example has its own selection, so that features also occur alone and shrink away.
    chosen = frozenset(f for f in sorted(features, key=lambda f: f.value) if draw(st.booleans()))
    nodes = draw(clusters(size, chosen))
    gangs: list[PodGang] = []
    pods_left = size.pods
    for index in range(draw(st.integers(1, size.gangs))):
        gang = draw(gangs_of(index, size, chosen, nodes, pods_left))
        pods_left -= sum(group.pending_count for group in gang.groups)
        gangs.append(gang)
    if Feature.BASES in chosen:
        gangs = with_bases(gangs, draw(st.sets(st.integers(1, size.gangs))))
    running = draw(running_pods(nodes, gangs)) if chosen & BETWEEN_PODS else ()
    now = NOW if Feature.AGES in chosen else None
    queues: tuple[Queue, ...] = ()
    if Feature.QUEUES in chosen:
        queues = draw(queue_trees())
        gangs = [in_a_queue(gang, *draw(memberships)) for gang in gangs]
    snapshot = Snapshot(nodes, tuple(gangs), running, as_of=now, queues=queues)
    if Feature.TOLD in chosen:
        snapshot = draw(with_told_pods(snapshot))
    if Feature.COMPUTE_DOMAINS in chosen:
        snapshot = draw(with_compute_domains(snapshot))
    return draw(with_devices(snapshot)) if Feature.DEVICES in chosen else snapshot


@st.composite
def with_more_room(draw: st.DrawFn, questions: st.SearchStrategy[Snapshot]) -> Snapshot:
    """Questions with more room, and with gangs that nothing but room and rules keeps out."""
    snapshot = draw(questions)
    queues = {queue.name for queue in snapshot.queues}
    nodes = []
    for node in snapshot.nodes:
        there = {**node.allocatable, CPU: 4 * node.allocatable.get(CPU, 0)}
        if not node.devices:
            there[GPU] = max(there.get(GPU, 0), draw(st.sampled_from([0, 2, 4, 8])))
        nodes.append(replace(node, allocatable=there))
    gangs = []
    for gang in snapshot.gangs:
        groups = (
            replace(g, min_replicas=min(g.min_replicas, g.running_count + g.pending_count))
            for g in gang.groups
        )
        queue = gang.queue if gang.queue in queues else ""
        gangs.append(
            replace(gang, groups=tuple(groups), queue=queue, uninitialized=False, unsupported=())
        )
    return replace(snapshot, nodes=tuple(nodes), gangs=tuple(gangs))
