"""How much waiting GPU pods need each node: nodes that few of them can use are filled first."""

from __future__ import annotations

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Problem

#: Pod classes whose demand ranks nodes: those that ask for most.
MOST_RANKED = 200


def demand_rank(problem: Problem) -> Ints:
    """Rank of each node by the GPU demand that could use it as it is now [N]."""
    free, request = problem.free, problem.request
    demand = np.zeros(problem.class_count, dtype=np.int64)
    for gang in problem.gangs:
        if gang.placeable:
            for d in gang.demands:
                demand[d.pod_class] += d.count * problem.gpus[d.pod_class]
    score = np.zeros(problem.node_count, dtype=np.int64)
    # Only nodes that are short of a resource for some class: in most columns these are few.
    most = request.max(axis=0, initial=0)
    short = [np.flatnonzero(free[:, r] < most[r]) for r in range(len(most))]
    left = [free[nodes, r] for r, nodes in enumerate(short)]
    for s in np.argsort(-demand, kind="stable")[: min(MOST_RANKED, np.count_nonzero(demand))]:
        usable = problem.eligible[s].copy()
        for r in np.flatnonzero(request[s]).tolist():
            usable[short[r][left[r] < request[s, r]]] = False
        score[usable] += demand[s]
    return np.unique(score, return_inverse=True)[1].astype(np.int64)
