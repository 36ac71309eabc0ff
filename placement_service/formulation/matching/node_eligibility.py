"""Rules about single nodes as masks over all nodes: selector, affinity, taints, ComputeDomain.

`explain.node_reasons` says in words which of them closes a node.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from placement_service.entities.node import HOSTNAME, Effect, Taint
from placement_service.entities.nodes import Nodes
from placement_service.entities.request import PodTemplate, Toleration
from placement_service.entities.selectors import NodeSelectorTerm, Operator, Requirement
from placement_service.formulation import compute_domains
from placement_service.formulation.arrays import Bools
from placement_service.formulation.matching.label_index import LabelTable

#: The one field of a node that affinity may ask for.
NAME = "metadata.name"

MASKS_KEPT = 256


class NodeMasks:
    """Which nodes the templates of a question select and tolerate, and which may serve them."""

    def __init__(self, nodes: Nodes, templates: Sequence[PodTemplate]) -> None:
        self._count = len(nodes)
        terms = [term for t in templates for term in t.required_node_affinity or ()]
        keys = {key for t in templates for key, _ in t.node_selector}
        keys.update(e.key for term in terms for e in term.match_expressions)
        if any(t.compute_domain for t in templates):
            keys.add(compute_domains.KEY)
        self._labels = _NodeLabels(nodes, keys)
        by_name = any(term.match_fields for term in terms)
        names = nodes.short_names() if by_name else []
        self._fields = LabelTable([{NAME: name} for name in names], {NAME})
        # Many templates are alike in this; if all of them differ, that must not cost memory.
        self._select = lru_cache(MASKS_KEPT)(self._selecting)
        self._tolerate = lru_cache(MASKS_KEPT)(self._tolerating)
        self._serve = lru_cache(MASKS_KEPT)(self._serving)
        #: Hard taints, and those that a toleration of a key, or a key and a value, may mean.
        self._taints: dict[Taint, int] = {}
        self._taints_of: dict[tuple[str, str | None], list[Taint]] = {}
        #: The number of each node's set of taints, and which taints are in which set.
        self._taint_set = nodes.taints.number
        tainted = []
        for k, taints in enumerate(nodes.taints.kinds):
            for taint in taints:
                if taint.effect is not Effect.PREFER_NO_SCHEDULE:
                    if taint not in self._taints:
                        self._taints[taint] = len(self._taints)
                        for meant in ((taint.key, taint.value), (taint.key, None), ("", None)):
                            self._taints_of.setdefault(meant, []).append(taint)
                    tainted.append((k, self._taints[taint]))
        self._tainted = np.array(tainted, dtype=np.int64).reshape(len(tainted), 2)
        self._taint_sets = len(nodes.taints.kinds)

    def selected(self, t: PodTemplate) -> Bools:
        """As `PodTemplate.selects`, for each node; not to be changed."""
        return self._select(t.node_selector, t.required_node_affinity)

    def tolerated(self, t: PodTemplate) -> Bools:
        """As `PodTemplate.tolerates`, for each node; not to be changed."""
        return self._tolerate(t.tolerations)

    def may_serve(self, t: PodTemplate) -> Bools:
        """Nodes that serve no other ComputeDomain than the template's; not to be changed."""
        return self._serve(t.compute_domain)

    def _selecting(
        self, pairs: tuple[tuple[str, str], ...], affinity: tuple[NodeSelectorTerm, ...] | None
    ) -> Bools:
        result = self._labels.having(pairs)
        if affinity is not None:
            result &= np.any([self._matching(term) for term in affinity], axis=0)
        return result

    def _matching(self, term: NodeSelectorTerm) -> Bools:
        """As `NodeSelectorTerm.matches`, for each node."""
        if not term.match_expressions and not term.match_fields:
            return np.zeros(self._count, dtype=bool)
        result = self._labels.meeting(term.match_expressions)
        if term.match_fields:
            result &= self._fields.meeting(term.match_fields)
        return result

    def _tolerating(self, tolerations: tuple[Toleration, ...]) -> Bools:
        allowed = np.zeros(len(self._taints), dtype=bool)
        for t in tolerations:
            taints = self._taints_of.get((t.key, None if t.exists else t.value), ())
            allowed[[self._taints[taint] for taint in taints if t.tolerates(taint)]] = True
        result = np.ones(self._taint_sets, dtype=bool)
        sets, taints_there = self._tainted.T
        result[sets[~allowed[taints_there]]] = False
        of_nodes: Bools = result[self._taint_set]
        return of_nodes

    def _serving(self, domain: str) -> Bools:
        if not domain:
            return np.ones(self._count, dtype=bool)
        none = Requirement(compute_domains.KEY, Operator.DOES_NOT_EXIST)
        return self._labels.having([(compute_domains.KEY, domain)]) | self._labels.meeting([none])


class _NodeLabels:
    """The labels of nodes: what a selector says is asked once for each set of labels.

    The hostname label, which differs on every node, has a table of its own.
    """

    def __init__(self, nodes: Nodes, keys: Collection[str]) -> None:
        self._set = nodes.labels.number
        self._sets = LabelTable(nodes.labels.kinds, {key for key in keys if key != HOSTNAME})
        hosts = nodes.label(HOSTNAME) if HOSTNAME in keys else []
        self._hosts = LabelTable([{HOSTNAME: host or ""} for host in hosts], {HOSTNAME})

    def having(self, pairs: Sequence[tuple[str, str]]) -> Bools:
        """The nodes with all of these labels [N]."""
        hosts = [pair for pair in pairs if pair[0] == HOSTNAME]
        found: Bools = self._sets.having(p for p in pairs if p[0] != HOSTNAME)[self._set]
        return found & self._hosts.having(hosts) if hosts else found

    def meeting(self, requirements: Sequence[Requirement]) -> Bools:
        """The nodes that meet all of these requirements [N]."""
        hosts = [one for one in requirements if one.key == HOSTNAME]
        found: Bools = self._sets.meeting(r for r in requirements if r.key != HOSTNAME)[self._set]
        return found & self._hosts.meeting(hosts) if hosts else found
