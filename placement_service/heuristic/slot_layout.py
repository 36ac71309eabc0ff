"""A layout: how many parts of which size each domain should hold.

The master's patterns fill the domains of one level completely. A layout assigns
them to real domains, so that the decoder can place every part by its pattern, instead of finding
the same filling again by chance.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Gang


class Pattern(NamedTuple):
    """What `domains` domains of one capacity hold: parts by size."""

    capacity: int
    parts: Mapping[int, int]
    domains: int


class Slot(NamedTuple):
    """Room that is kept in a domain for parts of one size."""

    domain: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """`room[P]` is how many whole-node units each place of `level` takes.

    `units[S]` is 1 for the pod classes that are counted. `patterns` are as the master chose them.
    """

    level: int
    units: Ints
    room: Ints
    patterns: tuple[Pattern, ...]

    def size(self, gang: Gang, demands: Sequence[int], want: Sequence[int]) -> int:
        """Counted units of a part; parts of less than two have no slot."""
        return sum(want[d] * int(self.units[gang.demands[d].pod_class]) for d in demands)

    def slots(self, rng: random.Random) -> dict[Slot, int]:
        """How many there are of each. Each call shuffles the patterns again."""
        slots: dict[Slot, int] = {}
        for capacity in sorted({p.capacity for p in self.patterns}):
            domains = np.flatnonzero(self.room == capacity).tolist()
            mine = (p for p in self.patterns if p.capacity == capacity)
            shuffled = [p.parts for p in mine for _ in range(p.domains)]
            rng.shuffle(domains)
            for domain, parts in zip(domains, shuffled, strict=False):
                for size, count in parts.items():
                    slots[Slot(domain, size)] = count
        return slots
