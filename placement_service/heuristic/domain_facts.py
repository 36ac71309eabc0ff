"""How gangs, domains and nodes lie to each other: what no plan changes.

Everything is found when first asked for and kept, so one `Topology` serves all
plans of a problem.
"""

from __future__ import annotations

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import CPU_COLUMN, Gang, Problem
from placement_service.formulation.scope_tree import Part, tree_of
from placement_service.heuristic.residual_capacity import ResidualCapacity


class Topology:
    """Static facts of a problem; shared by all who place or count."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._trees = {g.index: tree_of(problem, g) for g in problem.gangs if g.placeable}
        self._inside: dict[int, tuple[Ints, ...]] = {}
        self._parents: dict[tuple[int, int], Ints | None] = {}
        self._least_demand_rank: dict[tuple[int, int], Ints] = {}
        self._cpu = (
            problem.free[:, problem.columns.index(CPU_COLUMN)]
            if CPU_COLUMN in problem.columns
            else np.zeros(problem.node_count, dtype=np.int64)
        )
        # Loose pods go to the narrowest levels' fullest domains first.
        named = [i for i in problem.scope_levels if not problem.levels[i].is_host]
        self._narrowest = max(named, key=lambda i: problem.levels[i].count, default=-1)

    def tree(self, gang: Gang) -> Part | None:
        """The gang's scopes as a tree, None when they do not nest."""
        return self._trees[gang.index]

    def inside(self, level: int, domain: int) -> Ints:
        """Sorted node indices of a place (domain, or lone node) at a level."""
        if level not in self._inside:
            place = self.problem.levels[level].place_of
            order = np.argsort(place, kind="stable")
            cuts = np.searchsorted(place[order], np.arange(1, int(place.max(initial=0)) + 1))
            self._inside[level] = tuple(np.split(order, cuts))
        return self._inside[level][domain]

    def parent(self, narrow: int, broad: int) -> Ints | None:
        """The broad domain of each narrow one, None where they do not nest."""
        key = (narrow, broad)
        if key not in self._parents:
            low, high = self.problem.levels[narrow], self.problem.levels[broad]
            inside = low.domain >= 0
            up = np.full(low.count, -1, dtype=np.int64)
            up[low.domain[inside]] = high.domain[inside]
            nests = (up[low.domain[inside]] == high.domain[inside]).all() and (up >= 0).all()
            self._parents[key] = up if nests else None
        return self._parents[key]

    def least_demand_rank(self, pod_class: ClassIdx, level: int) -> Ints:
        """How rank the least rank node for a pod class is, per domain [D]."""
        key = (pod_class, level)
        if key not in self._least_demand_rank:
            lv = self.problem.levels[level]
            inside = self.problem.eligible[pod_class] & (lv.domain >= 0)
            result = np.full(lv.count, 1 << 30, dtype=np.int64)
            np.minimum.at(result, lv.domain[inside], self.problem.demand_rank[inside])
            self._least_demand_rank[key] = result
        return self._least_demand_rank[key]

    def node_key(self, residual: ResidualCapacity, pod_class: ClassIdx, nodes: Ints) -> Ints:
        """Sort key of nodes for a pod class, smaller is better: see the module."""
        rank = np.minimum(self.problem.demand_rank[nodes], 1023)
        gpus = np.minimum(residual.gpus_free[nodes], 255)
        if self._narrowest >= 0:
            domain = self.problem.levels[self._narrowest].domain[nodes]
            around = np.append(residual.slots(pod_class, self._narrowest), 0)[domain]
            around = np.minimum(around, 65535)
        else:
            around = np.zeros(len(nodes), dtype=np.int64)
        cpu = np.minimum(self._cpu[nodes] // 1000, 65535)
        key: Ints = ((rank * 256 + gpus) * 65536 + around) * 65536 + cpu
        return key
