"""What has room on the nodes of a problem, found out by adding up."""

from __future__ import annotations

import numpy as np

from placement_service.formulation.arrays import Ints
from placement_service.formulation.problem import Problem


def demand(problem: Problem) -> Ints:
    """Units asked for of each pod class."""
    found = np.zeros(problem.class_count, dtype=np.int64)
    for gang in problem.gangs:
        for d in gang.demands if gang.placeable else ():
            found[d.pod_class] += d.count
    return found


def fits(problem: Problem, node: int, pods: Ints) -> bool:
    """Whether these pods have room together on a node that is open to all of them."""
    here = np.flatnonzero(pods)
    takes = (pods[here, None].astype(object) * problem.request[here]).sum(axis=0)
    return bool(problem.eligible[here, node].all() and (takes <= problem.free[node]).all())
