"""Which pods use which reservations of a node, where that has to be chosen.

With `users[r, c]` the pods of class `c` on the node that use reservation `r`, what `r` still holds
of each resource is

    rest[r] = held[r] * (1 - users[r])                          for an allocate-once one
    rest[r] = max(0, held[r] - sum over c of ask[c] * users[r, c])     for all others

and all pods have room beside it:

    what all pods take + sum over r of rest[r]  <=  limit

as far as some pod takes any of it: more may be held than there is, and then nobody has any, unless
an allocate-once one ends that holds too much.

A pod uses one reservation at most, one that insists on a reservation exactly one. So what the user
of an allocate-once one leaves over is free for all once that pod is there, and until then held. In
a column of room that some gangs share, a user that does not count there has what it uses of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import gcd
from typing import ClassVar, NamedTuple, Self

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.rules.protocol import (
    NO_CEILING,
    Bundle,
    Ceiling,
    Rule,
    total,
)

#: Pods of the request: with more no such rule is made, for those that could be there are looked at
#: one by one.
MOST_PODS = 2000

#: The most that a row may hold, so that sums over all pods stay in 64 bits.
_MOST = 1 << 40

#: Choices that are tried for one set of pods, and ways to use one reservation that are looked at.
#: If none of them fits, that counts as no room.
_MOST_CHOICES = 300
_MOST_WAYS = 1000

#: Further pods of a class that are counted.
_MOST_MORE = 256

#: Of each resource.
Amounts = tuple[int, ...]


class Row(NamedTuple):
    """One resource: what a pod of each class takes of it [C], what each reservation holds of it,
    how much there is, by reservation what an owner, by its place, has of it while it does not
    count here, and whether its users take no more of it than it holds.
    """

    take: Ints
    held: Amounts
    limit: int
    had: tuple[Amounts, ...]
    capped: tuple[bool, ...]

    def measured(self) -> Row | None:
        """The same in a common measure; None where the numbers stay too large."""
        limit = min(max(0, self.limit), int(self.take.max()) * MOST_PODS + sum(self.held))
        had = [amount for of in self.had for amount in of]
        common = gcd(limit, *self.held, *had, *self.take.tolist()) or 1
        if max(limit, *self.held) // common > _MOST:
            return None
        take = np.minimum(self.take // common, limit // common + 1)
        less = tuple(tuple(amount // common for amount in of) for of in self.had)
        held = tuple(amount // common for amount in self.held)
        return Row(take, held, limit // common, less, self.capped)


class Kind(NamedTuple):
    """What a reservation allows: one pod at most, to be topped up or not, and what it holds ends
    with its first pod or not. `owners` are places in the owners of the rule.
    """

    owners: tuple[int, ...]
    single: bool
    restricted: bool
    ends: bool


class _Choice(NamedTuple):
    """Who may still choose a reservation, by owners, and what of each resource is left."""

    waiting: tuple[int, ...]
    left: Amounts


@dataclass(frozen=True, slots=True, eq=False)
class ReservedRoom(Rule):
    """The reservations of the one node in domain `at` of the level.

    `owners` are pod classes, of which those in `insist` use a reservation or do not run there.
    """

    hardly_binds: ClassVar[bool] = True

    at: int
    owners: tuple[ClassIdx, ...]
    insist: tuple[bool, ...]
    kinds: tuple[Kind, ...]
    rows: tuple[Row, ...]
    #: Whether pods fit, by what is tracked of them: greedy plans ask for the same again and again.
    _known: dict[bytes, bool] = field(init=False, default_factory=dict)
    #: What a pod of each class adds to that.
    _more: dict[ClassIdx, Ints] = field(init=False, default_factory=dict)

    def tracked(self) -> tuple[Ints | Bools, ...]:
        every = np.arange(len(self.rows[0].take))
        return (*(every == owner for owner in self.owners), *(row.take for row in self.rows))

    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        more = self._of_one(pod_class)
        if not more.any():
            return None
        result = np.ones(pods.shape[1] + 1, dtype=bool)
        result[self.at] = self._fits(pods[:, self.at] + more)
        return result

    def holds(self, pods: Ints) -> bool:
        return self._fits(pods[:, self.at])

    def ceiling(
        self, pods: Ints, pod_class: ClassIdx, company: Iterable[ClassIdx]
    ) -> Ceiling | None:
        more = self._of_one(pod_class)
        if not more.any() or any(c in self.owners for c in company):
            # What an owner leaves over may be more than it takes.
            return None
        fitting = self._fitting(pods, more)
        return Ceiling(self._here(pods, fitting if fitting < _MOST_MORE else int(NO_CEILING)))

    def surely(self, pods: Ints, pod_class: ClassIdx) -> Ints | None:
        # Pods on other nodes are none of its business.
        more = self._of_one(pod_class)
        return self._here(pods, self._fitting(pods, more) if more.any() else int(NO_CEILING))

    def _fitting(self, pods: Ints, more: Ints) -> int:
        """How many pods that add so much fit on the node, one by one; at most `_MOST_MORE`."""
        load, fitting = pods[:, self.at], 0
        while fitting < _MOST_MORE and self._fits(load + (fitting + 1) * more):
            fitting += 1
        return fitting

    def _here(self, pods: Ints, most: int) -> Ints:
        """A number for the node, and none for all others [D + 1]."""
        by_domain = np.full(pods.shape[1] + 1, NO_CEILING)
        by_domain[self.at] = most
        return by_domain

    def comes_late(self, pod_class: ClassIdx) -> bool:
        return pod_class not in self.owners and any(row.take[pod_class] for row in self.rows)

    def widen(self, bundles: Sequence[Bundle]) -> Self:
        # Owners are never in a bundle.
        rows = tuple(row._replace(take=total(row.take, bundles)) for row in self.rows)
        return replace(self, rows=rows)

    def asks(self, owner: int) -> Amounts:
        """What a pod of an owner, told by its place, takes of each resource."""
        return tuple(int(row.take[self.owners[owner]]) for row in self.rows)

    def _of_one(self, pod_class: ClassIdx) -> Ints:
        """What one pod of a class adds to what is tracked."""
        if pod_class not in self._more:
            more = [weights[pod_class] for weights in self.tracked()]
            self._more[pod_class] = np.array(more, dtype=np.int64)
        return self._more[pod_class]

    def _fits(self, load: Ints) -> bool:
        """Whether these pods, by what is tracked, can choose such that all have room."""
        key = load.tobytes()
        if key not in self._known:
            self._known[key] = self._can_choose(load)
        return self._known[key]

    def _can_choose(self, load: Ints) -> bool:
        waiting, taken = load[: len(self.owners)].tolist(), load[len(self.owners) :].tolist()
        # Of what nobody takes more may be held than there is.
        left = tuple(
            row.limit - n if n else int(NO_CEILING) for row, n in zip(self.rows, taken, strict=True)
        )
        if min(left) < 0:
            return False
        asks = [self.asks(owner) for owner in range(len(self.owners))]
        # Those that may be topped up take any owner that is left, so they come last.
        order = sorted(range(len(self.kinds)), key=lambda r: not self.kinds[r].restricted)
        later: list[set[int]] = [set()]
        for r in reversed(order):
            later.insert(0, later[0] | set(self.kinds[r].owners))
        stack = [(0, _Choice(tuple(waiting), left))]
        seen: set[tuple[int, _Choice]] = set()
        while stack and len(seen) < _MOST_CHOICES:
            at, choice = stack.pop()
            if (at, choice) in seen:
                continue
            seen.add((at, choice))
            if at == len(order):
                both = zip(choice.waiting, self.insist, strict=True)
                if not any(count and insists for count, insists in both):
                    return True
                continue
            choices = list(self._choices(order[at], choice, asks, later[at + 1]))
            stack += [(at + 1, one) for one in reversed(choices)]
        return False

    def _of(self, reservation: int) -> Amounts:
        """What a reservation holds of each resource."""
        return tuple(row.held[reservation] for row in self.rows)

    def _choices(
        self, reservation: int, choice: _Choice, asks: Sequence[Amounts], later: Collection[int]
    ) -> Iterator[_Choice]:
        """Ways to use a reservation, those first that leave most room; `later` are the owners of
        those that come after it.
        """
        kind, held = self.kinds[reservation], self._of(reservation)
        most = 1 if kind.single else _MOST_MORE
        able = [min(choice.waiting[owner], most) for owner in kind.owners]
        ways: Iterable[tuple[int, ...]] = product(*(range(n, -1, -1) for n in able))
        if not (kind.single or kind.restricted) and not any(o in later for o in kind.owners):
            ways = [tuple(able)]
        found = []
        for counts in islice(ways, _MOST_WAYS):
            if kind.single and sum(counts) > 1:
                continue
            used = [
                sum(asks[owner][f] * n for owner, n in zip(kind.owners, counts, strict=True))
                for f in range(len(held))
            ]
            if any(
                row.capped[reservation] and u > h
                for row, u, h in zip(self.rows, used, held, strict=True)
            ):
                continue
            rest = [max(0, h - u) for h, u in zip(held, used, strict=True)]
            if kind.ends and any(counts):
                rest = [
                    sum(
                        row.had[reservation][o] * n
                        for o, n in zip(kind.owners, counts, strict=True)
                    )
                    for row in self.rows
                ]
            left = tuple(a - b for a, b in zip(choice.left, rest, strict=True))
            if min(left) >= 0:
                waiting = list(choice.waiting)
                for owner, n in zip(kind.owners, counts, strict=True):
                    waiting[owner] -= n
                found.append((sum(rest), -sum(used), _Choice(tuple(waiting), left)))
        found.sort(key=lambda one: one[:2])
        return (one for _, _, one in found)
