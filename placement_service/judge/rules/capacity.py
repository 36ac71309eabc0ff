"""Capacity: what is free on a node, what others hold there, and what victims leave.

A node's room is what it can allocate, less what runs there and what its
reservations still hold. Evicted pods give back what they held, those in a
reservation to it. Not every gang may use what a victim leaves: see
`what_a_victim_leaves_serves_those_above_it`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.entities.nodes import Bools
from placement_service.entities.request import EPHEMERAL_STORAGE, Node
from placement_service.judge.outcome import EvictedPod, NewPod
from placement_service.judge.plan import Plan
from placement_service.judge.rules.devices import whole_devices_beyond
from placement_service.judge.rules.reservations import still_held
from placement_service.judge.rules.rights import Rights

Amounts = Counter[str]

#: No sum in 64 bits is larger.
LARGEST = 2**62

#: More kinds of rights than meet on a node.
MOST_UNIONS = 256


def nodes_are_not_overfilled(plan: Plan) -> Iterator[str]:
    """New pods ask for no more than what a node has left."""
    for node, pods in plan.new_on(_suspects(plan)):
        for short in _shortages(plan, node, pods, plan.evicted_by_node.get(node.name, ())):
            yield (
                f"node {node.name}: {short.pods} new pods ask for {short.asked} {short.resource}, "
                f"{short.free} are free{_words(short)}"
            )


def what_a_victim_leaves_serves_those_above_it(plan: Plan) -> Iterator[str]:
    """Room of a preempted pod is for gangs that may preempt it, that of a reclaimed pod also for
    those that may reclaim it, on its node.

    For any victims, the pods that may use the room of no others have what was free and what these
    left. This says it all (Hall): room can be divided so that nobody gets what it may not use.
    """
    if not plan.evicted:
        return
    rights = Rights(plan)
    for node, pods in plan.new_by_node:
        leaving = plan.evicted_by_node.get(node.name, ())
        if all(v.moves for v in leaving):
            continue
        gangs = {pod.gang.name: pod.gang for pod in pods}
        mine = {
            name: frozenset(i for i, v in enumerate(leaving) if rights.may_use(gang, v))
            for name, gang in gangs.items()
        }
        for some in _unions(mine.values()):
            if len(some) == len(leaving):
                continue
            asking = [pod for pod in pods if mine[pod.gang.name] <= some]
            gone = [leaving[i] for i in sorted(some)]
            names = ", ".join(dict.fromkeys(pod.gang.name for pod in asking))
            for short in _shortages(plan, node, asking, gone):
                yield (
                    f"node {node.name}: pods of {names} ask for {short.asked} {short.resource}, "
                    f"{short.free} are free for them{_words(short)}; the rest is room of victims "
                    "that they may not use"
                )
            # Others may use parts of devices that are no such resource.
            beyond = whole_devices_beyond(plan, node, asking, gone)
            if beyond:
                yield (
                    f"node {node.name}: pods of {names} get {beyond} more whole devices than are "
                    "free for them; the rest is room of victims that they may not use"
                )


def _unions(sets: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """All unions of some sets, as many as are looked at."""
    found = dict.fromkeys(sorted(set(sets), key=sorted))
    for one in tuple(found):
        found |= dict.fromkeys(one | other for other in tuple(found)[:MOST_UNIONS])
    return list(found)


def _suspects(plan: Plan) -> Bools:
    """Nodes [N] that may be overfilled: all that are, and those where more than room counts."""
    outcome, question = plan.outcome, plan.outcome.question
    nodes = question.nodes
    suspects = np.zeros(len(nodes), dtype=bool)
    others = (*plan.reservations_by_node, *plan.evicted_by_node)
    suspects[[nodes.row_of[name] for name in others if name in nodes.row_of]] = True
    names = {resource for template in plan.templates for resource in template.requests}
    for resource in names:
        asks = [template.requests.get(resource, 0) for template in question.templates]
        if max(asks) * len(outcome.set_of_new) > LARGEST:
            # The sums would not fit into 64 bits.
            suspects[outcome.node_of_new] = True
            continue
        take = np.array(asks, dtype=np.int64)[question.template_of_set[outcome.set_of_new]]
        asked = np.zeros(len(nodes), dtype=np.int64)
        np.add.at(asked, outcome.node_of_new, take)
        total = nodes.allocatable.numbers(lambda amounts: amounts.get(resource, 0))  # noqa: B023
        free = total - nodes.requested.get(resource, 0)
        if resource == EPHEMERAL_STORAGE:
            free = np.where(total == 0, LARGEST, free)
        suspects |= (asked > 0) & (asked > free)
    return suspects


class _Shortage(NamedTuple):
    pods: int
    resource: str
    asked: int
    free: float
    held: int


def _words(short: _Shortage) -> str:
    return f", of which reservations hold {short.held} for others" if short.held else ""


def _shortages(
    plan: Plan, node: Node, pods: Sequence[NewPod], leaving: Sequence[EvictedPod]
) -> Iterator[_Shortage]:
    """Resources of which pods ask for more than a node has, once `leaving` have gone."""
    asked = _sum(pod.template.requests for pod in pods)
    reservations = plan.reservations_by_node.get(node.name, ())
    known = {"", *(reservation.name for reservation in reservations)}
    back = _sum(v.leaves for v in leaving if v.pod.reservation in known)
    held = _sum(still_held(plan, reservation, pods, leaving) for reservation in reservations)
    heeding = asked
    if held:
        heeding = _sum(p.template.requests for p in pods if not p.template.ignores_reservations)
    for resource, amount in sorted(asked.items()):
        free = _free(node, resource) + back[resource]
        if amount > 0 and amount > free:
            yield _Shortage(len(pods), resource, amount, free, 0)
        elif heeding[resource] > 0 and heeding[resource] > free - held[resource]:
            yield _Shortage(len(pods), resource, heeding[resource], free, held[resource])


def _free(node: Node, resource: str) -> float:
    """What the pods on a node leave of a resource.

    Kubernetes does not limit ephemeral storage on a node that reports none.
    """
    total = node.allocatable.get(resource, 0)
    if resource == EPHEMERAL_STORAGE and not total:
        return float("inf")
    return total - node.requested.get(resource, 0)


def _sum(parts: Iterable[Mapping[str, int]]) -> Amounts:
    total: Amounts = Counter()
    for part in parts:
        for resource, amount in part.items():
            total[resource] += amount
    return total
