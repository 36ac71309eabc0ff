"""Which devices the pods of a plan could have, found by trying: for plans made without the engine.

Devices are a matter of one node. For each all ways are tried, and the judge's rules about
devices say which is good.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from placement_service.entities.eviction import Eviction
from placement_service.entities.request import Binding, Node, PodTemplate, Policy, Snapshot
from placement_service.judge.outcome import Outcome
from placement_service.judge.plan import Plan
from placement_service.judge.question import Question
from placement_service.judge.rules import devices as rules

RULES = (
    rules.pods_get_the_devices_that_they_ask_for,
    rules.devices_are_not_overfilled,
    rules.whole_devices_form_partitions,
    rules.network_devices_are_near,
)


def give_devices(
    snapshot: Snapshot,
    policy: Policy,
    plan: Sequence[Binding],
    evictions: Sequence[Eviction] = (),
) -> tuple[tuple[Binding, ...], tuple[Eviction, ...]] | None:
    """The plan with devices; None when some node has none that do."""
    nodes = {node.name: node for node in snapshot.nodes if node.devices}
    templates = {
        name: s.template
        for gang in snapshot.gangs
        for group in gang.groups
        for s in group.pod_sets
        for name in (*(p.name for p in s.pods), *(p.name for p in s.bound_pods))
    }
    chosen: dict[str, tuple[int, ...]] = {}
    for name, node in nodes.items():
        there = [b for b in plan if b.node == name]
        coming = [e for e in evictions if e.to_node == name]
        mine = [e for e in evictions if name in (e.node, e.to_node)]
        pods = [b.pod for b in there] + [e.pod for e in coming]
        asked = {pod: _number(templates[pod], policy) for pod in pods}
        for way in _ways(node, asked, _freed(snapshot, node, evictions), templates):
            bindings = [b._replace(devices=way[b.pod]) for b in there]
            moves = [replace(e, to_devices=way[e.pod]) if e.to_node == name else e for e in mine]
            alone = replace(snapshot, nodes=(node,))
            outcome = Outcome(Question(alone, policy), bindings, moves)
            judged = Plan(policy, bindings, tuple(moves), outcome)
            if not any(list(rule(judged)) for rule in RULES):
                chosen.update(way)
                break
        else:
            return None
    return (
        tuple(b._replace(devices=chosen.get(b.pod, ())) for b in plan),
        tuple(replace(e, to_devices=chosen[e.pod]) if e.to_node in nodes else e for e in evictions),
    )


def _number(template: PodTemplate, policy: Policy) -> int:
    share = template.device_share
    return share.count if share is not None else policy.whole_gpus(template.requests)


def _freed(snapshot: Snapshot, node: Node, evictions: Sequence[Eviction]) -> set[int]:
    gone = {e.pod for e in evictions}
    return {
        d
        for gang in snapshot.gangs
        for group in gang.groups
        for pod in group.running_pods
        if pod.name in gone and pod.node == node.name
        for d in pod.devices
    }


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
