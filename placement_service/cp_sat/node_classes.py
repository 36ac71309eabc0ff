"""Nodes that no rule distinguishes, and what fits on one of them.

The exact model counts units per class of nodes, never per node. Two nodes are
of one class when they lie in the same place at every level that matters, are
equally eligible, and the same multisets of units fit on them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from placement_service.cp_sat.linear_model import OutOfTime
from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.problem import Problem

Pattern = tuple[int, ...]

#: Steps of the enumeration between two checks of the clock.
STEPS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, eq=False)
class NodeClass:
    """`nodes` are interchangeable.

    `patterns` are the maximal multisets of units (counts over sorts, see
    `sorts_of`) that fit on one of them, or None when there are too many: then
    `free` alone says what fits, and there is only one node in the class.
    `most[k]` is how many units of the k-th pod class fit on an empty one.
    """

    nodes: tuple[int, ...]
    patterns: tuple[Pattern, ...] | None
    most: Pattern
    free: tuple[int, ...]


def sorts_of(problem: Problem, pod_classes: Sequence[int]) -> tuple[int, ...]:
    """The sort of each pod class: pod classes that ask for the same amounts are of one sort, unless
    only one has GPUs: which nodes have such pods counts as a goal (see `fragmentation`).

    They may have different nodes, but on a node that takes both they need not be distinguished.
    """
    found: dict[tuple[bytes, bool], int] = {}
    keys = ((problem.request[s].tobytes(), bool(problem.gpus[s])) for s in pod_classes)
    return tuple(found.setdefault(key, len(found)) for key in keys)


def classify(
    problem: Problem,
    free: Ints,
    nodes: Ints,
    pod_classes: Sequence[int],
    demand: Sequence[int],
    levels: Sequence[int],
    marks: Sequence[Bools],
    parameters: ModelParameters = MODEL_DEFAULTS,
    until: float = math.inf,
) -> tuple[NodeClass, ...]:
    """Classes of some nodes for units of some pod classes.

    `demand[k]` is how many units of the k-th pod class there are at all, `levels` are those whose
    places matter, `marks` further masks [N] that distinguish nodes. Nodes on which nothing fits are
    left out. Raises OutOfTime where that is not known by `until`.
    """
    rows = np.array(pod_classes, dtype=np.int64)
    used = np.flatnonzero(problem.request[rows].any(axis=0))
    request = problem.request[np.ix_(rows, used)]
    # Room beyond all demand makes no difference.
    wanted = request.astype(object).T @ np.array(demand, dtype=object)
    ceiling = np.minimum(wanted, UNLIMITED).astype(np.int64)
    room = np.minimum(free[np.ix_(nodes, used)], ceiling)
    eligible = problem.eligible[np.ix_(rows, nodes)].T
    places = [problem.levels[i].place_of[nodes] for i in levels]
    sorts = sorts_of(problem, pod_classes)
    some = {sort: k for k, sort in enumerate(sorts)}
    by_sort = request[[some[sort] for sort in range(len(some))]]
    contents = [room[i].tobytes() + eligible[i].tobytes() for i in range(len(nodes))]
    spots = [
        (tuple(int(p[i]) for p in places), tuple(bool(m[node]) for m in marks))
        for i, node in enumerate(nodes.tolist())
    ]
    alike = Counter(zip(contents, spots, strict=True))
    limit = {at: _worth_while(count, parameters) for at, count in alike.items()}
    highest: dict[bytes, int] = {}
    for (key, _), most_patterns in limit.items():
        highest[key] = max(most_patterns, highest.get(key, 0))
    memo: dict[bytes, tuple[tuple[Pattern, ...] | None, Pattern]] = {}
    groups: dict[object, list[int]] = {}
    facts: dict[object, tuple[tuple[Pattern, ...] | None, Pattern, tuple[int, ...]]] = {}
    for i, (node, key, spot) in enumerate(zip(nodes.tolist(), contents, spots, strict=True)):
        if key not in memo:
            caps = [
                int(
                    min(
                        demand[k],
                        min(
                            (room[i][r] // request[k][r] for r in np.flatnonzero(request[k])),
                            default=demand[k],
                        ),
                    )
                )
                if eligible[i][k]
                else 0
                for k in range(len(pod_classes))
            ]
            able = [0] * len(some)
            for k, sort in enumerate(sorts):
                able[sort] += caps[k]
            memo[key] = (
                _patterns(
                    room[i],
                    by_sort,
                    able,
                    highest[key],
                    parameters.steps_per_pattern * highest[key],
                    until,
                ),
                tuple(caps),
            )
        patterns, most = memo[key]
        if not any(most):
            continue
        if patterns is not None and len(patterns) > limit[key, spot]:
            patterns = None
        signature = (
            *spot,
            tuple(m > 0 for m in most),
            patterns if patterns is not None else ("node", node),
        )
        groups.setdefault(signature, []).append(node)
        facts[signature] = (patterns, most, tuple(free[node].tolist()))
    return tuple(NodeClass(tuple(members), *facts[key]) for key, members in groups.items())


def _worth_while(count: int, parameters: ModelParameters) -> int:
    """How many patterns are worth their variables for so many nodes alike.

    The alternative is a class for each node; then a solver permutes many of them in vain.
    """
    if count < parameters.many_alike:
        return parameters.node_patterns
    return min(parameters.most_node_patterns, parameters.patterns_per_node * count)


def _patterns(
    room: Ints,
    request: Ints,
    caps: Sequence[int],
    most_patterns: int,
    most_steps: int,
    until: float,
) -> tuple[Pattern, ...] | None:
    """The maximal multisets that fit, or None when there are too many. Raises OutOfTime."""
    able = [k for k, cap in enumerate(caps) if cap]
    rows = [[int(x) for x in request[k]] for k in able]
    found: set[Pattern] = set()
    steps = 0
    left = [int(x) for x in room]
    chosen = [0] * len(caps)

    def fits(row: Sequence[int]) -> bool:
        return all(x <= y for x, y in zip(row, left, strict=True))

    def extend(at: int) -> bool:
        nonlocal steps
        steps += 1
        if steps > most_steps or len(found) > most_patterns:
            return False
        if not steps % STEPS_AT_ONCE and time.monotonic() > until:
            raise OutOfTime
        if at == len(able):
            grown = any(
                chosen[k] < caps[k] and fits(row) for k, row in zip(able, rows, strict=True)
            )
            if not grown:
                found.add(tuple(chosen))
            return True
        k, row = able[at], rows[at]
        most = caps[k]
        for x, y in zip(row, left, strict=True):
            if x:
                most = min(most, y // x)
        for r, x in enumerate(row):
            left[r] -= most * x
        chosen[k] = most
        ok = True
        while ok:
            ok = extend(at + 1)
            # With fewer of the last sort one more fits.
            if chosen[k] == 0 or at + 1 == len(able):
                break
            chosen[k] -= 1
            for r, x in enumerate(row):
                left[r] += x
        for r, x in enumerate(row):
            left[r] += chosen[k] * x
        chosen[k] = 0
        return ok

    return tuple(sorted(found)) if extend(0) else None
