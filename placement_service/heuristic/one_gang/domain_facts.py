"""How gangs, domains and nodes relate to each other: facts that no plan changes.

Everything is found when first asked for and kept, so one `Topology` serves all
plans of a problem.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.gangs.scope_tree import Part, tree_of
from placement_service.formulation.indices import NO_LEVEL, ClassIdx, GangIdx
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.one_gang.node_choice import NodeChoice
from placement_service.heuristic.one_gang.regions import Region


class Overlaps(NamedTuple):
    """Nodes that lie in a domain of two levels each [M]: the overlap of each, and the broad domain
    of each overlap.
    """

    nodes: Ints
    of_node: Ints
    broad: Ints


class Topology:
    """Static facts of a problem, shared by everything that places or counts."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._trees: dict[GangIdx, Part | None] = {}
        self._inside: dict[int, tuple[Ints, ...]] = {}
        self._regions: dict[tuple[int, int], Region] = {}
        self._parents: dict[tuple[int, int], Ints | None] = {}
        self._overlaps: dict[tuple[int, int], Overlaps] = {}
        self._children: dict[tuple[int, int], tuple[Ints, ...]] = {}
        self._least_demand_rank: dict[tuple[int, int], Ints] = {}
        self._own_nodes: dict[ClassIdx, Ints | None] = {}
        #: GPUs of each pod class, for code that asks one by one.
        self.gpus: list[int] = problem.gpus.tolist()
        # Loose pods go to the narrowest levels' fullest domains first.
        named = [i for i in problem.scope_levels if not problem.levels[i].is_host]
        self._narrowest = max(named, key=lambda i: problem.levels[i].count, default=NO_LEVEL)
        self.choice = NodeChoice(problem, self._narrowest)

    @cached_property
    def whole_columns(self) -> Bools:
        """Columns that limit every node [R]."""
        return ~self.problem.partial_columns

    def tree(self, gang: Gang) -> Part | None:
        """The gang's scopes as a tree, None when they do not nest."""
        if gang is not self.problem.gangs[gang.index]:
            # This gang is not in the problem: a copy that asks for something else.
            return tree_of(self.problem, gang)
        if gang.index not in self._trees:
            self._trees[gang.index] = tree_of(self.problem, gang)
        return self._trees[gang.index]

    def inside(self, level: int, domain: int) -> Ints:
        """Sorted node indices of a place (domain, or lone node) at a level."""
        if level not in self._inside:
            place = self.problem.levels[level].place_of
            order = np.argsort(place, kind="stable")
            cuts = np.searchsorted(place[order], np.arange(1, int(place.max(initial=0)) + 1))
            self._inside[level] = tuple(np.split(order, cuts))
        return self._inside[level][domain]

    def region(self, level: int, domain: int) -> Region:
        """All nodes of a place of a level."""
        key = (level, domain)
        if key not in self._regions:
            narrowest = self._narrowest
            even = narrowest < 0 or self.parent(level, narrowest) is not None
            even = even or domain >= self.problem.levels[level].count
            self._regions[key] = Region(self.inside(level, domain), level, domain, even)
        return self._regions[key]

    def narrowed(self, region: Region, level: int, domain: int) -> Region:
        """The nodes of a region in a place of a level."""
        inside = self.region(level, domain)
        if region.nodes is None or self._holds(region, level, domain):
            return inside
        assert inside.nodes is not None
        both = inside.nodes[np.isin(inside.nodes, region.nodes, assume_unique=True)]
        return Region(both, even=inside.even)

    def _holds(self, region: Region, level: int, domain: int) -> bool:
        """Whether a region is known to hold all of a domain."""
        if region.level < 0 or domain >= self.problem.levels[level].count:
            return False
        parent = self.parent(level, region.level)
        return parent is not None and int(parent[domain]) == region.domain

    def domains(self, region: Region, level: int) -> Ints | None:
        """The domains of a level in a region that holds each of them whole, None for others."""
        if region.level < 0 or region.domain >= self.problem.levels[region.level].count:
            return None
        key = (level, region.level)
        if key not in self._children:
            parent = self.parent(level, region.level)
            if parent is None:
                return None
            order = np.argsort(parent, kind="stable")
            count = self.problem.levels[region.level].count
            cuts = np.searchsorted(parent[order], np.arange(1, count))
            self._children[key] = tuple(np.split(order, cuts))
        return self._children[key][region.domain]

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

    def overlaps(self, narrow: int, broad: int) -> Overlaps:
        """Where domains of two levels have nodes in common."""
        key = (narrow, broad)
        if key not in self._overlaps:
            low, high = self.problem.levels[narrow], self.problem.levels[broad]
            nodes = np.flatnonzero((low.domain >= 0) & (high.domain >= 0))
            pairs = high.domain[nodes].astype(np.int64) * low.count + low.domain[nodes]
            found, of_node = np.unique(pairs, return_inverse=True)
            self._overlaps[key] = Overlaps(nodes, of_node, found // low.count)
        return self._overlaps[key]

    def least_demand_rank(self, pod_class: ClassIdx, level: int) -> Ints:
        """The least demand rank of a node for a pod class, per domain [D]."""
        key = (pod_class, level)
        if key not in self._least_demand_rank:
            lv = self.problem.levels[level]
            inside = self.problem.eligible[pod_class] & (lv.domain >= 0)
            result = np.full(lv.count, 1 << 30, dtype=np.int64)
            np.minimum.at(result, lv.domain[inside], self.choice.demand.rank[inside])
            self._least_demand_rank[key] = result
        return self._least_demand_rank[key]

    def own_nodes(self, pod_class: ClassIdx) -> Ints | None:
        """Free nodes that others hardly want, as where they are reserved; None for no such."""
        if pod_class not in self._own_nodes:
            own = self.choice.demand.own_nodes(pod_class)
            self._own_nodes[pod_class] = None if own is None else np.flatnonzero(own)
        return self._own_nodes[pod_class]
