"""What the victim model says of who is admitted in sum over priorities.

While it is open how much one priority can have, nothing is known of those below it, which lose what
it gains: the sum says more than all that they could have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.solution import TierName
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep


def bound_sum(state: State, model: VictimModel, terms: Sequence[Terms[int] | None]) -> None:
    """Bounds the sum for plans that are as good as the present one; `terms` are those of each goal.

    What the model holds has to be what such plans have.
    """
    at, goals = state.first_open, state.goals
    spends = any(floor is not None for floor in state.worth.floors)
    if spends or state.open_tier is not TierName.ADMITTED or state.left <= 0:
        return
    counted = [i for i, g in enumerate(goals) if g.tier is TierName.ADMITTED and g.reported]
    if all(i <= at or terms[i] == terms[at] for i in counted):
        # Its own bound says as much.
        return
    total = Counter[int]()
    for variable, weight in (term for i in counted for term in terms[i] or ()):
        total[variable] += weight
    mark = model.mark()
    for i in range(at):
        keep(goals[i], model, state.bounds[i])
    keep(goals[at], model, state.worth.values[at])
    seconds = state.at_most(state.left * state.parameters.victim_sum_share)
    found = model.relaxed(list(total.items()), maximize=True, seconds=seconds)
    model.undo(mark)
    if found.bound is not None:
        state.learn_most({TierName.ADMITTED: found.bound})
