"""What the user of an allocate-once reservation leaves over: free for all once that pod is there.

Until then a reservation of a node holds all of it. With `o` pods of its owners on the node, `k`
reservations that hold `h` each for them, and what all pods `take` of a resource:

    take + h * (k - min(o, k))  <=  limit

Where owners are of several groups, each with reservations of its own, the sum is over groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import NamedTuple, Self

import numpy as np

from placement_service.entities.node import HOSTNAME
from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.rules.draft import RuleDraft
from placement_service.formulation.rules.protocol import (
    NO_CEILING,
    Bundle,
    Ceiling,
    Rule,
    pad,
    total,
)

#: Nodes with such reservations, and pods of the request; with more, room is left out instead: each
#: pod that could be there is looked at by itself.
_MOST_NODES = 16
_MOST_PODS = 2000

#: The most that a row may hold, so that sums over all pods stay in 64 bits.
_MOST = 1 << 40


class Row(NamedTuple):
    """One resource: what a pod of each class takes of it [C], what one reservation of each group
    holds of it, and how much there is.
    """

    take: Ints
    held: tuple[int, ...]
    limit: int

    def measured(self) -> tuple[Row, bool]:
        """The same in smaller numbers, and whether nothing was rounded; else to the safe side."""
        common = gcd(self.limit, *self.held, *self.take.tolist()) or 1
        measure = common * max(1, -(-self.limit // (common * _MOST)))
        limit = self.limit // measure
        take = np.minimum(-(-self.take // measure), limit + 1)
        held = tuple(-(-amount // measure) for amount in self.held)
        return Row(take, held, limit), measure == common


@dataclass(frozen=True, slots=True, eq=False)
class LeftOver(Rule):
    """Reservations of the one node in domain `at` of the level.

    `owners` are masks over pod classes [C], one for each group; `times` are its reservations.
    """

    at: int
    owners: tuple[Bools, ...]
    times: tuple[int, ...]
    rows: tuple[Row, ...]

    def tracked(self) -> tuple[Ints | Bools, ...]:
        return (*self.owners, *(row.take for row in self.rows))

    def open_domains(self, pods: Ints, pod_class: ClassIdx) -> Bools | None:
        more = self._of_one(pod_class)
        if not more.any():
            return None
        result = np.ones(pods.shape[1] + 1, dtype=bool)
        result[self.at] = self._left(pods[:, self.at] + more).min() >= 0
        return result

    def holds(self, pods: Ints) -> bool:
        return bool(self._left(pods[:, self.at]).min() >= 0)

    def ceiling(
        self, pods: Ints, pod_class: ClassIdx, company: Iterable[ClassIdx]
    ) -> Ceiling | None:
        takes = self._of_one(pod_class)[len(self.owners) :]
        if not takes.any() or any(owners[c] for c in company for owners in self.owners):
            return None
        left = self._left(pods[:, self.at])[takes > 0] // takes[takes > 0]
        by_domain = np.full(pods.shape[1] + 1, NO_CEILING)
        by_domain[self.at] = max(0, int(left.min()))
        return Ceiling(by_domain)

    def comes_late(self, pod_class: ClassIdx) -> bool:
        return not any(owners[pod_class] for owners in self.owners) and any(
            row.take[pod_class] for row in self.rows
        )

    def widen(self, bundles: Sequence[Bundle]) -> Self:
        return replace(
            self,
            # Owners are never in a bundle.
            owners=tuple(pad(owners, bundles) for owners in self.owners),
            rows=tuple(row._replace(take=total(row.take, bundles)) for row in self.rows),
        )

    def _of_one(self, pod_class: ClassIdx) -> Ints:
        """What one pod of a class adds to what is tracked."""
        return np.array([weights[pod_class] for weights in self.tracked()], dtype=np.int64)

    def _left(self, load: Ints) -> Ints:
        """What is left in each row with these pods on the node, by what is tracked."""
        groups = len(self.owners)
        unused = np.maximum(0, np.array(self.times) - load[:groups])
        held = np.array([row.held for row in self.rows], dtype=np.int64) @ unused
        limits = np.array([row.limit for row in self.rows], dtype=np.int64)
        left: Ints = limits - held - load[groups:]
        return left


class Group(NamedTuple):
    """So many reservations of a node that hold the same, each for one pod of these classes."""

    owners: Collection[int]
    times: int
    held: Mapping[str, int]


class Room(NamedTuple):
    """What pods of these classes may take of a resource of a node, but for what is held there."""

    classes: Collection[int]
    resource: str
    amount: int


class LeftOvers:
    """Makes the rules of the nodes of a request."""

    def __init__(self, draft: RuleDraft) -> None:
        self._draft = draft
        self._nodes: set[int] = set()

    def may_count(self, n: int) -> bool:
        """Whether a node may have such a rule, which then has to be made."""
        if n not in self._nodes:
            if len(self._nodes) >= _MOST_NODES or sum(self._draft.counts) > _MOST_PODS:
                return False
            _, level = self._draft.level(HOSTNAME)
            if level.domain[n] < 0 or (level.domain == level.domain[n]).sum() > 1:
                return False
        self._nodes.add(n)
        return True

    def hold(self, n: int, groups: Sequence[Group], rooms: Iterable[Room]) -> None:
        """The rule of a node."""
        draft = self._draft
        number, level = draft.level(HOSTNAME)
        rows = []
        for room in rooms:
            held = tuple(group.held.get(room.resource, 0) for group in groups)
            asks = (draft.templates[c][1].requests.get(room.resource, 0) for c in room.classes)
            take = np.zeros(len(draft.templates), dtype=np.int64)
            take[list(room.classes)] = list(asks)
            take[~draft.eligible[:, n]] = 0
            if any(held) and take.any() and room.amount < UNLIMITED:
                row, exact = Row(take, held, room.amount).measured()
                draft.is_exact = draft.is_exact and exact
                rows.append(row)
        if not rows:
            return
        owners = []
        for group in groups:
            mask = np.zeros(len(draft.templates), dtype=bool)
            mask[list(group.owners)] = True
            owners.append(mask)
            draft.special |= mask
        for row in rows:
            draft.special |= row.take > 0
        times = tuple(group.times for group in groups)
        at = int(level.domain[n])
        draft.rules.append(LeftOver(number, at, tuple(owners), times, tuple(rows)))
