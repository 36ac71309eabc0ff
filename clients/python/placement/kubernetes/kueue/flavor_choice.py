"""Which flavor a waiting Workload takes, where the flavors of its ClusterQueue are told apart.

As in Kueue, Workloads choose one after the other, by priority and then by age, each the first
flavor that has enough quota left, here also nodes with GPUs for its pods; the queue of that flavor
then counts what the Workload asks for. One flavor is taken for all pod sets. Other choices are
not tried, which a warning says. One that no flavor has room for keeps nothing from others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from placement.kubernetes.kueue.flavors import Flavors
from placement.kubernetes.kueue.queues import KueueQueues, counted
from placement.kubernetes.kueue.quota_use import quotas_of
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.podspec import effective_requests
from placement.kubernetes.queues import GPUS, Queue
from placement.kubernetes.values.reading import At


class PodSet(NamedTuple):
    """Alike pods of a Workload; of `number` at least `minimum` run."""

    template: Mapping[str, Any]
    number: int
    minimum: int


class Choice(NamedTuple):
    """The flavor that a Workload takes, empty for none, and how many there are to choose from; none
    where it can take none of those that its ClusterQueue offers.
    """

    flavor: str
    choices: int


class Chooser:
    """Quota and GPUs that are left for further Workloads."""

    def __init__(
        self,
        queues: KueueQueues,
        flavors: Flavors,
        admitted: Iterable[Object],
        gpus: Mapping[str, Counter[int]],
    ) -> None:
        """`gpus` are how many nodes of each flavor have how many GPUs free."""
        self._queues = queues
        self._flavors = flavors
        self._by_name = {queue.name: queue for queue in queues.queues}
        self._gpus = dict(gpus)
        self._used: dict[str, Counter[str]] = {}
        for one in admitted:
            for queue, amounts in quotas_of(one, queues, {}):
                self._take(queue, amounts)

    def choose(self, queue: str, pod_sets: Iterable[PodSet]) -> Choice:
        """The flavor for a Workload, which then has it."""
        told = self._queues.told.get(queue, ())
        open_to = [
            (pods, names)
            for pods in pod_sets
            if (names := self._flavors.open_to(pods.template, queue, told)) is not None
        ]
        if not open_to:
            return Choice("", 1)
        if not all(names for _, names in open_to):
            return Choice("", 0)
        shared = [n for n in open_to[0][1] if all(n in names for _, names in open_to)]
        if not shared:
            return Choice("", 1)
        asked = [_asked(pods.template) for pods, _ in open_to]
        counts = [
            [pods.number for pods, _ in open_to],
            [pods.minimum for pods, _ in open_to],
        ]
        with_quota = [
            (flavor, number)
            for number in counts
            for flavor in shared
            if self._has_quota(queue, flavor, _sum(asked, number))
        ]
        for flavor, number in with_quota:
            if self._place(flavor, asked, number):
                self._take(self._queues.name(queue, flavor), _sum(asked, number))
                return Choice(flavor, len(shared))
        # It waits for room, and nobody for it.
        return Choice(with_quota[0][0] if with_quota else shared[0], len(shared))

    def _take(self, queue: str, amounts: Mapping[str, int]) -> None:
        for above, counts in self._counting(queue, amounts):
            self._used.setdefault(above.name, Counter()).update(counts)

    def _has_quota(self, queue: str, flavor: str, amounts: Mapping[str, int]) -> bool:
        return all(
            self._used.get(above.name, Counter())[resource] + amount <= above.limit[resource]
            for above, counts in self._counting(self._queues.name(queue, flavor), amounts)
            for resource, amount in counts.items()
            if resource in above.limit
        )

    def _counting(
        self, queue: str, amounts: Mapping[str, int]
    ) -> list[tuple[Queue, Mapping[str, int]]]:
        """A queue and those above it with what of some amounts counts there."""
        found = []
        for above in self._upwards(queue):
            found.append((above, amounts))
            used = self._used.get(above.name, Counter())
            kept = {r: max(0, above.kept.get(r, 0) - used[r]) for r in amounts}
            amounts = {r: max(0, n - kept[r]) for r, n in amounts.items()}
        return found

    def _place(
        self, flavor: str, asked: Sequence[Mapping[str, int]], numbers: Sequence[int]
    ) -> bool:
        """Gives pods GPUs on nodes of a flavor; False, and nothing is given, where these have no
        room for all.
        """
        if flavor not in self._gpus:
            return True
        free = Counter(self._gpus[flavor])
        for amounts, number in sorted(
            zip(asked, numbers, strict=True), key=lambda pods: -pods[0].get(GPUS, 0)
        ):
            if not _fill(free, amounts.get(GPUS, 0), number):
                return False
        self._gpus[flavor] = free
        return True

    def _upwards(self, name: str) -> list[Queue]:
        path: list[Queue] = []
        while (queue := self._by_name.get(name)) is not None and queue not in path:
            path.append(queue)
            name = queue.parent
        return path


def order(workload: Object) -> tuple[int, str, str, str]:
    """Workloads by priority, the highest first, then by age."""
    at = At(workload.body, {})
    priority = at.get("spec").get("priority").integer(least=-(2**31))
    created = at.get("metadata").get("creationTimestamp").value
    return -priority, str(created or "~"), workload.namespace, workload.name


def free_gpus(
    flavors: Flavors, nodes: Iterable[Object], pods: Iterable[Object]
) -> dict[str, Counter[int]]:
    """Open nodes of each flavor by the GPUs that pods have not taken there, in thousandths."""
    taken: Counter[str] = Counter()
    for pod in pods:
        at = At(pod.body, {})
        if at.get("status").get("phase").text() not in ("Succeeded", "Failed"):
            taken[at.get("spec").get("nodeName").text()] += _asked(pod.body)[GPUS]
    free: dict[str, Counter[int]] = {name: Counter() for name in flavors.known}
    for node in nodes:
        at = At(node.body, {})
        if at.get("spec").get("unschedulable").value is True:
            continue
        there = at.get("status").get("allocatable").amounts(round_up=False, capped=True)
        left = counted(there)[GPUS] - taken[node.name]
        labels = at.get("metadata").get("labels").labels()
        for name, flavor in flavors.known.items():
            if flavor.labels.items() <= labels.items():
                free[name][max(0, left)] += 1
    return free


def _fill(free: Counter[int], each: int, number: int) -> bool:
    """Puts pods on the fullest nodes that have room for one; whether all found a place."""
    for left in sorted(free) if each else ():
        there = min(left // each * free[left], number)
        full, more = divmod(there, max(1, left // each))
        free[left] -= full + bool(more)
        free[left % each] += full
        if more:
            free[left - more * each] += 1
        number -= there
    return not each or not number


def _sum(asked: Iterable[Mapping[str, int]], numbers: Iterable[int]) -> Counter[str]:
    """What so many pods each ask for together."""
    found = Counter[str]()
    for amounts, number in zip(asked, numbers, strict=True):
        found.update({resource: amount * number for resource, amount in amounts.items()})
    return found


def _asked(template: Mapping[str, Any]) -> Counter[str]:
    """What a pod of a template asks for."""
    return counted(effective_requests(At(template, {}).get("spec")))
