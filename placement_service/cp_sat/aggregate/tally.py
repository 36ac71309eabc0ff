"""What the aggregate model counts: variables while it is solved, numbers afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
S = TypeVar("S")
K = TypeVar("K")


class Loose(NamedTuple):
    """Units of gangs of a group that no part holds: of an ask, a choice among its pod classes."""

    group: int
    ask: int
    choice: int


class PartsAt(NamedTuple):
    """Parts of a kind in a vertex of the forest."""

    kind: int
    vertex: int


class UnitsOfParts(NamedTuple):
    """Units of parts of a kind that opened in a vertex, whole or apart."""

    kind: int
    whole: bool
    vertex: int
    ask: int
    choice: int


class UnitsOfOne(NamedTuple):
    """Units of one part that lie in a vertex."""

    vertex: int
    ask: int
    choice: int


class Load(NamedTuple):
    """Units of a pod class, by its place in the model, on nodes of a class."""

    pod_class: int
    node_class: int


@dataclass(slots=True, eq=False)
class Large(Generic[T]):
    """A part that is told apart from others of its kind; `uses` by vertex."""

    kind: int
    there: T
    uses: dict[int, T]
    units: dict[UnitsOfOne, T]
    parts: dict[PartsAt, T]


@dataclass(slots=True, eq=False)
class Tally(Generic[T]):
    """All that the aggregate model counts, as variables or as numbers.

    `gangs` by group, `sets` by family.
    """

    gangs: dict[int, T] = field(default_factory=dict)
    loose: dict[Loose, T] = field(default_factory=dict)
    sets: dict[int, T] = field(default_factory=dict)
    whole: dict[PartsAt, T] = field(default_factory=dict)
    apart: dict[PartsAt, T] = field(default_factory=dict)
    empty: dict[PartsAt, T] = field(default_factory=dict)
    units: dict[UnitsOfParts, T] = field(default_factory=dict)
    large: list[Large[T]] = field(default_factory=list)
    load: dict[Load, T] = field(default_factory=dict)

    def map(self, value: Callable[[T], S]) -> Tally[S]:
        """The same with every entry replaced."""

        def of(table: Mapping[K, T]) -> dict[K, S]:
            return {key: value(x) for key, x in table.items()}

        return Tally(
            of(self.gangs),
            of(self.loose),
            of(self.sets),
            of(self.whole),
            of(self.apart),
            of(self.empty),
            of(self.units),
            [
                Large(p.kind, value(p.there), of(p.uses), of(p.units), of(p.parts))
                for p in self.large
            ],
            of(self.load),
        )
