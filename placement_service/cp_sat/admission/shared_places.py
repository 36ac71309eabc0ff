"""Which of several gangs alike uses which places, where a solution says what all of them use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.cp_sat.solving import Var
from placement_service.formulation.arrays import Ints

#: Places of a class up to which it is told which of its gangs uses which.
MOST_PLACES = 20

#: Places of one gang up to which all choices are tried.
MOST_TOGETHER = 3


class SharedPlaces(NamedTuple):
    """The places of gangs of a class: for each how many of them use it, and for each kind of their
    parts how many a gang has and how many lie in each place.
    """

    uses: Sequence[Var]
    parts: Sequence[tuple[int, Sequence[Var]]]

    def of_each(self, gangs: int, solver: cp_model.CpSolver) -> Sequence[tuple[int, ...]]:
        """The places of each of so many gangs in a solution, those with most of them first; nothing
        where it is not told which of them uses which.
        """
        used = [p for p, use in enumerate(self.uses) if solver.value(use)]
        if gangs == 1:
            return [tuple(used)]
        if not self.parts or len(used) > MOST_PLACES:
            return ()
        needs = np.array([times for times, _ in self.parts], dtype=np.int64)
        there = np.array([[solver.value(vs[p]) for _, vs in self.parts] for p in used])
        found = (tuple(used[i] for i in mine) for mine in shares(needs, there, gangs))
        return sorted(found, key=len, reverse=True)


def shares(needs: Ints, there: Ints, gangs: int) -> Sequence[tuple[int, ...]]:
    """The places of each of some gangs that need so many parts of each kind [K], of those that lie
    `there` [P, K]. One after another takes the fewest places that hold its parts, and of those
    what leaves least there; nothing where they do not.
    """
    there, found = there.copy(), []
    for _ in range(gangs):
        mine = _fewest(needs, there)
        wanted = needs.copy()
        for p in mine:
            taken = np.minimum(there[p], wanted)
            there[p] -= taken
            wanted -= taken
        found.append(mine)
    return found


def _fewest(needs: Ints, there: Ints) -> tuple[int, ...]:
    """The places of the next gang."""
    left = np.flatnonzero(there.any(axis=1)).tolist()
    for count in range(1, MOST_TOGETHER + 1):
        able = [
            some
            for some in combinations(left, count)
            if (there[list(some)].sum(axis=0) >= needs).all()
        ]
        if able:
            return min(able, key=lambda some: int(there[list(some)].sum()))
    # Of many at once there would be too many choices.
    fullest = sorted(left, key=lambda p: -int(there[p].sum()))
    for count in range(MOST_TOGETHER + 1, len(fullest) + 1):
        if (there[fullest[:count]].sum(axis=0) >= needs).all():
            return tuple(fullest[:count])
    return ()
