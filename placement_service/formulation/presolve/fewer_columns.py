"""The same question with fewer columns of room.

Reservations make columns that limit the few nodes of their own. Where what is left beside them is
too little for a pod, that pod may as well not be there at all. What such columns say beyond that
mostly concerns the same small pods everywhere, so that one column does for all of them. Then
reserved nodes differ in who may be there, which all stages know to count.

Exactly the same plans are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import compress

import numpy as np

from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.presolve.merged_classes import merged
from placement_service.formulation.problem import Problem


def with_fewer_columns(problem: Problem) -> Problem:
    """The question with other columns and eligibility; the same where there is nothing to gain.

    Where running gangs may give way it stays as it is: what they have at home may be more than
    columns allow.
    """
    if any(gang.home for gang in problem.gangs):
        return problem
    few = np.flatnonzero(problem.partial_columns)
    if len(few) < 2:
        return problem
    asked = problem.asked
    eligible = problem.eligible.copy()
    columns = [_Column(problem, asked, int(r)) for r in few]
    for column in columns:
        column.close(eligible)
    joined: list[_Joined] = []
    for column in columns:
        able = column.limit(eligible)
        if len(column.nodes) and not any(one.joins(column, able) for one in joined):
            joined.append(_Joined(column, able))
    return _with(problem, eligible, few, joined)


def without_reservations(problem: Problem) -> Problem:
    """A looser question without the columns that limit only some nodes, where reserved room serves
    everybody; the same where there are none, or other rules across nodes.

    Pods differ less then, so it takes a fraction of the time, and where gangs can use what is
    reserved for them its bounds are hardly weaker.
    """
    kept = ~problem.partial_columns
    if kept.all() or not all(rule.hardly_binds for rule in problem.rules):
        return problem
    return merged(
        replace(
            problem,
            columns=tuple(compress(problem.columns, kept.tolist())),
            free=problem.free[:, kept],
            request=problem.request[:, kept],
            rules=(),
            special=np.zeros_like(problem.special),
            relaxation=None,
        )
    )


class _Column:
    """A column that limits `nodes` only, where pods of each class take `request`."""

    def __init__(self, problem: Problem, asked: Ints, r: int) -> None:
        self.r = r
        self.request = problem.request[:, r]
        self.nodes: Ints = np.flatnonzero(problem.free[:, r] < asked[r])
        self.free = problem.free[self.nodes, r]

    def close(self, eligible: Bools) -> None:
        """Nobody may be where there is too little for a pod."""
        takers = np.flatnonzero(self.request)
        enough = self.request[takers][:, None] <= self.free
        at = np.ix_(takers, self.nodes)
        eligible[at] = np.logical_and(eligible[at], enough)

    def limit(self, eligible: Bools) -> Bools:
        """Forgets nodes where nobody takes anything of it any longer; who may be on others [S]."""
        takers = np.flatnonzero(self.request)
        used = eligible[np.ix_(takers, self.nodes)].any(axis=0)
        self.nodes, self.free = self.nodes[used], self.free[used]
        able: Bools = np.any(eligible[:, self.nodes], axis=1)
        return able


class _Joined:
    """Columns as one: they limit different nodes, and who may be on nodes of several takes the same
    of each.
    """

    def __init__(self, column: _Column, able: Bools) -> None:
        self.r = column.r
        self.able = able.copy()
        self.request = np.where(able, column.request, 0)
        self.parts = [column]
        self.nodes = set(column.nodes.tolist())

    def joins(self, column: _Column, able: Bools) -> bool:
        """Takes a column in, if that changes nothing; whether it does."""
        both = self.able & able
        if (self.request[both] != column.request[both]).any():
            return False
        if not self.nodes.isdisjoint(column.nodes.tolist()):
            return False
        self.nodes.update(column.nodes.tolist())
        self.request[able] = column.request[able]
        self.able |= able
        self.parts.append(column)
        return True


def _with(problem: Problem, eligible: Bools, replaced: Ints, joined: Sequence[_Joined]) -> Problem:
    kept = np.delete(np.arange(len(problem.columns)), replaced)
    request = np.hstack([problem.request[:, kept], *(one.request[:, None] for one in joined)])
    free = [problem.free[:, kept]]
    for one in joined:
        column = np.full(problem.node_count, UNLIMITED, dtype=np.int64)
        for part in one.parts:
            column[part.nodes] = part.free
        free.append(column[:, None])
    names = [problem.columns[r] for r in (*kept.tolist(), *(one.r for one in joined))]
    # Column by column in memory: it is read by columns.
    room = np.asfortranarray(np.hstack(free))
    found = replace(problem, columns=tuple(names), request=request, free=room, eligible=eligible)
    np.minimum(found.free, found.asked, out=found.free, where=found.free >= UNLIMITED)
    for array in (found.free, found.request, found.eligible):
        array.flags.writeable = False
    looser = problem.relaxation
    if looser is None:
        return found
    if looser.free is problem.free:
        # It differs in the queues alone.
        looser = replace(looser, columns=found.columns, free=found.free, request=found.request)
        return replace(found, relaxation=replace(looser, eligible=found.eligible))
    return replace(found, relaxation=with_fewer_columns(looser))
