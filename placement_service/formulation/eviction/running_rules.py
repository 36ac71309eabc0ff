"""Running pods that break a rule about other pods where they are.

Kubernetes asks these rules only when a pod comes to a node. So pods may run near each other that no
plan could put there: labels change, and a pod may name its node by itself. The problem cannot
express that such a pod stays, so its gang does not give way. Nor does one of which the list of
running pods says something else than its pod sets: whom the rules of others see would depend on
which of the two is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from placement_service.entities.node import HostPort
from placement_service.entities.request import (
    BoundPod,
    PodAffinityTerm,
    PodTemplate,
    RunningPod,
    Snapshot,
)
from placement_service.formulation.levels import Levels
from placement_service.formulation.matching.node_eligibility import NodeMasks
from placement_service.formulation.matching.pod_selectors import PodSelectors

#: Terms of required anti-affinity of running pods up to which their gangs are moved.
MOST_TERMS = 16


def out_of_place(snapshot: Snapshot) -> frozenset[str]:
    """The names of these pods, among those in pod sets."""
    several = (_on_shared_ports, _kept_apart, _in_several_domains, _listed_otherwise)
    return frozenset(name for rule in several for name in rule(snapshot))


def with_all_terms(snapshot: Snapshot) -> Snapshot:
    """The snapshot whose list of running pods also says whom those in pod sets keep away.

    It need not, where no pod waits that the rule sees, but pods that are moved meet the rule, too.
    """
    listed = {pod.name: pod for pod in snapshot.running_pods}
    for pod, template in _told(snapshot, lambda t: t.required_anti_affinity):
        known = listed.get(pod.name) or RunningPod(pod.name, pod.node, template.labels)
        terms = (*known.required_anti_affinity, *template.required_anti_affinity)
        listed[pod.name] = replace(known, required_anti_affinity=tuple(dict.fromkeys(terms)))
    return replace(snapshot, running_pods=tuple(listed.values()))


def has_many_terms(snapshot: Snapshot) -> bool:
    """Whether running pods in pod sets have so many terms of required anti-affinity that each would
    make a kind of pods of its own for every model.
    """
    terms: set[PodAffinityTerm] = set()
    for gang in snapshot.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                if s.bound_pods:
                    terms.update(s.template.required_anti_affinity)
    return len(terms) > MOST_TERMS


def unwelcome(snapshot: Snapshot) -> frozenset[str]:
    """The names of running pods, among those in pod sets, that their nodes would not take again:
    nodes are closed, and labels and taints may have changed, since the pods came.
    """
    nodes = snapshot.columns
    always = any(nodes.taints.kinds) or not nodes.open.all()

    def may_be_refused(template: PodTemplate) -> bool:
        picky = template.node_selector or template.required_node_affinity is not None
        return bool(always or picky)

    # Templates live as long as the snapshot, and many pods share one.
    running: dict[int, list[BoundPod]] = {}
    templates: dict[int, PodTemplate] = {}
    for pod, template in _told(snapshot, may_be_refused):
        if pod.node in nodes.row_of:
            templates[id(template)] = template
            running.setdefault(id(template), []).append(pod)
    if not running:
        return frozenset()
    masks = NodeMasks(nodes, list(templates.values()))
    found: list[str] = []
    for key, template in templates.items():
        refused = ~(masks.selected(template) & masks.tolerated(template) & nodes.open)
        found += [pod.name for pod in running[key] if refused[nodes.row_of[pod.node]]]
    return frozenset(found)


def _told(
    snapshot: Snapshot, rule: Callable[[PodTemplate], object]
) -> Iterator[tuple[BoundPod, PodTemplate]]:
    """The running pods in pod sets that have a rule."""
    for gang in snapshot.gangs:
        for group in gang.groups:
            for s in group.pod_sets:
                if s.bound_pods and rule(s.template):
                    yield from ((pod, s.template) for pod in s.bound_pods)


def _on_shared_ports(snapshot: Snapshot) -> Iterator[str]:
    """Pods with a port that their node does not list once, or that another pod has, too."""
    here: defaultdict[str, list[HostPort]] = defaultdict(list)
    asking = [(pod, t.host_ports) for pod, t in _told(snapshot, lambda t: t.host_ports)]
    for pod, ports in asking:
        here[pod.node] += ports
    nodes = snapshot.columns
    for pod, ports in asking:
        row = nodes.row_of.get(pod.node)
        listed = () if row is None else nodes.parts[row].host_ports
        for port in ports:
            in_use = [other for other in listed if other.conflicts(port)]
            if in_use != [port] or sum(map(port.conflicts, here[pod.node])) > 1:
                yield pod.name
                break


def _listed_otherwise(snapshot: Snapshot) -> Iterator[str]:
    """Pods that the list of running pods has on another node, or with other labels by which rules
    find pods.
    """
    listed = {pod.name: pod for pod in snapshot.running_pods}
    if not listed:
        return
    keys = PodSelectors(snapshot).keys
    for pod, template in _told(snapshot, lambda _: True):
        said = listed.get(pod.name)
        if said is not None and (
            said.node != pod.node
            or any(said.labels.get(key) != template.labels.get(key) for key in keys)
        ):
            yield pod.name


def _in_several_domains(snapshot: Snapshot) -> Iterator[str]:
    """Pods in a ComputeDomain on a node that serves another one, too."""
    nodes = snapshot.columns
    members = [(pod, t.compute_domain) for pod, t in _told(snapshot, lambda t: t.compute_domain)]
    serves: defaultdict[str, set[str]] = defaultdict(set)
    for pod, domain in members:
        serves[pod.node].add(domain)
    for pod, domain in members:
        row = nodes.row_of.get(pod.node)
        said = "" if row is None else nodes.parts[row].compute_domain
        if len(serves[pod.node]) > 1 or said not in ("", domain):
            yield pod.name


def _kept_apart(snapshot: Snapshot) -> Iterator[str]:
    """Pods that required anti-affinity keeps away from each other, but that are near."""
    running = snapshot.running_pods
    carriers: defaultdict[PodAffinityTerm, list[int]] = defaultdict(list)
    for i, one in enumerate(running):
        for term in dict.fromkeys(one.required_anti_affinity):
            carriers[term].append(i)
    if not carriers:
        return
    selectors, levels = PodSelectors(snapshot), Levels(snapshot.columns)
    row_of = snapshot.columns.row_of
    homes = np.array([row_of.get(pod.node, -1) for pod in running], dtype=np.int64)
    for term, some in carriers.items():
        level = levels[levels.index(term.topology_key)]
        where = np.where(homes >= 0, level.domain[homes], -1)
        carry, match = np.zeros((2, len(running)), dtype=bool)
        carry[some] = True
        match[selectors.running(term)] = True
        pods, carriers_there, alone = (
            np.bincount(where[mask & (where >= 0)], minlength=level.count)
            for mask in (match, carry, carry & match)
        )
        # A pod does not keep itself away.
        by_itself = (pods == 1) & (carriers_there == 1) & (alone == 1)
        broken = np.append((pods > 0) & (carriers_there > 0) & ~by_itself, False)
        yield from (running[i].name for i in np.flatnonzero((carry | match) & broken[where]))
