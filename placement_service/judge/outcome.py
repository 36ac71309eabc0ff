"""The cluster after a plan, read off the raw snapshot: what `verify` and `score` look at.

It exists so that both read a plan in the same way, and shares no code with the engine that made it.
It judges nothing: it leaves out bindings that name an unknown pod or node, or a pod for the second
time, and evictions of pods that do not run in a pod set; `verify` reports them.

New pods are rows of arrays. Rules that are rarely used ask for them as values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placement_service.entities.eviction import Eviction, EvictionKind
from placement_service.entities.nodes import Bools, Ints
from placement_service.entities.request import (
    Binding,
    BoundPod,
    Node,
    PodGang,
    PodGroup,
    PodTemplate,
    Snapshot,
    namespace_of,
)
from placement_service.entities.selectors import Labels
from placement_service.judge.question import Question
from placement_service.judge.scopes import Scopes


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod that the plan puts on a node: one that it binds, or one that it moves there.

    `devices` and `reservation` are what the plan says it gets.
    """

    name: str
    template: PodTemplate
    node: Node
    gang: PodGang
    devices: tuple[int, ...] = ()
    reservation: str = ""
    moved: bool = False

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)

    @property
    def labels(self) -> Labels:
        return self.template.labels


@dataclass(frozen=True, slots=True)
class EvictedPod:
    """A running pod that the plan takes off its node, to be moved or not."""

    pod: BoundPod
    template: PodTemplate
    gang: PodGang
    eviction: Eviction

    @property
    def leaves(self) -> Mapping[str, int]:
        """What it held of its node, or of its reservation there."""
        return self.template.requests if self.pod.held is None else self.pod.held

    @property
    def moves(self) -> bool:
        """Whether it runs again elsewhere."""
        return self.eviction.kind is EvictionKind.MOVE


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """One group after the plan: how many new pods it has, and which running ones go. `running` pods
    ran before the plan; `moved` of the new ones ran elsewhere.
    """

    group: PodGroup
    running: int
    new: int = 0
    moved: int = 0
    evicted: tuple[EvictedPod, ...] = ()

    @property
    def undisturbed(self) -> int:
        """Pods that still run where they are."""
        return self.running - len(self.evicted)

    @property
    def count(self) -> int:
        """Pods that run after the plan."""
        return self.undisturbed + self.new

    @property
    def has_minimum(self) -> bool:
        """Whether its minimum runs after the plan."""
        return self.count >= self.group.min_replicas

    @property
    def bound(self) -> int:
        """Pods that the plan binds, without moved ones."""
        return self.new - self.moved

    @property
    def extra(self) -> int:
        """Pods beyond the minimum that run after the plan, less those that ran before.

        An extra that has to go counts as one less.
        """
        before = max(0, self.running - self.group.min_replicas)
        return max(0, self.count - self.group.min_replicas) - before


@dataclass(frozen=True, slots=True)
class GangOutcome:
    """One gang after the plan; `groups` in the gang's order."""

    gang: PodGang
    groups: tuple[GroupOutcome, ...]
    placed: bool
    new: int

    @property
    def evicted(self) -> tuple[EvictedPod, ...]:
        """Pods of the gang that leave, moved ones included."""
        return tuple(pod for g in self.groups for pod in g.evicted)

    @property
    def has_bound(self) -> bool:
        """Whether the plan binds any pod of it."""
        return any(g.bound for g in self.groups)


class Outcome:
    """The whole cluster after the plan; `gangs` in the snapshot's order.

    New pods are rows [M]: `set_of_new` and `node_of_new` are rows of the question,
    `binding_of_new` the binding of each, -1 for one that is moved, and `stays_on_node` whether it
    is moved to other devices of its node.
    """

    def __init__(
        self, question: Question, bindings: Sequence[Binding], evictions: Iterable[Eviction] = ()
    ) -> None:
        self.question = question
        self.bindings = bindings
        # Rows of the pod and the node that each binding names, -1 for none.
        self.bound_pod = _rows(question.row_of, [b.pod for b in bindings])
        self.bound_node = _rows(question.nodes.row_of, [b.node for b in bindings])
        good = np.flatnonzero((self.bound_pod >= 0) & (self.bound_node >= 0))
        pods, first = np.unique(self.bound_pod[good], return_index=True)
        leaves: dict[str, Eviction] = {}
        for eviction in evictions:
            leaves.setdefault(eviction.pod, eviction)
        self._moved: list[NewPod] = []
        self._evicted_of_group: dict[int, list[EvictedPod]] = {}
        moved_sets = list(self._read_evictions(leaves)) if leaves else []
        moved_nodes = [question.nodes.row_of[pod.node.name] for pod in self._moved]
        none = np.full(len(moved_sets), -1, dtype=np.int64)
        self.binding_of_new: Ints = np.concatenate((good[first], none))
        self.set_of_new: Ints = np.append(question.set_of_pod[pods], moved_sets).astype(np.int64)
        self.node_of_new: Ints = np.append(self.bound_node[good[first]], moved_nodes).astype(
            np.int64
        )
        stays = [leaves[pod.name].node == pod.node.name for pod in self._moved]
        self.stays_on_node: Bools = np.append(np.zeros(len(pods), dtype=bool), stays).astype(bool)
        self.gangs = tuple(self._gangs())

    def _read_evictions(self, leaves: dict[str, Eviction]) -> Iterable[int]:
        """Notes which pods go; returns the set of each pod that is moved."""
        question = self.question
        for number, pod_set in enumerate(question.sets):
            for bound in pod_set.bound_pods:
                if bound.name not in leaves:
                    continue
                e, gang = leaves[bound.name], question.gang_of_set(number)
                group = int(question.group_of_set[number])
                evicted = EvictedPod(bound, pod_set.template, gang, e)
                self._evicted_of_group.setdefault(group, []).append(evicted)
                if e.kind is EvictionKind.MOVE and e.to_node in question.node:
                    to = question.node[e.to_node]
                    self._moved.append(
                        NewPod(bound.name, pod_set.template, to, gang, e.to_devices, moved=True)
                    )
                    yield number

    def _gangs(self) -> Iterable[GangOutcome]:
        question = self.question
        of_group = question.group_of_set[self.set_of_new]
        count = len(question.groups)
        new = np.bincount(of_group, minlength=count).tolist()
        moved = np.bincount(of_group[self.binding_of_new < 0], minlength=count).tolist()
        running, row = question.running_counts, 0
        for gang in self.snapshot.gangs:
            groups = []
            for group in gang.groups:
                evicted = tuple(self._evicted_of_group.get(row, ()))
                groups.append(GroupOutcome(group, running[row], new[row], moved[row], evicted))
                row += 1
            placed = all(g.has_minimum for g in groups)
            yield GangOutcome(gang, tuple(groups), placed, sum(g.new for g in groups))

    @property
    def snapshot(self) -> Snapshot:
        return self.question.snapshot

    @cached_property
    def gang(self) -> Mapping[str, GangOutcome]:
        """The gangs by name."""
        return {gang.gang.name: gang for gang in self.gangs}

    @cached_property
    def new(self) -> tuple[NewPod, ...]:
        """All new pods as values."""
        return self.new_where(np.ones(len(self.set_of_new), dtype=bool))

    def new_where(self, which: Bools) -> tuple[NewPod, ...]:
        """Some of the new pods [M] as values."""
        question = self.question
        bound = np.count_nonzero(self.binding_of_new >= 0)
        found = []
        for i in np.flatnonzero(which).tolist():
            if i >= bound:
                found.append(self._moved[i - bound])
                continue
            b, number = self.bindings[int(self.binding_of_new[i])], int(self.set_of_new[i])
            template, gang = question.sets[number].template, question.gang_of_set(number)
            node = question.node[b.node]
            found.append(NewPod(b.pod, template, node, gang, b.devices, b.reservation))
        return tuple(found)

    @cached_property
    def scopes(self) -> Scopes:
        """The nodes under the pods of each scope after the plan."""
        groups = self.question.group_of_set[self.set_of_new]
        evicted = {pod.pod.name for pod in self.evicted}
        return Scopes(self.question, groups, self.node_of_new, evicted)

    @cached_property
    def evicted(self) -> tuple[EvictedPod, ...]:
        """All pods that leave, moved ones included."""
        return tuple(pod for gang in self.gangs for pod in gang.evicted)


def _rows(row_of: Mapping[str, int], names: list[str]) -> Ints:
    """The row of each name, -1 for none."""
    return np.array([row_of.get(name, -1) for name in names], dtype=np.int64)
