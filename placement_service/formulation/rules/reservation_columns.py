"""What reservations hold as columns of resources: what all pods of a node may use at most that may
not use some of its reservations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np

from placement_service.entities.request import Node
from placement_service.formulation.arrays import UNLIMITED, Ints
from placement_service.formulation.rules.draft import Column, RuleDraft

#: The suffix of columns that count a resource beside what is held for others.
BESIDE = " beside reservations"
#: Columns for all reservations together; further ones are held for nobody.
MOST_COLUMNS = 400

#: Pod classes.
Classes = frozenset[int]


@dataclass(slots=True)
class Held:
    """Reservations of a node with the same owners: what they hold, and what nobody can use."""

    owners: Classes
    amounts: dict[str, int]
    waste: dict[str, int] = field(default_factory=dict)


class ReservationColumns:
    """Collects them node by node. Pods of the classes `ignoring` heed no reservation."""

    def __init__(self, draft: RuleDraft, ignoring: Classes) -> None:
        self._draft, self._ignoring = draft, ignoring
        self._templates = [t for _, t in draft.templates]
        self._count_of_nodes = len(draft.snapshot.nodes)
        self._columns: dict[tuple[Classes, str], Ints] = {}
        self._asking: dict[str, Classes] = {}

    def hold(self, n: int, node: Node, held: Sequence[Held]) -> None:
        """What all may use of a node who own none of some reservations, for each set of these."""
        everyone = frozenset(range(len(self._templates)))
        nobody = [h.amounts for h in held if not h.owners]
        some = [h for h in held if h.owners]
        for chosen in _subsets(some):
            guests = everyone.difference(self._ignoring, *(h.owners for h in chosen))
            amounts = Counter[str]()
            for of_some in (
                *nobody,
                *(h.amounts for h in chosen),
                *(h.waste for h in some if h not in chosen),
            ):
                amounts.update(of_some)
            for resource, amount in amounts.items():
                if guests == everyone:
                    self._withhold(n, resource, amount)
                else:
                    self._count(n, node, guests, resource, amount)

    def add(self) -> None:
        """Adds all columns to the draft."""
        for (guests, resource), capacity in self._columns.items():
            asks = [
                t.requests.get(resource, 0) if c in guests else 0
                for c, t in enumerate(self._templates)
            ]
            take = np.array(asks, dtype=np.int64)
            self._draft.columns.append(Column(f"{resource}{BESIDE}", capacity, take))

    def _count(self, n: int, node: Node, guests: Classes, resource: str, held: int) -> None:
        if guests.isdisjoint(self._askers(resource)):
            return
        key = (guests, resource)
        if key not in self._columns:
            if len(self._columns) >= MOST_COLUMNS:
                if not self._draft.loose:
                    self._draft.is_exact = False
                    self._withhold(n, resource, held)
                return
            self._columns[key] = np.full(self._count_of_nodes, UNLIMITED, dtype=np.int64)
        column = self._columns[key]
        column[n] = min(int(column[n]), max(0, node.free(resource) - held))

    def _askers(self, resource: str) -> Classes:
        """The classes that ask for a resource."""
        found = self._asking.get(resource)
        if found is None:
            asks = (c for c, t in enumerate(self._templates) if t.requests.get(resource, 0))
            found = self._asking[resource] = frozenset(asks)
        return found

    def _withhold(self, n: int, resource: str, amount: int) -> None:
        table = self._draft.withheld
        if resource not in table:
            table[resource] = np.zeros(self._count_of_nodes, dtype=np.int64)
        table[resource][n] += amount


def _subsets(held: Sequence[Held]) -> Iterable[tuple[Held, ...]]:
    """All sets of them, also the empty one."""
    return chain.from_iterable(combinations(held, k) for k in range(len(held) + 1))
