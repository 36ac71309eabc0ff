"""What the parts of a level bring, of all units that come.

A relaxation that only adds up the loads of a domain may put a sixteenth of a part into each of
sixteen racks, and use the one cheap node of each. With loads of their own, a part that is in a
domain by a sixteenth takes a sixteenth of each node there at most:

    mine[s, J]  <=  sum over parts p of least(k_p, most on J) here[p, D]     for J in D
    sum of mine in D  >=  sum of k_p here[p, D]          sum of mine over levels  <=  load[s, J]

*Why it holds:* a plan gives `mine` as the units of the minimums of the parts that lie in D.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from placement_service.cp_sat.linear_model import LinearModel
from placement_service.cp_sat.victims.waiting_parts import WaitingPart


class LoadAt(NamedTuple):
    """Units of a pod class, by its number, on a node class."""

    asked: int
    node_class: int


class LevelDomain(NamedTuple):
    """A domain of a level."""

    level: int
    domain: int


class _Present(NamedTuple):
    """Whether a part is there, and its units."""

    variable: int
    units: int


class LevelLoads:
    """Loads by level, and what says that parts are in a domain, as variables."""

    def __init__(
        self,
        model: LinearModel,
        load: Mapping[tuple[int, int], int],
        inside: Mapping[int, Mapping[int, Sequence[int]]],
        lone: Collection[tuple[int, int]],
    ) -> None:
        """`inside` are the node classes by level and domain. Only one level brings units of
        a pod class that is `lone` at it, by level and number of the pod class.
        """
        self._model = model
        self._load = load
        self._inside = inside
        self._lone = lone
        self._mine: dict[tuple[int, LoadAt], int] = {}
        self._there: dict[tuple[LevelDomain, int], list[int]] = {}

    def add(
        self,
        parts: Sequence[WaitingPart],
        here: Mapping[tuple[int, int], int],
        number: Mapping[int, int],
    ) -> None:
        """Adds variables and rows for parts; `here` says which may be in which domain."""
        brings: defaultdict[tuple[LevelDomain, int], list[_Present]] = defaultdict(list)
        for (p, d), y in here.items():
            for s, units in parts[p].own.items():
                brings[LevelDomain(parts[p].level, d), number[s]].append(_Present(y, units))
        every: defaultdict[LoadAt, list[tuple[int, float]]] = defaultdict(list)
        for (at, a), present in brings.items():
            self._there[at, a] = [y for y, _ in present]
            total: list[tuple[int, float]] = [(y, -float(k)) for y, k in present]
            for j in self._inside[at.level][at.domain]:
                if (a, j) not in self._load:
                    continue
                most = int(self._model.most(self._load[a, j]))
                if (at.level, a) in self._lone:
                    mine = self._load[a, j]
                else:
                    mine = self._model.variable(most, whole=False)
                    every[LoadAt(a, j)].append((mine, 1.0))
                    total.append((mine, 1.0))
                self._mine[at.level, LoadAt(a, j)] = mine
                least = [(y, -float(min(k, most))) for y, k in present]
                self._model.row([(mine, 1.0), *least], most=0)
            if (at.level, a) not in self._lone:
                self._model.row(total, least=0)
        for (a, j), terms in every.items():
            self._model.row([*terms, (self._load[a, j], -1.0)], most=0)

    def at(self, level: int, load: LoadAt) -> int | None:
        """What parts of a level bring, as a variable; None where they bring nothing."""
        return self._mine.get((level, load))

    def there(self, at: LevelDomain, asked: Collection[int]) -> list[int]:
        """Parts that bring such pods into a domain, each as a variable."""
        return sorted({y for a in asked for y in self._there.get((at, a), ())})
