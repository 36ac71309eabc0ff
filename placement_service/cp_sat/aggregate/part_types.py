"""Divides gangs into kinds of parts, for models that only count.

Parts of gangs that must or should lie in one domain are of one kind when they
ask for the same: a model then counts parts of a kind per domain, whatever gangs they belong to.
Base gangs with all gangs based on them are parts of a kind as well, so that a whole set can be
counted in one domain.

All of it can be reversed: an `Opened` says which requirements of which gangs the counts of a
content stand for, in the same order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.cp_sat.exact.variables import is_single
from placement_service.entities.deadline import check_time
from placement_service.entities.request import ExtrasPolicy
from placement_service.formulation.gangs.scope_tree import Part
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import Plan, is_placed, oldest_first
from placement_service.formulation.problem import Gang, Problem


class Choice(NamedTuple):
    """A pod class, and how many of its units there are."""

    pod_class: ClassIdx
    units: int


class KindCount(NamedTuple):
    """So many parts of a kind."""

    kind: int
    times: int


@dataclass(frozen=True, slots=True)
class Ask:
    """`least` to `most` units, of some pod classes to choose from.

    `queue_rows` are the rows of queues that count the units. Where extras go with their
    priority, `priority` tells them apart, else it is 0.
    """

    pod_classes: tuple[Choice, ...]
    least: int
    most: int
    queue_rows: tuple[int, ...]
    priority: int = 0

    @property
    def is_certain(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.pod_classes) == 1 and self.least == self.most


@dataclass(frozen=True, slots=True)
class Content:
    """Loose units, and parts by kind."""

    asks: tuple[Ask, ...]
    kinds: tuple[KindCount, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A part that opens in one domain at depth `at`, 0 for anywhere.

    With a `preferred` depth it is either `whole` in one domain there or `apart`.
    The places `running` are used in any case. A part costs `fixed` domains, and one
    more where it needs a place that is not among these; apart it needs `least` places.
    """

    at: int
    preferred: int
    pin: int
    running: tuple[int, ...]
    fixed: int
    least: int
    apart: Content
    whole: Content | None

    def cost_whole(self, vertex: int) -> int:
        """Domains beyond the first when the part lies whole in a vertex."""
        return self.fixed + bool(self.running and vertex not in self.running)

    @property
    def cost_apart(self) -> int:
        """Domains beyond the first when the part is split, at least."""
        if self.preferred == 0:
            return 0
        if self.running:
            # On a node without the label that is used in any case it would need no other place.
            more = len(self.running) < 2 and self.running[0] >= 0
            return max(self.fixed + more, self.least - 1)
        return max(self.least, 2) - 1 if self.least else 0


class RequirementOf(NamedTuple):
    """A requirement of a gang: an index into its `requirements`."""

    gang: GangIdx
    requirement: int


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """Of a content: the requirement behind each ask, and the parts of its kinds."""

    requirements: tuple[RequirementOf, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One part of a kind."""

    kind: int
    apart: Opened
    whole: Opened | None


@dataclass(slots=True, eq=False)
class Group:
    """Gangs alike in all that counts; `family` is -1 for gangs of no set."""

    priority: int
    value: int
    content: Content
    family: int
    keep: bool
    gangs: list[GangIdx] = field(default_factory=list)


class GangSet(NamedTuple):
    """A base with all gangs based on it, and the part that it is as a whole, if any."""

    base: GangIdx
    scaled: tuple[GangIdx, ...]
    piece: Piece | None


@dataclass(slots=True, eq=False)
class Family:
    """Sets alike: a base's group and how many gangs of which groups are based on it.

    `whole` is the kind of a whole set in one domain, -1 where that says nothing.
    """

    base: int
    scaled: dict[int, int]
    whole: int
    sets: list[GangSet] = field(default_factory=list)


class Kinds:
    """Groups, families and kinds of some gangs; the rest stays as `fixed` says.

    `exact` is false where costs are only estimates, so that nothing can be proven.
    """

    def __init__(
        self,
        counting: Counting,
        forest: Forest,
        gangs: Iterable[Gang],
        fixed: Plan,
        until: float = math.inf,
    ) -> None:
        """Raises OutOfTime where it is not done by `until`, in `time.monotonic` seconds."""
        self.counting = counting
        self.problem: Problem = counting.problem
        self.forest = forest
        self.fixed = fixed
        self.kinds: list[Kind] = []
        self._index: dict[Kind, int] = {}
        self.groups: list[Group] = []
        self.families: list[Family] = []
        self.opened: dict[int, Opened] = {}
        self.exact = True
        self._mine = {g.index: g for g in gangs}
        for g in sorted(gangs, key=lambda g: g.base >= 0):
            # Gangs that are based on a gang that does not run have to wait.
            lacking = {b for b in g.rests_on if not is_placed(self.problem.gangs[b], fixed)}
            excluded = g.begins_anew and is_placed(self.problem.gangs[g.not_with], fixed)
            if excluded or not self._mine.keys() >= lacking:
                del self._mine[g.index]
        self._until = until
        self._form()

    # --- gangs and sets -----------------------------------------------------------

    def _form(self) -> None:
        scaled: dict[int, list[Gang]] = {}
        for g in self._mine.values():
            if g.base in self._mine:
                scaled.setdefault(g.base, []).append(g)
        based = self._fixed_of_sets()
        group_of: dict[object, int] = {}
        family_of: dict[object, int] = {}
        done: set[int] = set()
        for g in sorted(
            self._mine.values(), key=lambda g: (g.index not in scaled, *oldest_first(g))
        ):
            if g.index in done:
                continue
            check_time(self._until)
            followers = sorted(scaled.get(g.index, ()), key=oldest_first)
            members = [g, *followers]
            done.update(m.index for m in members)
            places, keep = based.get(g.index if g.base < 0 else g.base, ((), False))
            contents = [self._gang(m, places) for m in members]
            keys = [
                (m.priority, m.value, m.precedence, content)
                for m, (content, _) in zip(members, contents, strict=True)
            ]
            must = keep and g.base < 0
            if not followers:
                at = self._group(group_of, (keys[0], None, must), g, contents[0][0], -1, must)
                self._join(at, g, contents[0][1])
                continue
            order = sorted(range(1, len(members)), key=lambda i: repr(keys[i]))
            # A base of one unit does not say at which level its set should be near.
            key = (keys[0], tuple(keys[i] for i in order), must, followers[0].set_level)
            if key not in family_of:
                family_of[key] = len(self.families)
                self.families.append(Family(-1, {}, -1))
            number = family_of[key]
            family = self.families[number]
            family.base = self._group(
                group_of, (keys[0], number, must, "base"), g, contents[0][0], number, must
            )
            self._join(family.base, g, contents[0][1])
            times: dict[int, int] = {}
            for i in order:
                at = self._group(
                    group_of, (keys[i], number, False), members[i], contents[i][0], number, False
                )
                self._join(at, members[i], contents[i][1])
                times[at] = times.get(at, 0) + 1
            family.scaled = times
            piece = None if places else self._whole_set(members)
            family.whole = -1 if piece is None else piece.kind
            family.sets.append(GangSet(g.index, tuple(members[i].index for i in order), piece))

    def _fixed_of_sets(self) -> dict[int, tuple[tuple[int, ...], bool]]:
        """By base gang: vertices that fixed members of its set use, and if it must stay."""
        found: dict[int, tuple[tuple[int, ...], bool]] = {}
        members: dict[int, list[Gang]] = {}
        for g in self.problem.gangs:
            if g.base >= 0:
                members.setdefault(g.base, [self.problem.gangs[g.base]]).append(g)
        for base, gangs in members.items():
            if not any(g.index in self._mine for g in gangs):
                continue
            level = gangs[1].set_level
            used: set[int] = set()
            keep = False
            for g in gangs:
                if g.index not in self._mine and is_placed(g, self.fixed):
                    # Running pods do not need the base; new pods do.
                    keep = keep or (g.base >= 0 and g.index in self.fixed)
                    if level in self.forest.depth:
                        used.update(self._vertex(level, p) for p in g.set_running)
                        row = self.forest.holds[self.forest.depth[level]]
                        units = self.fixed.get(g.index, ())
                        used.update(int(row[n]) for _, n, _ in units)
                elif g.index in self._mine and g.set_running and level in self.forest.depth:
                    used.update(self._vertex(level, p) for p in g.set_running)
            if used or keep:
                self.exact = False
            found[base] = (tuple(sorted(used)), keep)
        return found

    def _group(
        self,
        known: dict[object, int],
        key: object,
        gang: Gang,
        content: Content,
        family: int,
        keep: bool,
    ) -> int:
        if key not in known:
            known[key] = len(self.groups)
            self.groups.append(Group(gang.priority, gang.value, content, family, keep))
        return known[key]

    def _join(self, group: int, gang: Gang, opened: Opened) -> None:
        self.groups[group].gangs.append(gang.index)
        self.opened[gang.index] = opened

    def _gang(self, gang: Gang, near: tuple[int, ...]) -> tuple[Content, Opened]:
        tree = self.counting.topology.tree(gang)
        assert tree is not None
        if not near or gang.set_level not in self.forest.depth:
            return self._content([self._open(gang, tree, 0)])
        # The rest of the set stays where it is, and this gang should be near.
        depth = self.forest.depth[gang.set_level]
        apart, opened_apart = self._content([self._open(gang, tree, 0)])
        whole, opened_whole = self._content([self._open(gang, tree, depth)])
        kind = self._intern(Kind(0, depth, -1, near, 0, 0, apart, whole))
        return self._content([([], [Piece(kind, opened_apart, opened_whole)])])

    def _whole_set(self, members: Sequence[Gang]) -> Piece | None:
        level = members[0].set_level if members[0].set_level >= 0 else members[1].set_level
        if level not in self.forest.depth:
            return None
        depth = self.forest.depth[level]
        opened = []
        for g in members:
            tree = self.counting.topology.tree(g)
            assert tree is not None
            opened.append(self._open(g, tree, depth))
        content, back = self._content(opened)
        return Piece(
            self._intern(Kind(depth, 0, -1, (), 0, 0, content, None)), apart=back, whole=None
        )

    # --- parts --------------------------------------------------------------------

    def _open(
        self, gang: Gang, part: Part, depth: int
    ) -> tuple[list[tuple[Ask, RequirementOf]], list[Piece]]:
        """What a part consists of when it lies in a domain of some depth."""
        loose = set(part.loose)
        by_priority = self.problem.policy.extras is ExtrasPolicy.WITH_PRIORITY
        asks = [
            (
                Ask(
                    tuple(
                        Choice(gang.demands[d].pod_class, gang.demands[d].count) for d in q.demands
                    ),
                    q.missing,
                    q.pending,
                    gang.queue_rows,
                    gang.priority if by_priority and q.pending > q.missing else 0,
                ),
                RequirementOf(gang.index, i),
            )
            for i, q in enumerate(gang.requirements)
            if loose.issuperset(q.demands)
        ]
        pieces: list[Piece] = []
        for child in part.children:
            scope = child.scope
            assert scope is not None
            required = self.forest.depth.get(scope.required, 0)
            pinned = scope.pin >= 0 and required > 0
            at = max(depth, required)
            preferred = self.forest.depth.get(scope.preferred, 0)
            if preferred <= at or is_single(gang, scope):
                preferred = 0
            if at == depth and not preferred and not pinned:
                more_asks, more_pieces = self._open(gang, child, depth)
                asks += more_asks
                pieces += more_pieces
                continue
            apart, opened_apart = self._content([self._open(gang, child, at)])
            whole, opened_whole = None, None
            if preferred:
                whole, opened_whole = self._content([self._open(gang, child, preferred)])
            running = (
                tuple(self._vertex(scope.preferred, p) for p in scope.running) if preferred else ()
            )
            kind = Kind(
                at=at,
                preferred=preferred,
                pin=self.forest.vertex(scope.required, scope.pin) if pinned else -1,
                running=running,
                fixed=max(0, len(running) - 1),
                least=self.counting.fewest_places(gang, scope) if preferred else 0,
                apart=apart,
                whole=whole,
            )
            pieces.append(Piece(self._intern(kind), opened_apart, opened_whole))
        return asks, pieces

    def _vertex(self, level: int, place: int) -> int:
        """The vertex of a place; nodes without the label get numbers of their own below 0."""
        inside = 0 <= place < self.problem.levels[level].count
        return self.forest.vertex(level, place) if inside else -2 - abs(place)

    @staticmethod
    def _content(
        opened: Sequence[tuple[list[tuple[Ask, RequirementOf]], list[Piece]]],
    ) -> tuple[Content, Opened]:
        asks = sorted(
            (a for some, _ in opened for a in some),
            key=lambda a: (a[0].pod_classes, a[0].least, a[0].most, a[0].queue_rows),
        )
        pieces = sorted((p for _, some in opened for p in some), key=lambda p: p.kind)
        times: dict[int, int] = {}
        for p in pieces:
            times[p.kind] = times.get(p.kind, 0) + 1
        return (
            Content(tuple(a for a, _ in asks), tuple(KindCount(*item) for item in times.items())),
            Opened(tuple(q for _, q in asks), tuple(pieces)),
        )

    def may_be_empty(self, content: Content) -> bool:
        """Whether a content asks for nothing that must be placed."""
        return not any(a.least for a in content.asks) and all(
            self.may_be_empty(self.kinds[k].apart) for k, _ in content.kinds
        )

    def _intern(self, kind: Kind) -> int:
        if kind not in self._index:
            self._index[kind] = len(self.kinds)
            self.kinds.append(kind)
        return self._index[kind]


def is_plain(counting: Counting, forest: Forest, gang: Gang) -> bool:
    """Whether kinds describe a pending gang completely."""
    problem = counting.problem
    tree = counting.topology.tree(gang) if gang.placeable else None
    if tree is None or not gang.pending or gang.previous or gang.home:
        return False
    if any(problem.special[d.pod_class] for d in gang.demands):
        return False
    own = {i for s in gang.scopes for i in (s.required, s.preferred)} | {gang.set_level}
    own -= {-1}
    if not own <= forest.depth.keys():
        return False
    levels = sorted(own, key=lambda i: forest.depth[i])
    for broad, narrow in pairwise(levels):
        if counting.topology.parent(narrow, broad) is None:
            return False
    return _requirements_are_whole(gang, tree)


def _requirements_are_whole(gang: Gang, part: Part) -> bool:
    """Whether every requirement lies in one part."""
    mine = set(part.demands)
    if any(
        mine.intersection(q.demands) and not mine.issuperset(q.demands) for q in gang.requirements
    ):
        return False
    return all(_requirements_are_whole(gang, c) for c in part.children)
