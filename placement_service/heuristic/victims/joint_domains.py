"""The joint choice of domains: where slots for several gangs together cost least.

Each gang claims slots in one domain, of a narrow level or of a broad one whose domains hold those
of the narrow one; others take slots anywhere. The gang goes first that would lose most if its best
domain were taken, and pays what the cost of all rises by. Slots that are left are sold at a `price`
to those that need them anywhere: it is no gain to use up cheap ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from placement_service.entities.deadline import check_time
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import GangIdx
from placement_service.heuristic.victims.prices import Floats


class Claim(NamedTuple):
    """So many slots for a gang in one domain of the broad level, or else of the narrow one."""

    gang: GangIdx
    slots: int
    broad: bool


class _Best(NamedTuple):
    """The domain that raises the cost least, and what the next one costs more."""

    regret: float
    domain: int


class JointDomains:
    """Domains for all claims together."""

    def __init__(
        self, costs: Sequence[Sequence[float]], parents: Ints, price: float, most: int
    ) -> None:
        """`costs` are those of each number of slots or more, by narrow domain; `parents` the broad
        domain of each. No broad domain needs more than `most` slots for itself and for others.
        """
        self._price, self._most = price, most
        self._parents = parents
        self._children = [np.flatnonzero(parents == b) for b in range(int(parents.max()) + 1)]
        width = max(len(row) for row in costs)
        self._width = width
        #: Costs [D, K], inf where there are fewer slots; twice as wide as any domain is large.
        self._costs = np.full((len(costs), 2 * width), np.inf)
        for d, row in enumerate(costs):
            self._costs[d, : len(row)] = row
        #: The same where slots that are left are sold.
        left = self._costs - price * np.arange(2 * width)
        left = np.minimum.accumulate(left[:, ::-1], axis=1)[:, ::-1]
        self._sold = left + price * np.arange(2 * width)
        #: Slots that are claimed, by domain.
        self._narrow = np.zeros(len(costs), dtype=np.int64)
        self._broad = np.zeros(len(self._children), dtype=np.int64)
        self._tables: dict[tuple[int, int, bytes], Floats] = {}

    def choose(
        self, claims: Iterable[Claim], *, until: float = np.inf
    ) -> dict[GangIdx, int] | None:
        """The domain of each gang; None where one finds none.

        Raises OutOfTime after `until`, in `time.monotonic` seconds: many claims take long.
        """
        left, found = list(claims), dict[GangIdx, int]()
        while left:
            chosen, best = max(
                ((claim, self._best(claim, until)) for claim in left),
                key=lambda one: (one[1].regret, one[0].slots, -one[0].gang),
            )
            if best.domain < 0:
                return None
            (self._broad if chosen.broad else self._narrow)[best.domain] += chosen.slots
            found[chosen.gang] = best.domain
            left.remove(chosen)
        return found

    def _best(self, claim: Claim, until: float) -> _Best:
        check_time(until)
        if claim.broad:
            rises = [(self._rise(b, more=claim.slots), b) for b in range(len(self._broad))]
        else:
            rises = self._narrow_rises(claim.slots)
        rises = sorted((rise, d) for rise, d in rises if rise < np.inf)
        if not rises:
            return _Best(np.inf, -1)
        second = rises[1][0] if len(rises) > 1 else np.inf
        return _Best(second - rises[0][0], rises[0][1])

    def _narrow_rises(self, slots: int) -> list[tuple[float, int]]:
        """By how much the cost rises in narrow domains, in all that may be one of the two best."""
        at = np.arange(len(self._narrow))
        wanted = np.minimum(self._narrow + slots, 2 * self._width - 1)
        alone = self._sold[at, wanted] - self._sold[at, self._narrow]
        found: list[tuple[float, int]] = []
        for d in np.argsort(alone, kind="stable").tolist():
            # Where others claim slots in the domain around, it mostly rises by more.
            if alone[d] == np.inf or (len(found) > 1 and alone[d] >= sorted(found)[1][0]):
                break
            around = int(self._parents[d])
            if not self._broad[around]:
                found.append((float(alone[d]), d))
                continue
            before = self._value_of(self._table(around), around)
            found.append((self._value_of(self._with(d, slots), around) - before, d))
        return found

    def _rise(self, broad: int, more: int) -> float:
        table = self._table(broad)
        before = self._value_of(table, broad)
        return self._value_of(table[more:], broad) - before

    def _value_of(self, table: Floats, broad: int) -> float:
        """What all claims in a broad domain cost, by the table of its narrow ones."""
        left = table[self._broad[broad] :]
        return float((left - self._price * np.arange(len(left))).min(initial=np.inf))

    def _table(self, broad: int) -> Floats:
        """What so many slots cost in a broad domain, besides those claimed in narrow ones."""
        key = broad, -1, self._narrow[self._children[broad]].tobytes()
        if key not in self._tables:
            self._tables[key] = self._joined(self._children[broad])
        return self._tables[key]

    def _with(self, narrow: int, slots: int) -> Floats:
        """The same where a narrow domain gives so many slots more to claims of its own."""
        broad = int(self._parents[narrow])
        others = self._children[broad][self._children[broad] != narrow]
        key = broad, narrow, self._narrow[others].tobytes()
        if key not in self._tables:
            self._tables[key] = self._joined(others)
        claimed = self._narrow[narrow] + slots
        mine = self._costs[narrow, claimed : claimed + self._width]
        with_it: Floats = _sums(self._tables[key], mine).min(axis=1, initial=np.inf)
        return with_it

    def _joined(self, narrow: Ints) -> Floats:
        table = np.full(self._most + 1, np.inf)
        table[0] = 0.0
        for d in narrow.tolist():
            table = _sums(table, self._open(d)).min(axis=1, initial=np.inf)
        return table

    def _open(self, narrow: int) -> Floats:
        """What so many slots cost in a narrow domain, besides those claimed there."""
        claimed = self._narrow[narrow]
        mine: Floats = self._costs[narrow, claimed : claimed + self._width]
        return mine[: 1 + int(np.count_nonzero(mine < np.inf))]

    def slots(self, anywhere: int) -> dict[int, int] | None:
        """How many slots each narrow domain gives, so that so many are left for all others and the
        cost is least; None where there are not enough.
        """
        rest = np.full(anywhere + 1, np.inf)
        rest[0] = 0.0
        choices: list[Ints] = []
        for broad in range(len(self._children)):
            table = self._table(broad)[self._broad[broad] :][: anywhere + 1]
            sums = _sums(rest, table)
            choices.append(sums.argmin(axis=1))
            rest = sums.min(axis=1)
        if rest[anywhere] == np.inf:
            return None
        found: dict[int, int] = {}
        for broad in range(len(self._children) - 1, -1, -1):
            here = int(choices[broad][anywhere])
            anywhere -= here
            found |= self._divided(broad, here + int(self._broad[broad]))
        return found

    def _divided(self, broad: int, slots: int) -> dict[int, int]:
        """So many slots of a broad domain by narrow domain, with those claimed there."""
        table = np.full(slots + 1, np.inf)
        table[0] = 0.0
        children, choices = self._children[broad].tolist(), list[Ints]()
        for d in children:
            sums = _sums(table, self._open(d))
            choices.append(sums.argmin(axis=1))
            table = sums.min(axis=1)
        found = {}
        for d, choice in zip(reversed(children), reversed(choices), strict=True):
            here = int(choice[slots])
            slots -= here
            found[d] = here + int(self._narrow[d])
        return found


def _sums(one: Floats, other: Floats) -> Floats:
    """At [n, k] the cost of n, of which k are of the other."""
    padded = np.concatenate([np.full(len(other) - 1, np.inf), one])
    sums: Floats = padded[_windows(len(one), len(other))] + other
    return sums


@cache
def _windows(count: int, width: int) -> Ints:
    """At [n, k] the place of n - k, where n - k stands behind `width` - 1 others."""
    return np.arange(count)[:, None] - np.arange(width) + width - 1
