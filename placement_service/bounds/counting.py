"""Bounds by counting: rows that every valid plan obeys, and that name no node.

For a reference request r let fit(r, x) be how often r fits into x. It is
superadditive, so whatever lies on a node n, the fits of its pods add up to at
most fit(r, free_n). For a set U of nodes count only pods that fit nowhere
outside U. Pods that must share a domain of some level (a part) may be rounded
down together, because floor(a/t) + floor(b/t) <= floor((a+b)/t): for t >= 1

    weight(part) = floor( sum of its fits / t )
    capacity     = sum over domains of floor( sum over n in U of fit(r, free_n) / t )
    sum of weights over all admitted gangs <= capacity

t = 1 is plain counting; t = 5 says "racks hold at most floor(c/5) parts of
five". Pods of which no node holds two, whatever their kinds, are counted as one per node over the
nodes that fit any of them (Hall's condition). Every row holds for every valid plan, so no later
stage can undo a bound that came from rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_service.bounds.gang_classes import (
    Content,
    GangClass,
    Parts,
    PartTimes,
    UnitsOf,
    is_whole,
    least_of,
)
from placement_service.bounds.roomiest import enough, largest_sums, places_needed, sums_by_place
from placement_service.bounds.ways_to_count import (
    COUNTING_DEFAULTS,
    CountingParameters,
    ways_to_count,
)
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import NO_GANG, GangIdx
from placement_service.formulation.plan import oldest_first
from placement_service.formulation.problem import Gang, Scope
from placement_service.heuristic.one_gang.domain_facts import Topology


class _Alone(NamedTuple):
    """What gangs that ask for the same have in common: their extras, and `least_beyond`."""

    extras: Content
    beyond: int


class _RoundedNeed(NamedTuple):
    """How many times `t[K]` parts need, each rounded down: `need[K]`."""

    t: Ints
    need: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """sum weight[C] * admitted[C] + sum extra[C] * extras[C] <= capacity."""

    weight: Ints
    extra: Ints
    capacity: int


class _Rows(NamedTuple):
    """Several rows [T]: `weight` [T, C], `extra` [T, C], `capacity` [T]."""

    weight: Ints
    extra: Ints
    capacity: Ints


class Counting:
    """Rows of a problem, and what counting says about single gangs.

    There are K ways to count, each a reference and a node set: `units[K, S]` is
    what a unit of a pod class counts, `room[K, N]` what a node offers.
    """

    def __init__(
        self, topology: Topology, parameters: CountingParameters = COUNTING_DEFAULTS
    ) -> None:
        self.topology = topology
        self.parameters = parameters
        self.problem = topology.problem
        self.levels = self._part_levels()
        self.units, self.room = ways_to_count(self.problem, parameters)
        self.total = self.room.sum(axis=1)
        self._offers: dict[int, Ints] = {}
        self._most: dict[int, Ints] = {}
        self._weights: dict[Content, Ints] = {}
        self._parts: dict[tuple[Gang, int], Parts] = {}
        self._contents: dict[tuple[Gang, tuple[int, ...]], Content] = {}
        self._needed: dict[Gang, Mapping[int, UnitsOf]] = {}
        #: The first gang that asks for the same as a gang, and by what it asks for.
        self._first: dict[Gang, Gang] = {}
        self._first_that_asks: dict[Hashable, Gang] = {}
        self._domains: dict[tuple[Content, int], Bools] = {}
        #: Places of a level that offer anything, each way [K].
        self._places_used: dict[int, Ints] = {}
        #: `fewest_places` of what gangs ask for in common.
        self.known_places: dict[tuple[Hashable, ...], int] = {}
        self._rounded_most: dict[tuple[int, int, bytes], Ints] = {}
        self._rounded_parts: dict[Parts, tuple[_RoundedNeed, ...]] = {}

    def _part_levels(self) -> tuple[int, ...]:
        """The levels that parts are bound to, -1 for single nodes first."""
        used = {
            s.required
            for g in self.problem.gangs
            if g.placeable
            for s in g.scopes
            if s.required >= 0
        }
        return (-1, *sorted(used))

    def weigh(self, content: Content) -> Ints:
        """The least that content can count, each way [K]."""
        if content not in self._weights:
            total = np.zeros(len(self.units), dtype=np.int64)
            for pod_classes, count in content:
                total += count * self.units[:, list(pod_classes)].min(axis=1)
            self._weights[content] = total
        return self._weights[content]

    def offers(self, level: int) -> Ints:
        """What each place of a level offers, each way [K, P]; -1 for nodes."""
        if level < 0:
            return self.room
        if level not in self._offers:
            place = self.problem.levels[level].place_of
            count = int(place.max(initial=-1)) + 1
            self._offers[level] = sums_by_place(self.room, place, count)
        return self._offers[level]

    # --- what must stay together --------------------------------------------

    def parts(self, gang: Gang, level: int) -> Parts:
        """The minimum of a gang, cut into what must share a domain of a level.

        Units that nothing binds are parts of one.
        """
        gang = self.first_alike(gang)
        key = (gang, level)
        if key not in self._parts:
            self._parts[key] = self._cut(gang, level)
        return self._parts[key]

    def first_alike(self, gang: Gang) -> Gang:
        """The first gang that asks for the same: what is known of it need not be found again."""
        if gang not in self._first:
            self._first[gang] = self._first_that_asks.setdefault(gang.asks, gang)
        return self._first[gang]

    def _cut(self, gang: Gang, level: int) -> Parts:
        content = self._needs(gang)
        requirement_of = {d: i for i, q in enumerate(gang.requirements) for d in q.demands}
        found: list[PartTimes] = []
        bound: set[int] = set()
        tree = self.topology.tree(gang)
        for part in tree.bound_by(lambda r: self.within(r, level)) if tree and level >= 0 else ():
            mine = set(part.demands)
            touched = {requirement_of[d] for d in mine} & content.keys()
            inside = sorted(i for i in touched if mine.issuperset(gang.requirements[i].demands))
            if inside:
                found.append(PartTimes(tuple(content[i] for i in inside), 1))
                bound.update(inside)
        for i, (pod_classes, count) in content.items():
            if i not in bound:
                found.append(PartTimes((UnitsOf(pod_classes, 1),), count))
        merged: dict[Content, int] = {}
        for part_content, times in found:
            ordered = tuple(sorted(part_content))
            merged[ordered] = merged.get(ordered, 0) + times
        return tuple(PartTimes(*item) for item in sorted(merged.items()))

    def within(self, narrow: int, level: int) -> bool:
        """Whether each domain of a narrow level lies in one of a broad level."""
        return narrow == level or self.topology.parent(narrow, level) is not None

    @cached_property
    def classes(self) -> tuple[GangClass, ...]:
        """The pending gangs that fit alone, those that are alike together. Gangs based on others
        are only alike where these are: else it would not show who of them has a base.
        """
        found: dict[tuple[GangClass, GangIdx], list[GangIdx]] = {}
        known: dict[object, _Alone | None] = {}
        #: The first gang that a gang is alike with, by which its class is known.
        first: dict[GangIdx, GangIdx] = {}
        # Bases come first.
        for gang in sorted(self.problem.pending, key=lambda g: (g.base >= 0, *oldest_first(g))):
            parts = tuple(self.parts(gang, level) for level in self.levels)
            alike = (self.first_alike(gang), gang.queue_rows, bool(gang.home))
            if alike not in known:
                known[alike] = self._alone(gang)
            alone = known[alike]
            if alone is not None:
                key = GangClass(
                    (),
                    gang.priority,
                    gang.value,
                    parts,
                    alone.extras,
                    gang.queue_rows,
                    alone.beyond,
                    gang.precedence,
                )
                mine = found.setdefault((key, first.get(gang.base, NO_GANG)), [])
                mine.append(gang.index)
                first[gang.index] = mine[0]
        return tuple(replace(key, gangs=tuple(gangs)) for (key, _), gangs in found.items())

    def _alone(self, gang: Gang) -> _Alone | None:
        """None if the gang does not even fit alone."""
        if not self.fits_alone(gang):
            return None
        extras = (
            UnitsOf(gang.pod_classes(q), q.pending - q.missing)
            for q in gang.requirements
            if q.pending > q.missing
        )
        return _Alone(tuple(sorted(extras)), self.least_beyond(gang))

    # --- rows -----------------------------------------------------------------

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The rows that can bind, no two with equal weights."""
        gangs = np.array([len(c.gangs) for c in self.classes], dtype=np.int64)
        extras = gangs * np.array(
            [sum(k for _, k in c.extras) for c in self.classes], dtype=np.int64
        )
        best: dict[tuple[bytes, bytes], Row] = {}
        for weight, extra, capacity in self._all_rows() if self.classes else ():
            binds = weight @ gangs + extra @ extras > capacity
            for i in np.flatnonzero(binds & weight.any(axis=1)).tolist():
                row = Row(weight[i], extra[i], int(capacity[i]))
                key = (row.weight.tobytes(), row.extra.tobytes())
                if key not in best or row.capacity < best[key].capacity:
                    best[key] = row
        return tuple(best.values())

    def _queue_rows(self) -> Iterator[_Rows]:
        """The rows of queues, with the least that minimums and extras can take."""
        for r, row in enumerate(self.problem.queue_rows):
            weight = np.zeros(len(self.classes), dtype=np.int64)
            extra = np.zeros(len(self.classes), dtype=np.int64)
            for c, gang in enumerate(self.classes):
                if r in gang.queue_rows:
                    weight[c] = sum(
                        times * least_of(row, content) for content, times in gang.parts[0]
                    )
                    extra[c] = min(
                        (least_of(row, (UnitsOf(each.pod_classes, 1),)) for each in gang.extras),
                        default=0,
                    )
            yield _Rows(weight[None], extra[None], np.array([row.capacity]))

    def _all_rows(self) -> Iterator[_Rows]:
        yield from self._queue_rows()
        per_extra = np.array(
            [
                np.min([self.weigh((UnitsOf(each.pod_classes, 1),)) for each in c.extras], axis=0)
                if c.extras
                else np.zeros(len(self.units), dtype=np.int64)
                for c in self.classes
            ]
        )
        gangs = np.array([len(c.gangs) for c in self.classes], dtype=np.int64)
        every_extra = (gangs * [sum(k for _, k in c.extras) for c in self.classes]) @ per_extra
        for i, level in enumerate(self.levels):
            offers = self.offers(level)
            parts = [(c, *part) for c, gang in enumerate(self.classes) for part in gang.parts[i]]
            if not parts:
                continue
            owner, begin = np.unique([c for c, _, _ in parts], return_index=True)
            times = np.array([n for _, _, n in parts], dtype=np.int64)
            weights = np.array([self.weigh(content) for _, content, _ in parts])
            asked = (times * gangs[[c for c, _, _ in parts]]) @ weights + every_extra
            largest = np.maximum(weights.max(axis=0) * (level >= 0), 1)
            # Other ways have room for all, however it is rounded.
            for k in np.flatnonzero(asked > self._whatever_is_rounded(level, largest)):
                sizes = np.unique(weights[:, k])[::-1]
                # On single nodes a rounding is just another reference.
                large = sizes[sizes > 1][: self.parameters.roundings] if level >= 0 else sizes[:0]
                t = np.concatenate([[1], large])[:, None]
                weight = np.zeros((len(t), len(self.classes)), dtype=np.int64)
                weight[:, owner] = np.add.reduceat(weights[:, k] // t * times, begin, axis=1)
                yield _Rows(weight, per_extra[:, k] // t, (offers[k] // t).sum(axis=1))

    # --- single gangs -----------------------------------------------------------

    def fits_alone(self, gang: Gang) -> bool:
        """False only if the gang cannot be placed on the snapshot even alone."""
        for r in gang.queue_rows:
            row = self.problem.queue_rows[r]
            least = sum(times * least_of(row, c) for c, times in self.parts(gang, -1))
            if least > row.capacity:
                return False
        for scope in gang.scopes:
            binds = scope.required >= 0 and bool(self.content(gang, scope.demands))
            if binds and not self.domains_for(gang, scope).any():
                return False
        whole = sum(
            (self.weigh(content) * times for content, times in self.parts(gang, -1)),
            np.zeros(len(self.units), dtype=np.int64),
        )
        return not (whole > self.total).any() and not any(
            self._is_more(need, level, t)
            for level in self.levels[1:]
            for t, need in self._rounded_needs(gang, level)
        )

    def _rounded_needs(self, gang: Gang, level: int) -> tuple[_RoundedNeed, ...]:
        """What the parts of a gang at a level need, rounded by each of them that counts more than
        one.
        """
        parts = self.parts(gang, level)
        if parts not in self._rounded_parts:
            weights = np.array([self.weigh(content) for content, _ in parts])
            times = np.array([times for _, times in parts])[:, None]
            large = {w.tobytes(): w for w in weights if (w > 1).any()}.values()
            sizes = [np.maximum(w, 1) for w in large]
            self._rounded_parts[parts] = tuple(
                [_RoundedNeed(t, (weights // t * times).sum(axis=0)) for t in sizes]
            )
        return self._rounded_parts[parts]

    def _is_more(self, need: Ints, level: int, t: Ints) -> bool:
        """Whether all domains of a level together lack room for so many parts of t, any way."""
        ways = np.flatnonzero(need * t > self._whatever_is_rounded(level, t))
        rooms = (self.offers(level)[ways] // t[ways, None]).sum(axis=1)
        return bool((need[ways] > rooms).any())

    def _whatever_is_rounded(self, level: int, t: Ints) -> Ints:
        """At least so much is left when the room of each place of a level is rounded down to parts
        of t [K]; mostly that is enough.
        """
        if level not in self._places_used:
            self._places_used[level] = np.count_nonzero(self.offers(level), axis=1)
        left: Ints = self.total - self._places_used[level] * (t - 1)
        return left

    def domains_for(self, gang: Gang, scope: Scope) -> Bools:
        """Domains [D] of a scope's required level that counting does not rule out."""
        level = self.problem.levels[scope.required]
        key = (self.content(gang, scope.demands), scope.required)
        if key not in self._domains:
            offers = self.offers(scope.required)[:, : level.count]
            self._domains[key] = enough(offers, self.weigh(key[0]))
        able = self._domains[key]
        if scope.pin >= 0:
            able = able & (np.arange(level.count) == scope.pin)
        return able

    def places_for(self, gang: Gang, scope: Scope) -> Bools:
        """Places of a scope's preferred level that may hold its minimum whole."""
        need = self.weigh(self.content(gang, scope.demands))
        return enough(self.offers(scope.preferred), need)

    def fewest_places(self, gang: Gang, scope: Scope) -> int:
        """At least so many places at its preferred level a scope uses once placed."""
        parts = (self.parts(gang, i) for i in self.levels[1:]) if is_whole(gang, scope) else ()
        key = (self.content(gang, scope.demands), scope.preferred, scope.running, *parts)
        if key not in self.known_places:
            self.known_places[key] = self._fewest_places(gang, scope)
        return self.known_places[key]

    def _fewest_places(self, gang: Gang, scope: Scope) -> int:
        content = self.content(gang, scope.demands)
        bound = [p for p in scope.running if p >= 0]
        offers = self.offers(scope.preferred)
        need = self.weigh(content) - offers[:, bound].sum(axis=1)
        if bound:
            offers = offers.copy()
            offers[:, bound] = 0
            most = largest_sums(offers)
        else:
            if scope.preferred not in self._most:
                self._most[scope.preferred] = largest_sums(offers)
            most = self._most[scope.preferred]
        used = len(scope.running) + places_needed(need, most)
        if is_whole(gang, scope):
            used = max(used, self._fewest_by_parts(gang, scope.preferred))
        return max(used, 1) if content or scope.running else 0

    def _fewest_by_parts(self, gang: Gang, preferred: int) -> int:
        """At least so many places of a level hold all parts of a gang, rounded as in rows.

        So a gang of four parts that need a large rack each uses two blocks with three of them.
        """
        least = 0
        for level in self.levels[1:]:
            if level == preferred or not self.within(level, preferred):
                continue
            for t, need in self._rounded_needs(gang, level):
                least = max(least, places_needed(need, self._rounded_sums(level, preferred, t)))
        return least

    def _rounded_sums(self, level: int, preferred: int, t: Ints) -> Ints:
        """Room for parts of t in the roomiest places of a broader level, as `largest_sums`."""
        key = (level, preferred, t.tobytes())
        if key not in self._rounded_most:
            inner = self.problem.levels[level].place_of
            outer = self.problem.levels[preferred].place_of
            place = np.zeros(int(inner.max(initial=-1)) + 1, dtype=np.int64)
            place[inner] = outer
            room = self.offers(level) // t[:, None]
            sums = sums_by_place(room, place, int(outer.max(initial=-1)) + 1)
            self._rounded_most[key] = largest_sums(sums)
        return self._rounded_most[key]

    def least_beyond(self, gang: Gang) -> int:
        """At least so many places beyond the first its preferred scopes use once placed."""
        return sum(max(0, self.fewest_places(gang, s) - 1) for s in gang.scopes if s.preferred >= 0)

    def fewest(self, gang: Gang) -> int:
        """Sum of `fewest_places` over the preferred scopes of a gang."""
        return sum(self.fewest_places(gang, s) for s in gang.scopes if s.preferred >= 0)

    def content(self, gang: Gang, demands: tuple[int, ...]) -> Content:
        """The minimum of the requirements that lie wholly in some demands."""
        key = (self.first_alike(gang), demands)
        if key not in self._contents:
            inside = set(demands)
            self._contents[key] = tuple(
                units
                for i, units in self._needs(gang).items()
                if inside.issuperset(gang.requirements[i].demands)
            )
        return self._contents[key]

    def _needs(self, gang: Gang) -> Mapping[int, UnitsOf]:
        """The units that each requirement of a gang lacks, by its place."""
        gang = self.first_alike(gang)
        if gang not in self._needed:
            self._needed[gang] = {
                i: UnitsOf(gang.pod_classes(q), q.missing)
                for i, q in enumerate(gang.requirements)
                if q.missing
            }
        return self._needed[gang]
