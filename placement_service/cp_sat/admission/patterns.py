"""Patterns of what fits one domain (Gilmore and Gomory 1961), and the rows that they make.

At the level with most parts, let a domain have c nodes that fit a unit of which no node holds two.
The parts of two and more such units that it can host are one of the maximal multisets of part sizes
with sum <= c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.bounds.gang_classes import Content
from placement_service.bounds.ways_to_count import one_per_node, usable_nodes
from placement_service.cp_sat.solving import dot
from placement_service.formulation.arrays import Ints
from placement_service.heuristic.slot_layout import Layout, Pattern


class _Use(NamedTuple):
    """How many domains of a capacity hold these parts, by size."""

    capacity: int
    parts: Mapping[int, int]
    domains: cp_model.IntVar


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """The patterns of a model at one level: which `units` are counted [S], how many of them each
    domain has `room` for [D], and how often each pattern is used.
    """

    level: int
    units: Ints
    room: Ints
    uses: tuple[_Use, ...]

    def layout(self, solver: cp_model.CpSolver) -> Layout:
        """How the solution fills the domains."""
        chosen = (Pattern(u.capacity, u.parts, int(solver.value(u.domains))) for u in self.uses)
        return Layout(self.level, self.units, self.room, tuple(p for p in chosen if p.domains))


def add_patterns(
    model: cp_model.CpModel, counting: Counting, admitted: Sequence[cp_model.IntVar], most: int
) -> Patterns | None:
    """Patterns at the level with most parts of two units and more, if there is one."""
    whole = whole_units(counting)
    if whole is None:
        return None
    units, nodes = whole
    best = max(
        (i for i, level in enumerate(counting.levels) if level >= 0),
        key=lambda i: _count_parts(counting, i, units),
        default=-1,
    )
    if best < 0 or not _count_parts(counting, best, units):
        return None
    sizes = _parts_by_size(counting, admitted, best, units)
    order = sorted(sizes, reverse=True)
    level = counting.levels[best]
    room = np.bincount(counting.problem.levels[level].place_of, nodes).astype(np.int64)
    supply: dict[int, list[tuple[cp_model.IntVar, int]]] = {size: [] for size in order}
    uses: list[_Use] = []
    for capacity, count in zip(*np.unique(room, return_counts=True), strict=True):
        patterns = maximal_patterns(order, int(capacity), most)
        if len(uses) + len(patterns) > most:
            return None
        mine = [model.new_int_var(0, int(count), "") for _ in patterns]
        if mine:
            model.add(cp_model.LinearExpr.sum(mine) <= int(count))
        for use, pattern in zip(mine, patterns, strict=True):
            parts = {size: k for size, k in zip(order, pattern, strict=True) if k}
            uses.append(_Use(int(capacity), parts, use))
            for size, k in parts.items():
                supply[size].append((use, k))
    for size in order:
        model.add(dot(sizes[size]) <= dot(supply[size]))
    return Patterns(level, units, room, tuple(uses))


def _parts_by_size(
    counting: Counting, admitted: Sequence[cp_model.IntVar], i: int, units: Ints
) -> dict[int, list[tuple[cp_model.IntVar, int]]]:
    """Parts of two counted units and more at a level, by their size: of each class of gangs so many
    for each gang that is admitted.
    """
    sizes: dict[int, list[tuple[cp_model.IntVar, int]]] = {}
    for z, c in zip(admitted, counting.classes, strict=True):
        per: Counter[int] = Counter()
        for content, times in c.parts[i]:
            per[part_size(content, units)] += times
        for size, times in per.items():
            if size > 1:
                sizes.setdefault(size, []).append((z, times))
    return sizes


def _count_parts(counting: Counting, i: int, units: Ints) -> int:
    """Parts of two counted units and more at a level."""
    return sum(
        times * len(c.gangs)
        for c in counting.classes
        for content, times in c.parts[i]
        if part_size(content, units) > 1
    )


class WholeUnits(NamedTuple):
    """1 for pod classes of which no node holds two [S], and for nodes that fit one of them [N]."""

    units: Ints
    nodes: Ints


def whole_units(counting: Counting) -> WholeUnits | None:
    """The family of pod classes of which no node holds two; None where there is none.

    Of several such families it is the one that asks for most GPUs, then most units.
    """
    problem = counting.problem
    fits = usable_nodes(problem)
    families = one_per_node(problem, fits)
    if not families:
        return None
    best = max(families, key=lambda f: (sum(int(problem.gpus[s]) for s in f), len(f)))
    units = np.zeros(problem.class_count, dtype=np.int64)
    units[list(best)] = 1
    return WholeUnits(units, np.any([fits[s] for s in best], axis=0).astype(np.int64))


def part_size(content: Content, units: Ints) -> int:
    """The least counted units [S] that content takes: its size in whole nodes."""
    return sum(k * min(int(units[s]) for s in pod_classes) for pod_classes, k in content)


def maximal_patterns(
    sizes: Sequence[int], capacity: int, most_patterns: int
) -> list[tuple[int, ...]]:
    """Maximal multisets of sizes (descending) with sum <= capacity."""
    found: list[tuple[int, ...]] = []

    def extend(at: int, left: int, chosen: list[int]) -> None:
        if len(found) > most_patterns:
            return
        if at == len(sizes):
            if any(chosen) and left < sizes[-1]:
                found.append(tuple(chosen))
            return
        last = at == len(sizes) - 1
        most = left // sizes[at]
        for k in range(most, most - 1 if last else -1, -1):
            extend(at + 1, left - k * sizes[at], [*chosen, k])

    if sizes and capacity >= sizes[-1]:
        extend(0, capacity, [])
    return found
