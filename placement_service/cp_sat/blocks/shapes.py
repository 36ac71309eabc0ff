"""Blocks, the racks in them, and what gangs need in a block.

Blocks are the domains of the broadest level that gangs name, racks those of the level
that their parts of several whole nodes are bound to; racks lie in blocks. A whole node is
one that takes a pod of a family of which no node holds two (see `counting`). Nodes that
take the same members of the family are a pool. A block is told by how many racks there are with
how many nodes of which pools, and a part by its size and the pools that it may use.

What else shares the nodes, pods smaller than a node, is only counted here, block by block.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.admission.patterns import whole_units
from placement_service.cp_sat.blocks.parts import MIXED, Kind, Piece, RackSort
from placement_service.formulation.arrays import Ints
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import Plan, oldest_first
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.one_gang.domain_choice import mandatory
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Fewer blocks are no reason to go block by block.
FEWEST_BLOCKS = 2

#: Gangs below this share of a block are split over two blocks, if at all: whose parts lie
#: where need not be told apart.
SMALL = 8


@dataclass(frozen=True, slots=True)
class ExtraUnits:
    """Units beyond the minimum of a demand that no rack binds; `kind` None: small ones."""

    demand: int
    kind: Kind | None
    count: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What a gang needs in a block.

    `kinds` are its parts and how many of them, `counts` its units by pod class. `splits`
    is what it costs at least, in domains, when it is not in one block; None where it must be.
    """

    kinds: tuple[tuple[Kind, int], ...]
    counts: tuple[tuple[int, int], ...]
    splits: int | None
    extras: tuple[ExtraUnits, ...]

    @property
    def size(self) -> int:
        """Whole nodes that it needs."""
        return sum(kind.size * times for kind, times in self.kinds)


@dataclass(slots=True, eq=False)
class Class:
    """Gangs alike, the oldest first.

    `base` is the class of the gangs that these are based on, -1 for none, and `times` how
    many of these each of them has. `units` is what one of them counts in each way of
    counting, `small` what its small pods do.
    """

    shape: Shape
    units: Ints
    small: Ints
    gangs: list[GangIdx] = field(default_factory=list)
    base: int = -1
    times: int = 0


class Ways(NamedTuple):
    """Ways to count what a block holds: rows of `Counting.units`, and the room in each."""

    rows: Ints
    room: Ints


class Blocks:
    """A problem block by block; `fixed` are gangs that stay where they are.

    `usable` is false where this says nothing: no two levels that nest, or no whole nodes.
    """

    def __init__(self, counting: Counting, level: int, fixed: Plan) -> None:
        self.counting = counting
        self.problem: Problem = counting.problem
        self.level = level
        self.fixed = fixed
        self.usable = False
        self._ways: dict[int | None, Ways] = {}
        self._shapes: dict[int, Shape | None] = {}
        self._pieces: dict[int, tuple[Piece, ...] | None] = {}
        self.pool: Ints = np.full(self.problem.node_count, -1, dtype=np.int64)
        self.pools_of: dict[int, tuple[int, ...]] = {}
        whole = whole_units(counting)
        if level < 0 or self.problem.levels[level].count < FEWEST_BLOCKS or whole is None:
            return
        self.units: Ints = whole[0]
        self.rack_level = self._rack_level()
        self.block: Ints = self.problem.levels[level].domain
        self.rack: Ints = (
            self.problem.levels[self.rack_level].place_of
            if self.rack_level >= 0
            else np.arange(self.problem.node_count)
        )
        self._make_pools()
        self.usable = bool((self.pool >= 0).any()) and self._racks_lie_in_blocks()

    def _rack_level(self) -> int:
        """The level below the blocks that most parts of several whole nodes are bound to."""
        parts: Counter[int] = Counter()
        levels, nests = self.problem.levels, self.counting.topology.parent
        for gang in self.problem.pending:
            want = mandatory(gang)
            for s in gang.scopes:
                level = s.required if s.required >= 0 else s.preferred
                if level in (-1, self.level) or levels[level].is_host:
                    continue
                units = (want[d] * self.units[gang.demands[d].pod_class] for d in s.demands)
                if sum(units) > 1 and nests(level, self.level) is not None:
                    parts[level] += 1
        return max(sorted(parts), key=lambda level: parts[level], default=-1)

    def _make_pools(self) -> None:
        residual = ResidualCapacity(self.problem)
        residual.take_plan(self.fixed)
        pending = (gang for gang in self.problem.pending if gang.index not in self.fixed)
        asked = sorted({d.pod_class for gang in pending for d in gang.demands})
        members = np.array([s for s in asked if self.units[s]], dtype=np.int64)
        if not len(members):
            return
        takes = np.array([residual.row(ClassIdx(s)) > 0 for s in members.tolist()])
        inside = np.flatnonzero(takes.any(axis=0) & (self.block >= 0))
        kinds, at = np.unique(takes[:, inside].T, axis=0, return_inverse=True)
        self.pool[inside] = at.reshape(-1)
        #: Pools that take each member of the family.
        self.pools_of = {
            int(s): tuple(np.flatnonzero(kinds[:, k]).tolist()) for k, s in enumerate(members)
        }

    def _racks_lie_in_blocks(self) -> bool:
        if self.rack_level < 0:
            return True
        return self.counting.topology.parent(self.rack_level, self.level) is not None

    @property
    def pools(self) -> frozenset[int]:
        """All pools of whole nodes."""
        return frozenset(self.pool[self.pool >= 0].tolist())

    # --- what blocks have -------------------------------------------------------------

    @cached_property
    def nodes_of(self) -> dict[int, list[int]]:
        """Whole nodes of each rack."""
        found: dict[int, list[int]] = {}
        for n in np.flatnonzero(self.pool >= 0).tolist():
            found.setdefault(int(self.rack[n]), []).append(n)
        return found

    @cached_property
    def largest_rack(self) -> int:
        """The most whole nodes of any rack."""
        return max(len(nodes) for nodes in self.nodes_of.values())

    @cached_property
    def racks(self) -> dict[RackSort, list[int]]:
        """Racks by sort, in the order of the snapshot."""
        found: dict[RackSort, list[int]] = {}
        for rack, nodes in self.nodes_of.items():
            pools = Counter(self.pool[nodes].tolist())
            sort = RackSort(int(self.block[nodes[0]]), tuple(sorted(pools.items())))
            found.setdefault(sort, []).append(rack)
        return found

    @cached_property
    def room(self) -> dict[tuple[int, int], int]:
        """Whole nodes by block and pool."""
        found: dict[tuple[int, int], int] = {}
        for sort, racks in self.racks.items():
            for q, n in sort.nodes:
                found[sort.block, q] = found.get((sort.block, q), 0) + n * len(racks)
        return found

    @cached_property
    def mixed(self) -> frozenset[int]:
        """Racks with whole nodes of several pools."""
        return frozenset(
            r for sort, racks in self.racks.items() if sort.pool == MIXED for r in racks
        )

    @cached_property
    def choosiness(self) -> dict[int, int]:
        """The place of each pool in the order in which parts use up the nodes of a rack: those that
        fewest pods can use come first.
        """
        users = Counter(q for pools in self.pools_of.values() for q in pools)
        order = sorted(users, key=lambda q: (users[q], q))
        return {q: i for i, q in enumerate(order)}

    @cached_property
    def order(self) -> list[int]:
        """Blocks with whole nodes, the smallest first."""
        total: Counter[int] = Counter()
        for (block, _), count in self.room.items():
            total[block] += count
        return sorted(total, key=lambda b: (total[b], b))

    def is_large(self, mine: Class) -> bool:
        """Whether gangs of a class may be split and take a good part of any block."""
        size = mine.shape.size
        return bool(mine.shape.splits) and mine.base < 0 and SMALL * size > self._largest

    @cached_property
    def _largest(self) -> int:
        total: Counter[int] = Counter()
        for (block, _), count in self.room.items():
            total[block] += count
        return max(total.values(), default=0)

    def ways(self, block: int | None) -> Ways:
        """Ways to count what a block, or None for all, holds.

        Those that count small pods; of ways with the same room only those that no other one
        dominates.
        """
        if block not in self._ways:
            self._ways[block] = self._ways_of(block)
        return self._ways[block]

    def _ways_of(self, block: int | None) -> Ways:
        inside = np.flatnonzero(self.block == block if block is not None else self.block >= 0)
        counting = self.counting
        counts_small = np.flatnonzero((counting.units[:, self.units == 0] > 0).any(axis=1))
        taken = np.zeros((len(counting.units), len(inside)), dtype=np.int64)
        for i, n in enumerate(inside.tolist()):
            for pod_class, count in self._fixed_at.get(n, ()):
                taken[:, i] += count * counting.units[:, pod_class]
        groups: dict[bytes, list[int]] = {}
        rooms: dict[bytes, int] = {}
        room_in = np.maximum(counting.room[np.ix_(counts_small, inside)] - taken[counts_small], 0)
        sums = room_in.sum(axis=1).tolist()
        for k, left, total in zip(counts_small.tolist(), room_in, sums, strict=True):
            key = left.tobytes()
            rooms[key] = total
            others = groups.setdefault(key, [])
            mine = counting.units[k]
            if not any((mine <= counting.units[j]).all() for j in others):
                others[:] = [j for j in others if not (counting.units[j] <= mine).all()]
                others.append(k)
        found = [(k, rooms[key]) for key, some in groups.items() for k in some]
        rows, room = np.array(found, dtype=np.int64).reshape(-1, 2).T
        return Ways(rows, room)

    @cached_property
    def _fixed_at(self) -> Mapping[int, Sequence[tuple[ClassIdx, int]]]:
        """By node the pods that stay where they are: classes, and how many of each."""
        found: dict[int, list[tuple[ClassIdx, int]]] = {}
        for index, units in self.fixed.items():
            demands = self.problem.gangs[index].demands
            for d, n, count in units:
                found.setdefault(n, []).append((demands[d].pod_class, count))
        return found

    def least_of(self, kind: Kind) -> Ints:
        """The least that a part of a kind counts in each way of counting."""
        mine = [s for s, pools in self.pools_of.items() if pools == kind.pools]
        units = self.counting.units
        if not mine:
            return np.zeros(len(units), dtype=np.int64)
        least: Ints = kind.size * units[:, mine].min(axis=1)
        return least

    # --- what gangs ask of them -------------------------------------------------------

    def classes(self, gangs: Sequence[Gang]) -> list[Class]:
        """Gangs in classes; those that blocks cannot describe are in none."""
        found: dict[object, int] = {}
        result: list[Class] = []
        member: dict[int, int] = {}
        followers: dict[int, list[Gang]] = {}
        for g in gangs:
            if g.base >= 0:
                followers.setdefault(g.base, []).append(g)

        def join(key: object, shape: Shape, gang: Gang, base: int = -1, times: int = 0) -> int:
            if key not in found:
                found[key] = len(result)
                result.append(Class(shape, *self._counted(shape), [], base, times))
            result[found[key]].gangs.append(gang.index)
            member[gang.index] = found[key]
            return found[key]

        for g in sorted((g for g in gangs if g.base < 0), key=oldest_first):
            shape = self.shape(g)
            if shape is None:
                continue
            alike = (g.priority, g.value, g.precedence, g.queue_rows, shape)
            scaled = self._scaled(followers.get(g.index, ()))
            at = join((alike, tuple(sorted(scaled.items(), key=repr))), shape, g)
            for one in sorted(followers.get(g.index, ()), key=oldest_first):
                own = self.shape(one)
                key = (one.priority, one.value, one.precedence, one.queue_rows, own)
                if own is not None and one.set_level == self.level:
                    join((at, key), own, one, at, scaled[key])
        for c in result:
            c.gangs.sort(key=lambda i: oldest_first(self.problem.gangs[i]))
        return result

    def _scaled(self, gangs: Sequence[Gang]) -> Counter[object]:
        found: Counter[object] = Counter()
        for g in gangs:
            if g.set_level == self.level:
                found[g.priority, g.value, g.precedence, g.queue_rows, self.shape(g)] += 1
        return found

    def _counted(self, shape: Shape) -> tuple[Ints, Ints]:
        counts: Ints = np.zeros(self.problem.class_count, dtype=np.int64)
        for pod_class, n in shape.counts:
            counts[pod_class] = n
        units = self.counting.units
        return units @ counts, units @ np.where(self.units > 0, 0, counts)

    def shape(self, gang: Gang) -> Shape | None:
        """What a gang asks of a block, None where more than that matters."""
        if gang.index not in self._shapes:
            self._shapes[gang.index] = self._shape(gang)
        return self._shapes[gang.index]

    def _shape(self, gang: Gang) -> Shape | None:
        if not gang.placeable or not gang.pending or gang.runs_in_part:
            return None
        if gang.home:
            return None
        if any(self.problem.special[d.pod_class] for d in gang.demands):
            return None
        if any(s.pin >= 0 or s.running for s in gang.scopes):
            return None
        pieces = self.pieces(gang)
        if pieces is None:
            return None
        want = mandatory(gang)
        kinds: Counter[Kind] = Counter()
        for piece in pieces:
            if piece.kind.size and piece.times:
                kinds[piece.kind] += piece.times
        counts: Counter[int] = Counter()
        for d, demand in enumerate(gang.demands):
            if want[d]:
                counts[demand.pod_class] += want[d]
        return Shape(
            tuple(sorted(kinds.items())),
            tuple(sorted(counts.items())),
            self._splits(gang),
            tuple(self._extras(gang, {d for p in pieces if p.rack for d in p.demands})),
        )

    def _extras(self, gang: Gang, bound: set[int]) -> Iterator[ExtraUnits]:
        for q in gang.requirements:
            d = q.demands[0]
            if q.pending > q.missing and len(q.demands) == 1 and d not in bound:
                pod_class = gang.demands[d].pod_class
                kind = Kind(self.pools_of[pod_class], 1) if pod_class in self.pools_of else None
                yield ExtraUnits(d, kind, q.pending - q.missing)

    def pieces(self, gang: Gang) -> tuple[Piece, ...] | None:
        """What a gang consists of, None where racks and blocks cannot describe it."""
        if gang.index not in self._pieces:
            tree = self.counting.topology.tree(gang)
            found: list[Piece] = []
            told = tree is not None and self._collect(gang, tree, mandatory(gang), found)
            self._pieces[gang.index] = tuple(found) if told else None
        return self._pieces[gang.index]

    def _collect(self, gang: Gang, part: Part, want: Sequence[int], found: list[Piece]) -> bool:
        """Add the pieces under a scope; false where it is of another sort."""
        levels = {part.required, part.preferred} - {-1}
        if not all(level == self.rack_level or self._holds_blocks(level) for level in levels):
            return False
        if self.rack_level >= 0 and self.rack_level in levels:
            if any({c.required, c.preferred} - {-1, self.rack_level} for c in _below(part)):
                return False
            found.append(self._in_one_rack(gang, part.demands, want))
            # Which rack small pods alone should have is not counted here.
            return 0 < found[-1].kind.size <= self.largest_rack
        for d in part.loose:
            pod_class = gang.demands[d].pod_class
            if pod_class in self.pools_of:
                found.append(Piece(Kind(self.pools_of[pod_class], 1), (d,), want[d], False))
            else:
                found.append(Piece(Kind((), 0), (d,), want[d], False))
        return all(self._collect(gang, child, want, found) for child in part.children)

    def _in_one_rack(self, gang: Gang, demands: Sequence[int], want: Sequence[int]) -> Piece:
        size = 0
        mine: set[tuple[int, ...]] = set()
        for d in demands:
            pod_class = gang.demands[d].pod_class
            if want[d] and pod_class in self.pools_of:
                size += want[d]
                mine.add(self.pools_of[pod_class])
        pools = mine.pop() if len(mine) == 1 else _common(mine)
        return Piece(Kind(pools, size), tuple(demands), 1, True)

    def _holds_blocks(self, level: int) -> bool:
        return level == self.level or self.counting.topology.parent(self.level, level) is not None

    def _splits(self, gang: Gang) -> int | None:
        """What it costs at least to split a gang over blocks, None where that may not be."""
        named = [
            s
            for s in gang.scopes
            if any(level not in (-1, self.rack_level) for level in (s.required, s.preferred))
        ]
        if not named:
            return 0
        if len(named) > 1 or named[0].required >= 0 or named[0].preferred != self.level:
            return None
        if len(named[0].demands) < len(gang.demands):
            return None
        return max(self.counting.fewest_places(gang, named[0]), 2) - 1


def _common(pools: Collection[tuple[int, ...]]) -> tuple[int, ...]:
    """Pools that are in all of some sets of them; none of none."""
    return tuple(sorted(set.intersection(*map(set, pools)))) if pools else ()


def _below(part: Part) -> Iterator[Part]:
    for child in part.children:
        yield child
        yield from _below(child)
