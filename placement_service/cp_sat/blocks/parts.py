"""What parts of gangs need of a rack, and what racks have."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

#: Stands for the pool of a rack with whole nodes of several.
MIXED = -1


class Kind(NamedTuple):
    """A part of `size` whole nodes of one rack, in any of some pools."""

    pools: tuple[int, ...]
    size: int


class Piece(NamedTuple):
    """Parts of a gang: `times` of a kind, each with all units of some demands.

    `rack` is true where one rack has to hold all of them; else they are single units of
    the only demand.
    """

    kind: Kind
    demands: tuple[int, ...]
    times: int
    rack: bool


class RackSort(NamedTuple):
    """Racks of a block with equally many whole nodes of each pool; `nodes` by pool."""

    block: int
    nodes: tuple[tuple[int, int], ...]

    @property
    def pool(self) -> int:
        """The pool of all whole nodes, `MIXED` for several."""
        return self.nodes[0][0] if len(self.nodes) == 1 else MIXED

    @property
    def capacity(self) -> int:
        """All whole nodes."""
        return sum(n for _, n in self.nodes)

    def within(self, pools: Collection[int]) -> int:
        """Whole nodes of some pools."""
        return sum(n for q, n in self.nodes if q in pools)
