"""Whether somebody is likely to wait, told by sums."""

from __future__ import annotations

import numpy as np

from placement_service.formulation.problem import Problem
from placement_service.heuristic.one_gang.domain_choice import minimum_units

#: Where gangs ask for more than this share of what is left, its pieces seldom hold all of them.
NEARLY_ALL = 0.8


def somebody_may_wait(problem: Problem) -> bool:
    """Whether the minimums of all gangs together ask for nearly all that is left of a resource.

    Where pod sets may stand in for each other the first ones count.
    """
    units = np.zeros(problem.class_count, dtype=np.int64)
    for gang in problem.pending:
        for each in minimum_units(gang):
            units[gang.demands[each.demand].pod_class] += each.units
    open_nodes = problem.eligible.any(axis=0)
    room = problem.free[open_nodes].sum(axis=0)
    return bool((units @ problem.request > NEARLY_ALL * room).any())
