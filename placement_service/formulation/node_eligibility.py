"""Rules about single nodes as masks over all nodes: selector, affinity, taints.

`node_rules` says in words which of them closes a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from placement_service.entities.request import Effect, Node, PodTemplate, Taint, Toleration
from placement_service.entities.selectors import NodeSelectorTerm
from placement_service.formulation.arrays import Bools
from placement_service.formulation.label_index import LabelTable

#: The one field of a node that affinity may ask for.
NAME = "metadata.name"

MASKS_KEPT = 256


class NodeMasks:
    """Which nodes the templates of a question select and tolerate."""

    def __init__(self, nodes: Sequence[Node], templates: Sequence[PodTemplate]) -> None:
        self._count = len(nodes)
        terms = [term for t in templates for term in t.required_node_affinity or ()]
        keys = {key for t in templates for key, _ in t.node_selector}
        keys.update(e.key for term in terms for e in term.match_expressions)
        self._labels = LabelTable([n.labels for n in nodes], keys)
        by_name = any(term.match_fields for term in terms)
        self._fields = LabelTable([{NAME: n.short_name} for n in nodes] if by_name else [], {NAME})
        # Many templates are alike in this; that all of them differ shall not cost memory.
        self._select = lru_cache(MASKS_KEPT)(self._selecting)
        self._tolerate = lru_cache(MASKS_KEPT)(self._tolerating)
        #: Hard taints, and those that a toleration of a key, or a key and a value, may mean.
        self._taints: dict[Taint, int] = {}
        self._taints_of: dict[tuple[str, str | None], list[Taint]] = {}
        tainted = []
        for i, node in enumerate(nodes):
            for taint in node.taints:
                if taint.effect is not Effect.PREFER_NO_SCHEDULE:
                    if taint not in self._taints:
                        self._taints[taint] = len(self._taints)
                        for meant in ((taint.key, taint.value), (taint.key, None), ("", None)):
                            self._taints_of.setdefault(meant, []).append(taint)
                    tainted.append((i, self._taints[taint]))
        self._tainted = np.array(tainted, dtype=np.int64).reshape(len(tainted), 2)

    def selected(self, t: PodTemplate) -> Bools:
        """As `PodTemplate.selects`, for each node; not to be changed."""
        return self._select(t.node_selector, t.required_node_affinity)

    def tolerated(self, t: PodTemplate) -> Bools:
        """As `PodTemplate.tolerates`, for each node; not to be changed."""
        return self._tolerate(t.tolerations)

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
        result = np.ones(self._count, dtype=bool)
        nodes, taints_there = self._tainted.T
        result[nodes[~allowed[taints_there]]] = False
        return result
