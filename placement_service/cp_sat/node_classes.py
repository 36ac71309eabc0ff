"""Nodes that no rule distinguishes, and what fits on one of them.

The exact model counts units per class of nodes, never per node. Two nodes are
of one class when they lie in the same place at every level that matters, are
equally eligible, and the same multisets of units fit on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.parameters import MODEL_DEFAULTS, ModelParameters
from placement_service.entities.deadline import check_time
from placement_service.formulation.arrays import UNLIMITED, Bools, Ints
from placement_service.formulation.problem import Problem

Pattern = tuple[int, ...]

#: Steps of the enumeration between two checks of the clock.
STEPS_AT_ONCE = 500

#: Instead of the number of a class: nodes on which nothing fits, and such as are each one alone.
_NOTHING_FITS, _EACH_ALONE = -1, -2


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


class _Fits(NamedTuple):
    """What fits on a node: `patterns` and `most` as in `NodeClass`."""

    patterns: tuple[Pattern, ...] | None
    most: Pattern


class _Units(NamedTuple):
    """Units of each pod class: what one asks for [K, R], its sort, and how many there are."""

    request: Ints
    sorts: tuple[int, ...]
    demand: Sequence[int]

    def ceiling(self) -> Ints:
        """All demand [R]: room beyond it makes no difference."""
        wanted = self.request.astype(object).T @ np.array(self.demand, dtype=object)
        ceiling: Ints = np.minimum(wanted, UNLIMITED).astype(np.int64)
        return ceiling

    def in_steps(self, room: Ints) -> Ints:
        """Room on nodes [N, R] less what is beyond a multiple of what all units ask for multiples
        of: without it nodes are alike on which the same fits.
        """
        steps: Ints = np.gcd.reduce(self.request, axis=0)
        return room - room % steps

    def fitting(
        self, room: Ints, eligible: Bools, most_patterns: int, most_steps: int, until: float
    ) -> _Fits:
        """What fits into a room [R] of the pod classes that a node takes [K]."""
        caps = [
            _most(room, row, units) if able else 0
            for row, units, able in zip(self.request, self.demand, eligible.tolist(), strict=True)
        ]
        some = {sort: k for k, sort in enumerate(self.sorts)}
        by_sort = self.request[[some[sort] for sort in range(len(some))]]
        caps_by_sort = [0] * len(some)
        for sort, cap in zip(self.sorts, caps, strict=True):
            caps_by_sort[sort] += cap
        patterns = _patterns(room, by_sort, caps_by_sort, most_patterns, most_steps, until)
        return _Fits(patterns, tuple(caps))


def classify(
    problem: Problem,
    free: Ints,
    nodes: Ints,
    pod_classes: Sequence[int],
    demand: Sequence[int],
    levels: Sequence[int],
    marks: Sequence[Bools | Ints],
    parameters: ModelParameters = MODEL_DEFAULTS,
    until: float = math.inf,
) -> tuple[NodeClass, ...]:
    """Classes of some nodes for units of some pod classes.

    `demand[k]` is how many units of the k-th pod class there are at all, `levels` are those whose
    places matter, `marks` further masks or numbers [N] that distinguish nodes. Nodes on which
    nothing fits are left out. Raises OutOfTime where that is not known by `until`.
    """
    rows = np.array(pod_classes, dtype=np.int64)
    used = np.flatnonzero(problem.request[rows].any(axis=0))
    units = _Units(problem.request[np.ix_(rows, used)], sorts_of(problem, pod_classes), demand)
    room = units.in_steps(np.minimum(free[np.ix_(nodes, used)], units.ceiling()))
    eligible = problem.eligible[np.ix_(rows, nodes)].T
    places = [problem.levels[i].place_of[nodes] for i in levels]
    spots: Ints = np.stack(
        [*places, *(mark[nodes] for mark in marks), np.zeros_like(nodes)], axis=1
    )
    # Nodes of which all that matters is equal are looked at once.
    first, kind_of = _kinds(np.concatenate([room, eligible, spots], axis=1))
    facts = _facts(units, room[first], eligible[first], np.bincount(kind_of), parameters, until)
    class_of = np.array(_numbers(facts, spots[first]), dtype=np.int64)
    classes: list[NodeClass] = []
    for members in _members(class_of[kind_of]):
        last = members[-1]
        fits = facts[kind_of[last]]
        inside = tuple(nodes[members].tolist())
        classes.append(
            NodeClass(inside, fits.patterns, fits.most, tuple(free[nodes[last]].tolist()))
        )
    return tuple(classes)


def _facts(
    units: _Units,
    room: Ints,
    eligible: Bools,
    counts: Ints,
    parameters: ModelParameters,
    until: float,
) -> list[_Fits]:
    """What fits on a node of each kind, of which there are so many, by their room [*, R] and the
    pod classes that they take [*, K]. Raises OutOfTime.
    """
    keys = [mine.tobytes() + able.tobytes() for mine, able in zip(room, eligible, strict=True)]
    limits = [_worth_while(count, parameters) for count in counts.tolist()]
    highest: dict[bytes, int] = {}
    for key, limit in zip(keys, limits, strict=True):
        highest[key] = max(limit, highest.get(key, 0))
    known: dict[bytes, _Fits] = {}
    facts: list[_Fits] = []
    for i, (key, limit) in enumerate(zip(keys, limits, strict=True)):
        if key not in known:
            check_time(until)
            most = highest[key]
            steps = parameters.steps_per_pattern * most
            known[key] = units.fitting(room[i], eligible[i], most, steps, until)
        fits = known[key]
        if fits.patterns is not None and len(fits.patterns) > limit:
            fits = fits._replace(patterns=None)
        facts.append(fits)
    return facts


def _numbers(facts: Sequence[_Fits], spots: Ints) -> list[int]:
    """The number of the class of each kind of node, by what fits there and what else distinguishes
    it [*, P].
    """
    numbers: list[int] = []
    number: dict[object, int] = {}
    for fits, spot in zip(facts, spots, strict=True):
        if not any(fits.most):
            numbers.append(_NOTHING_FITS)
        elif fits.patterns is None:
            numbers.append(_EACH_ALONE)
        else:
            signature = spot.tobytes(), tuple(m > 0 for m in fits.most), fits.patterns
            numbers.append(number.setdefault(signature, len(number)))
    return numbers


def _kinds(rows: Ints) -> tuple[list[int], Ints]:
    """The first of each kind of equal rows [N, *], in their order, and the kind of each row."""
    _, first, kind_of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order].tolist(), rank[kind_of.ravel()]


def _most(room: Ints, row: Ints, units: int) -> int:
    """How many of some units that ask for so much fit into a room."""
    some = np.flatnonzero(row)
    return int(min(units, (room[some] // row[some]).min(initial=units)))


def _members(class_of: Ints) -> list[Ints]:
    """The places of each class in the order of the first ones, by the class of each node [N]."""
    alone = class_of == _EACH_ALONE
    class_of = class_of.copy()
    class_of[alone] = class_of.max(initial=0) + 1 + np.arange(np.count_nonzero(alone))
    inside = np.flatnonzero(class_of != _NOTHING_FITS)
    first, kind_of = _kinds(class_of[inside, None])
    order = np.argsort(kind_of, kind="stable")
    ends = np.cumsum(np.bincount(kind_of, minlength=len(first)))
    return np.split(inside[order], ends[:-1]) if len(inside) else []


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
        if not steps % STEPS_AT_ONCE:
            check_time(until)
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
