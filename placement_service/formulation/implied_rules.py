"""Rules by which pods share no node, dropped where there is no room for both anyway.

Pods that take a whole node share it with no other pod that asks for GPUs. That they are in a
ComputeDomain of their own, or avoid each other on a host, says nothing more. Without these rules
gangs that are alike in all else are of one kind, and may be moved.

Two pods may share a node if what it has is enough for both. More is there only where pods that may
go ask for more than is in use, or than the node has, and that is counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np

from placement_service.entities.node import HOSTNAME, Node
from placement_service.entities.nodes import KindColumn, Parts
from placement_service.entities.request import (
    BoundPod,
    PodAffinityTerm,
    PodSet,
    PodTemplate,
    RunningPod,
    Snapshot,
)
from placement_service.formulation.arrays import Bools
from placement_service.formulation.matching.pod_selectors import PodSelectors
from placement_service.formulation.open_gangs import Freed

_Requests = frozenset[tuple[str, int]]


def without_implied_rules(snapshot: Snapshot) -> Snapshot:
    """The snapshot without these rules; itself where there are none."""
    templates = {id(s.template): s.template for _, s in _sets(snapshot)}.values()
    in_domains = any(t.compute_domain for t in templates)
    apart = any(_on_hosts(t.required_anti_affinity) for t in templates) or any(
        _on_hosts(pod.required_anti_affinity) for pod in snapshot.running_pods
    )
    if not (in_domains or apart):
        return snapshot
    room = _Room(snapshot)
    if in_domains:
        snapshot = _without_domains(snapshot, room)
    return _without_terms(snapshot, room) if apart else snapshot


def _sets(snapshot: Snapshot) -> Iterator[tuple[str, PodSet]]:
    """The pod sets with their namespaces."""
    for gang in snapshot.gangs:
        namespace = gang.namespace
        for group in gang.groups:
            for s in group.pod_sets:
                yield namespace, s


def _replaced(snapshot: Snapshot, new: Callable[[PodTemplate], PodTemplate]) -> Snapshot:
    """The snapshot with other templates, made of the old ones."""
    # Templates live as long as the snapshot, and many sets share one.
    known: dict[int, PodTemplate] = {}

    def of(s: PodSet) -> PodSet:
        template = known.get(id(s.template))
        if template is None:
            template = known[id(s.template)] = new(s.template)
        return s if template is s.template else replace(s, template=template)

    return replace(
        snapshot,
        gangs=tuple(
            replace(
                gang,
                groups=tuple(
                    replace(group, pod_sets=tuple(map(of, group.pod_sets))) for group in gang.groups
                ),
            )
            for gang in snapshot.gangs
        ),
    )


class _Room:
    """Where pods find room at most: when all running pods of pod sets have gone."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = nodes = snapshot.columns
        self._freed = Freed(nodes)
        for _, s in _sets(snapshot):
            if s.bound_pods:
                self._freed.add(s, (_with_most(pod, s.template) for pod in s.bound_pods))
        #: By how much these ask for more than is in use on their node, or than it has.
        self._more = {r: self._beyond(r) for r in self._freed.resources}
        self._kinds = [Node("", allocatable=kind) for kind, _ in nodes.allocatable.counts()]
        self._shared: dict[frozenset[_Requests], bool] = {}

    def _beyond(self, resource: str) -> int:
        used = self._nodes.requested.get(resource, np.zeros(len(self._nodes), np.int64))
        counted = np.minimum(used, used + self._nodes.free(resource))
        return int((self._freed.of(resource) - counted).max(initial=0))

    def shared(self, one: PodTemplate, other: PodTemplate) -> bool:
        """Whether some node has room for a pod of each."""
        key = frozenset((_requests(one), _requests(other)))
        if key not in self._shared:
            both = Counter(one.requests)
            both.update(other.requests)
            self._shared[key] = any(
                all(n <= kind.free(r) + self._more.get(r, 0) for r, n in both.items() if n)
                for kind in self._kinds
            )
        return self._shared[key]

    def left(self, requests: Iterable[tuple[str, int]]) -> Bools:
        """The nodes that have room for a pod which asks for this [N]."""
        found = np.ones(len(self._nodes), dtype=bool)
        for resource, amount in requests:
            if amount:
                found &= self._nodes.free(resource) + self._freed.of(resource) >= amount
        return found


def _with_most(pod: BoundPod, template: PodTemplate) -> BoundPod:
    """The pod as if it held all that it holds or asks for: another like it may have that."""
    if pod.held is None:
        return pod
    return replace(pod, held=Counter(pod.held) | Counter(template.requests))


def _requests(template: PodTemplate) -> _Requests:
    return frozenset(template.requests.items())


# --- ComputeDomains ----------------------------------------------------------------


def _without_domains(snapshot: Snapshot, room: _Room) -> Snapshot:
    """The snapshot without the ComputeDomains whose pods share no node with those of others."""
    serving = _Serving(snapshot)
    if serving.several:
        return snapshot
    template_of: dict[_Requests, PodTemplate] = {}
    domains_of: defaultdict[_Requests, set[str]] = defaultdict(set)
    for _, s in _sets(snapshot):
        if s.template.compute_domain:
            requests = _requests(s.template)
            template_of[requests] = s.template
            domains_of[requests].add(s.template.compute_domain)
    alone = set[str]().union(*domains_of.values())
    for requests, template in template_of.items():
        met = serving.lasting_at(room.left(requests))
        for others, other in template_of.items():
            if room.shared(template, other):
                met |= domains_of[others]
        # Others than its own.
        alone -= {domain for domain in domains_of[requests] if len(met) > (domain in met)}
    if not alone:
        return snapshot

    def new(t: PodTemplate) -> PodTemplate:
        return replace(t, compute_domain="") if t.compute_domain in alone else t

    nodes = replace(snapshot.columns, parts=serving.without(alone))
    return replace(_replaced(snapshot, new), nodes=nodes)


class _Serving:
    """The ComputeDomains that nodes serve, and whether pod sets list all pods in them."""

    def __init__(self, snapshot: Snapshot) -> None:
        nodes = snapshot.columns
        self._parts = nodes.parts
        listed: Counter[tuple[int, str]] = Counter()
        for _, s in _sets(snapshot):
            for pod in s.bound_pods if s.template.compute_domain else ():
                row = nodes.row_of.get(pod.node)
                if row is not None:
                    listed[row, s.template.compute_domain] += 1
        serving = np.flatnonzero(nodes.parts.where(lambda parts: parts.compute_domain)).tolist()
        #: The domain of each such node by its row.
        self._domains = {row: nodes.parts[row].compute_domain for row in serving}
        #: Those that serve one also when all pods that are listed have gone.
        self._lasting = {
            row: domain
            for row, domain in self._domains.items()
            if not 0 < nodes.parts[row].compute_domain_pods <= listed[row, domain]
        }
        here = Counter(row for row, _ in listed)
        #: Whether some node serves more than one.
        self.several = any(n > 1 for n in here.values()) or any(
            self._domains.get(row, domain) != domain for row, domain in listed
        )

    def lasting_at(self, nodes: Bools) -> set[str]:
        """The domains that some of these nodes serve also when all listed pods have gone."""
        return {domain for row, domain in self._lasting.items() if nodes[row]}

    def without(self, alone: Collection[str]) -> KindColumn[Parts]:
        """The parts of nodes, which serve none of these unless that lasts."""
        kinds, number = list(self._parts.kinds), self._parts.number.copy()
        found: dict[int, int] = {}
        for row, domain in self._domains.items():
            if row in self._lasting or domain not in alone:
                continue
            kind = int(number[row])
            if kind not in found:
                found[kind] = len(kinds)
                kinds.append(kinds[kind]._replace(compute_domain="", compute_domain_pods=0))
            number[row] = found[kind]
        return KindColumn(tuple(kinds), number)


# --- anti-affinity on hosts ----------------------------------------------------------


def _on_hosts(terms: tuple[PodAffinityTerm, ...]) -> bool:
    return any(term.topology_key == HOSTNAME for term in terms)


def _without_terms(snapshot: Snapshot, room: _Room) -> Snapshot:
    """The snapshot without terms of required anti-affinity on hosts whose pods share no node."""
    selectors = PodSelectors(snapshot)
    templates = {
        selectors.position(namespace, s.template): s.template for namespace, s in _sets(snapshot)
    }
    listed = {pod.name: s.template for _, s in _sets(snapshot) for pod in s.bound_pods}
    asks = {id(t): _requests(t) for t in (*templates.values(), *listed.values())}
    #: By term one of those that it keeps away for all that they may ask for.
    kept_away: dict[PodAffinityTerm, tuple[PodTemplate, ...]] = {}
    #: Terms that match running pods of which it is not known what they ask for.
    unknown: set[PodAffinityTerm] = set()
    terms = (term for t in templates.values() for term in t.required_anti_affinity)
    of_running = (term for pod in snapshot.running_pods for term in pod.required_anti_affinity)
    for term in dict.fromkeys((*terms, *of_running)):
        if term.topology_key == HOSTNAME:
            found = [templates[i] for i in np.flatnonzero(selectors.matched(term)).tolist()]
            for i in selectors.running(term):
                running = listed.get(snapshot.running_pods[i].name)
                if running is None:
                    unknown.add(term)
                else:
                    found.append(running)
            kept_away[term] = tuple({asks[id(t)]: t for t in found}.values())

    def implied(template: PodTemplate, term: PodAffinityTerm) -> bool:
        return term in kept_away and not any(room.shared(template, t) for t in kept_away[term])

    def new(t: PodTemplate) -> PodTemplate:
        terms = tuple(
            term for term in t.required_anti_affinity if term in unknown or not implied(t, term)
        )
        return t if terms == t.required_anti_affinity else replace(t, required_anti_affinity=terms)

    def still_running(pod: RunningPod) -> RunningPod:
        """It keeps away pods that come, and those are all in pod sets."""
        template = listed.get(pod.name)
        if template is None or not _on_hosts(pod.required_anti_affinity):
            return pod
        terms = tuple(t for t in pod.required_anti_affinity if not implied(template, t))
        return replace(pod, required_anti_affinity=terms)

    result = _replaced(snapshot, new)
    return replace(result, running_pods=tuple(map(still_running, snapshot.running_pods)))
