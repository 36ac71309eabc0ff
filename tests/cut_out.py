"""A question cut down to what a plan of it uses, so that the plan places everybody."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    Binding,
    Node,
    PodGang,
    Policy,
    Snapshot,
)
from tests.strategies import NOW


@dataclass(frozen=True, slots=True)
class Planned:
    """A question and a plan that keeps all its rules."""

    snapshot: Snapshot
    plan: tuple[Binding, ...]


def cut_out(rng: random.Random, question: Planned) -> Planned:
    """What a plan uses of its question: the same plan then places all there is.

    Gangs that are left out go, and so do pods that wait. What is free on nodes besides
    goes here and there, extras become part of the minimum in some.
    """
    snapshot, plan = question.snapshot, question.plan
    where = {b.pod: b.node for b in plan}
    placed = {b.gang for b in plan}
    stays = [g for g in snapshot.gangs if g.name in placed or not g.is_pending]
    names = {gang.name for gang in stays}
    firm = rng.random() < 0.3
    gangs = []
    for gang in stays:
        groups = []
        for group in gang.groups:
            pod_sets = (
                replace(s, pods=tuple(pod for pod in s.pods if pod.name in where))
                for s in group.pod_sets
            )
            group = replace(group, pod_sets=tuple(s for s in pod_sets if s.pods))
            if firm and gang.is_pending:
                count = group.running_count + group.pending_count
                group = replace(group, min_replicas=count)
            groups.append(group)
        base = gang.base_gang if gang.base_gang in names else ""
        gangs.append(replace(gang, groups=tuple(groups), base_gang=base))
    used: dict[str, Counter[str]] = {node.name: Counter() for node in snapshot.nodes}
    for gang in gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                for pod in s.pods:
                    used[where[pod.name]].update(s.template.requests)
    tight = rng.choice((0.0, 0.5, 1.0, 1.0))
    nodes = tuple(_tightened(rng, node, used[node.name], tight) for node in snapshot.nodes)
    queues = _at_their_limits(rng, snapshot.queues, gangs) if snapshot.queues else ()
    return Planned(
        Snapshot(nodes, tuple(gangs), snapshot.running_pods, as_of=NOW, queues=queues), plan
    )


def _at_their_limits(
    rng: random.Random, queues: Sequence[Queue], gangs: Iterable[PodGang]
) -> tuple[Queue, ...]:
    """Queues some of whose limits are what runs and all that waits."""
    asked: dict[str, Counter[str]] = {queue.name: Counter(queue.used) for queue in queues}
    for gang in gangs:
        for group in gang.groups:
            for s in group.pod_sets if gang.queue in asked else ():
                requests = s.template.requests
                for _ in s.pods:
                    asked[gang.queue].update({**requests, GPUS: Policy().gpus(requests)})
    # What is above comes first in `queues`.
    for queue in reversed(queues):
        if queue.parent:
            asked[queue.parent].update(asked[queue.name])
    return tuple(
        replace(
            q, limit={r: asked[q.name][r] if rng.random() < 0.7 else a for r, a in q.limit.items()}
        )
        for q in queues
    )


def _tightened(rng: random.Random, node: Node, used: Counter[str], chance: float) -> Node:
    """The node with nothing to spare of some resources."""
    taken = {
        r: amount - used[r]
        for r, amount in node.allocatable.items()
        if node.free(r) >= 0 and rng.random() < chance
    }
    return replace(node, requested={**node.requested, **taken})
