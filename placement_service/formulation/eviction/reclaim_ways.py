"""Gangs that may come in two ways where not all may reclaim that would: reclaiming, or without.

`eviction_rights` says by turns who reclaims. A small question is asked once more (`Problem.again`),
in which each such gang is in the problem a second time, behind the others, the other way round, and
one of the two is placed at most. What all that reclaim for a queue get stays within what it lacks:
that is one more row of the queue.

Left out are gangs of which pods run, those on which others are based, which would be based on
either of two, and those that could reclaim for several queues. They reclaim by turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import gcd
from typing import Final

import numpy as np

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.queues import GPUS
from placement_service.entities.request import PodGang, PodTemplate, Policy, Snapshot
from placement_service.formulation.eviction.running_topology import running
from placement_service.formulation.eviction_rights import EvictionRights
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.open_gangs import (
    is_anew,
    is_otherwise,
    otherwise_name,
    whole_name,
)
from placement_service.formulation.rules.queues import Ask, QueueRow, least_memory, pod_amount

#: Gangs that come in two ways, and nodes, up to which that is looked at.
MOST_GANGS: Final = 20
MOST_NODES: Final = 200


def with_other_ways(snapshot: Snapshot, policy: Policy) -> Snapshot:
    """The snapshot with such gangs a second time, where they are few."""
    if policy.eviction is not EvictionPolicy.RECLAIM or len(snapshot.nodes) > MOST_NODES:
        return snapshot
    rights = EvictionRights(snapshot, policy, each_alone=True)
    # What gangs may use of listed devices is said by turns alone.
    if not rights.in_turn or any(parts.devices for parts, _ in snapshot.columns.parts.counts()):
        return snapshot
    bases = {gang.base_gang for gang in snapshot.gangs}
    again = tuple(
        replace(gang, name=otherwise_name(gang.name))
        for gang in snapshot.gangs
        if len(_gaining(gang, rights)) == 1
        and gang.name not in bases
        and not (is_anew(gang.name) or any(running(gang)))
    )
    few = 0 < len(again) <= MOST_GANGS
    return replace(snapshot, gangs=snapshot.gangs + again) if few else snapshot


def without_other_ways(snapshot: Snapshot) -> Snapshot:
    """The snapshot with each gang once."""
    return replace(
        snapshot, gangs=tuple(gang for gang in snapshot.gangs if not is_otherwise(gang.name))
    )


def all_come_both_ways(snapshot: Snapshot, rights: EvictionRights) -> bool:
    """Whether all gangs do for which it makes a difference; `rights` are those of each alone."""
    names = {gang.name for gang in snapshot.gangs}
    return all(
        otherwise_name(gang.name) in names
        for gang in snapshot.gangs
        if not is_otherwise(gang.name) and _gaining(gang, rights)
    )


def _gaining(gang: PodGang, rights: EvictionRights) -> frozenset[str]:
    if not any(group.pending_count for group in gang.groups):
        return frozenset()
    return rights.winner(gang).reclaims_for & rights.turn_queues(gang)


def rows(
    snapshot: Snapshot,
    policy: Policy,
    contents: Sequence[Sequence[tuple[PodTemplate, int]]],
    asks: Iterable[Ask],
) -> Iterator[QueueRow]:
    """What those that reclaim for a queue may get together; see `rules.queues.formulate`."""
    rights = EvictionRights(snapshot, policy, otherwise=True)
    twofold = {whole_name(gang.name) for gang in snapshot.gangs if is_otherwise(gang.name)}
    mine: defaultdict[str, list[Ask]] = defaultdict(list)
    for ask in asks:
        gang = snapshot.gangs[ask.gang]
        if whole_name(gang.name) in twofold:
            for queue in _gaining(gang, rights):
                mine[queue].append(ask)
    by_turns: defaultdict[str, int] = defaultdict(int)
    for gang in snapshot.gangs:
        if whole_name(gang.name) not in twofold and not is_anew(gang.name):
            for queue in _gaining(gang, rights):
                by_turns[queue] += rights.asked(gang).every
    memory = least_memory(snapshot.columns)
    take = tuple(sum(n * pod_amount(policy, t, GPUS, memory) for t, n in c) for c in contents)
    for queue, together in sorted(mine.items()):
        left = max(0, rights.guarantees.lacks(queue)[queue] - by_turns[queue])
        inside = {c for ask in together for c in ask.classes}
        measure = gcd(left, *(take[c] for c in inside)) or 1
        most = left // measure
        yield QueueRow(
            queue=queue,
            resource=GPUS,
            guaranteed=True,
            total=left,
            used=0,
            take=take,
            weight=np.array([min(n // measure, most + 1) for n in take], dtype=np.int64),
            capacity=most,
            gangs=frozenset(GangIdx(ask.gang) for ask in together),
        )
