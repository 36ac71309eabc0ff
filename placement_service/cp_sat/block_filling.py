"""A model of some blocks, filled with gangs whole, and with parts of those that are not.

Racks of one sort (block, pool, whole nodes) are counted together, after patterns of the
part sizes that one of them holds (Gilmore and Gomory 1961):

    y[c, b]        gangs of a class wholly in block b
    split[c]       gangs of a class in several blocks
    f[k, b]        parts of kind k of these, in block b
    u[k, b, q]     parts of kind k in pool q of block b
    use[r, p]      racks of sort r that follow pattern p

    parts of kind k in b:   sum_c parts(c, k) y[c, b] + f[k, b] = sum_q u[k, b, q]
    size t >= 2:            sum_{k of size t} u[k, b, q] <= sum_{r in (b, q), p} p_t use[r, p]
    whole nodes:            sum_k size(k) u[k, b, q] <= whole nodes of (b, q)

Its size does not grow with nodes or racks. Pods smaller than a node are only counted, so a
plan may come out with less than the model says; it claims no bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from ortools.sat.python import cp_model

from placement_service.cp_sat.admission_master import maximal_patterns
from placement_service.cp_sat.block_shapes import Blocks, Class, Kind, RackSort
from placement_service.cp_sat.solving import Answer, Found, Var, dot, hold, lesser, optimise
from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Gang
from placement_service.formulation.tiers.goal import Admission, Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN

K = TypeVar("K")

#: Gangs below this share of a block are split over two blocks, if at all: whose parts lie
#: where need not be told apart.
SMALL = 8

#: Gangs of a class that are told apart for the first time: more at once are not worth their
#: variables.
MOST_NEW = 2

#: A pattern: (size, how many parts of it).
Sizes = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LargePart:
    """What one large gang of a class has where: parts and extras, by kind and block."""

    cls: int
    parts: Mapping[tuple[Kind, int], int]
    extras: Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True, eq=False)
class Filled:
    """What a model decided, as counts.

    `whole` and `away` by (class, block): gangs wholly there, and gangs of sets there without
    their base. `split` by class; `loose` are the parts of these by (kind, block); `extras` by
    (class, extra, block). `used` are parts by (kind, block, pool), `racks` racks by sort and
    pattern.
    """

    whole: dict[tuple[int, int], int] = field(default_factory=dict)
    away: dict[tuple[int, int], int] = field(default_factory=dict)
    split: dict[int, int] = field(default_factory=dict)
    loose: dict[tuple[Kind, int], int] = field(default_factory=dict)
    large: tuple[LargePart, ...] = ()
    extras: dict[tuple[int, int, int], int] = field(default_factory=dict)
    used: dict[tuple[Kind, int, int], int] = field(default_factory=dict)
    racks: dict[tuple[RackSort, Sizes], int] = field(default_factory=dict)

    def only(self, blocks: Collection[int]) -> Filled:
        """The part of it that lies in some blocks."""
        return Filled(
            {key: n for key, n in self.whole.items() if key[1] in blocks},
            {key: n for key, n in self.away.items() if key[1] in blocks},
            dict(self.split),
            {key: n for key, n in self.loose.items() if key[1] in blocks},
            tuple(
                LargePart(
                    p.cls,
                    {key: n for key, n in p.parts.items() if key[1] in blocks},
                    {key: n for key, n in p.extras.items() if key[1] in blocks},
                )
                for p in self.large
            ),
            {key: n for key, n in self.extras.items() if key[2] in blocks},
            {key: n for key, n in self.used.items() if key[1] in blocks},
            {key: n for key, n in self.racks.items() if key[0].block in blocks},
        )

    def beside(self, other: Filled) -> Filled:
        """Both together: this one decided what is split, for its blocks and those of the other.

        The first large gangs of this one are those of the other, in order; both are sorted.
        """
        large = []
        for i, mine in enumerate(self.large):
            rest = other.large[i] if i < len(other.large) else LargePart(mine.cls, {}, {})
            large.append(
                LargePart(mine.cls, {**mine.parts, **rest.parts}, {**mine.extras, **rest.extras})
            )
        return Filled(
            {**self.whole, **other.whole},
            {**self.away, **other.away},
            self.split,
            {**self.loose, **other.loose},
            tuple(sorted((p for p in large if p.parts), key=lambda p: p.cls)),
            {**self.extras, **other.extras},
            {**self.used, **other.used},
            {**self.racks, **other.racks},
        )


@dataclass(slots=True, eq=False)
class _Large:
    cls: int
    there: Var
    uses: dict[int, Var]
    parts: dict[tuple[Kind, int], Var]
    extras: dict[tuple[int, int], Var]


class TooManyPatterns(Exception):
    """Parts are of too many sizes for patterns."""


class BlockFilling:
    """Gangs of some classes in some blocks (`chosen`).

    `limits` are how many gangs of each class there are to place at most; the wholes of
    `held` stay where they are. With `pooled` gangs may also lie in several blocks; `rest` is
    what lies in all other ones, where nothing changes.
    """

    def __init__(
        self,
        blocks: Blocks,
        classes: Sequence[Class],
        limits: Sequence[int],
        chosen: Sequence[int],
        *,
        held: Mapping[tuple[int, int], int],
        pooled: bool,
        most_patterns: int,
        rest: Filled | None = None,
    ) -> None:
        self.rest = rest or Filled()
        self.blocks, self.classes, self.chosen = blocks, classes, chosen
        self.problem = blocks.problem
        self.most_patterns = most_patterns
        self.cp = cp_model.CpModel()
        self.costs: Terms[Var] = []
        #: Those that are placed in part elsewhere, in the order of the rest, and others.
        self.large: list[_Large] = []
        self._new_large: list[_Large] = []
        self.whole: dict[tuple[int, int], Var] = {}
        self.away: dict[tuple[int, int], Var] = {}
        self.split: dict[int, Var] = {}
        self.loose: dict[tuple[Kind, int], Var] = {}
        self.extras: dict[tuple[int, int, int], Var] = {}
        self.used: dict[tuple[Kind, int, int], Var] = {}
        self.racks: dict[tuple[RackSort, Sizes], Var] = {}
        self._parts: dict[tuple[Kind, int], Terms[Var]] = {}
        self._counts: dict[int, list[tuple[Var, dict[int, int]]]] = {b: [] for b in chosen}
        self._demand: dict[Kind, Terms[Var]] = {}
        self._best = max(
            (sum(n for (b, _), n in blocks.room.items() if b == block) for block in blocks.order),
            default=0,
        )
        self.placed = [self._class(c, limits[c], held, pooled) for c in range(len(classes))]
        for c, mine in enumerate(classes):
            if mine.base >= 0:
                most = mine.times * self.placed[mine.base]
                self.cp.add(self.placed[c] <= most)
                if not pooled and limits[c] == mine.times * limits[mine.base]:
                    # What is left of a set later would be far from its base.
                    self.cp.add(self.placed[c] >= most)
        if pooled:
            self._pool()
        self._extras_of_rest()
        self._parts_lie_in_pools()
        self._racks_hold_parts()
        self._small_pods_are_counted()
        self._queues()

    def _new(self, most: int, least: int = 0) -> Var:
        return self.cp.new_int_var(least, most, "")

    # --- gangs ----------------------------------------------------------------------------

    def _class(self, c: int, limit: int, held: Mapping[tuple[int, int], int], pooled: bool) -> Var:
        """Gangs of one class: variables of where they are, and how many are placed."""
        mine = self.classes[c]
        placed = self._new(limit)
        there = sum(n for (k, _), n in self.rest.whole.items() if k == c)
        gone = sum(n for (k, _), n in self.rest.away.items() if k == c)
        constant = there + gone
        terms: Terms[Var] = []
        for b in self.chosen:
            least = held.get((c, b), 0)
            most = least or min(limit - constant, self._fits(mine, b))
            if most > 0:
                y = self.whole[c, b] = self._new(most, least)
                self._put(c, y, b, limit)
                terms.append((y, 1))
                if mine.base >= 0:
                    self._near_base(c, b, y)
        if pooled and self._is_large(mine):
            known = [p for p in self.rest.large if p.cls == c]
            more = limit - constant - len(known) - sum(held.get((c, b), 0) for b in self.chosen)
            some = [self._large_gang(c, p) for p in known]
            new = [self._large_gang(c, None) for _ in range(min(more, MOST_NEW))]
            self.large += some
            self._new_large += new
            for one, other in pairwise(new):
                self.cp.add(one.there >= other.there)
            terms += [(p.there, 1) for p in some + new]
        elif pooled and mine.shape.splits is not None and mine.base < 0:
            split = self.split[c] = self._new(limit)
            terms.append((split, 1))
            if mine.shape.splits:
                self.costs.append((split, mine.shape.splits * UNITS_PER_DOMAIN))
            for kind, times in mine.shape.kinds:
                self._demand.setdefault(kind, []).append((split, times))
        if mine.base >= 0 and pooled:
            for b in self.chosen:
                most = min(limit, self._fits(mine, b))
                if most > 0:
                    v = self.away[c, b] = self._new(most)
                    self._put(c, v, b, 0)
                    self.costs.append((v, UNITS_PER_DOMAIN))
                    terms.append((v, 1))
            self._costs_anyway(gone)
        self.cp.add(dot(terms) + constant == placed)
        return placed

    def _costs_anyway(self, domains: int) -> None:
        if domains > 0:
            self.costs.append((self._new(1, 1), domains * UNITS_PER_DOMAIN))

    def _extras_of_rest(self) -> None:
        """Extras elsewhere count as well."""
        self._elsewhere: list[tuple[int, Var]] = []
        for (c, _, _), n in self.rest.extras.items():
            self._elsewhere.append((c, self._new(n, n)))
        for part in self.rest.large:
            n = sum(part.extras.values())
            self._elsewhere.append((part.cls, self._new(n, n)))

    def _put(self, c: int, gangs: Var, block: int, limit: int) -> None:
        """Gangs of a class lie in a block, with extras."""
        shape = self.classes[c].shape
        for kind, times in shape.kinds:
            self._parts.setdefault((kind, block), []).append((gangs, times))
        self._counts[block].append((gangs, dict(shape.counts)))
        for i, extra in enumerate(shape.extras if limit else ()):
            e = self.extras[c, i, block] = self._new(limit * extra.count)
            self.cp.add(e <= extra.count * gangs)
            self._add_extra(c, i, block, e)

    def _add_extra(self, c: int, i: int, block: int, var: Var) -> None:
        extra = self.classes[c].shape.extras[i]
        if extra.kind is not None:
            self._parts.setdefault((extra.kind, block), []).append((var, 1))
        demand = self.problem.gangs[self.classes[c].gangs[0]].demands[extra.demand]
        self._counts[block].append((var, {demand.pod_class: 1}))

    def _near_base(self, c: int, block: int, y: Var) -> None:
        base = self.whole.get((self.classes[c].base, block))
        self.cp.add(y <= (self.classes[c].times * base if base is not None else 0))

    def _fits(self, mine: Class, block: int) -> int:
        """At most so many gangs of a class fit into a block, by whole nodes."""
        most = 1 << 20
        room = {q: n for (b, q), n in self.blocks.room.items() if b == block}
        for kind, times in mine.shape.kinds:
            able = sum(room.get(q, 0) for q in kind.pools)
            if times:
                most = min(most, able // (kind.size * times))
        if mine.shape.size:
            most = min(most, sum(room.values()) // mine.shape.size)
        return most

    def _is_large(self, mine: Class) -> bool:
        """Whether it may be split and takes a large part of any block."""
        shape = mine.shape
        return bool(shape.splits) and mine.base < 0 and SMALL * shape.size > self._best

    def _large_gang(self, c: int, rest: LargePart | None) -> _Large:
        """A gang in several blocks; `rest` is what it has elsewhere."""
        cp, shape = self.cp, self.classes[c].shape
        elsewhere = {b for _, b in rest.parts} if rest else set()
        there = self._new(1, int(bool(elsewhere)))
        uses = {b: self._new(1) for b in self.chosen}
        part = _Large(c, there, uses, {}, {})
        for kind, times in shape.kinds:
            have = sum(n for (k, _), n in rest.parts.items() if k == kind) if rest else 0
            mine: list[Var] = []
            for b in self.chosen:
                able = sum(self.blocks.room.get((b, q), 0) for q in kind.pools) // kind.size
                if able:
                    v = part.parts[kind, b] = self._new(min(times, able))
                    cp.add(v <= min(times, able) * uses[b])
                    self._parts.setdefault((kind, b), []).append((v, 1))
                    mine.append(v)
            cp.add(cp_model.LinearExpr.sum(mine) + have == times * there)
        for i, extra in enumerate(shape.extras):
            have = sum(n for (k, _), n in rest.extras.items() if k == i) if rest else 0
            mine = []
            for b in self.chosen:
                v = part.extras[i, b] = self._new(extra.count)
                cp.add(v <= extra.count * uses[b])
                self._add_extra(c, i, b, v)
                mine.append(v)
            cp.add(cp_model.LinearExpr.sum(mine) + have <= extra.count * there)
        used = cp_model.LinearExpr.sum(list(uses.values())) + len(elsewhere)
        least = max(1, self.blocks.counting.least_beyond(self._some(c)))
        cp.add(used >= (least + 1) * there)
        beyond = self._new(len(self.blocks.order))
        cp.add(beyond >= used - there)
        self.costs.append((beyond, UNITS_PER_DOMAIN))
        return part

    def _some(self, c: int) -> Gang:
        return self.problem.gangs[self.classes[c].gangs[0]]

    @property
    def _every_large(self) -> list[_Large]:
        return self.large + self._new_large

    # --- parts, racks and pods ------------------------------------------------------------

    def _pool(self) -> None:
        """Parts of gangs in several blocks, whichever gang they belong to."""
        for kind, terms in self._demand.items():
            mine: list[Var] = []
            most = sum(w * v.domain.max() for v, w in terms)
            for b in self.chosen:
                able = sum(self.blocks.room.get((b, q), 0) for q in kind.pools) // kind.size
                if able:
                    v = self.loose[kind, b] = self._new(min(most, able))
                    self._parts.setdefault((kind, b), []).append((v, 1))
                    mine.append(v)
            have = sum(n for (k, _), n in self.rest.loose.items() if k == kind)
            self.cp.add(cp_model.LinearExpr.sum(mine) + have == dot(terms))

    def _parts_lie_in_pools(self) -> None:
        self._sizes: dict[tuple[int, int], dict[int, list[Var]]] = {}
        for (kind, b), terms in self._parts.items():
            mine: list[Var] = []
            for q in kind.pools:
                able = self.blocks.room.get((b, q), 0) // kind.size
                if able:
                    v = self.used[kind, b, q] = self._new(able)
                    mine.append(v)
                    self._sizes.setdefault((b, q), {}).setdefault(kind.size, []).append(v)
            self.cp.add(cp_model.LinearExpr.sum(mine) == dot(terms))
        for at, by_size in self._sizes.items():
            units = [(v, size) for size, some in by_size.items() for v in some]
            self.cp.add(dot(units) <= self.blocks.room[at])

    def _racks_hold_parts(self) -> None:
        supply: dict[tuple[int, int, int], Terms[Var]] = {}
        known: dict[tuple[tuple[int, ...], int], list[Sizes]] = {}
        left = self.most_patterns
        chosen = set(self.chosen)
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
                known[sizes, sort.capacity] = [
                    tuple((t, n) for t, n in zip(sizes, pattern, strict=True) if n)
                    for pattern in found
                ]
            mine: list[Var] = []
            for pattern in known[sizes, sort.capacity]:
                use = self.racks[sort, pattern] = self._new(len(racks))
                mine.append(use)
                for t, n in pattern:
                    supply.setdefault((sort.block, sort.pool, t), []).append((use, n))
            self.cp.add(cp_model.LinearExpr.sum(mine) <= len(racks))
        for (b, q), by_size in self._sizes.items():
            for t, some in by_size.items():
                if t > 1:
                    self.cp.add(cp_model.LinearExpr.sum(some) <= dot(supply.get((b, q, t), [])))

    def _small_pods_are_counted(self) -> None:
        for b in self.chosen:
            counts = self._counts[b]
            for units, room in self.blocks.ways(b):
                terms = [
                    (v, weight)
                    for v, mine in counts
                    if (weight := sum(n * int(units[s]) for s, n in mine.items()))
                ]
                terms += [
                    (v, weight)
                    for v, kind in self._pooled_parts(b)
                    if (weight := kind.size * self._least_of(units, kind))
                ]
                if sum(w * v.domain.max() for v, w in terms) > room:
                    self.cp.add(dot(terms) <= room)

    def _pooled_parts(self, block: int) -> Iterable[tuple[Var, Kind]]:
        for (kind, b), v in self.loose.items():
            if b == block:
                yield v, kind
        for part in self._every_large:
            for (kind, b), v in part.parts.items():
                if b == block:
                    yield v, kind

    def _least_of(self, units: Ints, kind: Kind) -> int:
        """The least that a pod of the family counts which these pools take."""
        return min(
            (int(units[s]) for s, pools in self.blocks.pools_of.items() if pools == kind.pools),
            default=0,
        )

    def _queues(self) -> None:
        problem = self.problem
        for r, row in enumerate(problem.queue_rows):
            terms = []
            for c, v in enumerate(self.placed):
                if r in problem.gangs[self.classes[c].gangs[0]].queue_rows:
                    counts = self.classes[c].shape.counts
                    weight = sum(int(row.weight[s]) * n for s, n in counts)
                    if weight:
                        terms.append((v, weight))
            for (c, i, _), v in self.extras.items():
                gang = problem.gangs[self.classes[c].gangs[0]]
                demand = self.classes[c].shape.extras[i].demand
                weight = int(row.weight[gang.demands[demand].pod_class])
                if r in gang.queue_rows and weight:
                    terms.append((v, weight))
            taken = sum(
                int(row.weight[problem.gangs[i].demands[d].pod_class]) * count
                for i in row.gangs & self.blocks.fixed.keys()
                for d, _, count in self.blocks.fixed[i]
            )
            if terms:
                self.cp.add(dot(terms) <= row.capacity - taken)

    # --- goals ------------------------------------------------------------------------------

    def admissions(self) -> Iterable[Admission[Var]]:
        for v, c in zip(self.placed, self.classes, strict=True):
            yield Admission(v, c.gangs)

    def lesser(self, terms: Terms[Var], most: int) -> Var:
        return lesser(self.cp, terms, most)

    def extra_units(self, priority: int | None) -> Terms[Var]:
        def counts(c: int) -> bool:
            gang = self._some(c)
            return priority in (None, gang.priority)

        terms: Terms[Var] = [(v, 1) for (c, _, _), v in self.extras.items() if counts(c)]
        for part in self._every_large:
            if counts(part.cls):
                terms += [(v, 1) for v in part.extras.values()]
        terms += [(v, 1) for c, v in self._elsewhere if counts(c)]
        return terms

    def kept_pods(self) -> Terms[Var]:
        return []

    def topology_cost(self) -> Terms[Var]:
        return self.costs

    def fragmentation_cost(self) -> None:
        return None

    def hold(
        self, terms: Terms[Var], *, at_least: int | None = None, at_most: int | None = None
    ) -> None:
        """Keep a goal at what was reached."""
        hold(self.cp, terms, at_least, at_most)

    # --- solving ------------------------------------------------------------------------------

    def hint(self, filled: Filled) -> None:
        """Start from what a model of the same gangs decided."""
        self.cp.clear_hints()  # type: ignore[no-untyped-call]
        self._hint(self.whole, filled.whole)
        self._hint(self.away, filled.away)
        self._hint(self.split, filled.split)
        self._hint(self.loose, filled.loose)
        self._hint(self.extras, filled.extras)
        self._hint(self.used, filled.used)
        self._hint(self.racks, filled.racks)
        known = list(zip(self.large, filled.large, strict=True)) if self.rest.large else []
        left = [] if self.rest.large else list(filled.large)
        for part in self._new_large:
            mine = next((p for p in left if p.cls == part.cls), None)
            if mine is not None:
                left.remove(mine)
            known.append((part, mine or LargePart(part.cls, {}, {})))
        for part, mine in known:
            used = {b for _, b in mine.parts}
            self.cp.add_hint(part.there, bool(used))
            self._hint(part.uses, dict.fromkeys(used, 1))
            self._hint(part.parts, mine.parts)
            self._hint(part.extras, mine.extras)

    def _hint(self, table: Mapping[K, Var], counts: Mapping[K, int]) -> None:
        for key, v in table.items():
            self.cp.add_hint(v, counts.get(key, 0))

    def solve(
        self, terms: Terms[Var], *, maximize: bool, seconds: float, effort: float
    ) -> Filled | None:
        """Optimise one goal, or find anything for no terms; None when nothing was found."""
        found = optimise(
            self.cp, terms, maximize=maximize, seconds=seconds, effort=effort, portfolio=False
        )
        if isinstance(found, Answer):
            return None
        return self._read(found)

    def _read(self, found: Found) -> Filled:
        value = found.solver.value

        def of(table: Mapping[K, Var]) -> dict[K, int]:
            return {key: n for key, v in table.items() if (n := value(v))}

        return Filled(
            of(self.whole),
            of(self.away),
            of(self.split),
            of(self.loose),
            tuple(
                LargePart(p.cls, of(p.parts), of(p.extras))
                for p in self._every_large
                if p in self.large or value(p.there)
            ),
            of(self.extras),
            of(self.used),
            of(self.racks),
        )
