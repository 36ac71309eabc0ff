"""Which devices each pod gets, once it is settled which pods a node gets.

The largest first: a pod of whole GPUs gets the free partition of its size inside the
smallest wholly free partition that holds one. That keeps the most of every size: taking
from a block of size u costs one block of each size up to u, and the least u costs least.
Where no partition of its size is free and the node does not insist, it gets free devices,
again out of the smallest free partitions. Shares go to the fullest device that has room.

Source of the rule: the partitions of an NVSwitch board nest, and so do binary buddies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from placement_service.entities.devices import PartitionPolicy
from placement_service.entities.request import Binding, Node, PodTemplate, Policy, Snapshot
from placement_service.formulation.devices import WHOLE, left_of, milli_of, nested


def name_devices(
    snapshot: Snapshot, policy: Policy, bindings: Sequence[Binding]
) -> tuple[Binding, ...]:
    """The bindings with devices, in the same order.

    Raises ValueError when the devices of a node do not hold its pods: a defect of the engine.
    """
    columns = snapshot.columns
    with_devices = np.flatnonzero(columns.parts.where(lambda parts: parts.devices)).tolist()
    nodes = {columns.names[n]: n for n in with_devices}
    if not nodes:
        return tuple(bindings)
    template_of = {
        pod.name: s.template
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
        for pod in s.pods
    }
    here: defaultdict[str, list[str]] = defaultdict(list)
    for b in bindings:
        if b.node in nodes:
            here[b.node].append(b.pod)
    given: dict[str, tuple[int, ...]] = {}
    for name, pods in here.items():
        board = _Board(columns[nodes[name]], policy)
        given.update(board.give({pod: template_of[pod] for pod in pods}))
    return tuple(replace(b, devices=given.get(b.pod, ())) for b in bindings)


class _Board:
    """The devices of one node while they are given out."""

    def __init__(self, node: Node, policy: Policy) -> None:
        self._node = node
        self._policy = policy
        self._left = {d.index: left_of(d) for d in node.devices}
        self._memory = {d.index: d.memory_bytes for d in node.devices}
        table = tuple(sorted({tuple(sorted(p.devices)) for p in node.partitions}))
        self._insists = node.partition_policy is PartitionPolicy.HONOR and bool(table)
        # Pods of a node that insists were counted by partitions that nest.
        self._partitions = [frozenset(p) for p in (nested(table) if self._insists else table)]

    def give(self, pods: Mapping[str, PodTemplate]) -> dict[str, tuple[int, ...]]:
        """Devices for each pod that asks for some."""
        wholes = [
            (self._policy.whole_gpus(t.requests), name)
            for name, t in pods.items()
            if t.device_share is None
        ]
        given = {
            name: self._whole(count, name)
            for count, name in sorted(wholes, key=lambda w: (-w[0], w[1]))
            if count
        }
        shares = [(name, t) for name, t in pods.items() if t.device_share is not None]
        for name, template in sorted(shares, key=lambda s: (-self._size(s[1]), s[0])):
            given[name] = self._share(template, name)
        return given

    def _free(self) -> frozenset[int]:
        return frozenset(i for i, left in self._left.items() if left == WHOLE)

    def _whole(self, count: int, pod: str) -> tuple[int, ...]:
        free = self._free()
        fitting = [p for p in self._partitions if len(p) == count and p <= free]
        if fitting:
            chosen = min(fitting, key=lambda p: (self._block(p, free), sorted(p)))
        elif self._insists or len(free) < count:
            raise ValueError(f"{self._node.name} has no {count} devices for {pod}")
        else:
            chosen = frozenset(self._smallest_first(free)[:count])
        for i in chosen:
            self._left[i] = 0
        return tuple(sorted(chosen))

    def _block(self, part: frozenset[int], free: frozenset[int]) -> int:
        """The size of the largest wholly free partition around some devices."""
        return max((len(p) for p in self._partitions if part <= p <= free), default=len(part))

    def _smallest_first(self, free: frozenset[int]) -> list[int]:
        return sorted(free, key=lambda i: (self._block(frozenset((i,)), free), i))

    def _size(self, template: PodTemplate) -> int:
        share = template.device_share
        assert share is not None
        return max(milli_of(share, memory) for memory in self._memory.values())

    def _share(self, template: PodTemplate, pod: str) -> tuple[int, ...]:
        share = template.device_share
        assert share is not None
        takes = {i: milli_of(share, memory) for i, memory in self._memory.items()}
        free = self._free()
        able = [i for i, left in self._left.items() if left >= takes[i]]
        # The fullest first; of free ones those out of the smallest partitions.
        turn = {i: k for k, i in enumerate(self._smallest_first(free))}
        able.sort(key=lambda i: (self._left[i] - takes[i], turn.get(i, 0), i))
        if len(able) < share.count:
            raise ValueError(f"{self._node.name} has no {share.count} devices for {pod}")
        chosen = able[: share.count]
        for i in chosen:
            self._left[i] -= takes[i]
        return tuple(sorted(chosen))
