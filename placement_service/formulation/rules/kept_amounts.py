"""What queues keep for themselves, as sums without it.

What runs in a queue counts in the limits above it only beyond what it keeps. So of a resource

    count(q) = what runs in q itself + sum over queues c below it: max(0, count(c) - kept(c))

That is the largest of several sums: of each queue below that keeps something either all counts,
less what it keeps, or nothing. The limit of a queue bounds each of them, which is a row of its own.
Where more than it keeps runs in a queue already, or no more with all that is asked for, one of them
is always the larger. Where these are too many sums, all that comes into some queues counts: such a
sum is never too small, but may lose plans. Loose ones count these queues less what they keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from placement_service.entities.queues import Queue, in_millis

#: Most sums of one queue.
_MOST: Final = 256


class Counted(NamedTuple):
    """Of a queue all that runs below it, without what runs in some `left_out` and below these, and
    less what the others have `kept`.
    """

    left_out: frozenset[str]
    kept: int


_ALL: Final = Counted(frozenset(), 0)


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums for one queue; `exact` where all are said."""

    counted: tuple[Counted, ...]
    exact: bool = True

    @property
    def are_several(self) -> bool:
        """Whether something below the queue is kept."""
        return self.counted != (_ALL,)


class KeptAmounts:
    """The sums for each queue, of one resource."""

    def __init__(
        self,
        queues: Sequence[Queue],
        resource: str,
        used: Mapping[str, int],
        asked: Mapping[str, int],
        *,
        loose: bool = False,
    ) -> None:
        """`used` is what runs in each queue and below it, `asked` what is asked for at most."""
        self._used = used
        self._asked = asked
        self._loose = loose
        self._kept = {q.name: n for q in queues if (n := in_millis(q.kept).get(resource, 0))}
        self._below: dict[str, list[str]] = {}
        if self._kept:
            for queue in queues:
                self._below.setdefault(queue.parent, []).append(queue.name)
        self._sums: dict[str, Sums] = {}

    def sums(self, queue: str) -> Sums:
        """Those of a queue; where nothing below it keeps anything, one."""
        if queue not in self._sums:
            self._sums[queue] = self._all_sums(queue)
        return self._sums[queue]

    def now(self, queue: str) -> int:
        """What counts in a queue as it is."""
        return max(self._amount(queue, one) for one in self.sums(queue).counted)

    def counts_above(self, queue: str) -> bool:
        """Whether more runs in a queue than it keeps."""
        return self.now(queue) > self._kept.get(queue, 0)

    def used(self, queue: str, counted: Counted) -> int:
        """What runs of that which counts."""
        left_out = sum(self._used.get(name, 0) for name in counted.left_out)
        return self._used.get(queue, 0) - left_out

    def _amount(self, queue: str, counted: Counted) -> int:
        return self.used(queue, counted) - counted.kept

    def _all_sums(self, queue: str) -> Sums:
        every: tuple[Counted, ...] = (_ALL,)
        exact = True
        for below in sorted(self._below.get(queue, ()), key=self._left, reverse=True):
            sums = self._sums_above(below)
            exact = exact and sums.exact
            if len(every) * len(sums.counted) > _MOST:
                exact = False
                counts = max(0, -self._left(below))
                all_that_comes = Counted(frozenset(), self._used.get(below, 0) - counts)
                sums = Sums((sums.counted[-1] if self._loose else all_that_comes,))
            if sums.counted != (_ALL,):
                every = tuple(
                    Counted(one.left_out | more.left_out, one.kept + more.kept)
                    for one in every
                    for more in sums.counted
                )
        return Sums(every, exact)

    def _sums_above(self, queue: str) -> Sums:
        """What a queue adds to the sums of the one above it."""
        sums = self.sums(queue)
        kept = self._kept.get(queue, 0)
        nothing = Counted(frozenset((queue,)), 0)
        if kept and self._used.get(queue, 0) + self._asked.get(queue, 0) <= kept:
            return Sums((nothing,))
        counted = tuple(one._replace(kept=one.kept + kept) for one in sums.counted)
        if not self._asked.get(queue):
            return Sums((max(counted, key=lambda one: self._amount(queue, one)),))
        return Sums((nothing, *counted) if self._left(queue) > 0 else counted, sums.exact)

    def _left(self, queue: str) -> int:
        """How much more may run in a queue before it counts above."""
        return self._kept.get(queue, 0) - self.now(queue)
