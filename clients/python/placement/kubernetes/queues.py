"""Queues: the tree that gangs of all schedulers share, which gangs are in which queue, and what
runs there.

A queue is KAI's Queue, Koordinator's ElasticQuota, Kueue's ClusterQueue and Cohort, or Volcano's
Queue; each has a module that reads it (`kai.queues`, `koordinator.elastic_quotas`,
`kueue.queues`, `volcano.queues`). They are known by their names; when two kinds use one name, that
is a problem.

The queue of a gang is what its object names, else a label of it, else of its pods; else the
ElasticQuota named as the namespace, one that lists it, or Koordinator's default, which also stands
for a quota that is not there. In an input without queues all this has no effect, and a warning says
so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Diagnostics, Problem

KAI_LABEL: Final = "kai.scheduler/queue"
QUOTA_LABEL: Final = "quota.scheduling.koordinator.sh/name"
KUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
#: Labels of gangs and pods that name their queue.
QUEUE_LABELS: Final = (KAI_LABEL, QUOTA_LABEL, KUEUE_LABEL)
DEFAULT_QUOTA: Final = "koordinator-default-quota"
#: Koordinator's quota above all others, which limits nothing.
ROOT_QUOTA: Final = "koordinator-root-quota"

#: The resource that stands for all GPU resources together, in thousandths of a GPU.
GPUS: Final = "gpus"
#: Thousandths of a GPU.
WHOLE: Final = 1000
#: An amount that no queue reaches.
UNLIMITED: Final = 2**53

#: What the service calls the thousandths beside whole GPUs.
MILLIGPUS: Final = "milligpus"

#: Names of GPUs, and how many thousandths of a whole one each is.
_GPU_NAMES: Final = {
    "nvidia.com/gpu": WHOLE,
    "amd.com/gpu": WHOLE,
    "koordinator.sh/gpu": 10,
    "koordinator.sh/gpu-core": 10,
    "koordinator.sh/gpu-memory-ratio": 10,
}

Amounts = Mapping[str, int]


def with_gpus(amounts: Amounts) -> dict[str, int]:
    """The same amounts with GPUs of all names as one, in thousandths; the least name counts."""
    result: dict[str, int] = {}
    for resource, amount in amounts.items():
        if resource in _GPU_NAMES:
            parts = amount * _GPU_NAMES[resource]
            result[GPUS] = min(result.get(GPUS, parts), parts)
        else:
            result[resource] = amount
    return result


def _message(amounts: Amounts) -> dict[str, int]:
    """Amounts as the service has them: GPUs in whole ones and what comes to them."""
    result = {name: min(amount, UNLIMITED) for name, amount in amounts.items() if name != GPUS}
    if GPUS in amounts:
        whole, parts = divmod(amounts[GPUS], WHOLE)
        if amounts[GPUS] >= UNLIMITED:
            whole, parts = UNLIMITED, 0
        result[GPUS] = whole
        if parts:
            result[MILLIGPUS] = parts
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Queue:
    """A queue as written. `serves_namespace` is true when pods of a namespace of its name,
    and with the default name all pods, are in it without saying so."""

    object: Object
    name: str
    parent: str
    limit: Amounts
    guaranteed: Amounts
    serves_namespace: bool = False
    #: Others whose pods are in it without saying so, where no queue has their name.
    namespaces: tuple[str, ...] = ()
    #: Whether its scheduler runs gangs only in queues without others below.
    runs_in_leaves: bool = False
    #: Whether no other queue reclaims from it.
    not_reclaimable: bool = False
    preempt_run_time: timedelta | None = None
    reclaim_run_time: timedelta | None = None
    #: What of it counts in no limit above it.
    kept: Amounts = field(default_factory=dict)


@dataclass(slots=True)
class _Use:
    all: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)


class Queues:
    """All queues of an input."""

    def __init__(
        self, queues: Mapping[str, Queue], local_queues: Mapping[tuple[str, str], str]
    ) -> None:
        self._queues = queues
        self._local = local_queues
        self._by_namespace = {n: q.name for q in queues.values() for n in q.namespaces}
        self._use: dict[str, _Use] = {}
        self._ignored: dict[str, None] = {}
        self._parents = {q.parent for q in queues.values()}
        #: Queues with others below that have gangs or pods, though nothing runs there.
        self._inner: dict[str, Queue] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def of(self, namespace: str, said: Iterable[Mapping[str, str]], own: str = "") -> str:
        """Name of a queue, empty for none.

        `own` is what the gang's object names, `said` are labels in order: the gang's, then
        those of its pods. The queue need not be there.
        """
        found = own or next(filter(None, (self.named(namespace, one) for one in said)), "")
        if not found:
            found = next(
                (
                    name
                    for name in (namespace, self._by_namespace.get(namespace, ""), DEFAULT_QUOTA)
                    if name in self._queues and self._queues[name].serves_namespace
                ),
                "",
            )
        if found and not self._queues:
            self._ignored[found] = None
            return ""
        if found in self._parents and found in self._queues and self._queues[found].runs_in_leaves:
            self._inner[found] = self._queues[found]
        return found

    def named(self, namespace: str, labels: Mapping[str, str]) -> str:
        """The queue that labels name, empty for none."""
        if labels.get(KAI_LABEL):
            return labels[KAI_LABEL]
        if quota := labels.get(QUOTA_LABEL):
            unknown = quota not in self._queues and DEFAULT_QUOTA in self._queues
            return DEFAULT_QUOTA if unknown else quota
        if local := labels.get(KUEUE_LABEL):
            return self._local.get((namespace, local), f"{namespace}.{local}")
        return ""

    def named_by_pods(self, namespace: str, pods: Sequence[Mapping[str, str]]) -> list[str]:
        """The queues that pods with these labels name. Where one names a quota, those that name
        nothing are in one, too.
        """
        names = {self.named(namespace, labels) for labels in pods}
        if "" in names and any(labels.get(QUOTA_LABEL) for labels in pods):
            names.add(self.of(namespace, ()) or DEFAULT_QUOTA)
        return sorted(names - {""})

    def count(self, queue: str, requests: Amounts, *, preemptible: bool) -> None:
        """Notes that a pod that is in no gang of the request runs in a queue."""
        use = self._use.setdefault(queue, _Use())
        for total in (use.all,) if preemptible else (use.all, use.fixed):
            for resource, amount in requests.items():
                total[resource] = total.get(resource, 0) + amount

    def preempt_run_time(self, queue: str) -> timedelta | None:
        """How long a gang of a queue is safe from preemption: the nearest queue upwards says it."""
        said = (q.preempt_run_time for q in self._upwards(queue))
        return next((time for time in said if time is not None), None)

    def _upwards(self, name: str) -> list[Queue]:
        path: list[Queue] = []
        while (queue := self._queues.get(name)) is not None:
            path.append(queue)
            name = queue.parent
        return path

    def messages(self) -> list[v1.Queue]:
        """All queues in input order."""
        result = []
        for name, queue in self._queues.items():
            use = self._use.get(name, _Use())
            counted = {*queue.limit, *queue.guaranteed}
            upwards = self._upwards(name)
            for above in upwards:
                counted |= {*above.limit, *above.guaranteed}
            safe = (q.reclaim_run_time for q in upwards if q.reclaim_run_time is not None)
            result.append(
                v1.Queue(
                    name=f"queues/{name}",
                    parent=f"queues/{queue.parent}" if queue.parent in self._queues else "",
                    limit=_message(queue.limit),
                    guaranteed=_message(queue.guaranteed),
                    used=_message({r: a for r, a in use.all.items() if r in counted and a}),
                    used_not_preemptible=_message(
                        {r: a for r, a in use.fixed.items() if r in counted and a}
                    ),
                    not_reclaimable=queue.not_reclaimable,
                    minimum_run_time_before_reclaim=next(safe, None),
                    kept=_message({r: a for r, a in queue.kept.items() if a}),
                )
            )
        return result

    def warnings(self) -> list[Problem]:
        """What had no effect, or has none for the scheduler whose queues these are."""
        inner = "has queues below it, so KAI runs none of the gangs that name it"
        found = [queue.object.problem("spec", inner) for queue in self._inner.values()]
        if not self._ignored:
            return found
        first, more = next(iter(self._ignored)), len(self._ignored) - 1
        text = f"queue {first}{f' and {more} more' if more else ''}: the input holds no queue, so"
        return [*found, Problem("", "", "", f"{text} no limit of queues is checked")]


def tree(
    queues: Iterable[Queue],
    local_queues: Mapping[tuple[str, str], str],
    diagnostics: Diagnostics,
) -> Queues:
    """The queues as a tree; notes those above themselves and parents that are not there."""
    known: dict[str, Queue] = {}
    for queue in queues:
        other = known.setdefault(queue.name, queue)
        if other is not queue:
            text = f"{other.object} has the same name"
            diagnostics.problems.append(queue.object.problem("", text))
    for queue in known.values():
        if queue.parent and queue.parent not in known and queue.parent != ROOT_QUOTA:
            diagnostics.warnings.append(
                queue.object.problem(
                    "", f"its parent {queue.parent} is not in the input: taken as a root"
                )
            )
    for queue in list(known.values()):
        seen = {queue.name}
        name = queue.parent
        while name in known and name not in seen:
            seen.add(name)
            name = known[name].parent
        if name in seen:
            diagnostics.problems.append(queue.object.problem("", f"queue {name} is above itself"))
            del known[queue.name]
    return Queues(known, local_queues)
