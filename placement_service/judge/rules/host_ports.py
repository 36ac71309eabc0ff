"""Host ports: one pod of a node for each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

from placement_service.entities.node import HostPort
from placement_service.entities.request import (
    Node,
)
from placement_service.judge.plan import Plan


def host_ports_are_taken_once(plan: Plan) -> Iterator[str]:
    """No new pod asks for a host port that is in use or asked for by another new pod."""
    if not any(template.host_ports for template in plan.templates):
        return
    staying = _ports_of_pods_that_stay(plan) if plan.evicted else {}
    for node, pods in plan.new_by_node:
        asking = [pod for pod in pods if pod.template.host_ports]
        in_use = _ports_in_use(plan, node, staying) if asking else ()
        for pod in asking:
            for port in pod.template.host_ports:
                if any(port.conflicts(used) for used in in_use):
                    yield (
                        f"pod {pod.name} asks for host port {port.port}/{port.protocol}, "
                        f"which is in use on node {node.name}"
                    )
        for one, other in combinations(asking, 2):
            for port in one.template.host_ports:
                if any(port.conflicts(taken) for taken in other.template.host_ports):
                    yield (
                        f"pods {one.name} and {other.name} both ask for host port "
                        f"{port.port}/{port.protocol} on node {node.name}"
                    )


def _ports_in_use(
    plan: Plan, node: Node, staying: Mapping[str, Collection[HostPort]]
) -> tuple[HostPort, ...]:
    """The ports of a node less those of evicted pods; one that a pod which stays has is in use."""
    gone = Counter(
        port for v in plan.evicted_by_node.get(node.name, ()) for port in v.template.host_ports
    )
    listed, theirs = Counter(node.host_ports), staying.get(node.name, ())
    return tuple(p for p, count in listed.items() if count > gone[p] or p in theirs)


def _ports_of_pods_that_stay(plan: Plan) -> Mapping[str, Collection[HostPort]]:
    """Host ports of running pods in pod sets, by node, without those of evicted pods."""
    gone = {evicted.pod.name for evicted in plan.evicted}
    found: defaultdict[str, set[HostPort]] = defaultdict(set)
    for pod_set in plan.outcome.question.sets:
        for pod in pod_set.bound_pods if pod_set.template.host_ports else ():
            if pod.name not in gone:
                found[pod.node].update(pod_set.template.host_ports)
    return found
