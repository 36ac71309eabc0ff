"""Which nodes units of one pod class go to: the node that waiting pods need least, then the one
with the fewest free GPUs, in the domain with least room, with the least CPU, and then the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.problem import CPU_COLUMN, Problem
from placement_service.heuristic.one_gang.demand_rank import DemandRank
from placement_service.heuristic.one_gang.regions import Region
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Where the parts of a key begin: rank, free GPUs, room around, CPU. The widest values
#: that they keep apart are far beyond what one node has.
_RANK, _GPUS, _AROUND = 40, 32, 16

#: From so many nodes on, those that cannot be chosen are removed first.
_MANY_NODES = 64


class Chosen(NamedTuple):
    """Distinct nodes, and how many units each takes."""

    nodes: Ints
    counts: Ints


class NodeChoice:
    """Sorts nodes for pods, smaller keys first."""

    def __init__(self, problem: Problem, narrowest: int) -> None:
        self._problem = problem
        self._narrowest = narrowest
        self._domain = problem.levels[narrowest].domain if narrowest >= 0 else None

    @cached_property
    def demand(self) -> DemandRank:
        """How much each node is wanted."""
        return DemandRank(self._problem)

    @cached_property
    def _fixed(self) -> Ints:
        """What no plan changes of the key of each node."""
        problem = self._problem
        cpu = (
            problem.free[:, problem.columns.index(CPU_COLUMN)]
            if CPU_COLUMN in problem.columns
            else np.zeros(problem.node_count, dtype=np.int64)
        )
        rank = np.minimum(self.demand.rank, 1023)
        fixed: Ints = (rank << _RANK) + np.minimum(cpu // 1000, 65535)
        return fixed

    def best(
        self, residual: ResidualCapacity, pod_class: ClassIdx, region: Region, count: int
    ) -> Chosen:
        """The best nodes of a region for up to `count` units; fewer where there is no room."""
        row = residual.open_row(pod_class)
        if region.nodes is None:
            able = (row > 0).nonzero()[0]
            fits = row[able]
        else:
            fits = row[region.nodes]
            some = (fits > 0).nonzero()[0]
            able, fits = region.nodes[some], fits[some]
        if len(able) <= 1:
            return Chosen(able, np.minimum(fits, count))
        key = self._by_node(residual, able)
        if len(able) > _MANY_NODES:
            # Rank and free GPUs have few values: mostly the least are enough.
            coarse = key >> _GPUS
            least = (coarse == np.minimum.reduce(coarse)).nonzero()[0]
            if np.add.reduce(fits[least]) >= count:
                able, fits, key = able[least], fits[least], key[least]
        if not region.even:
            key += self._around(residual, pod_class, able)
        if count == 1 and len(able):
            first = int(key.argmin())
            return Chosen(able[first : first + 1], np.ones(1, dtype=np.int64))
        if len(able) > _MANY_NODES and len(able) > 2 * count:
            # Each node takes a unit at least.
            near = key <= np.partition(key, count - 1)[count - 1]
            able, fits, key = able[near], fits[near], key[near]
        order = key.argsort(kind="stable")
        fits = fits[order]
        filled = fits.cumsum()
        last = int(filled.searchsorted(count)) + 1
        counts = fits[:last]
        if last <= len(fits):
            counts[-1] -= filled[last - 1] - count
        return Chosen(able[order[:last]], counts)

    def best_in_each(
        self,
        residual: ResidualCapacity,
        pod_class: ClassIdx,
        regions: Sequence[Region],
        counts: Sequence[int],
    ) -> Chosen:
        """The best nodes of disjoint regions, in their order, for so many units in each.

        Each has the room.
        """
        if len(regions) == 1:
            return self.best(residual, pod_class, regions[0], counts[0])
        found = [region.nodes for region in regions if region.nodes is not None]
        nodes = np.concatenate(found)
        fits = residual.open_row(pod_class)[nodes]
        able = (fits > 0).nonzero()[0]
        place = np.repeat(np.arange(len(found)), [len(one) for one in found])[able]
        nodes, fits = nodes[able], fits[able]
        key = self._by_node(residual, nodes)
        if not all(region.even for region in regions):
            key += self._around(residual, pod_class, nodes)
        order = np.lexsort((key, place))
        nodes, fits, place = nodes[order], fits[order], place[order]
        # Units that are still to be placed in the region at each node.
        filled = fits.cumsum() - fits
        begin = filled[place.searchsorted(np.arange(len(found)))]
        left = np.array(counts)[place] - (filled - begin[place])
        take = np.minimum(fits, left)
        used = take > 0
        return Chosen(nodes[used], take[used])

    def keys(self, residual: ResidualCapacity, pod_class: ClassIdx, nodes: Ints) -> Ints:
        """Sort keys of nodes for a pod class, smaller is better."""
        return self._by_node(residual, nodes) + self._around(residual, pod_class, nodes)

    def _by_node(self, residual: ResidualCapacity, nodes: Ints) -> Ints:
        gpus = np.minimum(residual.gpus_free[nodes], 255)
        key: Ints = self._fixed[nodes] + (gpus << _GPUS)
        return key

    def _around(self, residual: ResidualCapacity, pod_class: ClassIdx, nodes: Ints) -> Ints | int:
        """The room of each node's domain at the narrowest level, as part of a key."""
        if self._domain is None:
            return 0
        room = residual.slots_and_none(pod_class, self._narrowest)[self._domain[nodes]]
        around: Ints = np.minimum(room, 65535) << _AROUND
        return around
