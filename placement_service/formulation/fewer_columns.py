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

import numpy as np

from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.problem import Problem


def with_fewer_columns(problem: Problem) -> Problem:
    """The question with other columns and eligibility; the same where there is nothing to gain.

    Where running gangs may give way it stays as it is: what they have at home may be more than
    columns allow.
    """
    rules = np.array([" " in name for name in problem.columns], dtype=bool)
    if rules.sum() < 2 or any(gang.home for gang in problem.gangs):
        return problem
    asked = _asked(problem)
    few = np.flatnonzero(rules & (problem.free >= asked).any(axis=0))
    if len(few) < 2:
        return problem
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


def _asked(problem: Problem) -> Ints:
    """All that is asked for of each column [R]; so much room is no limit."""
    demand = np.zeros(problem.class_count, dtype=np.int64)
    for gang in problem.gangs:
        if gang.placeable:
            for d in gang.demands:
                demand[d.pod_class] += d.count
    # As floats first: sums may be beyond any whole number.
    exact = demand @ problem.request.astype(float) * problem.repeats
    most = demand @ np.where(exact < UNLIMITED, problem.request, 0) * problem.repeats
    return np.where(exact < UNLIMITED, most, UNLIMITED)


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

    def joins(self, column: _Column, able: Bools) -> bool:
        """Takes a column in, if that changes nothing; whether it does."""
        both = self.able & able
        if (self.request[both] != column.request[both]).any():
            return False
        if any(len(np.intersect1d(one.nodes, column.nodes)) for one in self.parts):
            return False
        self.request[able] = column.request[able]
        self.able |= able
        self.parts.append(column)
        return True


def _with(problem: Problem, eligible: Bools, replaced: Ints, joined: Sequence[_Joined]) -> Problem:
    kept = np.delete(np.arange(len(problem.columns)), replaced)
    request = np.stack([*problem.request[:, kept].T, *(one.request for one in joined)], axis=1)
    free = [*problem.free[:, kept].T]
    for one in joined:
        column = np.full(problem.node_count, UNLIMITED, dtype=np.int64)
        for part in one.parts:
            column[part.nodes] = part.free
        free.append(column)
    names = [problem.columns[r] for r in (*kept.tolist(), *(one.r for one in joined))]
    # Column by column in memory: it is read by columns.
    found = replace(
        problem, columns=tuple(names), request=request, free=np.stack(free).T, eligible=eligible
    )
    np.minimum(found.free, _asked(found), out=found.free, where=found.free >= UNLIMITED)
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
