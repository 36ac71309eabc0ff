"""A dive into a linear program with configurations: what is nearly whole is made whole, step by
step, and columns are priced anew for what is left.

How many gangs are admitted comes first: while nothing says what domains hold, columns can be found
for any number of them. Then one domain after another gets what it holds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from placement_service.cp_sat.configurations.lp import Column, Floats, Relaxation
from placement_service.formulation.arrays import Ints

#: Closer than this to a whole number is whole.
WHOLE = 1e-6

#: So much of what is not whole is rounded at once, so often.
SHARE, ROUNDS = 0.3, 40

#: The share of the domains that are settled at once, and of a column that is always rounded up.
DOMAINS, NEARLY = 0.2, 0.7


class Dive:
    """Fixes variables of a relaxation, until a `deadline` as `time.monotonic`. `fixed` says how
    often columns are used at least.
    """

    def __init__(self, relaxation: Relaxation, whole: Sequence[int], deadline: float) -> None:
        """Of the variables of the model those that are `whole` are to be whole numbers."""
        self.relaxation, self.deadline = relaxation, deadline
        self.fixed: dict[Column, int] = {}
        signatures = relaxation.configurations.signatures
        self._left: Ints = np.array([len(s.domains) for s in signatures], dtype=np.int64)
        self._every = int(self._left.sum())
        self._whole = [relaxation.variables[v] for v in whole]
        self._counts: Floats = np.zeros(len(whole))
        self._used: dict[Column, float] = {}

    def round_counts(self, until: float) -> None:
        """Whole numbers for the variables, as long as all that is held can be kept."""
        stuck: set[int] = set()
        found = self._settle()
        for _ in range(ROUNDS):
            away = np.abs(self._counts - np.rint(self._counts))
            torn = [int(i) for i in np.argsort(away, kind="stable") if away[i] > WHOLE]
            torn = [i for i in torn if i not in stuck]
            if not found or not torn or time.monotonic() > until:
                break
            some = torn[: math.ceil(SHARE * len(torn))]
            if not self._round(some) and not self._round(some[:1]):
                stuck.add(some[0])
        for variable, count in zip(self._whole, self._counts.tolist(), strict=True):
            if found and abs(count - round(count)) <= WHOLE:
                variable.SetBounds(round(count), round(count))

    def _round(self, some: Sequence[int]) -> bool:
        """Rounds some variables; false, and nothing has changed, where that is impossible."""
        before = [(self._whole[i].lb(), self._whole[i].ub()) for i in some]
        for i in some:
            count = round(float(self._counts[i]))
            self._whole[i].SetBounds(count, count)
        if self._settle():
            return True
        for i, (low, high) in zip(some, before, strict=True):
            self._whole[i].SetBounds(low, high)
        return False

    def fix(self, leave: float) -> Mapping[Column, int] | None:
        """Settles what domains hold until such a share of them is left; None where time is up."""
        while self._left.sum() > leave * self._every:
            rest = {q: x - self.fixed.get(q, 0) for q, x in self._used.items()}
            order = sorted((q for q in rest if rest[q] > WHOLE), key=lambda q: -rest[q])
            if not order:
                break
            most = int(self._left.sum()) - math.floor(leave * self._every)
            self._fix(order, rest, min(most, math.ceil(DOMAINS * self._left.sum())))
            if not self._settle():
                return None
        return self.fixed

    def _fix(self, order: Sequence[Column], rest: Mapping[Column, float], most: int) -> None:
        done = 0
        for q in order:
            times = math.floor(rest[q] + WHOLE)
            if not times and (not done or rest[q] > NEARLY):
                times = 1
            times = min(times, int(self._left[q.signature]), most - done)
            if times > 0:
                self.fixed[q] = self.fixed.get(q, 0) + times
                self.relaxation.uses[q].SetLb(self.fixed[q])
                self._left[q.signature] -= times
                done += times

    def _settle(self) -> bool:
        """Solves, with columns that are worth it now; false where there is no solution."""
        if not self._solve(adds=True):
            return False
        self._solve(adds=False)
        return True

    def _solve(self, *, adds: bool) -> bool:
        left = self.deadline - time.monotonic()
        solved = self.relaxation.solve(left) if left > 0 else None
        if solved is None:
            return False
        # All of it is read now: once anything is changed it is no longer valid.
        self._counts = np.array([v.solution_value() for v in self._whole])
        self._used = {q: x.solution_value() for q, x in self.relaxation.uses.items()}
        if adds:
            _, duals, signatures = solved
            self.relaxation.price(duals, duals, signatures, self._left)
        return True
