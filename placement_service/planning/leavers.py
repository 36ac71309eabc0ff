"""What may leave for a gang that waits: whole gangs, or extras of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from placement_service.entities.request import BoundPod, PodGang, PodTemplate, Policy, Snapshot
from placement_service.formulation.planning_questions import (
    Freed,
    Given,
    Leaver,
    PodsOf,
    Together,
)
from placement_service.formulation.rules.queues import QueueRow, least_memory, path, pod_amount


class Chosen(NamedTuple):
    """The gangs that leave whole, and all pods that leave."""

    gangs: frozenset[str]
    pods: frozenset[str]


class _InQueue(NamedTuple):
    """A kind of pods that run in a queue."""

    queue: str
    template: PodTemplate


class Leavers:
    """What may leave for a gang: `names` of the victims, one for each leaver.

    `members` are the running pods of each gang.
    """

    def __init__(self, snapshot: Snapshot, gang: PodGang) -> None:
        self.snapshot = snapshot
        self.names: list[tuple[str, ...]] = []
        self.templates: list[PodTemplate] = []
        self.leavers: list[Leaver] = []
        self._pods: list[tuple[str, ...]] = []
        self._contents: list[Counter[_InQueue]] = []
        self._node = snapshot.columns.row_of
        self._rows: dict[PodTemplate, int] = {}
        self.limits: list[Together] = []
        self.members = {one.name: frozenset(_bound(one)) for one in snapshot.gangs}
        followers: dict[str, list[PodGang]] = {}
        for other in snapshot.gangs:
            if other.base_gang and self.members[other.name]:
                followers.setdefault(other.base_gang, []).append(other)
        for other in snapshot.gangs:
            if not _may_go(other, gang):
                continue
            together = [other, *followers.get(other.name, ())]
            whole = -1
            if all(_may_go(one, gang) and not is_protected(one, snapshot) for one in together):
                whole = len(self.leavers)
                self._add_whole(together)
            self._add_extras(other, whole)
        self._add_budgets()

    def chosen(self, times: Sequence[int]) -> Chosen:
        gangs: set[str] = set()
        pods: set[str] = set()
        for count, names, mine in zip(times, self.names, self._pods, strict=True):
            if count:
                # Gangs leave whole, extras one by one.
                gangs.update(names)
                pods.update(mine if names else mine[:count])
        return Chosen(frozenset(gangs), frozenset(pods))

    @property
    def pods(self) -> frozenset[str]:
        """All pods that may leave, though not always together."""
        return frozenset(pod for pods in self._pods for pod in pods)

    @cached_property
    def of(self) -> Mapping[str, Sequence[int]]:
        """The leavers with which each pod leaves."""
        found: dict[str, list[int]] = {}
        for v, pods in enumerate(self._pods):
            for pod in pods:
                found.setdefault(pod, []).append(v)
        return found

    def given(self, row: QueueRow, policy: Policy) -> Iterator[Given]:
        """What leavers give back to a queue; of what is for gangs that may not go, nothing."""
        queues = {} if row.guaranteed else {queue.name: queue for queue in self.snapshot.queues}
        below = {
            name
            for name in queues
            if row.queue in (above := {*path(queues, name)}) and above.isdisjoint(row.left_out)
        }
        memory = least_memory(self.snapshot.columns)
        for i, content in enumerate(self._contents):
            amount = sum(
                pods * pod_amount(policy, template, row.resource, memory)
                for (queue, template), pods in content.items()
                if queue in below
            )
            if amount:
                yield Given(i, amount)

    def _add_whole(self, gangs: Sequence[PodGang]) -> None:
        frees = []
        pods = []
        content: Counter[_InQueue] = Counter()
        for one in gangs:
            for group in one.groups:
                for pod_set in group.pod_sets:
                    content[_InQueue(one.queue, pod_set.template)] += len(pod_set.bound_pods)
                    for pod in pod_set.bound_pods:
                        pods.append(pod.name)
                        if pod.node in self._node:
                            row = self._row(pod_set.template, pod)
                            frees.append(Freed(self._node[pod.node], row))
        self.leavers.append(Leaver(len(pods), 1, tuple(frees)))
        self.names.append(tuple(one.name for one in gangs))
        self._pods.append(tuple(pods))
        self._contents.append(content)

    def _add_extras(self, gang: PodGang, whole: int) -> None:
        for group in gang.groups:
            spare = group.running_count - group.min_replicas
            mine: list[PodsOf] = []
            for pod_set in group.pod_sets if spare > 0 else ():
                # Which of them leaves matters to who needs devices, and to owners of reservations.
                alike: dict[tuple[Freed, tuple[int, ...], str], list[str]] = {}
                for pod in pod_set.bound_pods:
                    if pod.node in self._node:
                        once = Freed(self._node[pod.node], self._row(pod_set.template, pod))
                        kind = once, pod.devices, pod.reservation
                        alike.setdefault(kind, []).append(pod.name)
                for (once, _, _), pods in alike.items():
                    mine.append(PodsOf(len(self.leavers), 1))
                    self.leavers.append(Leaver(1, min(spare, len(pods)), (once,), whole))
                    self.names.append(())
                    self._pods.append(tuple(sorted(pods)))
                    self._contents.append(Counter([_InQueue(gang.queue, pod_set.template)]))
            if mine:
                self.limits.append(Together(tuple(mine), spare))

    def _add_budgets(self) -> None:
        for budget in self.snapshot.disruption_budgets:
            covered = frozenset(
                pod.name
                for gang in self.snapshot.gangs
                for group in gang.groups
                for pod_set in group.pod_sets
                if budget.matches(gang.namespace, pod_set.template.labels)
                for pod in pod_set.bound_pods
            )
            counts = []
            for i, (leaver, pods) in enumerate(zip(self.leavers, self._pods, strict=True)):
                inside = len(covered.intersection(pods))
                if inside:
                    counts.append(PodsOf(i, inside if self.names[i] else leaver.pods))
            if counts:
                self.limits.append(Together(tuple(counts), budget.allowed))

    def _row(self, template: PodTemplate, pod: BoundPod) -> int:
        """The row of what a pod leaves."""
        if pod.held is not None:
            template = replace(template, requests=pod.held)
        if template not in self._rows:
            self._rows[template] = len(self.templates)
            self.templates.append(template)
        return self._rows[template]


def _bound(gang: PodGang) -> Iterator[str]:
    return (pod.name for g in gang.groups for s in g.pod_sets for pod in s.bound_pods)


def _may_go(gang: PodGang, winner: PodGang) -> bool:
    return (
        gang.priority < winner.priority
        and not gang.not_preemptible
        and not winner.never_preempts
        and not any(group.fixed_pods for group in gang.groups)
        and any(s.bound_pods for group in gang.groups for s in group.pod_sets)
    )


def is_protected(gang: PodGang, snapshot: Snapshot) -> bool:
    """Whether its minimum run time is not over yet; one without a start is not protected."""
    if not gang.minimum_run_time or gang.start is None:
        return False
    return snapshot.as_of is None or snapshot.as_of - gang.start < gang.minimum_run_time
