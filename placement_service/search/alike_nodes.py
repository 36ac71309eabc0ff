"""Nodes that are alike but for a few pods that may not use some of them.

Jobs often avoid a few nodes by name, each its own. With hundreds of such jobs hardly two nodes are
equal, and everything that counts alike nodes together takes too long. So the search gets a looser
question, in which these pods may use all nodes of a group. Afterwards what lies on the nodes of a
group changes places until everybody may be where it is. That is worth the same on any of them, and
bounds of a looser question hold. Where gangs name fewer domains, more nodes are alike for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_service.entities.solution import Assignment, Solution, TierName
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import NO_LEVEL, ClassIdx, LevelIdx
from placement_service.formulation.plan import from_solution
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules.queues import QueueRow
from placement_service.formulation.tiers.fragmentation import Fragmentation

#: So many different sets of nodes that pods may use are no trouble.
FEW = 16

#: The share of a group that pods avoid at most, and of the sets that leave out one of its nodes.
AVOIDED = 0.25

#: The share of the nodes' differences that remains at most, else it is not worth while.
LEFT = 0.5

#: So many contents change places for one at most; to find out takes longer with more nodes.
MOST_MOVED = 500

#: In no group.
ALONE = -1


class NoPlaces(Exception):
    """The nodes of a group cannot hold what lies there, whatever changes places."""


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """What lies together on a node: where it may be [N], and the levels of which it keeps the
    domain, None where it has to stay.
    """

    able: Bools
    levels: frozenset[LevelIdx] | None


class AlikeNodes:
    """`room` [N] is the same for nodes with equal room, and `group` [N] for those that are in the
    same domains, too, `ALONE` where what lies on a node stays. `opened` [S, G] are groups of which
    pods of a class may use all nodes.
    """

    def __init__(self, strict: Problem, room: Ints, group: Ints, opened: Bools) -> None:
        self._strict, self._room, self._group, self._opened = strict, room, group, opened
        self._class_of: dict[tuple[int, int, int], int] = {
            (gang.index, member.group, member.pod_set): demand.pod_class
            for gang in strict.gangs
            for demand in gang.demands
            for member in demand.members
        }
        #: Where pods of some classes may be together [N]; many nodes hold the same.
        self._able: dict[tuple[int, ...], Bools] = {}
        self._levels = [
            None if _is_fixed(strict, g) else frozenset(_levels(g)) for g in strict.gangs
        ]

    @cached_property
    def loose(self) -> Problem:
        """The looser question."""
        inside = self._group != ALONE
        eligible = self._strict.eligible.copy()
        eligible[:, inside] |= self._opened[:, self._group[inside]]
        eligible.flags.writeable = False
        return _merged(replace(self._strict, eligible=eligible))

    def exchanged(self, solution: Solution) -> Solution:
        """An answer to the looser question as one to the strict one, worth the same.

        Raises NoPlaces where there is none; then the looser question is less loose from now on.
        """
        moved = self._moved(solution.assignments)
        if all(node == at for node, at in moved.items()):
            return solution
        there = sorted(a._replace(node=moved[a.node]) for a in solution.assignments)
        found = replace(solution, assignments=tuple(there))
        # Which nodes and domains are used at all may be others now.
        fragmentation = Fragmentation(self._strict).value(from_solution(self._strict, found))
        return replace(
            found,
            tiers=tuple(
                replace(tier, value=float(fragmentation))
                if tier.name is TierName.FRAGMENTATION
                else tier
                for tier in solution.tiers
            ),
        )

    def _moved(self, assignments: Sequence[Assignment]) -> Mapping[int, int]:
        """Where what lies on each node goes."""
        classes: defaultdict[int, set[int]] = defaultdict(set)
        gangs: defaultdict[int, set[int]] = defaultdict(set)
        for a in assignments:
            classes[a.node].add(self._class_of[a.gang, a.group, a.pod_set])
            gangs[a.node].add(a.gang)
        places = _Places(
            self._strict,
            self._room,
            self._group,
            {node: self._content(classes[node], gangs[node]) for node in classes},
        )
        stuck = [node for node in classes if not places.settle(node)]
        if stuck:
            for node in stuck:
                self._opened[sorted(classes[node]), self._group[node]] = False
            del self.loose
            raise NoPlaces
        return places.node_of

    def _content(self, classes: Collection[int], gangs: Iterable[int]) -> _Content:
        mine = tuple(sorted(classes))
        if mine not in self._able:
            self._able[mine] = np.all(self._strict.eligible[list(mine)], axis=0)
        levels = [self._levels[g] for g in gangs]
        known = [named for named in levels if named is not None]
        return _Content(
            self._able[mine], frozenset().union(*known) if len(known) == len(levels) else None
        )


class _Places:
    """Which node has which content; each is named by the node where it was at first."""

    def __init__(
        self, problem: Problem, room: Ints, group: Ints, contents: Mapping[int, _Content]
    ) -> None:
        self._problem, self._room, self._group = problem, room, group
        self._contents = contents
        self.node_of = {one: one for one in contents}
        self._held = dict(self.node_of)

    def settle(self, one: int) -> bool:
        """Whether it is where it may be, perhaps now that others have changed places. Augmenting
        paths.
        """
        begin = self.node_of[one]
        if self._contents[one].able[begin]:
            return True
        del self._held[begin]
        comes: dict[int, int] = {}
        reached = [one]
        for mine in reached:
            for node in self._open_to(mine):
                if node in comes:
                    continue
                comes[node] = mine
                if node not in self._held:
                    self._shift(node, one, comes)
                    return True
                if len(reached) < MOST_MOVED:
                    reached.append(self._held[node])
        self._held[begin] = one
        return False

    def _open_to(self, one: int) -> Iterator[int]:
        """Nodes to which a content may go, if what is there makes room."""
        mine, at = self._contents[one], self.node_of[one]
        if mine.levels is None or self._group[at] == ALONE:
            return
        alike: Bools = mine.able & (self._room == self._room[at]) & (self._group != ALONE)
        for level in mine.levels:
            place_of = self._problem.levels[level].place_of
            alike &= place_of == place_of[at]
        yield from np.flatnonzero(alike).tolist()

    def _shift(self, node: int, first: int, comes: Mapping[int, int]) -> None:
        """Along the way to an empty node each content goes one step further."""
        while True:
            one = self._held[node] = comes[node]
            self.node_of[one], node = node, self.node_of[one]
            if one == first:
                return


def alike_nodes(problem: Problem) -> AlikeNodes | None:
    """None where nodes are not much more alike in a looser question, or running gangs may give way:
    their room is not for everybody.
    """
    if any(gang.home for gang in problem.gangs):
        return None
    sets: dict[bytes, int] = {}
    set_of = np.array([sets.setdefault(row.tobytes(), len(sets)) for row in problem.eligible])
    if len(sets) <= FEW:
        return None
    _, first = np.unique(set_of, return_index=True)
    usable = problem.eligible[first]
    room, group = _groups(problem, usable)
    inside = group != ALONE
    size = np.bincount(group[inside])
    count = np.array([np.bincount(group[inside & mine], minlength=len(size)) for mine in usable])
    avoided = size - count
    opened = ((avoided > 0) & (avoided <= np.maximum(1, AVOIDED * size)))[set_of]
    fixed = {d.pod_class for g in problem.gangs if _is_fixed(problem, g) for d in g.demands}
    opened[sorted(fixed)] = False
    found = AlikeNodes(problem, room, group, opened)
    return found if _kinds(found.loose) <= LEFT * _kinds(problem) else None


def _merged(problem: Problem) -> Problem:
    """The question with pod classes as one that nothing tells apart; with rules across nodes, which
    may, as it is.
    """
    if problem.rules:
        return problem
    facts: list[NDArray[Any]] = [
        problem.request,
        np.packbits(problem.eligible, axis=1),
        np.column_stack([problem.gpus, problem.pods_without_gpus, problem.special]),
        *(np.array(row.take)[:, None] for row in problem.queue_rows),
        *(row.weight[:, None] for row in problem.queue_rows),
        *(row.excess.weight[:, None] for row in problem.queue_rows if row.excess is not None),
    ]
    number: dict[bytes, int] = {}
    first: list[int] = []
    of: list[ClassIdx] = []
    for s in range(problem.class_count):
        key = b"".join(fact[s].tobytes() for fact in facts)
        if key not in number:
            number[key] = len(first)
            first.append(s)
        of.append(ClassIdx(number[key]))

    def row_of(row: QueueRow) -> QueueRow:
        excess = row.excess
        return replace(
            row,
            take=tuple(row.take[s] for s in first),
            weight=row.weight[first],
            excess=excess and excess._replace(weight=excess.weight[first]),
        )

    return replace(
        problem,
        request=problem.request[first],
        eligible=problem.eligible[first],
        gpus=problem.gpus[first],
        pods_without_gpus=problem.pods_without_gpus[first],
        special=problem.special[first],
        queue_rows=tuple(map(row_of, problem.queue_rows)),
        gangs=tuple(
            replace(g, demands=tuple(replace(d, pod_class=of[d.pod_class]) for d in g.demands))
            for g in problem.gangs
        ),
    )


def _groups(problem: Problem, usable: Bools) -> tuple[Ints, Ints]:
    """Nodes [N] with the same room, and those of them in the same domains. Those that many sets
    leave out which have others of the group are alone.
    """
    levels = [level.place_of for level in problem.levels if not level.is_host]
    counts = (problem.node_gpus, problem.node_gpus_free, problem.whole_free)
    room = _numbers(np.column_stack([problem.free, *counts]).astype(np.int64))
    group = _numbers(np.column_stack([room, *levels]))
    sets = usable.sum(axis=0)
    most = np.zeros(len(group), dtype=np.int64)
    np.maximum.at(most, group, sets)
    common = sets >= (1 - AVOIDED) * most[group]
    found = np.full(len(group), ALONE)
    found[common] = _numbers(group[common][:, None])
    return room, found


def _numbers(rows: Ints) -> Ints:
    """The same number for equal rows."""
    _, found = np.unique(_as_bytes(rows), return_inverse=True)
    return found.astype(np.int64)


def _kinds(problem: Problem) -> int:
    """So many different sets of pod classes may use a node."""
    return len(np.unique(_as_bytes(np.packbits(problem.eligible.T, axis=1))))


def _as_bytes(rows: np.ndarray) -> np.ndarray:
    """One value for each row."""
    rows = np.ascontiguousarray(rows)
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()


def _is_fixed(problem: Problem, gang: Gang) -> bool:
    """Whether more counts for a gang than in which domains its pods are."""
    return bool(
        gang.previous
        or any(problem.special[d.pod_class] for d in gang.demands)
        or any(problem.levels[level].is_host for level in _levels(gang))
    )


def _levels(gang: Gang) -> set[LevelIdx]:
    """The levels that a gang names."""
    named = {level for s in gang.scopes for level in (s.required, s.preferred)}
    return (named | {gang.set_level}) - {NO_LEVEL}
