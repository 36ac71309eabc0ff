"""A plan and its outcome: what every rule of the judge looks at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placement_service.entities.eviction import Eviction
from placement_service.entities.nodes import Bools
from placement_service.entities.queues import Queue
from placement_service.entities.request import (
    Binding,
    Node,
    PodAffinityTerm,
    PodTemplate,
    Policy,
    RunningPod,
    Snapshot,
    SpreadConstraint,
)
from placement_service.entities.reservations import Reservation
from placement_service.entities.selectors import Labels, Operator
from placement_service.judge.outcome import EvictedPod, NewPod, Outcome


@dataclass(frozen=True)  # no slots: cached_property keeps its value in the instance
class Plan:
    """The bindings and evictions of a plan, and the outcome."""

    policy: Policy
    bindings: Sequence[Binding]
    evictions: tuple[Eviction, ...]
    outcome: Outcome

    @property
    def snapshot(self) -> Snapshot:
        return self.outcome.snapshot

    @cached_property
    def new(self) -> tuple[NewPod, ...]:
        """All new pods."""
        return self.outcome.new

    @cached_property
    def templates(self) -> tuple[PodTemplate, ...]:
        """The templates of new pods."""
        question = self.outcome.question
        used = np.unique(question.template_of_set[self.outcome.set_of_new])
        return tuple(question.templates[t] for t in used.tolist())

    def new_of(
        self, wanted: Callable[[PodTemplate], object]
    ) -> Iterator[tuple[PodTemplate, tuple[NewPod, ...]]]:
        """New pods of each template that is wanted."""
        question = self.outcome.question
        template_of_new = question.template_of_set[self.outcome.set_of_new]
        for t, template in enumerate(question.templates):
            if wanted(template):
                pods = self.outcome.new_where(template_of_new == t)
                if pods:
                    yield template, pods

    @cached_property
    def new_by_node(self) -> tuple[tuple[Node, tuple[NewPod, ...]], ...]:
        """New pods by the node they get."""
        return _by_node(self.new)

    def new_on(self, nodes: Bools) -> tuple[tuple[Node, tuple[NewPod, ...]], ...]:
        """New pods by node, on some of the nodes [N]."""
        return _by_node(self.outcome.new_where(nodes[self.outcome.node_of_new]))

    @cached_property
    def evicted(self) -> tuple[EvictedPod, ...]:
        """All pods that leave."""
        return self.outcome.evicted

    @cached_property
    def evicted_by_node(self) -> dict[str, list[EvictedPod]]:
        """Pods that leave, by the node they were on."""
        by_node: defaultdict[str, list[EvictedPod]] = defaultdict(list)
        for evicted in self.evicted:
            by_node[evicted.pod.node].append(evicted)
        return dict(by_node)

    @cached_property
    def queues(self) -> dict[str, Queue]:
        """The queues by name."""
        return {queue.name: queue for queue in self.snapshot.queues}

    @cached_property
    def reservations_by_node(self) -> dict[str, list[Reservation]]:
        """The reservations by the name of their node."""
        by_node: defaultdict[str, list[Reservation]] = defaultdict(list)
        for reservation in self.snapshot.reservations:
            by_node[reservation.node].append(reservation)
        return dict(by_node)

    @cached_property
    def users_of(self) -> dict[str, list[NewPod]]:
        """The new pods in each reservation, by its name."""
        users: defaultdict[str, list[NewPod]] = defaultdict(list)
        for pod in self.new:
            if pod.reservation:
                users[pod.reservation].append(pod)
        return dict(users)

    @cached_property
    def lists_devices(self) -> bool:
        """Whether a node, a pod or the plan mentions devices at all."""
        return (
            any(parts.devices for parts, _ in self.snapshot.columns.parts.counts())
            or any(
                t.device_share is not None or t.same_pcie_nics or t.required_partition is not None
                for t in self.templates
            )
            or any(binding.devices for binding in self.bindings)
            or any(eviction.to_devices for eviction in self.evictions)
        )

    @cached_property
    def nodes_by_label(self) -> dict[tuple[str, str], list[Node]]:
        """Nodes by each label that they have."""
        found: defaultdict[tuple[str, str], list[Node]] = defaultdict(list)
        for node in self.snapshot.nodes:
            for label in node.labels.items():
                found[label].append(node)
        return dict(found)

    @cached_property
    def crowd(self) -> Crowd:
        """All pods that the rules between pods can see; gathered when first asked for."""
        return Crowd(self)

    @cached_property
    def affinity_carriers(self) -> dict[PodAffinityTerm, set[Member]]:
        """The new pods that carry each required affinity term."""
        carriers: defaultdict[PodAffinityTerm, set[Member]] = defaultdict(set)
        for member in self.crowd.members:
            if member.template is not None:
                for term in member.template.required_affinity:
                    carriers[term].add(member)
        return dict(carriers)


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: one pod, one member
class Member:
    """A pod that rules between pods can see; only a new one has a `template`."""

    name: str
    namespace: str
    labels: Labels
    node: Node | None
    template: PodTemplate | None
    anti_affinity: tuple[PodAffinityTerm, ...]

    def domain(self, key: str) -> str | None:
        return None if self.node is None else self.node.labels.get(key)


class Crowd:
    """All new pods and those that still run, found by label."""

    def __init__(self, plan: Plan) -> None:
        gone = {evicted.pod.name for evicted in plan.evicted}
        self.members: tuple[Member, ...] = (
            *(_running(p, plan.outcome) for p in plan.snapshot.running_pods if p.name not in gone),
            *(_new(pod) for pod in plan.new),
        )
        self._by_label: defaultdict[tuple[str, str], list[Member]] = defaultdict(list)
        for member in self.members:
            for label in member.labels.items():
                self._by_label[label].append(member)
        self._matching: dict[PodAffinityTerm | SpreadConstraint, tuple[Member, ...]] = {}

    def matching(self, term: PodAffinityTerm | SpreadConstraint) -> tuple[Member, ...]:
        """The members that a term's selector and namespaces match."""
        if term not in self._matching:
            self._matching[term] = tuple(
                m for m in self._candidates(term) if term.matches(m.namespace, m.labels)
            )
        return self._matching[term]

    def _candidates(self, term: PodAffinityTerm | SpreadConstraint) -> Sequence[Member]:
        """At least the matching members: those with the rarest label that is demanded."""
        if term.selector is None:
            return ()
        demanded = [
            *term.selector.match_labels,
            *(
                (e.key, e.values[0])
                for e in term.selector.match_expressions
                if e.operator is Operator.IN and len(e.values) == 1
            ),
        ]
        return min((self._by_label.get(d, []) for d in demanded), key=len, default=self.members)


def _running(pod: RunningPod, outcome: Outcome) -> Member:
    node = outcome.question.node.get(pod.node)
    return Member(pod.name, pod.namespace, pod.labels, node, None, pod.required_anti_affinity)


def _new(pod: NewPod) -> Member:
    template = pod.template
    terms = template.required_anti_affinity
    return Member(pod.name, pod.namespace, pod.labels, pod.node, template, terms)


def _by_node(pods: Iterable[NewPod]) -> tuple[tuple[Node, tuple[NewPod, ...]], ...]:
    by_node: defaultdict[str, list[NewPod]] = defaultdict(list)
    for pod in pods:
        by_node[pod.node.name].append(pod)
    return tuple((pods[0].node, tuple(pods)) for pods in by_node.values())


def first_on_each_node(pods: Iterable[NewPod]) -> Iterator[NewPod]:
    """One of several alike pods on a node: what is true of it is true of all."""
    seen = set()
    for pod in pods:
        # Templates are shared across namespaces, and selectors look at those.
        place = (pod.node.name, pod.namespace)
        if place not in seen:
            seen.add(place)
            yield pod
