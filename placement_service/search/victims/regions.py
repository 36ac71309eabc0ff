"""What the regions of the sharp victim model say one by one, at the prices of its linear program.

The linear program puts parts of gangs into many racks of a block, and lets running gangs stay by
halves. A block by itself is settled in whole numbers in a tenth of a second, so all of them bound
a third of what the linear program leaves open in less time than that took.
"""

from __future__ import annotations

import time

from placement_service.cp_sat.decomposition import Decomposition
from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.victims.regions import Regions
from placement_service.search.incumbent import State
from placement_service.search.victims.solver_threads import SolverThreads


def bound_by_region(
    state: State, regions: Regions, relaxed: Solved, threads: SolverThreads
) -> int | None:
    """The bound of a goal that was solved as a linear program; None where nothing more is known."""
    if relaxed.priced is None or regions.count < 2 or state.left <= 0:
        return None
    p = state.parameters
    decomposition = Decomposition(
        relaxed.priced,
        regions.of_variables(len(relaxed.priced.program.goal)),
        until=time.monotonic() + state.at_most(state.left * p.victim_regions_share),
        nodes=p.victim_nodes,
    )
    return decomposition.bound(list(threads.map(lambda ask: ask(), decomposition.questions)))
