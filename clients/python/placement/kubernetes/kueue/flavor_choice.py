"""Which flavor a waiting Workload takes, where the flavors of its ClusterQueue are told apart.

As in Kueue, Workloads choose one after the other, by priority and then by age, each the first
flavor that has enough quota left, here also enough GPUs on its nodes; the queue of that flavor
then counts what the Workload asks for. One flavor is taken for all pod sets. Other choices are
not tried, which a warning says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from placement.kubernetes.kueue.flavors import Flavors
from placement.kubernetes.kueue.queues import KueueQueues, quota_of
from placement.kubernetes.kueue.quota_use import quotas_of
from placement.kubernetes.objects import Object
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
        gpus: Mapping[str, int],
    ) -> None:
        """`gpus` are those that are free on the nodes of each flavor."""
        self._queues = queues
        self._flavors = flavors
        self._by_name = {queue.name: queue for queue in queues.queues}
        self._gpus = Counter(gpus)
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
        wanted, least = Counter[str](), Counter[str]()
        for pods, _ in open_to:
            for resource, asked in _asked(pods.template).items():
                wanted[resource] += asked * pods.number
                least[resource] += asked * pods.minimum
        fits = (
            flavor
            for amounts in (wanted, least)
            for has_room in (self._has_gpus, lambda *_: True)
            for flavor in shared
            if self._has_quota(queue, flavor, amounts) and has_room(flavor, amounts)
        )
        flavor = next(fits, "")
        if flavor:
            self._take(self._queues.name(queue, flavor), wanted)
            self._gpus[flavor] -= wanted[GPUS]
        return Choice(flavor or shared[0], len(shared))

    def _take(self, queue: str, amounts: Mapping[str, int]) -> None:
        for above in self._upwards(queue):
            self._used.setdefault(above.name, Counter()).update(amounts)

    def _has_quota(self, queue: str, flavor: str, amounts: Mapping[str, int]) -> bool:
        return all(
            self._used.get(above.name, Counter())[resource] + amount <= above.limit[resource]
            for above in self._upwards(self._queues.name(queue, flavor))
            for resource, amount in amounts.items()
            if resource in above.limit
        )

    def _has_gpus(self, flavor: str, amounts: Mapping[str, int]) -> bool:
        return flavor not in self._gpus or amounts.get(GPUS, 0) <= self._gpus[flavor]

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


def free_gpus(flavors: Flavors, nodes: Iterable[Object], pods: Iterable[Object]) -> dict[str, int]:
    """What pods have not taken of the GPUs on open nodes of each flavor, in thousandths."""
    taken: Counter[str] = Counter()
    for pod in pods:
        at = At(pod.body, {})
        if at.get("status").get("phase").text() not in ("Succeeded", "Failed"):
            taken[at.get("spec").get("nodeName").text()] += _asked(pod.body)[GPUS]
    free = dict.fromkeys(flavors.known, 0)
    for node in nodes:
        at = At(node.body, {})
        if at.get("spec").get("unschedulable").value is True:
            continue
        left = _gpus(at.get("status").get("allocatable")) - taken[node.name]
        labels = at.get("metadata").get("labels").labels()
        for name, flavor in flavors.known.items():
            if flavor.labels.items() <= labels.items():
                free[name] += max(0, left)
    return free


def _gpus(amounts: At) -> int:
    return _counted(amounts)[GPUS]


def _counted(amounts: At) -> Counter[str]:
    found: Counter[str] = Counter()
    for resource in amounts.value if isinstance(amounts.value, dict) else ():
        key, amount = quota_of(str(resource), amounts.entry(str(resource)))
        found[key] += amount
    return found


def _asked(template: Mapping[str, Any]) -> Counter[str]:
    """What the containers of a pod template ask for together."""
    asked: Counter[str] = Counter()
    for container in At(template, {}).get("spec").get("containers").items():
        resources = container.get("resources")
        limits, requests = _counted(resources.get("limits")), _counted(resources.get("requests"))
        asked.update(limits | requests)
    return asked
