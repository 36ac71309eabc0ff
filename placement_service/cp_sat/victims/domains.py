"""The rows of the victim model for parts that lie in one domain each.

    sum of here[p, D] over D  =   placed[gang of p]
    sum of here[k, D] over D  =   parts of the kind k whose gang moves
    sum of load in D          >=  units of the parts that lie inside D     for each domain D

Parts of other levels count too where their domain lies inside D. No unit counts twice in a row: of
parts in parts only one is counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.linear_model import LinearModel, LinearTerms
from placement_service.cp_sat.victims.moved_units import Homebound, MovedKind, new_demands
from placement_service.cp_sat.victims.nodes import NodeClass
from placement_service.cp_sat.victims.waiting_parts import WaitingPart
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.problem import Gang, Problem


class _Spot(NamedTuple):
    """Units of a pod class, by its number among those asked for, in a domain."""

    level: int
    domain: int
    asked: int


class _Need(NamedTuple):
    """What parts need there: units of a gang, -1 for parts that moved gangs have alike."""

    terms: LinearTerms
    gang: int = -1
    #: Levels of larger parts around, which count these units too.
    within: frozenset[int] = frozenset()


class Domains:
    """Where parts may lie, and what they need there."""

    def __init__(
        self,
        model: LinearModel,
        problem: Problem,
        classes: Sequence[NodeClass],
        asked: Sequence[ClassIdx],
        load: Mapping[tuple[int, int], int],
        levels: Iterable[int],
    ) -> None:
        self._model = model
        self._load = load
        #: The number of each pod class that is asked for.
        self.number: dict[int, int] = {s: a for a, s in enumerate(asked)}
        first = np.array([c.nodes[0] for c in classes])
        #: By level and domain, the node classes there.
        self.inside: dict[int, dict[int, list[int]]] = {}
        for level in levels:
            mine: defaultdict[int, list[int]] = defaultdict(list)
            for j, d in enumerate(problem.levels[level].domain[first].tolist()):
                if d >= 0:
                    mine[d].append(j)
            self.inside[level] = mine
        #: By level, the domain of each node class.
        self.of_classes = {
            level: problem.levels[level].domain[first].tolist() for level in self.inside
        }
        self._offers: dict[_Spot, float] = {}
        self._needs: defaultdict[_Spot, list[_Need]] = defaultdict(list)

    def add_part(
        self, part: WaitingPart, placed: int, among: Collection[int] | None
    ) -> dict[int, int]:
        """The variables that say in which domain a part lies, if its gang is placed: all, or some
        among others.
        """
        here = {
            d: self._model.variable(1)
            for d in self.inside[part.level]
            if part.pin in (-1, d)
            and (among is None or d in among)
            and self._most(part.level, d, part.units.items())
        }
        for d, y in here.items():
            for s, k in part.units.items():
                need = _Need([(y, float(k))], part.gang, part.within)
                self._needs[_Spot(part.level, d, self.number[s])].append(need)
        self._model.row([*((y, 1.0) for y in here.values()), (placed, -1.0)], least=0, most=0)
        return here

    def add_kind(self, kind: MovedKind, stay: Callable[[GangIdx], int]) -> dict[int, int]:
        """The variables that say how many parts of gangs that move lie in which domain."""
        here = {}
        for d in self.inside[kind.level]:
            if most := self._most(kind.level, d, kind.units):
                here[d] = self._model.variable(min(most, len(kind.gangs)))
        for d, y in here.items():
            for s, k in kind.units:
                need = _Need([(y, float(k))])
                self._needs[_Spot(kind.level, d, self.number[s])].append(need)
        staying = ((stay(g), float(times)) for g, times in Counter(kind.gangs).items())
        row = [*((y, 1.0) for y in here.values()), *staying]
        self._model.row(row, least=len(kind.gangs), most=len(kind.gangs))
        return here

    def add_units(self, units: Homebound, terms: LinearTerms) -> None:
        """Units of a gang that stays which come again in its domain."""
        spot = _Spot(units.level, units.domain, self.number[units.pod_class])
        self._needs[spot].append(_Need(terms, units.gang, units.within))

    def post(self) -> None:
        """Adds the rows of the domains."""
        for spot, needs in self._needs.items():
            level, d, a = spot
            js = self.inside[level][d]
            counted = [n for n in needs if level not in n.within]
            gangs = {n.gang for n in counted} - {-1}
            for (other, e, b), more in self._needs.items():
                if b == a and other != level and set(self.inside[other][e]) <= set(js):
                    counted += [n for n in more if not n.within and n.gang not in gangs]
            sums: defaultdict[int, float] = defaultdict(float)
            for need in counted:
                for v, k in need.terms:
                    sums[v] -= k
            load = [(self._load[a, j], 1.0) for j in js if (a, j) in self._load]
            self._model.row([*load, *((v, k) for v, k in sums.items() if k)], least=0)

    def lone(
        self,
        parts: Iterable[WaitingPart],
        gangs: Iterable[Gang],
        placed_again: Collection[ClassIdx],
    ) -> set[tuple[int, int]]:
        """Pod classes, by their number, of which parts of one level bring all units that come: that
        level. None that gangs that move bring.
        """
        comes, own = Counter[ClassIdx](), Counter[tuple[int, ClassIdx]]()
        for gang in gangs:
            for d in new_demands(gang):
                comes[gang.demands[d].pod_class] += gang.demands[d].count
        for part in parts:
            for s, units in part.own.items():
                own[part.level, ClassIdx(s)] += units
        return {
            (level, self.number[s])
            for (level, s), units in own.items()
            if units == comes[s] and s not in placed_again
        }

    def _most(self, level: int, d: int, units: Iterable[tuple[int, int]]) -> int:
        """How many parts with these units a domain could hold."""
        most = [self._offer(_Spot(level, d, self.number[s])) // k for s, k in units]
        return int(min(most, default=0))

    def _offer(self, spot: _Spot) -> float:
        if spot not in self._offers:
            js = self.inside[spot.level][spot.domain]
            loads = (self._load.get((spot.asked, j)) for j in js)
            self._offers[spot] = sum(self._model.most(v) for v in loads if v is not None)
        return self._offers[spot]
