"""The domains of all levels as one forest, broad ones above narrow ones.

Levels need not nest. A level joins the forest when each of its domains lies
wholly inside or wholly outside every domain of the broader levels that joined
before; so the hierarchies of different hardware fit into one forest. Rules about other levels are
kept elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import NO_LEVEL, LevelIdx
from placement_service.formulation.problem import Problem

#: The vertex of everything.
ROOT = 0


class Forest:
    """Vertices are ROOT and the domains of `levels`, which go from broad to narrow.

    The depth of a vertex is 1 + the place of its level in `levels`, 0 for ROOT.
    `above[v]` are the vertices that contain v, itself and ROOT included.
    """

    def __init__(self, problem: Problem, levels: Iterable[LevelIdx] | None = None) -> None:
        """`levels` are those that may join; None for all that gangs name."""
        self.problem = problem
        used = {i for g in problem.gangs for s in g.scopes for i in (s.required, s.preferred)}
        used |= {g.set_level for g in problem.gangs}
        used = used if levels is None else used & set(levels)
        able = [i for i in used - {NO_LEVEL} if not problem.levels[i].is_host]
        chosen: list[LevelIdx] = []
        for level in sorted(able, key=lambda i: (problem.levels[i].count, i)):
            if all(self._is_uniform(level, broad) for broad in chosen):
                chosen.append(level)
        self.levels = tuple(chosen)
        self.depth: dict[int, int] = {level: i + 1 for i, level in enumerate(chosen)}
        first = 1
        depths = [0]
        #: The vertex at each depth that holds each node, -1 for none [depths, N].
        self.holds: Ints = np.full((len(chosen) + 1, problem.node_count), -1, dtype=np.int64)
        self.holds[0] = ROOT
        self._first: dict[int, int] = {}
        for i, level in enumerate(chosen):
            domain = problem.levels[level].domain
            self._first[level] = first
            self.holds[i + 1] = np.where(domain >= 0, domain + first, -1)
            first += problem.levels[level].count
            depths += [i + 1] * problem.levels[level].count
        self.depth_of = tuple(depths)

    def _is_uniform(self, narrow: int, broad: int) -> bool:
        low, high = self.problem.levels[narrow], self.problem.levels[broad]
        inside = low.domain >= 0
        up = np.full(low.count, -1, dtype=np.int64)
        up[low.domain[inside]] = high.domain[inside]
        return bool((up[low.domain[inside]] == high.domain[inside]).all())

    def vertex(self, level: int, domain: int) -> int:
        """The vertex of a domain of a level of the forest."""
        return self._first[level] + domain

    @cached_property
    def above(self) -> tuple[tuple[int, ...], ...]:
        """By vertex, the vertices that contain it, from ROOT down to itself."""
        found: list[tuple[int, ...]] = [(ROOT,)] * len(self.depth_of)
        for depth in range(1, len(self.levels) + 1):
            row = self.holds[depth]
            inside = np.flatnonzero(row >= 0)
            vertices, at = np.unique(row[inside], return_index=True)
            for v, n in zip(vertices.tolist(), inside[at].tolist(), strict=True):
                path = self.holds[: depth + 1, n]
                found[v] = tuple(path[path >= 0].tolist())
        return tuple(found)
