"""Why racks of a block do not hold some parts: prices of nodes and sizes that say that it is too
much. They are the duals of a linear program over the patterns of the racks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ortools.math_opt.python import mathopt

from placement_service.cp_sat.admission_master import maximal_patterns
from placement_service.cp_sat.block_shapes import Blocks, Kind
from placement_service.cp_sat.linear_model import time_limit

#: Parts of so many nodes that are left over are an error of floats.
ROUNDING = 1e-6

#: By pool and size: what parts are worth that racks of the pool hold.
Prices = Mapping[int, Mapping[int, float]]


class _Pool(NamedTuple):
    nodes: mathopt.LinearConstraint
    sizes: Mapping[int, mathopt.LinearConstraint]


def prices_against(
    blocks: Blocks, block: int, parts: Mapping[Kind, int], most_patterns: int, *, seconds: float
) -> Prices | None:
    """Prices at which these parts are worth more than all that racks of a block can hold; None
    where racks hold them all, if these may be mixed, or where that takes longer.
    """
    lp = mathopt.Model()
    used: dict[int, dict[int, list[mathopt.Variable]]] = {}
    left_over = []
    for kind, times in parts.items():
        mine = []
        for q in kind.pools:
            if blocks.room.get((block, q), 0) >= kind.size:
                v = lp.add_variable(lb=0.0)
                used.setdefault(q, {}).setdefault(kind.size, []).append(v)
                mine.append(v)
        nowhere = lp.add_variable(lb=0.0)
        left_over.append(kind.size * nowhere)
        lp.add_linear_constraint(mathopt.fast_sum(mine) + nowhere >= times)
    pools = {
        q: _post_pool(lp, blocks, block, q, by_size, most_patterns) for q, by_size in used.items()
    }
    lp.minimize(mathopt.fast_sum(left_over))
    limits = mathopt.SolveParameters(time_limit=time_limit(seconds))
    result = mathopt.solve(lp, mathopt.SolverType.GLOP, params=limits)
    settled = result.termination.reason is mathopt.TerminationReason.OPTIMAL
    if not settled or result.objective_value() < ROUNDING:
        return None
    duals = result.dual_values()
    found: dict[int, dict[int, float]] = {}
    for q, rows in pools.items():
        node = -duals[rows.nodes]
        found[q] = {1: node, **{t: t * node - duals[row] for t, row in rows.sizes.items()}}
    return found


def _post_pool(
    lp: mathopt.Model,
    blocks: Blocks,
    block: int,
    pool: int,
    used: Mapping[int, list[mathopt.Variable]],
    most_patterns: int,
) -> _Pool:
    """What the racks of a pool hold."""
    asked = (t * v for t, some in used.items() for v in some)
    nodes = lp.add_linear_constraint(mathopt.fast_sum(asked) <= blocks.room[block, pool])
    sizes = sorted((t for t in used if t > 1), reverse=True)
    supply: dict[int, list[mathopt.LinearBase]] = {t: [] for t in sizes}
    for sort, racks in blocks.racks.items():
        here = tuple(t for t in sizes if t <= sort.capacity)
        if (sort.block, sort.pool) != (block, pool) or not here:
            continue
        uses = []
        for pattern in maximal_patterns(here, sort.capacity, most_patterns):
            use = lp.add_variable(lb=0.0)
            uses.append(use)
            for t, n in zip(here, pattern, strict=True):
                if n:
                    supply[t].append(n * use)
        lp.add_linear_constraint(mathopt.fast_sum(uses) <= len(racks))
    return _Pool(
        nodes,
        {
            t: lp.add_linear_constraint(mathopt.fast_sum(used[t]) <= mathopt.fast_sum(supply[t]))
            for t in sizes
        },
    )
