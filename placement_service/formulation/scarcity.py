"""Whether somebody has to wait, told by sums."""

from __future__ import annotations

import numpy as np

from placement_service.formulation.problem import Problem


def somebody_waits(problem: Problem) -> bool:
    """Whether the minimums of all gangs together ask for more of a resource than is left.

    Where pod sets may stand in for each other the first ones count.
    """
    units = np.zeros(problem.class_count, dtype=np.int64)
    for gang in problem.pending:
        for requirement in gang.requirements:
            left = requirement.missing
            for d in requirement.demands:
                demand = gang.demands[d]
                units[demand.pod_class] += min(left, demand.count)
                left -= min(left, demand.count)
    open_nodes = problem.eligible.any(axis=0)
    return bool((units @ problem.request > problem.free[open_nodes].sum(axis=0)).any())
