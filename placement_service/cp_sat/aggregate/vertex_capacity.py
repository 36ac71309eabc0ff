"""How many parts of a kind fit in each domain, counted by pod classes and by resources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.cp_sat.aggregate.part_types import Content, Kinds
from placement_service.cp_sat.node_classes import NodeClass
from placement_service.formulation.arrays import Ints


class VertexCapacity:
    """Units of each pod class [V, S], and free amounts of each resource [V, R], by vertex.

    `paths` are the vertices of the forest that hold each class of nodes. S counts the pod
    classes of the model, not of the problem.
    """

    def __init__(
        self,
        forest: Forest,
        kinds: Kinds,
        pod_classes: Sequence[int],
        classes: Sequence[NodeClass],
        paths: Sequence[Sequence[int]],
        free: Ints,
    ) -> None:
        self._forest = forest
        self._kinds = kinds
        self._classes = classes
        self._at = {s: k for k, s in enumerate(pod_classes)}
        self._request = kinds.problem.request[list(pod_classes)].astype(np.float64)
        count = len(forest.depth_of)
        self.slots = np.zeros((count, len(pod_classes)), dtype=np.int64)
        self._free = np.zeros((count, free.shape[1]), dtype=np.float64)
        for c, path in zip(classes, paths, strict=True):
            for v in path:
                self.slots[v] += len(c.nodes) * np.array(c.most, dtype=np.int64)
                self._free[v] += free[list(c.nodes)].sum(axis=0, dtype=np.float64)
        self._needs: dict[int, Ints] = {}
        self._most: dict[int, Ints] = {}

    def need(self, kind: int) -> Ints:
        """The least units of each pod class [S] that a part of a kind asks for."""
        if kind not in self._needs:
            self._needs[kind] = self._content_need(self._kinds.kinds[kind].apart)
        return self._needs[kind]

    def _content_need(self, content: Content) -> Ints:
        total = np.zeros(len(self._at), dtype=np.int64)
        for ask in content.asks:
            if len(ask.pod_classes) == 1:
                total[self._at[ask.pod_classes[0][0]]] += ask.least
        for kind, times in content.kinds:
            total += times * self.need(kind)
        return total

    def most(self, kind: int) -> Ints:
        """At most so many parts of a kind fit in each vertex [V]."""
        if kind not in self._most:
            need = self.need(kind)
            most = np.full(len(self.slots), 1 << 20, dtype=np.int64)
            for k in np.flatnonzero(need):
                np.minimum(most, self.slots[:, k] // need[k], out=most)
            amounts = need @ self._request
            for r in np.flatnonzero(amounts):
                by_amount = np.floor(self._free[:, r] / amounts[r] + 1e-9)
                np.minimum(most, by_amount.astype(np.int64), out=most)
            # A part lies at its vertex or spreads over the narrower ones below it.
            self._most[kind] = most
        return self._most[kind]

    def outside(self, level: int) -> list[NodeClass]:
        """The classes of nodes that are in no domain of a level."""
        nowhere = self._forest.holds[self._forest.depth[level]] < 0
        return [c for c in self._classes if nowhere[c.nodes[0]]]

    def fits_outside(self, kind: int, level: int) -> bool:
        """Whether a node that is in no domain of a level may hold a part of a kind."""
        need = self.need(kind)
        used = np.flatnonzero(need)
        return any(all(c.most[k] >= need[k] for k in used) for c in self.outside(level))
