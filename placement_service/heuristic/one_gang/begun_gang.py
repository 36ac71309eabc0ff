"""Places the rest of a gang when some of its units have their nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.plan import Units
from placement_service.heuristic.one_gang.alike_parts import Run
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.placer import GangPlacer
from placement_service.heuristic.one_gang.regions import Region
from placement_service.heuristic.residual_capacity import ResidualCapacity


class BegunGang(GangPlacer):
    """A gang that is placed in part: the rest of a part goes to the domain where the part lies."""

    def __init__(self, topology: Topology, residual: ResidualCapacity, gang: int) -> None:
        super().__init__(topology, residual, topology.problem.gangs[gang])

    def begin(self, units: Units) -> None:
        """Take these units, which are part of the minimum."""
        for demand, node, count in units:
            self.take(demand, np.array([node]), np.array([count]))
            self.want[demand] -= count
        for requirement in self.gang.requirements:
            # Units of one demand may stand for those of another.
            over = -sum(min(0, self.want[d]) for d in requirement.demands)
            for d in requirement.demands:
                less = min(over, self.want[d]) if self.want[d] > 0 else self.want[d]
                self.want[d] -= less
                over -= max(0, less)

    def candidates(
        self, part: Part, level: int, region: Region, most: int | None = None
    ) -> list[int]:
        found = super().candidates(part, level, region, most)
        if level == part.required:
            return self._used(part, self.problem.levels[level].domain)[:most] or found
        used = self._used(part, self.problem.levels[level].place_of)
        return (used + [d for d in found if d not in used])[:most]

    def _runs(self, parts: Sequence[Part]) -> Iterator[Run]:
        # Parts of which units have nodes are unlike the others.
        return iter([Run(None, self.hardest_first(parts))])

    def _used(self, part: Part, domain: Ints) -> list[int]:
        """Domains where the part lies, those with most units first."""
        units: dict[int, int] = {}
        mine = set(part.demands)
        for (d, node), count in self.taken.items():
            if d in mine and count:
                units[int(domain[node])] = units.get(int(domain[node]), 0) + count
        return sorted(units, key=lambda at: (-units[at], at))

    def finish(self) -> bool:
        """Place the rest; false if it does not fit."""
        return self.run() and self._keeps_together() and self.residual.rules_hold()

    def _keeps_together(self) -> bool:
        """Whether every scope that needs one domain lies in one, the one it is held to."""
        for scope in self.gang.scopes:
            if scope.required >= 0:
                domain = self.problem.levels[scope.required].domain
                used = {
                    int(domain[n]) for (d, n), c in self.taken.items() if c and d in scope.demands
                }
                used |= {scope.pin} - {-1}
                if len(used) > 1 or -1 in used:
                    return False
        return True
