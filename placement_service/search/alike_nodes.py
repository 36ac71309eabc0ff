"""Nodes that are alike but for a few pods that may not use some of them.

Jobs often avoid a few nodes by name, each its own. With hundreds of such jobs hardly two nodes are
equal, and everything that counts alike nodes together takes too long. So the search gets a looser
question, in which these pods may use all nodes of a group. Afterwards what lies on the nodes of a
group changes places until everybody may be where it is. That is worth the same on any of them, and
bounds of a looser question hold. Where gangs name fewer domains, more nodes are alike for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from placement_service.entities.solution import Assignment, Solution, TierName
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import NO_LEVEL, LevelIdx
from placement_service.formulation.plan import from_solution
from placement_service.formulation.presolve.merged_classes import merged
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.fragmentation import Fragmentation
from placement_service.search.node_places import ALONE, Content, Places

#: So many different sets of nodes that pods may use are no trouble.
FEW = 16

#: The share of a group that pods avoid at most, and of the sets that leave out one of its nodes.
AVOIDED = 0.25

#: The share of the nodes' differences that remains at most, else it is not worth while.
LEFT = 0.5


class NoPlaces(Exception):
    """The nodes of a group cannot hold what lies there, whatever changes places."""


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
        return merged(replace(self._strict, eligible=eligible))

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
        places = Places(
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

    def _content(self, classes: Collection[int], gangs: Iterable[int]) -> Content:
        mine = tuple(sorted(classes))
        if mine not in self._able:
            self._able[mine] = np.all(self._strict.eligible[list(mine)], axis=0)
        levels = [self._levels[g] for g in gangs]
        known = [named for named in levels if named is not None]
        return Content(
            self._able[mine], frozenset().union(*known) if len(known) == len(levels) else None
        )


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
