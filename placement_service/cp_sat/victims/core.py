"""A core of the victim model: some nodes, and some domains for each part, are open.

All other nodes stay as they are while nothing moves: what runs there stays, unless its gang leaves
the open nodes, too, and nothing comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.cp_sat.victims.nodes import NodeClass
from placement_service.formulation.arrays import Bools
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.problem import Gang


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """Open nodes [N], and open domains of each part of the model."""

    nodes: Bools
    domains: Mapping[int, Collection[int]]

    def untouched(self, running: Iterable[Gang]) -> frozenset[GangIdx]:
        """Gangs of which no pod runs on an open node: they stay."""
        nodes = self.nodes.tolist()
        return frozenset(g.index for g in running if not any([nodes[home.node] for home in g.home]))

    def shut(self, classes: Sequence[NodeClass]) -> frozenset[int]:
        """The classes of which no node is open."""
        begins = np.cumsum([0, *(len(c.nodes) for c in classes)])[:-1]
        is_open = np.logical_or.reduceat(
            self.nodes[np.concatenate([c.nodes for c in classes])], begins
        )
        return frozenset(np.flatnonzero(~is_open).tolist())
