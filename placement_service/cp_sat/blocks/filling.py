"""A model of some blocks, filled with whole gangs, and with parts of gangs that are split.

    y[c, b]        gangs of a class wholly in block b
    split[c]       gangs of a class in several blocks
    f[k, b]        parts of kind k of these, in block b

    parts of kind k in b:   sum_c parts(c, k) y[c, b] + f[k, b]

What blocks hold of these parts is said in `room`. Its size does not grow with nodes or
racks. Pods smaller than a node are only counted, so a plan may come out with less than the
model says; it claims no bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from ortools.sat.python import cp_model

from placement_service.cp_sat.blocks.contents import Filled, Held, LargePart
from placement_service.cp_sat.blocks.parts import Kind
from placement_service.cp_sat.blocks.room import BlockRoom, Counted
from placement_service.cp_sat.blocks.shapes import Blocks, Class
from placement_service.cp_sat.solving import (
    Answer,
    Found,
    Strategy,
    Var,
    dot,
    hold,
    lesser,
    optimise,
)
from placement_service.formulation.problem import Gang
from placement_service.formulation.tiers.goal import Admission, Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN

K = TypeVar("K")

#: Gangs of a class that are newly distinguished: more at once are not worth their variables.
MOST_NEW = 2


@dataclass(slots=True, eq=False)
class _Large:
    cls: int
    there: Var
    uses: dict[int, Var]
    parts: dict[tuple[Kind, int], Var]
    extras: dict[tuple[int, int], Var]


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
        held: Held,
        pooled: bool,
        most_patterns: int,
        rest: Filled | None = None,
    ) -> None:
        self.rest = rest or Filled()
        self._there: Counter[int] = Counter()
        self._gone: Counter[int] = Counter()
        for (c, _), n in self.rest.whole.items():
            self._there[c] += n
        for (c, _), n in self.rest.away.items():
            self._gone[c] += n
        self.blocks, self.classes, self.chosen = blocks, classes, chosen
        self._rooms: dict[int, dict[int, int]] = {b: {} for b in chosen}
        for (b, q), n in blocks.room.items():
            if b in self._rooms:
                self._rooms[b][q] = n
        self.problem = blocks.problem
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
        self._parts: dict[tuple[Kind, int], Terms[Var]] = {}
        self._counted: dict[int, list[Counted]] = {b: [] for b in chosen}
        self._demand: dict[Kind, Terms[Var]] = {}
        self.placed = [self._class(c, limits[c], held, pooled) for c in range(len(classes))]
        for c, mine in enumerate(classes):
            if mine.base >= 0:
                most = mine.times * self.placed[mine.base]
                self.cp.add(self.placed[c] <= most)
                if not pooled and limits[c] == mine.times * limits[mine.base]:
                    # A rest of the set that is placed later would be far from its base.
                    self.cp.add(self.placed[c] >= most)
        if pooled:
            self._pool()
        self._extras_of_rest()
        self.room = BlockRoom(self.cp, blocks, self._parts, self._counted, most_patterns)
        self._queues()

    def _new(self, most: int, least: int = 0) -> Var:
        return self.cp.new_int_var(least, most, "")

    # --- gangs ----------------------------------------------------------------------------

    def _class(self, c: int, limit: int, held: Held, pooled: bool) -> Var:
        """Gangs of one class: variables of where they are, and how many are placed."""
        mine = self.classes[c]
        placed = self._new(limit)
        gone = self._gone[c]
        constant = self._there[c] + gone
        terms: Terms[Var] = []
        left = limit - constant - sum(held.get((c, b), 0) for b in self.chosen)
        for b in self.chosen:
            least = held.get((c, b), 0)
            most = least or min(left, self._fits(mine, b))
            if most > 0:
                y = self.whole[c, b] = self._new(most, least)
                self._put(c, y, b, limit)
                terms.append((y, 1))
                if mine.base >= 0:
                    self._near_base(c, b, y)
        if pooled and self.blocks.is_large(mine):
            known = [p for p in self.rest.large if p.cls == c]
            more = left - len(known)
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
        self._elsewhere: list[tuple[int, int, Var]] = []
        for (c, i, _), n in self.rest.extras.items():
            self._elsewhere.append((c, i, self._new(n, n)))
        for part in self.rest.large:
            for (i, _), n in part.extras.items():
                self._elsewhere.append((part.cls, i, self._new(n, n)))

    def _put(self, c: int, gangs: Var, block: int, limit: int) -> None:
        """Gangs of a class lie in a block, with extras."""
        shape = self.classes[c].shape
        for kind, times in shape.kinds:
            self._parts.setdefault((kind, block), []).append((gangs, times))
        mine = self.classes[c]
        self._counted[block].append(Counted(gangs, mine.units, mine.small))
        for i, extra in enumerate(shape.extras if limit else ()):
            e = self.extras[c, i, block] = self._new(limit * extra.count)
            self.cp.add(e <= extra.count * gangs)
            self._add_extra(c, i, block, e)

    def _add_extra(self, c: int, i: int, block: int, var: Var) -> None:
        extra = self.classes[c].shape.extras[i]
        if extra.kind is not None:
            self._parts.setdefault((extra.kind, block), []).append((var, 1))
        demand = self.problem.gangs[self.classes[c].gangs[0]].demands[extra.demand]
        units = self.blocks.counting.units[:, demand.pod_class]
        whole = self.blocks.units[demand.pod_class]
        self._counted[block].append(Counted(var, units, np.zeros_like(units) if whole else units))

    def _add_part(self, kind: Kind, block: int, var: Var) -> None:
        """Parts of a kind lie in a block, whatever gangs they are of."""
        self._parts.setdefault((kind, block), []).append((var, 1))
        units = self.blocks.least_of(kind)
        self._counted[block].append(Counted(var, units, np.zeros_like(units)))

    def _near_base(self, c: int, block: int, y: Var) -> None:
        base = self.whole.get((self.classes[c].base, block))
        self.cp.add(y <= (self.classes[c].times * base if base is not None else 0))

    def _fits(self, mine: Class, block: int) -> int:
        """At most so many gangs of a class fit into a block, by whole nodes."""
        most = 1 << 20
        room = self._rooms[block]
        for kind, times in mine.shape.kinds:
            able = sum(room.get(q, 0) for q in kind.pools)
            if times:
                most = min(most, able // (kind.size * times))
        if mine.shape.size:
            most = min(most, sum(room.values()) // mine.shape.size)
        return most

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
                    self._add_part(kind, b, v)
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

    # --- parts of gangs in several blocks, queues ------------------------------------------

    def _pool(self) -> None:
        """Parts of gangs in several blocks, whichever gang they belong to."""
        for kind, terms in self._demand.items():
            mine: list[Var] = []
            most = sum(w * v.domain.max() for v, w in terms)
            for b in self.chosen:
                able = sum(self.blocks.room.get((b, q), 0) for q in kind.pools) // kind.size
                if able:
                    v = self.loose[kind, b] = self._new(min(most, able))
                    self._add_part(kind, b, v)
                    mine.append(v)
            have = sum(n for (k, _), n in self.rest.loose.items() if k == kind)
            self.cp.add(cp_model.LinearExpr.sum(mine) + have == dot(terms))

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
            for c, i, v in self._all_extras():
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

    def _all_extras(self) -> Iterator[tuple[int, int, Var]]:
        """A class, one of its extras by its place, and units of it: in blocks, or elsewhere."""
        yield from self._elsewhere
        for (c, i, _), v in self.extras.items():
            yield c, i, v
        for part in self._every_large:
            for (i, _), v in part.extras.items():
                yield part.cls, i, v

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

        return [(v, 1) for c, _, v in self._all_extras() if counts(c)]

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
        self.room.hint(filled)
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
            self.cp,
            terms,
            maximize=maximize,
            seconds=seconds,
            effort=effort,
            strategy=Strategy(brief=True),
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
            of(self.room.used),
            of(self.room.racks),
        )
