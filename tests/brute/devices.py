"""Which devices the pods of a plan could have, found by trying: for plans made without the engine.

Devices are a matter of one node. For each all ways are tried, and the judge's rules about
devices say which is good. What was found is remembered by the node and by what comes and goes
there: pods of one template are alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Node, PodSet, PodTemplate, Policy, Snapshot
from placement_service.entities.templates import numbered
from placement_service.judge.outcome import Outcome
from placement_service.judge.plan import Plan
from placement_service.judge.question import Question
from placement_service.judge.rules import devices as rules

RULES = (
    rules.pods_get_the_devices_that_they_ask_for,
    rules.devices_are_not_overfilled,
    rules.whole_devices_form_partitions,
    rules.pods_get_the_partitions_that_they_insist_on,
    rules.network_devices_are_near,
)


class Given(NamedTuple):
    """A plan whose pods have devices."""

    bindings: tuple[Binding, ...]
    evictions: tuple[Eviction, ...]


class Devices:
    """The devices of the nodes of a question."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._policy = policy
        self._nodes = {node.name: node for node in snapshot.nodes if node.devices}
        self._questions = {
            name: Question(replace(snapshot, nodes=(node,)), policy)
            for name, node in self._nodes.items()
        }
        pods = [
            (pod, s.template)
            for gang in snapshot.gangs
            for group in gang.groups
            for s in group.pod_sets
            for pod in _every(s)
        ]
        _, numbers = numbered(template for _, template in pods)
        self._templates = {name: template for name, template in pods}
        self._number = {name: n for (name, _), n in zip(pods, numbers, strict=True)}
        self._standing = {
            (pod.name, pod.node): pod.devices
            for gang in snapshot.gangs
            for group in gang.groups
            for pod in group.running_pods
        }
        self._held = any(reservation.devices for reservation in snapshot.reservations)
        self._found: dict[object, tuple[tuple[int, ...], ...] | None] = {}

    def give(self, plan: Sequence[Binding], evictions: Sequence[Eviction] = ()) -> Given | None:
        """The plan with devices; None when some node has none that do."""
        chosen: dict[str, tuple[int, ...]] = {}
        for name in self._nodes:
            there = [b for b in plan if b.node == name]
            mine = [e for e in evictions if name in (e.node, e.to_node)]
            way = self._way(name, there, mine)
            if way is None:
                return None
            pods = [b.pod for b in there] + [e.pod for e in mine if e.to_node == name]
            chosen.update(zip(pods, way, strict=True))
        return Given(
            tuple(b._replace(devices=chosen.get(b.pod, ())) for b in plan),
            tuple(
                replace(e, to_devices=chosen[e.pod]) if e.to_node in self._nodes else e
                for e in evictions
            ),
        )

    def could_serve(
        self,
        node: str,
        plan: Sequence[Binding],
        evictions: Sequence[Eviction],
        may_go: Sequence[Eviction],
    ) -> bool:
        """Whether a node has devices for what a part of a plan brings there, if all who may go do.

        More pods never make it true, nor do pods that stay.
        """
        # The whole plan says which pod gets what reservations hold.
        if self._held or node not in self._nodes:
            return True
        there = [b for b in plan if b.node == node]
        mine = [e for e in evictions if node in (e.node, e.to_node)]
        named = {e.pod for e in mine}
        mine += [e for e in may_go if e.node == node and e.pod not in named]
        return self._way(node, there, mine) is not None

    def _way(
        self, name: str, there: Sequence[Binding], mine: Sequence[Eviction]
    ) -> tuple[tuple[int, ...], ...] | None:
        """Devices for each pod that is bound there, then for each that is moved there."""
        coming = [e.pod for e in mine if e.to_node == name]
        gone = frozenset(e.pod for e in mine if e.node == name)
        pods = [*(b.pod for b in there), *coming]
        if not pods:
            return ()
        key = (
            name,
            tuple((self._number[b.pod], b.reservation) for b in there),
            tuple(self._number[pod] for pod in coming),
            gone,
            # Only bound pods may be in a reservation, and only names tell which pods own it.
            tuple(pods) if self._held else (),
        )
        if key not in self._found:
            self._found[key] = self._try(name, pods, there, mine, gone)
        return self._found[key]

    def _try(
        self,
        name: str,
        pods: Sequence[str],
        there: Sequence[Binding],
        mine: Sequence[Eviction],
        gone: Collection[str],
    ) -> tuple[tuple[int, ...], ...] | None:
        freed = {d for pod in gone for d in self._standing.get((pod, name), ())}
        asked = {pod: _number(self._templates[pod], self._policy) for pod in pods}
        for way in _ways(self._nodes[name], asked, freed, self._templates):
            bindings = [b._replace(devices=way[b.pod]) for b in there]
            moves = [replace(e, to_devices=way[e.pod]) if e.to_node == name else e for e in mine]
            outcome = Outcome(self._questions[name], bindings, moves)
            judged = Plan(self._policy, bindings, tuple(moves), outcome)
            if not any(broken for rule in RULES for broken in rule(judged)):
                return tuple(way[pod] for pod in pods)
        return None


def _every(s: PodSet) -> list[str]:
    return [*(pod.name for pod in s.pods), *(pod.name for pod in s.bound_pods)]


def _number(template: PodTemplate, policy: Policy) -> int:
    share = template.device_share
    return share.count if share is not None else policy.whole_gpus(template.requests)


def _ways(
    node: Node, asked: dict[str, int], freed: set[int], templates: dict[str, PodTemplate]
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Devices for each pod, so that no device is given twice as a whole."""
    left = {
        d.index: 1000 if d.index in freed else 1000 - max(d.used_milli, d.used_memory_milli)
        for d in node.devices
        if d.healthy
    }
    pods = sorted(asked, key=lambda pod: (templates[pod].device_share is not None, -asked[pod]))

    def extend(at: int) -> Iterator[dict[str, tuple[int, ...]]]:
        if at == len(pods):
            yield {}
            return
        pod, share = pods[at], templates[pods[at]].device_share
        # Of shares in two amounts the judge knows more; a whole one must be free.
        least = 1000 if share is None else min(share.compute_milli, share.memory_milli)
        able = [d for d, free in left.items() if free >= least]
        for devices in combinations(able, asked[pod]):
            for d in devices:
                left[d] -= least
            for rest in extend(at + 1):
                yield {pod: devices, **rest}
            for d in devices:
                left[d] += least

    return extend(0)
