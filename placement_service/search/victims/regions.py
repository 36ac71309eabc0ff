"""What the regions of the sharp victim model say one by one, at the prices of its linear program.

The linear program puts parts of gangs into many racks of a block, and lets running gangs stay by
halves. A block by itself is settled in whole numbers in a tenth of a second, so all of them bound
a third of what the linear program leaves open in less time than that took.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.decomposition import Decomposition
from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.victims.regions import Regions
from placement_service.formulation.arrays import Floats
from placement_service.formulation.plan import Plan
from placement_service.search.incumbent import State
from placement_service.search.victims.solver_threads import SolverThreads

#: By how much each region of a plan [regions] has less than it could, at the prices of a linear
#: program. Most of what a plan lacks is in a few of them, and there it can be made better.
Shortfalls = Callable[[Plan], Floats]


class ByRegion(NamedTuple):
    """What regions say of a goal: a bound, if any, and where plans fall short."""

    bound: int | None
    shortfalls: Shortfalls


def settle_regions(
    state: State, regions: Regions, relaxed: Solved, threads: SolverThreads
) -> ByRegion | None:
    """What regions say of a goal that was solved as a linear program; None where there are none,
    or no time for them.
    """
    if relaxed.priced is None or regions.count < 2 or state.left <= 0:
        return None
    p = state.parameters
    decomposition = Decomposition(
        relaxed.priced,
        regions.of_variables(len(relaxed.priced.program.goal)),
        until=time.monotonic() + state.at_most(state.left * p.victim_regions_share),
        nodes=p.victim_nodes,
    )
    most = list(threads.map(lambda ask: ask(), decomposition.questions))

    def shortfalls(plan: Plan) -> Floats:
        found = np.zeros(regions.count)
        found[decomposition.regions] = decomposition.shortfalls(most, regions.values(plan))
        return found

    return ByRegion(decomposition.bound(most), shortfalls)
