"""Extras of one gang: units beyond the minimum, near what is there."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.indices import ClassIdx, DemandIdx
from placement_service.formulation.problem import CPU_COLUMN, DemandUnits, Problem
from placement_service.heuristic.one_gang.regions import EVERYWHERE, Region
from placement_service.heuristic.one_gang.units import GangUnits

#: What an extra takes: GPUs, then CPU.
Size = tuple[int, int]


def extra_size(problem: Problem, pod_class: ClassIdx) -> Size:
    """Smaller for extras of which more find room."""
    known = CPU_COLUMN in problem.columns
    cpu = problem.request[pod_class, problem.columns.index(CPU_COLUMN)] if known else 0
    return int(problem.gpus[pod_class]), int(cpu)


class GangExtras(GangUnits):
    """Adds to the units in `taken`; all requirements are met by what runs and by them."""

    def run(self, *, near: bool = False, largest: Size | None = None) -> None:
        """Adds as many as fit, of those up to the `largest`, or as fit `near` what is there if some
        levels are preferred.
        """
        have = [0] * len(self.gang.demands)
        for (d, _), count in self.taken.items():
            have[d] += count
        for requirement in self.gang.requirements:
            placed = sum(have[d] for d in requirement.demands)
            for d in requirement.demands:
                if largest is not None and extra_size(self.problem, self._class(d)) > largest:
                    continue
                want = min(requirement.pending - placed, self.gang.demands[d].count - have[d])
                want = min(want, self.residual.queues.most(self.gang, d))
                regions = list(self._regions(d)) if want > 0 else []
                for region in regions[:-1] if near and len(regions) > 1 else regions:
                    done = self._add(d, want, region)
                    want, placed = want - done, placed + done
                    if want <= 0:
                        break
                if time.monotonic() > self._until:
                    return

    def _class(self, demand: int) -> ClassIdx:
        return self.gang.demands[demand].pod_class

    def _add(self, demand: int, want: int, region: Region) -> int:
        mark = self.mark()
        try:
            done = self.loose(demand, want, region)
        except OutOfTime:
            self.undo(mark)
            return 0
        if done and not self.residual.rules_hold():
            self.undo(mark)
            return 0
        self.residual.queues.charge(self.gang, (DemandUnits(DemandIdx(demand), done),))
        return done

    def _regions(self, demand: int) -> Iterator[Region]:
        """Where extras may go: used preferred domains first, then anywhere allowed."""
        region = EVERYWHERE
        for scope in self.gang.scopes:
            if scope.required < 0 or demand not in scope.demands:
                continue
            domain: int = scope.pin
            if domain < 0:
                of = self.problem.levels[scope.required].domain
                used = [int(of[n]) for (d, n), c in self.taken.items() if c and d in scope.demands]
                if not used and not self.problem.levels[scope.required].count:
                    return
                domain = used[0] if used else self._roomiest(demand, scope.required, region)
            region = self.topology.narrowed(region, scope.required, domain)
        for scope in self.gang.scopes:
            if scope.preferred >= 0 and demand in scope.demands:
                place = self.problem.levels[scope.preferred].place_of
                near = {p for p in scope.running if p >= 0}
                near |= {
                    int(place[n]) for (d, n), c in self.taken.items() if c and d in scope.demands
                }
                if near:
                    yield self._near(scope.preferred, near, region)
        yield region

    def _near(self, level: int, places: set[int], region: Region) -> Region:
        """The nodes of a region in some places of a level."""
        if len(places) == 1:
            return self.topology.narrowed(region, level, *places)
        inside = np.flatnonzero(np.isin(self.problem.levels[level].place_of, list(places)))
        return Region(inside if region.nodes is None else np.intersect1d(inside, region.nodes))

    def _roomiest(self, demand: int, level: int, region: Region) -> int:
        return int(np.argmax(self.sums(self._class(demand), level, region)))
