"""The rows of the victim model that count units of the whole cluster: limits of queues, disruption
budgets, and, where gangs move, room for all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.linear_model import LinearModel, LinearTerms, summed
from placement_service.cp_sat.victims.nodes import covered_by
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.problem import Gang, Problem


class RunningUnits(NamedTuple):
    """Units of one pod class of a running gang on the nodes of a class."""

    gang: GangIdx
    node_class: int
    pod_class: int


class Staying(NamedTuple):
    """How many of them stay: so many times a variable."""

    variable: int
    times: int


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """What stays and what comes, as variables of a model. `come` are units by gang and pod class,
    and with `moves` all that runs goes on somewhere.
    """

    model: LinearModel
    problem: Problem
    running: Sequence[Gang]
    kept: Mapping[RunningUnits, Staying]
    come: Mapping[tuple[GangIdx, ClassIdx], LinearTerms]
    moves: bool

    def limit_queues(self) -> None:
        """No queue has more than its limit."""
        for row in self.problem.queue_rows:
            terms: defaultdict[int, float] = defaultdict(float)
            for (gang, pod_class), coming in self.come.items():
                if gang in row.gangs:
                    for v, w in coming:
                        terms[v] += int(row.weight[pod_class]) * w
            runs = 0
            if self.moves:
                runs = sum(
                    int(row.weight[s]) * units
                    for gang in self.running
                    if gang.index in row.gangs
                    for s, units in _at_home(gang)
                )
            else:
                for (g, _, s), (v, units) in self.kept.items():
                    if g in row.gangs:
                        terms[v] += int(row.weight[s]) * units
            if terms:
                self.model.row([(v, w) for v, w in terms.items() if w], most=row.capacity - runs)

    def keep_budgets(self) -> None:
        """Enough pods stay. The class of a pod determines its demand."""
        for budget in self.problem.budgets:
            covered = covered_by(self.problem, budget)
            terms: defaultdict[int, float] = defaultdict(float)
            for (g, _, s), (v, units) in self.kept.items():
                if s in covered.get(g, ()):
                    terms[v] += units
            self.model.row(list(terms.items()), least=budget.least)

    def hold_everything(
        self, loads: Mapping[ClassIdx, LinearTerms], placed_again: Collection[ClassIdx]
    ) -> None:
        """Moved pods run somewhere: there is room in all for all pods that run or come.

        `loads` are the units that come to nodes, by pod class; those of pod classes that are
        `placed_again` are among them where their gang moves.
        """
        request = self.problem.request
        total = self.problem.free.sum(axis=0, dtype=np.float64)
        running: Counter[ClassIdx] = Counter()
        for gang in self.running:
            for pod_class, units in _at_home(gang):
                if pod_class not in placed_again:
                    running[pod_class] += units
        for r in range(len(self.problem.columns)):
            runs = sum(units * int(request[s, r]) for s, units in running.items())
            terms: LinearTerms = []
            for one, (v, units) in self.kept.items():
                if one.pod_class in placed_again:
                    terms.append((v, float(request[one.pod_class, r]) * units))
            for s, load in loads.items():
                terms += [(v, w * int(request[s, r])) for v, w in load]
            for (_, s), come in self.come.items():
                if s not in loads:
                    terms += [(v, w * int(request[s, r])) for v, w in come]
            terms = [(v, w) for v, w in summed(terms) if w]
            if terms:
                self.model.row(terms, most=max(0.0, float(total[r]) - runs))


def _at_home(gang: Gang) -> list[tuple[ClassIdx, int]]:
    """The units of a gang that run now, by pod class."""
    return [(gang.demands[home.demand].pod_class, home.units) for home in gang.home]
