"""The same question without the gangs that no plan can place: there is no room for one of them.

The cluster is empty but for what cannot give way. Such gangs cost time in every stage, and count in
bounds until one says that they do not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Bools, Floats, Ints, pods_that_fit
from placement_service.formulation.indices import ClassIdx, GangIdx, LevelIdx
from placement_service.formulation.levels import sums_by_domain
from placement_service.formulation.problem import Gang, GroupRequirement, Problem

#: Sums that differ by this share may be the same.
ROUNDING = 1e-9

#: So many nodes, about, are asked before all are.
_FEW = 200


def without_gangs_counted_late(problem: Problem) -> Problem:
    """The question without hopeless gangs where running ones may give way, or it is not exact.

    Elsewhere counting finds them as soon, and greedy plans hardly look at them.
    """
    late = not problem.exact or any(gang.home for gang in problem.gangs)
    return without_hopeless_gangs(problem) if late else problem


def without_hopeless_gangs(problem: Problem) -> Problem:
    """The question in which gangs that fit nowhere, and those based on them, get no pods.

    The request may allow what an inexact problem does not; then its looser one tells.
    """
    loosest = problem.loosest
    if loosest is None:
        return problem
    room = _Room(loosest)
    # A looser question may have more gangs, behind the others.
    hopeless = {
        mine.index
        for mine, gang in zip(problem.gangs, loosest.gangs, strict=False)
        if mine.pending and mine.placeable and not (mine.home or gang.home or room.has(gang))
    }
    if not hopeless:
        return problem
    while based := {
        g.index
        for g in problem.gangs
        if g.base in hopeless and g.index not in hopeless and not g.home
    }:
        hopeless |= based
    mine = _without(problem, hopeless)
    relaxation = problem.relaxation and _without(problem.relaxation, hopeless)
    loosened = problem.loosened and (
        relaxation
        if problem.loosened is problem.relaxation
        else _without(problem.loosened, hopeless)
    )
    again = problem.again and _without(problem.again, hopeless)
    return replace(mine, relaxation=relaxation, loosened=loosened, again=again)


def _without(problem: Problem, hopeless: Collection[GangIdx]) -> Problem:
    gangs = tuple(
        replace(gang, placeable=False) if gang.index in hopeless else gang for gang in problem.gangs
    )
    return replace(problem, gangs=gangs)


class _Need(NamedTuple):
    """So many units of some demands together, which are these, and how many there are of each pod
    class.
    """

    units: int
    demands: tuple[int, ...]
    of_class: tuple[tuple[ClassIdx, int], ...]

    @property
    def pod_classes(self) -> frozenset[ClassIdx]:
        return frozenset(pod_class for pod_class, _ in self.of_class)


def _need(gang: Gang, requirement: GroupRequirement) -> _Need:
    of_class = Counter[ClassIdx]()
    for d in requirement.demands:
        of_class[gang.demands[d].pod_class] += gang.demands[d].count
    return _Need(requirement.missing, requirement.demands, tuple(of_class.items()))


def _share(needs: Sequence[_Need]) -> bool:
    """Whether needs are of several pod classes, which take from the same room."""
    return len(needs) > 1 or any(len(need.of_class) > 1 for need in needs)


class _Room:
    """What fits of each pod class by itself, and all amounts: on all nodes, and in each domain."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._step = max(1, problem.node_count // _FEW)
        self._few = problem.free[:: self._step].copy()
        # Sums may be beyond any whole number.
        self._amounts = problem.free.sum(axis=0, dtype=np.float64) * (1 + ROUNDING)
        self._amounts_of: dict[LevelIdx, Floats] = {}
        self._rows: dict[ClassIdx, Ints] = {}
        self._totals: dict[ClassIdx, int] = {}
        self._slots: dict[tuple[frozenset[ClassIdx], LevelIdx], Ints] = {}
        self._has: dict[Hashable, bool] = {}

    def has(self, gang: Gang) -> bool:
        """False only if a minimum fits nowhere."""
        # Most gangs are like others.
        alike = gang.asks
        if alike not in self._has:
            self._has[alike] = self._has_minimum(gang)
        return self._has[alike]

    def _has_minimum(self, gang: Gang) -> bool:
        needs = [_need(gang, q) for q in gang.requirements if q.missing]
        if not all(map(self._is_enough, needs)):
            return False
        if _share(needs) and (self._least(needs) > self._amounts).any():
            return False
        for scope in gang.scopes:
            if scope.required < 0:
                continue
            inside = [need for need in needs if set(need.demands) <= set(scope.demands)]
            enough = [self._by_domain(n.pod_classes, scope.required) >= n.units for n in inside]
            if _share(inside):
                together: Bools = np.all(
                    self._least(inside) <= self._amounts_by_domain(scope.required), axis=1
                )
                enough.append(together)
            if scope.pin >= 0:
                enough = [holds[scope.pin : scope.pin + 1] for holds in enough]
            if enough and not np.logical_and.reduce(enough).any():
                return False
        return True

    def _is_enough(self, need: _Need) -> bool:
        """Whether so many units fit on all nodes, if each pod class had them to itself.

        Mostly a few nodes are enough, and with many reservations each gang may have a pod class.
        """
        return any(
            sum(map(total, need.pod_classes)) >= need.units for total in (self._some, self._total)
        )

    def _least(self, needs: Sequence[_Need]) -> Floats:
        """What needs take together of each column at least [R]: of each the smallest units."""
        total: Floats = np.sum([self._least_of(need) for need in needs], axis=0)
        return total

    def _least_of(self, need: _Need) -> Floats:
        pod_classes, counts = map(list, zip(*need.of_class, strict=True))
        request = self._problem.request[pod_classes].astype(float)
        order = np.argsort(request, axis=0)
        number = np.array(counts)[order]
        before = np.cumsum(number, axis=0) - number
        taken = np.clip(need.units - before, 0, number)
        least: Floats = (np.take_along_axis(request, order, axis=0) * taken).sum(axis=0)
        return least

    def _amounts_by_domain(self, level: LevelIdx) -> Floats:
        """All amounts in each domain of a level [D, R]."""
        if level not in self._amounts_of:
            of = self._problem.levels[level]
            inside = of.domain >= 0
            columns = self._problem.free[inside].T
            sums = [np.bincount(of.domain[inside], column, of.count) for column in columns]
            self._amounts_of[level] = np.array(sums, dtype=np.float64).T * (1 + ROUNDING)
        return self._amounts_of[level]

    def _total(self, pod_class: ClassIdx) -> int:
        if pod_class not in self._totals:
            self._totals[pod_class] = int(self._row(pod_class).sum())
        return self._totals[pod_class]

    def _some(self, pod_class: ClassIdx) -> int:
        """Units on a few nodes, from all over the cluster."""
        if pod_class in self._totals:
            return self._totals[pod_class]
        fitting = pods_that_fit(self._few, self._problem.request[pod_class])
        return int(fitting[self._problem.eligible[pod_class, :: self._step]].sum())

    def _by_domain(self, pod_classes: frozenset[ClassIdx], level: LevelIdx) -> Ints:
        """Units in each domain of a level, if each pod class had it to itself [D]."""
        key = pod_classes, level
        if key not in self._slots:
            row = np.sum([self._row(s) for s in pod_classes], axis=0)
            self._slots[key] = sums_by_domain(self._problem.levels[level], row)
        return self._slots[key]

    def _row(self, pod_class: ClassIdx) -> Ints:
        if pod_class not in self._rows:
            problem = self._problem
            row = pods_that_fit(problem.free, problem.request[pod_class])
            row[~problem.eligible[pod_class]] = 0
            self._rows[pod_class] = row
        return self._rows[pod_class]
