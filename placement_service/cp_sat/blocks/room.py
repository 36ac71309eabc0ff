"""What blocks hold: parts in racks by patterns, whole nodes by pool, small pods by counting.

parts of kind k in b:   their sum = sum_q u[k, b, q]
size t >= 2:            sum_{k of size t} u[k, b, q] <= sum_{r in (b, q), p} p_t use[r, p]
whole nodes:            sum_k size(k) u[k, b, q] <= whole nodes of (b, q)
each way to count:      sum of what pods count <= what the block has room for
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.cp_sat.admission.patterns import maximal_patterns
from placement_service.cp_sat.blocks.contents import Filled, Sizes
from placement_service.cp_sat.blocks.parts import Kind, RackSort
from placement_service.cp_sat.blocks.shapes import Blocks
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints
from placement_service.formulation.tiers.goal import Terms


class TooManyPatterns(Exception):
    """Parts are of too many sizes for patterns."""


class Counted(NamedTuple):
    """So many of something, each with units by way of counting, and those of small pods."""

    number: Var
    units: Ints
    small: Ints


class BlockRoom:
    """Posts what some blocks hold of `parts` by kind and block, and of what is `counted`.

    `used` are parts by kind, block and pool, `racks` racks by sort and pattern.
    """

    def __init__(
        self,
        cp: cp_model.CpModel,
        blocks: Blocks,
        parts: Mapping[tuple[Kind, int], Terms[Var]],
        counted: Mapping[int, Sequence[Counted]],
        most_patterns: int,
    ) -> None:
        self.cp, self.blocks = cp, blocks
        self.used: dict[tuple[Kind, int, int], Var] = {}
        self.racks: dict[tuple[RackSort, Sizes], Var] = {}
        self._sizes: dict[tuple[int, int], dict[int, list[Var]]] = {}
        self._patterns: dict[RackSort, list[Sizes]] = {}
        self._parts_lie_in_pools(parts)
        self._racks_hold_parts(frozenset(counted), most_patterns)
        for block, some in counted.items():
            self._nodes_hold_small_pods(block, some)

    def _parts_lie_in_pools(self, parts: Mapping[tuple[Kind, int], Terms[Var]]) -> None:
        for (kind, b), terms in parts.items():
            mine: list[Var] = []
            for q in kind.pools:
                able = self.blocks.room.get((b, q), 0) // kind.size
                if able:
                    v = self.used[kind, b, q] = self.cp.new_int_var(0, able, "")
                    mine.append(v)
                    self._sizes.setdefault((b, q), {}).setdefault(kind.size, []).append(v)
            self.cp.add(cp_model.LinearExpr.sum(mine) == dot(terms))
        for at, by_size in self._sizes.items():
            units = [(v, size) for size, some in by_size.items() for v in some]
            self.cp.add(dot(units) <= self.blocks.room[at])

    def _racks_hold_parts(self, chosen: frozenset[int], left: int) -> None:
        supply: dict[tuple[int, int, int], Terms[Var]] = {}
        known: dict[tuple[tuple[int, ...], int], Sequence[Sequence[int]]] = {}
        for sort, racks in self.blocks.racks.items():
            by_size = self._sizes.get((sort.block, sort.pool), {})
            sizes = tuple(sorted((t for t in by_size if 1 < t <= sort.capacity), reverse=True))
            if sort.block not in chosen or not sizes:
                continue
            if (sizes, sort.capacity) not in known:
                found = maximal_patterns(sizes, sort.capacity, left)
                if len(found) > left:
                    raise TooManyPatterns
                left -= len(found)
                known[sizes, sort.capacity] = found
            mine: list[Var] = []
            slots = [Kind((sort.pool,), t) for t in sizes]
            self._patterns[sort] = [
                tuple((slot, n) for slot, n in zip(slots, pattern, strict=True) if n)
                for pattern in known[sizes, sort.capacity]
            ]
            for pattern in self._patterns[sort]:
                use = self.racks[sort, pattern] = self.cp.new_int_var(0, len(racks), "")
                mine.append(use)
                for slot, n in pattern:
                    supply.setdefault((sort.block, sort.pool, slot.size), []).append((use, n))
            self.cp.add(cp_model.LinearExpr.sum(mine) <= len(racks))
        for (b, q), by_size in self._sizes.items():
            for t, some in by_size.items():
                if t > 1:
                    self.cp.add(cp_model.LinearExpr.sum(some) <= dot(supply.get((b, q, t), [])))

    def hint(self, filled: Filled) -> None:
        """Start from what another model of these blocks decided, or a plan."""
        for key, v in self.used.items():
            self.cp.add_hint(v, filled.used.get(key, 0))
        times: Counter[tuple[RackSort, Sizes]] = Counter()
        for (sort, content), racks in filled.racks.items():
            # Any pattern with room for what lies there will do.
            above = (p for p in self._patterns.get(sort, ()) if _holds(dict(p), content))
            found = next(above, None)
            if found is not None:
                times[sort, found] += racks
        for at, v in self.racks.items():
            self.cp.add_hint(v, times[at])

    def _nodes_hold_small_pods(self, block: int, some: Sequence[Counted]) -> None:
        """Rows that can be broken, and that count small pods."""
        ways = self.blocks.ways(block)
        if not some or not len(ways.rows):
            return
        most = np.array([c.number.domain.max() for c in some], dtype=np.int64)
        units = np.stack([c.units[ways.rows] for c in some])
        small = np.stack([c.small[ways.rows] for c in some])
        tight = (most @ units > ways.room) & (most @ small > 0)
        for k in np.flatnonzero(tight).tolist():
            mine = np.flatnonzero(units[:, k])
            expr = cp_model.LinearExpr.weighted_sum(
                [some[i].number for i in mine.tolist()], units[mine, k].tolist()
            )
            self.cp.add(expr <= int(ways.room[k]))


def _holds(pattern: Mapping[Kind, int], content: Sizes) -> bool:
    return all(pattern.get(slot, 0) >= count for slot, count in content)
