"""Nodes where more is used than they have: one that lost a GPU under its pods, say.

Of what pods hold there, less comes free than they hold. So where one gang alone may give way there,
and only as a whole, its pods hold as much less as the node lacks: the node is just full, and what
it has once they have gone is the same. Where several may go one after another, what comes free
depends on who else has gone. There they leave nothing of what the node lacks, which is stricter
than it is.

Nodes that hold room for owners or list their devices stay overbooked, and so do those that have
lost all of one kind of GPUs, but not of another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placement_service.entities.request import (
    PODS,
    BoundPod,
    PodGang,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.arrays import Bools
from placement_service.formulation.open_gangs import has_extras


class NotOverbooked(NamedTuple):
    """A snapshot with less held on some nodes, and the names of the gangs of which too little
    comes free.
    """

    snapshot: Snapshot
    losing: frozenset[str]


def without_overbooking(snapshot: Snapshot, policy: Policy) -> NotOverbooked:
    """The snapshot in which pods on overbooked nodes hold what comes free when they go."""
    nodes = snapshot.columns
    free = {r: nodes.free(r) for r in nodes.requested}
    over = np.zeros(len(nodes), dtype=bool)
    for amounts in free.values():
        over |= amounts < 0
    over &= ~_others(snapshot, policy)
    if not over.any():
        return NotOverbooked(snapshot, frozenset())
    lacks = {
        nodes.names[row]: {r: -int(amounts[row]) for r, amounts in free.items() if amounts[row] < 0}
        for row in np.flatnonzero(over).tolist()
    }
    here: defaultdict[str, set[int]] = defaultdict(set)
    for i, gang in enumerate(snapshot.gangs):
        for group in () if gang.not_preemptible else gang.groups:
            for s in group.pod_sets:
                for pod in s.bound_pods:
                    here[pod.node].add(i)
    alone = {
        name
        for name in lacks
        if len(here[name]) == 1 and not has_extras(snapshot.gangs[next(iter(here[name]))])
    }
    left = {name: dict(lacks[name]) for name in alone}
    gangs = list(snapshot.gangs)
    losing: set[str] = set()
    for name in lacks:
        for i in here[name]:
            gangs[i] = _holding_less(gangs[i], name, lacks[name], left.get(name))
            if name not in alone:
                losing.add(gangs[i].name)
    requested = {
        r: nodes.requested[r] + np.where(over, np.minimum(amounts, 0), 0)
        for r, amounts in free.items()
    }
    return NotOverbooked(
        replace(snapshot, nodes=replace(nodes, requested=requested), gangs=tuple(gangs)),
        frozenset(losing),
    )


def _others(snapshot: Snapshot, policy: Policy) -> Bools:
    """The nodes that stay overbooked [N]."""
    nodes = snapshot.columns
    listing = np.array([bool(kind.devices) for kind in nodes.parts.kinds], dtype=np.bool_)
    others: Bools = listing[nodes.parts.number]
    rows = (nodes.row_of.get(one.node) for one in snapshot.reservations)
    others[[row for row in rows if row is not None]] = True
    # What is used tells whether a node is wholly free.
    gpus = nodes.allocatable.where(lambda kind: policy.gpus(kind) > 0)
    for r, used in nodes.requested.items():
        if r == PODS or policy.gpus({r: 1}):
            others |= (used > 0) & (nodes.free(r) == -used) & (gpus | (r == PODS))
    return others


def _holding_less(
    gang: PodGang, node: str, lacks: Mapping[str, int], left: dict[str, int] | None
) -> PodGang:
    """The gang whose pods on a node hold nothing of what it lacks, or only `left` less in all."""

    def less(pod: BoundPod, template: PodTemplate) -> BoundPod:
        held = dict(pod.holds(template))
        for resource in lacks:
            amount = held.get(resource, 0)
            taken = amount if left is None else min(amount, left[resource])
            if left is not None:
                left[resource] -= taken
            if taken:
                held[resource] = amount - taken
        return replace(pod, held=held)

    groups = (
        replace(
            group,
            pod_sets=tuple(
                replace(
                    s,
                    bound_pods=tuple(
                        less(p, s.template) if p.node == node else p for p in s.bound_pods
                    ),
                )
                for s in group.pod_sets
            ),
        )
        for group in gang.groups
    )
    return replace(gang, groups=tuple(groups))
