"""What victims leave besides room serves only gangs that may use their room.

These are host ports, nodes for other ComputeDomains, and places that were closed by required
anti-affinity: that of the victim, or that of the new pod against it. What moved pods leave is for
all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from placement_service.entities.request import PodTemplate, RunningPod
from placement_service.judge.outcome import EvictedPod
from placement_service.judge.plan import Plan
from placement_service.judge.rules.rights import Rights


def ports_of_victims_serve_those_above_them(plan: Plan) -> Iterator[str]:
    """No new pod gets a host port that only a victim left whose room is not for it."""
    if not any(victim.template.host_ports for victim in plan.evicted):
        return
    rights = Rights(plan)
    for node, pods in plan.new_by_node:
        for pod in pods:
            for victim in plan.evicted_by_node.get(node.name, ()):
                if any(
                    port.conflicts(left)
                    for port in pod.template.host_ports
                    for left in victim.template.host_ports
                ) and not rights.may_use(pod.gang, victim):
                    yield f"pod {pod.name} gets a host port of {_described(victim)}"


def nodes_of_victims_serve_the_domains_of_those_above_them(plan: Plan) -> Iterator[str]:
    """No new pod is on a node where the ComputeDomain of a victim kept it away whose room is not
    for it.
    """
    if not any(template.compute_domain for template in plan.templates):
        return
    rights = Rights(plan)
    for node, pods in plan.new_by_node:
        for victim in plan.evicted_by_node.get(node.name, ()):
            theirs = victim.template.compute_domain
            for pod in pods if theirs and not victim.moves else ():
                mine = pod.template.compute_domain
                if mine not in ("", theirs) and not rights.may_use(pod.gang, victim):
                    yield (
                        f"pod {pod.name} of compute domain {mine} is on node {node.name}, which "
                        f"served {theirs} until the eviction of {_described(victim)}"
                    )


def places_that_victims_kept_free_serve_those_above_them(plan: Plan) -> Iterator[str]:
    """No new pod is where required anti-affinity kept it away from a victim whose room is not for
    it.
    """
    victims = {v.pod.name: v for v in plan.evicted if not v.moves}
    listed = [pod for pod in plan.snapshot.running_pods if pod.name in victims]
    own = any(pod.required_anti_affinity for pod in listed)
    if not listed or not (own or any(t.required_anti_affinity for t in plan.templates)):
        return
    rights = Rights(plan)
    places: dict[tuple[PodTemplate, str], list[_Place]] = {}
    for new in plan.new:
        asked = new.template, new.namespace
        if asked not in places:
            places[asked] = list(_places(plan, listed, *asked))
        for key, domain, pod in places[asked]:
            victim = victims[pod]
            if new.node.labels.get(key) == domain and not rights.may_use(new.gang, victim):
                yield (
                    f"pod {new.name} is in {key}={domain}, from where required anti-affinity "
                    f"kept it away until the eviction of {_described(victim)}"
                )


class _Place(NamedTuple):
    """The domain of a victim that pods are kept away from."""

    key: str
    domain: str
    victim: str


def _places(
    plan: Plan, victims: Iterable[RunningPod], template: PodTemplate, namespace: str
) -> Iterator[_Place]:
    """Where anti-affinity and the victims keep pods away, by terms of either."""
    nodes = plan.outcome.question.node
    for pod in victims:
        terms = [
            *(t for t in pod.required_anti_affinity if t.matches(namespace, template.labels)),
            *(t for t in template.required_anti_affinity if t.matches(pod.namespace, pod.labels)),
        ]
        for key in dict.fromkeys(term.topology_key for term in terms):
            domain = nodes[pod.node].labels.get(key) if pod.node in nodes else None
            if domain is not None:
                yield _Place(key, domain, pod.name)


def _described(victim: EvictedPod) -> str:
    return f"victim {victim.pod.name} of priority {victim.gang.priority}, whose room it may not use"
