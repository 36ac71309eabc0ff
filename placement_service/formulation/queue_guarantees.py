"""What queues are guaranteed, what runs in them, and how two of them are compared.

GPUs are counted in thousandths.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import PodTemplate, Policy, Snapshot
from placement_service.formulation.rules.queues import least_memory, pod_amount


class QueuePair(NamedTuple):
    """Two queues that are compared."""

    mine: str
    theirs: str


class QueueGuarantees:
    """The queues of a snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._policy = policy
        self.queues = {queue.name: queue for queue in snapshot.queues}
        self._memory = least_memory(snapshot.columns) if snapshot.queues else 0
        self._ways: dict[str, tuple[str, ...]] = {}
        self._pairs: dict[QueuePair, QueuePair | None] = {}
        self._guaranteed = {
            name: in_millis(queue.guaranteed).get(GPUS, 0) for name, queue in self.queues.items()
        }
        #: GPUs that run in each queue and below it.
        self.used = self._gpus_by_queue(snapshot)
        #: Those of gangs that are not preemptible.
        self.fixed = self._gpus_by_queue(snapshot, fixed=True)

    def way(self, queue: str) -> tuple[str, ...]:
        """A queue and those above it, from the root down."""
        if queue not in self._ways:
            path: list[str] = []
            name = queue
            while name in self.queues and name not in path:
                path.append(name)
                name = self.queues[name].parent
            self._ways[queue] = tuple(path[::-1])
        return self._ways[queue]

    def first_that_differ(self, mine: str, theirs: str) -> QueuePair | None:
        """The first two queues that differ on the ways down, if any do."""
        both = QueuePair(mine, theirs)
        if both not in self._pairs:
            pairs = map(QueuePair, self.way(mine), self.way(theirs))
            self._pairs[both] = next((p for p in pairs if p.mine != p.theirs), None)
        return self._pairs[both]

    def guaranteed(self, queue: str) -> int:
        """GPUs that are guaranteed to a queue."""
        return self._guaranteed[queue]

    def is_above(self, queue: str) -> bool:
        """Whether more runs in a queue than it is guaranteed."""
        return self.used[queue] > self._guaranteed[queue]

    def lacks(self, queue: str) -> dict[str, int]:
        """By how much a queue and those above it are below what is guaranteed to them."""
        left = {q: self._guaranteed[q] - self.used[q] for q in self.way(queue)}
        return {q: n for q, n in left.items() if n > 0}

    def amount(self, template: PodTemplate, resource: str) -> int:
        """What a pod asks for of a resource, as queues count it."""
        return pod_amount(self._policy, template, resource, self._memory)

    def gpus(self, template: PodTemplate) -> int:
        """GPUs that a pod asks for."""
        return self.amount(template, GPUS)

    def _gpus_by_queue(self, snapshot: Snapshot, *, fixed: bool = False) -> Counter[str]:
        """GPUs that run in each queue and below it; with `fixed` only those of gangs that are not
        preemptible.
        """
        used: Counter[str] = Counter()
        if not snapshot.queues:
            return used
        for queue in snapshot.queues:
            for name in self.way(queue.name):
                own = queue.used_not_preemptible if fixed else queue.used
                used[name] += in_millis(own).get(GPUS, 0)
        for gang in snapshot.gangs:
            if fixed and not gang.not_preemptible:
                continue
            sets = [s for group in gang.groups for s in group.pod_sets if s.bound_pods]
            gpus = sum(self.gpus(s.template) * len(s.bound_pods) for s in sets)
            for name in self.way(gang.queue) if gpus else ():
                used[name] += gpus
        return used
