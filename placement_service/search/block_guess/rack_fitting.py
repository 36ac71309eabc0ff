"""Whether racks of a block hold some parts: best fit, the largest part first, in a few orders, then
a model.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from placement_service.cp_sat.blocks.parts import MIXED, Kind, RackSort
from placement_service.cp_sat.blocks.rack_columns import RackColumns
from placement_service.cp_sat.blocks.rack_packing import (
    PackedRacks,
    pack_columns,
    pack_counts,
    pack_patterns,
)
from placement_service.cp_sat.blocks.shapes import Blocks
from placement_service.search.block_guess.rack_content import RackContent
from placement_service.search.block_guess.rows import pool_sets
from placement_service.search.parameters import SearchParameters

#: Orders that are tried: by size alone, then with so much randomness.
ORDERS = 3
LUCK = 3.0


#: A block and what it holds.
_Key = tuple[int, tuple[tuple[Kind, int], ...]]


class _Tried(NamedTuple):
    """An order in which parts of several nodes find racks, or how they are packed; or one that
    finds none in any order.
    """

    order: Sequence[Kind] = ()
    packed: PackedRacks | None = None
    misfit: Kind | None = None


class RackFitting:
    """Racks of blocks by pool. It may miss room that takes long to find."""

    def __init__(self, blocks: Blocks, columns: RackColumns, parameters: SearchParameters) -> None:
        self._blocks, self._columns, self._parameters = blocks, columns, parameters
        self._random = random.Random(parameters.seed)
        self._pool_sets = tuple(pool_sets(columns.kinds))
        self._racks: dict[int, list[RackSort]] = {b: [] for b in blocks.order}
        for sort, racks in sorted(blocks.racks.items()):
            self._racks[sort.block] += [sort] * len(racks)
        self._known: dict[_Key, _Tried] = {}

    def misfit(self, block: int, parts: Mapping[Kind, int]) -> Kind | None:
        """A part that finds no room beside the others, None if all do."""
        return self._tried(block, parts).misfit

    def pack(self, block: int, parts: Mapping[Kind, int]) -> bool:
        """Find racks by a model for parts that best fit does not place; whether there are some."""
        p = self._parameters
        limits = {"seconds": p.assign_packing_seconds, "effort": p.assign_packing_effort}
        if all(sort.pool != MIXED for sort in self._racks[block]):
            most = p.model.master_patterns
            packed = pack_patterns(self._blocks, block, parts, most, **limits)
        else:
            packed = pack_columns(self._columns, block, parts, **limits)
            if packed is None:
                packed = pack_counts(self._racks[block], self._pool_sets, parts, **limits)
        if packed is not None:
            self._known[_key(block, parts)] = _Tried(packed=packed)
        return packed is not None

    def content(self, block: int, parts: Mapping[Kind, int]) -> RackContent | None:
        """Racks of a block with parts of several nodes in them; single nodes are expected."""
        tried = self._tried(block, parts)
        if tried.misfit is not None:
            return None
        content = self._expecting(block, parts)
        if tried.packed is not None:
            content.hold(tried.packed)
        for kind in tried.order:
            content.place(kind)
        return content

    def _tried(self, block: int, parts: Mapping[Kind, int]) -> _Tried:
        key = _key(block, parts)
        if key not in self._known:
            self._known[key] = self._try(block, parts)
        return self._known[key]

    def _try(self, block: int, parts: Mapping[Kind, int]) -> _Tried:
        least = self._expecting(block, parts).short
        if least is not None:
            # Not even the nodes are enough.
            inside = [kind for kind, n in parts.items() if n and least.issuperset(kind.pools)]
            return _Tried(misfit=max(inside, key=lambda kind: (kind.size * parts[kind], kind)))
        large = [kind for kind, n in parts.items() for _ in range(n) if kind.size > 1]
        first: Kind | None = None
        luck = 0.0
        for _ in range(ORDERS):
            content, order = self._expecting(block, parts), self._order(large, luck)
            misfit = next((kind for kind in order if not content.place(kind)), None)
            if misfit is None:
                return _Tried(order)
            first = first or misfit
            luck = LUCK
        return _Tried(misfit=first)

    def _order(self, parts: Sequence[Kind], luck: float) -> list[Kind]:
        """The largest first, and of these what may use fewer pools."""

        def hard(kind: Kind) -> tuple[float, int, Kind]:
            return -kind.size + luck * self._random.random(), len(kind.pools), kind

        return sorted(parts, key=hard)

    def _expecting(self, block: int, parts: Mapping[Kind, int]) -> RackContent:
        content = RackContent(self._racks[block], self._pool_sets, self._blocks.choosiness)
        for kind, times in parts.items():
            content.expect(kind, times)
        return content


def _key(block: int, parts: Mapping[Kind, int]) -> _Key:
    return block, tuple(sorted(parts.items()))
