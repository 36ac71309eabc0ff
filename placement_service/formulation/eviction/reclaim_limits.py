"""How much may run in a queue for which gangs reclaim, whichever of them do.

Those that reclaim for a queue stay together within its guarantee, and so do those that reclaim
for the queues above it. All others have free room, or that of gangs of lower priority. So what runs
in a queue is at most what runs there now, what it and the queues above it lack, and that room. As
limits of queues this keeps bounds from letting each gang reclaim as if it were the only one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from placement_service.entities.queues import GPUS, MILLIGPUS, Queue, in_millis
from placement_service.entities.request import PodGang, PodTemplate, Policy, Snapshot
from placement_service.formulation.eviction_rights import EvictionRights

_WHOLE: Final = 1000


def with_reclaim_limits(snapshot: Snapshot, policy: Policy, rights: EvictionRights) -> Snapshot:
    """The snapshot with these limits; `rights` are those of each gang alone."""
    if not rights.in_turn or any(t.device_share is not None for t in _templates(snapshot)):
        # Shares of GPUs may lie where no whole GPU is free.
        return snapshot
    above: dict[str, set[str]] = {}
    for gang in snapshot.gangs:
        if any(group.pending_count for group in gang.groups):
            for name in rights.guarantees.way(gang.queue):
                above.setdefault(name, set()).add(gang.name)
    free = _WHOLE * _free_gpus(snapshot, policy)
    waiting = {gang.name: gang for gang in snapshot.gangs}
    queues = []
    for queue in snapshot.queues:
        names = above.get(queue.name)
        if not names or not rights.guarantees.lacks(queue.name):
            queues.append(queue)
            continue
        most = max(waiting[name].priority for name in names)
        lacking = sum(rights.guarantees.lacks(queue.name).values())
        below = sum(_running_gpus(g, rights) for g in snapshot.gangs if g.priority < most)
        limit = rights.guarantees.used[queue.name] + lacking + free + below
        queues.append(_limited(queue, limit))
    return replace(snapshot, queues=tuple(queues))


def _limited(queue: Queue, limit: int) -> Queue:
    if in_millis(queue.limit).get(GPUS, limit) < limit:
        return queue
    whole, parts = divmod(limit, _WHOLE)
    return replace(queue, limit={**queue.limit, GPUS: whole, MILLIGPUS: parts})


def _running_gpus(gang: PodGang, rights: EvictionRights) -> int:
    if gang.not_preemptible:
        return 0
    sets = (s for group in gang.groups for s in group.pod_sets)
    return sum(rights.guarantees.gpus(s.template) * len(s.bound_pods) for s in sets)


def _free_gpus(snapshot: Snapshot, policy: Policy) -> int:
    """Those that are free on any node or held by reservations."""
    nodes = snapshot.columns
    there = np.array([policy.gpus(kind) for kind in nodes.allocatable.kinds], dtype=np.int64)
    free = there[nodes.allocatable.number] if len(nodes) else there
    for name, amounts in nodes.requested.items():
        free = free - amounts * policy.gpus({name: 1})
    held = sum(policy.gpus(one.held) for one in snapshot.reservations)
    return int(np.maximum(free, 0).sum()) + held


def _templates(snapshot: Snapshot) -> Iterator[PodTemplate]:
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pods in group.pod_sets:
                yield pods.template
