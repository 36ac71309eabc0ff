"""What parts are worth where room is scarce: duals of a linear program over all racks. A part costs
what it takes from others. With these prices as weights, the blocks that are filled first leave the
parts that later blocks need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from ortools.math_opt.python import mathopt

from placement_service.cp_sat.admission.patterns import maximal_patterns
from placement_service.cp_sat.blocks.parts import Kind
from placement_service.cp_sat.blocks.shapes import Blocks, Class
from placement_service.cp_sat.linear_program import time_limit
from placement_service.formulation.gang_value import UNITS_PER_GPU


def class_worths(
    blocks: Blocks, classes: Sequence[Class], most_patterns: int, *, seconds: float
) -> list[float]:
    """What the parts and pods of each class are worth, in GPUs; the value of its gangs where that
    is unknown."""
    values = [blocks.problem.gangs[c.gangs[0]].value / UNITS_PER_GPU for c in classes]
    lp = mathopt.Model()
    placed = [lp.add_variable(lb=0.0, ub=float(len(c.gangs))) for c in classes]
    kinds = sorted({kind for c in classes for kind, _ in c.shape.kinds})
    rows: dict[Kind, mathopt.LinearConstraint] = {}
    sizes: dict[int, dict[int, list[mathopt.Variable]]] = {}
    for kind in kinds:
        used = []
        for q in kind.pools:
            v = lp.add_variable(lb=0.0)
            sizes.setdefault(q, {}).setdefault(kind.size, []).append(v)
            used.append(v)
        asked = [
            times * v
            for v, c in zip(placed, classes, strict=True)
            for k, times in c.shape.kinds
            if k == kind
        ]
        rows[kind] = lp.add_linear_constraint(mathopt.fast_sum(asked) <= mathopt.fast_sum(used))
    for q, by_size in sizes.items():
        _hold_pool(lp, blocks, q, by_size, most_patterns)
    counts = list(_count_small(lp, blocks, classes, placed))
    lp.maximize(mathopt.fast_sum(w * v for w, v in zip(values, placed, strict=True)))
    limits = mathopt.SolveParameters(time_limit=time_limit(seconds))
    result = mathopt.solve(lp, mathopt.SolverType.GLOP, params=limits)
    if result.termination.reason is not mathopt.TerminationReason.OPTIMAL:
        return values
    duals = result.dual_values()
    return [
        sum(times * duals[rows[kind]] for kind, times in c.shape.kinds)
        + sum(count.weights[i] * duals[count.row] for count in counts)
        for i, c in enumerate(classes)
    ]


def _hold_pool(
    lp: mathopt.Model,
    blocks: Blocks,
    pool: int,
    by_size: Mapping[int, Sequence[mathopt.Variable]],
    most_patterns: int,
) -> None:
    """Parts of a pool take no more nodes than it has, and those of several nodes racks that hold
    them.
    """
    room = sum(n for (_, q), n in blocks.room.items() if q == pool)
    nodes = mathopt.fast_sum(t * v for t, some in by_size.items() for v in some)
    lp.add_linear_constraint(nodes <= room)
    racks: Counter[int] = Counter()
    for sort, some in blocks.racks.items():
        if sort.pool == pool:
            racks[sort.capacity] += len(some)
    large = sorted((t for t in by_size if t > 1), reverse=True)
    supply: dict[int, list[mathopt.LinearBase]] = {t: [] for t in large}
    for capacity, count in racks.items():
        here = tuple(t for t in large if t <= capacity)
        uses = []
        for pattern in maximal_patterns(here, capacity, most_patterns) if here else ():
            use = lp.add_variable(lb=0.0)
            uses.append(use)
            for t, n in zip(here, pattern, strict=True):
                if n:
                    supply[t].append(n * use)
        if uses:
            lp.add_linear_constraint(mathopt.fast_sum(uses) <= count)
    for t in large:
        lp.add_linear_constraint(mathopt.fast_sum(by_size[t]) <= mathopt.fast_sum(supply[t]))


class _Count(NamedTuple):
    """A row that counts the pods of gangs, and what one of each class counts."""

    weights: Sequence[int]
    row: mathopt.LinearConstraint


def _count_small(
    lp: mathopt.Model,
    blocks: Blocks,
    classes: Sequence[Class],
    placed: Sequence[mathopt.Variable],
) -> Iterator[_Count]:
    """Rows of small pods, of which there may be too many."""
    every = blocks.ways(None)
    units = np.stack([c.units[every.rows] for c in classes])
    most = np.array([len(c.gangs) for c in classes]) @ units
    for k in np.flatnonzero(most > every.room).tolist():
        weights = units[:, k].tolist()
        terms = [w * v for w, v in zip(weights, placed, strict=True) if w]
        yield _Count(
            weights, lp.add_linear_constraint(mathopt.fast_sum(terms) <= int(every.room[k]))
        )
