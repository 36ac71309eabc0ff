"""The master: which gangs can be admitted at all, by rows and rack patterns.

A small integer program over classes of identical gangs. It knows domains only
through `rows` and through patterns of what fits one domain, so its size does
not grow with nodes or pods, and everything that it forgets makes it a
relaxation: its optimum bounds every plan, and its solution is the target that
the decoder then tries to place.

Patterns (Gilmore and Gomory 1961): at the level with most parts, let a domain
have c nodes that fit a unit of which no node holds two. The parts of two and
more such units that it can host are one of the maximal multisets of part sizes
with sum <= c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.counting import Content, Counting, one_per_node, usable_nodes
from placement_service.formulation.arrays import Ints
from placement_service.formulation.objective import priorities
from placement_service.heuristic.slot_layout import Layout

#: More distinct patterns than this are not worth their columns.
MAX_PATTERNS = 3000


@dataclass(frozen=True, slots=True)
class Target:
    """`bounds[i]` bounds the value of the i-th priority; `gangs` reach them.

    `extra` bounds the extras of plans that reach the bounds, `domains` (from
    below) their places at preferred levels. `layout` is how the patterns fill
    the domains with the target's parts, None without patterns.
    """

    bounds: tuple[int, ...]
    gangs: tuple[int, ...]
    extra: int
    domains: int
    layout: Layout | None = None


def solve_master(
    counting: Counting, wishes: Sequence[int], *, seconds: float, effort: float
) -> Target:
    """Bounds and a target for a counted problem.

    `wishes[c]` is the least number of places beyond the first that a gang of
    class c uses over its preferred scopes. `effort` is CP-SAT's deterministic
    time for each of the solves, `seconds` the wall time of all together.
    """
    classes = counting.classes
    model = cp_model.CpModel()
    admitted = [model.new_int_var(0, len(c.gangs), "") for c in classes]
    extras = [model.new_int_var(0, len(c.gangs) * sum(k for _, k in c.extras), "") for c in classes]
    for c, z, e in zip(classes, admitted, extras, strict=True):
        model.add(e <= z * sum(k for _, k in c.extras))
    for row in counting.rows:
        weights = [(z, int(w)) for z, w in zip(admitted, row.weight, strict=True) if w]
        weights += [(e, int(w)) for e, w in zip(extras, row.extra, strict=True) if w]
        model.add(_dot(weights) <= row.capacity)
    patterns = _add_patterns(model, counting, admitted)
    solver = _solver(seconds, effort)
    bounds: list[int] = []
    hint: list[int] | None = None
    for priority in priorities(counting.problem):
        mine = [
            (z, c.value) for z, c in zip(admitted, classes, strict=True) if c.priority == priority
        ]
        most = sum(c.value * len(c.gangs) for c in classes if c.priority == priority)
        if not mine:
            bounds.append(0)
            continue
        model.maximize(_dot(mine))
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            bounds.append(most)
            continue
        bound = min(most, int(np.floor(solver.best_objective_bound + 1e-6)))
        bounds.append(bound)
        hint = [solver.value(z) for z in admitted]
        model.add(_dot(mine) >= round(solver.objective_value))
        if status != cp_model.OPTIMAL:
            # Lower priorities are bounded by what there is.
            rest = priorities(counting.problem)[len(bounds) :]
            bounds += [
                sum(c.value * len(c.gangs) for c in classes if c.priority == p) for p in rest
            ]
            return Target(tuple(bounds), _pick(counting, hint), _all_extras(counting), 0)
    extra = _all_extras(counting)
    if extra:
        model.maximize(_dot([(e, 1) for e in extras]))
        if solver.solve(model) == cp_model.OPTIMAL:
            extra = round(solver.objective_value)
            hint = [solver.value(z) for z in admitted]
            model.add(_dot([(e, 1) for e in extras]) >= extra)
    # Of the best sets the easiest: fewest places first, then the smallest parts.
    domains = 0
    model.minimize(_dot([(z, w) for z, w in zip(admitted, wishes, strict=True) if w]))
    if any(wishes) and solver.solve(model) == cp_model.OPTIMAL:
        domains = round(solver.objective_value)
        hint = [solver.value(z) for z in admitted]
        model.add(_dot([(z, w) for z, w in zip(admitted, wishes, strict=True) if w]) <= domains)
    model.minimize(_dot([(z, _hardness(counting, i)) for i, z in enumerate(admitted)]))
    layout = None
    if solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        hint = [solver.value(z) for z in admitted]
        layout = patterns.layout(solver) if patterns else None
    return Target(tuple(bounds), _pick(counting, hint or []), extra, domains, layout)


def _dot(terms: Sequence[tuple[cp_model.IntVar, int]]) -> cp_model.LinearExprT:
    return cp_model.LinearExpr.weighted_sum([v for v, _ in terms], [w for _, w in terms])


def _solver(seconds: float, effort: float) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    # One worker with full linearisation closes these models; two leave the
    # bound at the trivial value on some, measured.
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = max(0.01, seconds)
    solver.parameters.max_deterministic_time = effort
    return solver


def _all_extras(counting: Counting) -> int:
    return sum(len(c.gangs) * sum(k for _, k in c.extras) for c in counting.classes)


def _pick(counting: Counting, counts: Sequence[int]) -> tuple[int, ...]:
    return tuple(g for c, k in zip(counting.classes, counts, strict=False) for g in c.gangs[:k])


def _hardness(counting: Counting, index: int) -> int:
    """Larger for gangs with large parts: they are harder to decode."""
    gang_class = counting.classes[index]
    total = 0
    for parts in gang_class.parts:
        for content, times in parts:
            total += times * sum(k for _, k in content) ** 2
    return total


@dataclass(frozen=True, slots=True, eq=False)
class _Patterns:
    """`uses` are (capacity, {size: parts}, how many domains follow it)."""

    level: int
    units: Ints
    room: Ints
    uses: tuple[tuple[int, dict[int, int], cp_model.IntVar], ...]

    def layout(self, solver: cp_model.CpSolver) -> Layout:
        chosen = ((c, pattern, int(solver.value(use))) for c, pattern, use in self.uses)
        return Layout(self.level, self.units, self.room, tuple(u for u in chosen if u[2]))


def _add_patterns(
    model: cp_model.CpModel, counting: Counting, admitted: Sequence[cp_model.IntVar]
) -> _Patterns | None:
    """Patterns at the level with most parts of two units and more, if there is one."""
    whole = _whole_units(counting)
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
    sizes: dict[int, list[tuple[cp_model.IntVar, int]]] = {}
    for z, c in zip(admitted, counting.classes, strict=True):
        per: dict[int, int] = {}
        for content, times in c.parts[best]:
            size = _size(content, units)
            if size > 1:
                per[size] = per.get(size, 0) + times
        for size, times in per.items():
            sizes.setdefault(size, []).append((z, times))
    order = sorted(sizes, reverse=True)
    level = counting.levels[best]
    room = np.bincount(counting.problem.levels[level].place_of, nodes).astype(np.int64)
    supply: dict[int, list[tuple[cp_model.IntVar, int]]] = {size: [] for size in order}
    uses: list[tuple[int, dict[int, int], cp_model.IntVar]] = []
    for capacity, count in zip(*np.unique(room, return_counts=True), strict=True):
        patterns = _maximal_patterns(order, int(capacity))
        if len(uses) + len(patterns) > MAX_PATTERNS:
            return None
        mine = [model.new_int_var(0, int(count), "") for _ in patterns]
        if mine:
            model.add(cp_model.LinearExpr.sum(mine) <= int(count))
        for use, pattern in zip(mine, patterns, strict=True):
            parts = {size: k for size, k in zip(order, pattern, strict=True) if k}
            uses.append((int(capacity), parts, use))
            for size, k in parts.items():
                supply[size].append((use, k))
    for size in order:
        model.add(_dot(sizes[size]) <= _dot(supply[size]))
    return _Patterns(level, units, room, tuple(uses))


def _count_parts(counting: Counting, i: int, units: Ints) -> int:
    """Parts of two counted units and more at a level."""
    return sum(
        times * len(c.gangs)
        for c in counting.classes
        for content, times in c.parts[i]
        if _size(content, units) > 1
    )


def _whole_units(counting: Counting) -> tuple[Ints, Ints] | None:
    """PodClasses of which no node holds two [S], and nodes that fit one of them [N].

    Of several such families the one that asks for most GPUs, then most units.
    """
    problem = counting.problem
    fits = usable_nodes(problem)
    families = one_per_node(problem, fits)
    if not families:
        return None
    best = max(families, key=lambda f: (sum(int(problem.gpus[s]) for s in f), len(f)))
    units = np.zeros(problem.class_count, dtype=np.int64)
    units[list(best)] = 1
    return units, np.any([fits[s] for s in best], axis=0).astype(np.int64)


def _size(content: Content, units: Ints) -> int:
    return sum(k * min(int(units[s]) for s in pod_classes) for pod_classes, k in content)


def _maximal_patterns(sizes: Sequence[int], capacity: int) -> list[tuple[int, ...]]:
    """Maximal multisets of sizes (descending) with sum <= capacity."""
    found: list[tuple[int, ...]] = []

    def extend(at: int, left: int, chosen: list[int]) -> None:
        if len(found) > MAX_PATTERNS:
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
