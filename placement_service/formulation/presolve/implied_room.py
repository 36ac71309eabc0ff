"""The same question without limits of room that other limits imply.

Each team asks for CPU and memory of its own beside GPUs, and mostly the GPUs of a node are used up
long before these. Where every pod that may be on a node takes at most `λ` of column `r` for each
unit of column `q`, all pods there take at most `λ · free[q]` of it, so more than that may as well
not be there. Where that says all that column `r` says, the column is left out. Without it pod
classes are alike that differ in nothing else, and so are nodes.

Exactly the same plans are allowed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.presolve.merged_classes import merged
from placement_service.formulation.problem import Problem


def without_implied_room(problem: Problem) -> Problem:
    """The question with less room that nobody can use, fewer columns and fewer pod classes; the
    same where no limit is implied.

    Where running gangs may give way it stays as it is: what they have at home may be more than
    columns allow. Only resources are looked at: of other columns there may be hundreds.
    """
    if any(gang.home for gang in problem.gangs):
        return problem
    free, asked = problem.free.copy(), problem.asked
    columns = set(range(len(problem.columns)))
    # What pods take the most unlike amounts of tells most pod classes apart.
    unlike = [len(np.unique(request)) for request in problem.request.T]
    able = sorted(np.flatnonzero(~problem.rule_columns).tolist(), key=lambda r: -unlike[r])
    for r in able:
        limited = np.flatnonzero(free[:, r] < asked[r])
        if _tighten(problem, free, r, [q for q in able if q != r and q in columns], limited):
            columns.remove(r)
    if len(columns) == len(problem.columns) and (free == problem.free).all():
        return problem
    kept = sorted(columns)
    found = _with(problem, free, kept)
    looser = problem.relaxation
    if looser is not None and looser.free is problem.free:
        # It differs in the queues alone.
        looser = replace(_with(looser, free, kept), free=found.free)
    elif looser is not None:
        looser = without_implied_room(looser)
    return replace(found, relaxation=looser)


def _tighten(problem: Problem, free: Ints, r: int, others: list[int], limited: Ints) -> bool:
    """Leave out what the other columns keep pods from using of column `r`, on the nodes that it
    limits. Returns whether they say all that it does.
    """
    takers = np.flatnonzero(problem.request[:, r])
    nodes = limited[_may_be(problem, takers.tolist(), limited)]
    implied = np.zeros(len(nodes), dtype=bool)
    for q in others:
        most = _most(problem, free, r, q, nodes)
        implied |= most <= free[nodes, r]
        free[nodes, r] = np.minimum(free[nodes, r], most)
    return bool(implied.all())


def _most(problem: Problem, free: Ints, r: int, q: int, nodes: Ints) -> Ints:
    """How much of `r` pods can take on each node within what is free of `q`, at most."""
    shares: defaultdict[Fraction, list[int]] = defaultdict(list)
    alone: list[int] = []
    for s, (mine, other) in enumerate(problem.request[:, (r, q)].tolist()):
        if mine:
            (shares[Fraction(mine, other)] if other else alone).append(s)
    most = np.full(len(nodes), UNLIMITED)
    left = np.flatnonzero(~_may_be(problem, alone, nodes))
    # The largest share of any pod that may be there decides.
    for share in sorted(shares, reverse=True):
        if not len(left):
            break
        able = _may_be(problem, shares[share], nodes[left])
        beside = free[nodes[left[able]], q]
        if share.numerator * int(beside.max(initial=0)) < UNLIMITED:
            most[left[able]] = share.numerator * beside // share.denominator
        left = left[~able]
    return most


def _may_be(problem: Problem, pod_classes: list[int], nodes: Ints) -> Bools:
    """Whether pods of some of these classes may be on each node."""
    found: Bools = np.any(problem.eligible[pod_classes][:, nodes], axis=0)
    return found


def _with(problem: Problem, free: Ints, columns: Sequence[int]) -> Problem:
    # Column by column in memory: it is read by columns.
    found = replace(
        problem,
        columns=tuple(problem.columns[r] for r in columns),
        free=np.asfortranarray(free[:, columns]),
        request=problem.request[:, columns],
    )
    for array in (found.free, found.request):
        array.flags.writeable = False
    return merged(found)
