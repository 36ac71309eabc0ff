"""Gangs whose new pods required anti-affinity kept away from where they are until a victim went.

What comes free so serves those that the eviction names, or that might preempt the victim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from placement_service.entities.request import (
    Binding,
    PodTemplate,
    RunningPod,
    Snapshot,
    namespace_of,
)


def kept_away(
    snapshot: Snapshot, bindings: Sequence[Binding], victims: Iterable[str]
) -> Mapping[str, Sequence[str]]:
    """By victim the gangs that it kept away, in the order of their bindings."""
    gone = set(victims)
    listed = [pod for pod in snapshot.running_pods if pod.name in gone]
    templates = dict(_waiting(snapshot))
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for binding in bindings if listed else ():
        template = templates[binding.pod]
        for pod in listed:
            terms = pod.required_anti_affinity or template.required_anti_affinity
            if terms and _share_a_domain(snapshot, binding, template, pod):
                found[pod.name][binding.gang] = None
    return {pod: tuple(gangs) for pod, gangs in found.items()}


def _waiting(snapshot: Snapshot) -> Iterator[tuple[str, PodTemplate]]:
    for gang in snapshot.gangs:
        for group in gang.groups:
            for pods in group.pod_sets:
                yield from ((pod.name, pods.template) for pod in pods.pods)


def _share_a_domain(
    snapshot: Snapshot, binding: Binding, template: PodTemplate, pod: RunningPod
) -> bool:
    """Whether a term of the one or the other keeps them apart where they are."""
    mine = namespace_of(binding.pod)
    keys = {t.topology_key for t in pod.required_anti_affinity if t.matches(mine, template.labels)}
    keys |= {
        term.topology_key
        for term in template.required_anti_affinity
        if term.matches(pod.namespace, pod.labels)
    }
    if not keys:
        return False
    nodes = snapshot.columns
    here, there = (nodes[nodes.row_of[name]].labels for name in (binding.node, pod.node))
    return any(key in here and here[key] == there.get(key) for key in keys)
