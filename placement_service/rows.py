"""Bounds by counting: rows that every valid plan obeys, without any node in them.

For a reference request r let fit(r, x) be how often r fits into x. It is
superadditive, so whatever lies on a node n, the fits of its pods add up to at
most fit(r, free_n). For a set U of nodes count only pods that fit nowhere
outside U. Pods that must share a domain of some level (a part) may be rounded
down together, because floor(a/t) + floor(b/t) <= floor((a+b)/t): for t >= 1

    weight(part) = floor( sum of its fits / t )
    capacity     = sum over domains of floor( sum over n in U of fit(r, free_n) / t )
    sum of weights over all admitted gangs <= capacity

t = 1 is plain counting; t = 5 says "racks hold at most floor(c/5) parts of
five". Pods of which no node holds two, whatever their kinds, are counted one a
node over the nodes that fit any of them (Hall's condition). Every row holds for
every valid plan, so no later stage can undo a bound that came from rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from placement_service.greedy import Builder
from placement_service.problem import Bools, Gang, Ints, Problem, Scope, fit
from placement_service.tree import Part

#: Limits of what is combined; more would cost time and rarely adds anything.
MAX_NODE_SETS = 48
MAX_REFERENCES = 16
MAX_ROUNDINGS = 12

#: Units to choose from, by shape, and how many: what a quota contributes.
Content = tuple[tuple[tuple[int, ...], int], ...]
#: Content that must share a domain, and how often it occurs.
Parts = tuple[tuple[Content, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Counter:
    """One way to count: `units` of each shape [S], `room` of each node [N]."""

    units: Ints
    room: Ints

    def weigh(self, content: Content) -> int:
        """The least that content can count."""
        return sum(k * min(int(self.units[s]) for s in shapes) for shapes, k in content)


@dataclass(frozen=True, slots=True)
class GangClass:
    """Pending gangs that no row and no priority tells apart."""

    gangs: tuple[int, ...]
    priority: int
    value: int
    parts: tuple[Parts, ...]
    extras: Content


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """sum weight[C] * admitted[C] + sum extra[C] * extras[C] <= capacity."""

    weight: Ints
    extra: Ints
    capacity: int


class Counting:
    """Rows of a problem, and what counting says of single gangs."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.problem = builder.problem
        self.levels = self._part_levels()
        self.counters = tuple(_counters(self.problem))
        self._sums = [
            [_place_sums(self.problem, level, c.room) for level in self.levels]
            for c in self.counters
        ]
        self.classes = self._classes()

    def _part_levels(self) -> tuple[int, ...]:
        """The levels that parts are bound to; host levels are nodes anyway."""
        return tuple(
            sorted(
                {
                    s.required
                    for g in self.problem.gangs
                    if g.placeable
                    for s in g.scopes
                    if s.required >= 0
                }
            )
        )

    # --- what must stay together --------------------------------------------

    def parts(self, gang: Gang, level: int) -> Parts:
        """The minimum of a gang, cut into what must share a domain of a level.

        Units that nothing binds are parts of one.
        """
        content = {
            i: (tuple(gang.demands[d].shape for d in q.demands), q.missing)
            for i, q in enumerate(gang.quotas)
            if q.missing
        }
        quota_of = {d: i for i, q in enumerate(gang.quotas) for d in q.demands}
        found: list[tuple[Content, int]] = []
        bound: set[int] = set()
        tree = self.builder.tree(gang)
        for part in _bound_parts(tree, lambda r: self._within(r, level)) if tree else ():
            inside = sorted({quota_of[d] for d in part.demands} & content.keys())
            if inside:
                found.append((tuple(content[i] for i in inside), 1))
                bound.update(inside)
        for i, (shapes, count) in content.items():
            if i not in bound:
                found.append((((shapes, 1),), count))
        merged: dict[Content, int] = {}
        for part_content, times in found:
            key = tuple(sorted(part_content))
            merged[key] = merged.get(key, 0) + times
        return tuple(sorted(merged.items()))

    def _within(self, narrow: int, level: int) -> bool:
        return narrow == level or self.builder.parent(narrow, level) is not None

    def _classes(self) -> tuple[GangClass, ...]:
        found: dict[object, list[Gang]] = {}
        for gang in self.problem.pending:
            parts = tuple(self.parts(gang, level) for level in self.levels) or (
                self.parts(gang, -1),
            )
            extras = tuple(
                sorted(
                    (tuple(gang.demands[d].shape for d in q.demands), q.pending - q.missing)
                    for q in gang.quotas
                    if q.pending > q.missing
                )
            )
            found.setdefault((gang.priority, gang.value, parts, extras), []).append(gang)
        classes = []
        for (priority, value, parts, extras), gangs in found.items():  # type: ignore[misc]
            possible = tuple(g.index for g in gangs if self.fits_alone(g))
            if possible:
                classes.append(GangClass(possible, priority, value, parts, extras))
        return tuple(classes)

    # --- rows -----------------------------------------------------------------

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows that can bind, no two with equal weights."""
        best: dict[tuple[bytes, bytes], Row] = {}
        for row in self._all_rows():
            wanted = sum(
                int(w) * len(c.gangs) + int(e) * sum(k for _, k in c.extras) * len(c.gangs)
                for w, e, c in zip(row.weight, row.extra, self.classes, strict=True)
            )
            if wanted > row.capacity:
                key = (row.weight.tobytes(), row.extra.tobytes())
                if key not in best or row.capacity < best[key].capacity:
                    best[key] = row
        return tuple(best.values())

    def _all_rows(self) -> Iterator[Row]:
        for counter, sums in zip(self.counters, self._sums, strict=True):
            extra = np.array(
                [
                    min((counter.weigh(((s, 1),)) for s, _ in c.extras), default=0)
                    for c in self.classes
                ],
                dtype=np.int64,
            )
            for i, by_place in enumerate(sums or [counter.room]):
                weights = [
                    [(counter.weigh(content), times) for content, times in c.parts[i]]
                    for c in self.classes
                ]
                for t in self._roundings(weights):
                    weight = np.array(
                        [sum(w // t * k for w, k in parts) for parts in weights], dtype=np.int64
                    )
                    if weight.any():
                        yield Row(weight, extra // t, int((by_place // t).sum()))

    @staticmethod
    def _roundings(weights: Sequence[Sequence[tuple[int, int]]]) -> list[int]:
        sizes = sorted({w for parts in weights for w, _ in parts if w > 1}, reverse=True)
        return [1, *sizes[:MAX_ROUNDINGS]]

    # --- single gangs -----------------------------------------------------------

    def fits_alone(self, gang: Gang) -> bool:
        """False only if the gang cannot be placed on the snapshot even alone."""
        for i, level in enumerate(self.levels):
            for scope in gang.scopes:
                if scope.required == level and not self.domains_for(gang, scope).any():
                    return False
            for counter, sums in zip(self.counters, self._sums, strict=True):
                weights = [(counter.weigh(c), k) for c, k in self.parts(gang, level)]
                for t in {1, *(w for w, _ in weights if w > 1)}:
                    if sum(w // t * k for w, k in weights) > (sums[i] // t).sum():
                        return False
        whole = self._content(gang, range(len(gang.demands)))
        return all(c.weigh(whole) <= c.room.sum() for c in self.counters)

    def domains_for(self, gang: Gang, scope: Scope) -> Bools:
        """Domains [D] of a scope's required level that counting does not rule out."""
        level = self.problem.levels[scope.required]
        able = np.zeros(level.count, dtype=bool)
        if scope.pin >= 0:
            able[scope.pin] = True
        else:
            able[:] = True
        content = self._content(gang, scope.demands)
        i = self.levels.index(scope.required)
        for counter, sums in zip(self.counters, self._sums, strict=True):
            able &= sums[i][: level.count] >= counter.weigh(content)
        return able

    def fewest_places(self, gang: Gang, scope: Scope) -> int:
        """At least so many places at its preferred level a scope uses once placed."""
        content = self._content(gang, scope.demands)
        bound = [p for p in scope.bound if p >= 0]
        best = 0
        for counter in self.counters:
            sums = _place_sums(self.problem, scope.preferred, counter.room)
            need = counter.weigh(content) - int(sums[bound].sum())
            sums[bound] = 0
            total = np.cumsum(np.sort(sums)[::-1])
            more = int(np.searchsorted(total, need)) + 1 if need > 0 else 0
            best = max(best, more)
        used = len(scope.bound) + best
        return max(used, 1) if content or scope.bound else 0

    def fewest(self, gang: Gang) -> int:
        """Sum of `fewest_places` over the preferred scopes of a gang."""
        return sum(self.fewest_places(gang, s) for s in gang.scopes if s.preferred >= 0)

    @staticmethod
    def _content(gang: Gang, demands: Sequence[int]) -> Content:
        """The minimum of the quotas that lie wholly in some demands."""
        inside = set(demands)
        return tuple(
            (tuple(gang.demands[d].shape for d in q.demands), q.missing)
            for q in gang.quotas
            if q.missing and inside.issuperset(q.demands)
        )


def _bound_parts(part: Part, holds: object) -> Iterator[Part]:
    """The outermost parts whose required level satisfies a predicate."""
    assert callable(holds)
    if part.required >= 0 and holds(part.required):
        yield part
        return
    for child in part.children:
        yield from _bound_parts(child, holds)


def _place_sums(problem: Problem, level: int, values: Ints) -> Ints:
    """Sum of values[N] over each place of a level."""
    return np.bincount(problem.levels[level].place, values).astype(np.int64)


# --- counters -------------------------------------------------------------------


def _counters(problem: Problem) -> Iterator[Counter]:
    """Counters by reference request and node set, then by Hall's condition."""
    if not problem.shape_count or not problem.node_count:
        return
    demand = _demand(problem)
    shapes = np.flatnonzero(demand)
    fits = {int(s): _usable(problem, int(s)) for s in shapes}
    seen: set[tuple[bytes, bytes]] = set()
    sets = _node_sets(list(fits.values()))
    for reference in _references(problem, demand):
        room = fit(problem.free, reference)
        units = fit(problem.request, reference)
        for nodes in sets:
            inside = np.zeros(problem.shape_count, dtype=np.int64)
            for s, usable in fits.items():
                if not (usable & ~nodes).any():
                    inside[s] = units[s]
            key = (inside.tobytes(), nodes.tobytes())
            if inside.any() and key not in seen:
                seen.add(key)
                yield Counter(inside, np.where(nodes, room, 0))
    gpus_free = problem.node_gpus_free
    whole = {
        s: usable
        for s, usable in fits.items()
        if problem.gpus[s] and 2 * problem.gpus[s] > gpus_free[usable].max(initial=0)
    }
    for nodes in _node_sets(list(whole.values())):
        inside = np.zeros(problem.shape_count, dtype=np.int64)
        inside[[s for s, usable in whole.items() if not (usable & ~nodes).any()]] = 1
        # Only nodes that fit one of the counted kinds can hold any.
        counted = [whole[s] for s in np.flatnonzero(inside)]
        if counted:
            yield Counter(inside, np.logical_or.reduce(counted).astype(np.int64))


def _demand(problem: Problem) -> Ints:
    """Units asked for of each shape, extras included [S]."""
    demand = np.zeros(problem.shape_count, dtype=np.int64)
    for gang in problem.gangs:
        if gang.placeable:
            for d in gang.demands:
                demand[d.shape] += d.count
    return demand


def _usable(problem: Problem, shape: int) -> Bools:
    return problem.eligible[shape] & (fit(problem.free, problem.request[shape]) > 0)


def _node_sets(masks: Sequence[Bools]) -> list[Bools]:
    """Distinct masks, closed under union as far as the limit goes, and all nodes."""
    found: dict[bytes, Bools] = {m.tobytes(): m for m in masks}
    if masks:
        everything = np.logical_or.reduce(masks)
        found.setdefault(everything.tobytes(), everything)
    grown = list(found.values())
    for a in grown:
        for b in list(found.values()):
            if len(found) >= MAX_NODE_SETS:
                break
            both = a | b
            found.setdefault(both.tobytes(), both)
    return list(found.values())[:MAX_NODE_SETS]


def _references(problem: Problem, demand: Ints) -> list[Ints]:
    """Requests to count by: each resource alone, and the shapes most asked for."""
    found: dict[bytes, Ints] = {}

    def add(reference: Ints) -> None:
        if reference.any():
            found.setdefault(reference.tobytes(), reference)

    asked = problem.request[demand > 0]
    for r in range(len(problem.columns)):
        sizes = np.unique(asked[:, r][asked[:, r] > 0])
        for size in sizes[-2:] if len(problem.columns) > MAX_REFERENCES else sizes[-4:]:
            unit = np.zeros(len(problem.columns), dtype=np.int64)
            unit[r] = size
            add(unit)
        if len(sizes):
            unit = np.zeros(len(problem.columns), dtype=np.int64)
            unit[r] = np.gcd.reduce(sizes)
            add(unit)
    weight = demand * np.maximum(problem.gpus, 1)
    for s in np.argsort(-weight, kind="stable")[: np.count_nonzero(demand)]:
        if len(found) >= 2 * MAX_REFERENCES:
            break
        add(problem.request[s].copy())
    return list(found.values())
