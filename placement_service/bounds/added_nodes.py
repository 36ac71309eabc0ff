"""The least number of further nodes that all waiting gangs need, by counting.

Every row of `counting` says what all gangs together weigh and what the nodes offer, domain by
domain. A further node adds to its own domain, so the least number of nodes of one kind that
makes up for what a row lacks follows at once. The same for a scope that must lie in one domain.

The kinds are nodes at the end of the problem, one of each, that do not exist yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.bounds.shortages import Lack, Offers, lacks
from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Gang, Scope

#: More nodes than anybody would add: no number is enough.
NEVER = 1 << 40


class AddedNodes:
    """The least numbers for a counted problem whose nodes from `first` on are kinds of nodes."""

    def __init__(self, counting: Counting, first: int) -> None:
        self.counting = counting
        self.problem = counting.problem
        self._first = first
        self._room = counting.room.copy()
        self._room[:, first:] = 0
        self._each = counting.room[:, first:]
        self._offers = Offers(counting, self._room)

    def alike(self, gang: Gang, others: Sequence[Gang]) -> Ints:
        """For each kind the least number of nodes of that kind alone [T], `NEVER` for none, so that
        the gang fits beside the others.
        """
        least = np.zeros(self._each.shape[1], dtype=np.int64)
        for lack in lacks(self.counting, [*others, gang], self._offers):
            np.maximum(least, self._for_row(lack), out=least)
        for one in (self.problem.gangs[gang.base] if gang.base >= 0 else gang, gang):
            for scope in one.scopes:
                if scope.required >= 0 and one.pending:
                    np.maximum(least, self._for_scope(one, scope), out=least)
        return least

    def mixed(self, gang: Gang, others: Sequence[Gang]) -> int:
        """The least number of these very nodes, each once; `NEVER` when not even all of them."""
        least = 0
        for lack in lacks(self.counting, [*others, gang], self._offers):
            gains = np.sort(-(-self._each[lack.way] // lack.step))[::-1]
            least = max(least, _first_enough(gains, lack.size))
        for one in (self.problem.gangs[gang.base] if gang.base >= 0 else gang, gang):
            for scope in one.scopes:
                if scope.required >= 0 and one.pending:
                    least = max(least, self._mixed_for_scope(one, scope))
        return least

    # --- rows -------------------------------------------------------------------

    def _for_row(self, lack: Lack) -> Ints:
        each = self._each[lack.way]
        if lack.level < 0 or self.problem.levels[lack.level].is_host:
            return _steps(np.full(each.shape, lack.size), each // lack.step)
        place = self.problem.levels[lack.level].place_of[self._first :]
        alone = self.problem.levels[lack.level].domain[self._first :] < 0
        there = self._offers.at(lack.level)[lack.way][place]
        joined = _steps((there // lack.step + lack.size) * lack.step - there, each)
        return np.where(alone, _steps(np.full(each.shape, lack.size), each // lack.step), joined)

    # --- scopes -----------------------------------------------------------------

    def _needs(self, gang: Gang, scope: Scope) -> Ints | None:
        """What a scope weighs [K]; None when some existing domain may hold it."""
        level = self.problem.levels[scope.required]
        content = self.counting.content(gang, scope.demands)
        if not content:
            return None
        need = self.counting.weigh(content)
        able = np.all(self._offers.at(scope.required)[:, : level.count] >= need[:, None], axis=0)
        if scope.pin >= 0:
            able &= np.arange(level.count) == scope.pin
        return None if able.any() else need

    def _for_scope(self, gang: Gang, scope: Scope) -> Ints:
        need = self._needs(gang, scope)
        if need is None:
            return np.zeros(self._each.shape[1], dtype=np.int64)
        level = self.problem.levels[scope.required]
        own = level.domain[self._first :]
        there = self._offers.at(scope.required)[:, own]
        if level.is_host:
            least = np.where((self._each >= need[:, None]).all(axis=0), 1, NEVER)
        else:
            least = _steps(need[:, None] - there, self._each).max(axis=0, initial=0)
        outside = (own < 0) | ((scope.pin >= 0) & (own != scope.pin))
        return np.where(outside, NEVER, np.maximum(least, 1))

    def _mixed_for_scope(self, gang: Gang, scope: Scope) -> int:
        need = self._needs(gang, scope)
        if need is None:
            return 0
        own = self.problem.levels[scope.required].domain[self._first :]
        best = NEVER
        for domain in np.unique(own[own >= 0]).tolist():
            if scope.pin >= 0 and domain != scope.pin:
                continue
            there = self._offers.at(scope.required)[:, domain]
            each = np.sort(self._each[:, own == domain], axis=1)[:, ::-1]
            lacks = need - there
            counts = [
                _first_enough(row, int(d)) for row, d in zip(each, lacks, strict=True) if d > 0
            ]
            best = min(best, max(counts, default=1))
        return best


def _steps(lacks: Ints, each: Ints) -> Ints:
    """How many times `each` is needed to cover what lacks; `NEVER` where that is never enough."""
    found = -(-lacks // np.maximum(each, 1))
    return np.where(lacks <= 0, 0, np.where(each > 0, found, NEVER))


def _first_enough(gains: Ints, need: int) -> int:
    """How many of the gains, largest first, reach a need; `NEVER` when not even all do."""
    sums = np.cumsum(gains)
    if need <= 0:
        return 0
    if not len(sums) or sums[-1] < need:
        return NEVER
    return int(np.searchsorted(sums, need)) + 1
