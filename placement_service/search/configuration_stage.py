"""Count by configurations: sharp bounds where nodes are unlike, and plans that reach them.

Rows and patterns combine one reference and one set of nodes at a time. Where several shapes of
units share domains with several types of nodes they promise more than fits, domain by domain.
"""

from __future__ import annotations

import time

from placement_service.bounds.configurations import configurations
from placement_service.cp_sat.configuration_master import ConfigurationMaster
from placement_service.cp_sat.solving import Var, span
from placement_service.entities.solution import TierName
from placement_service.formulation.tiers.goal import Terms
from placement_service.heuristic.orders import orders
from placement_service.search.configuration_plan import Realisation
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend


def settle_configurations(state: State) -> None:
    """Bounds and plans for goals of what gets room, as long as one of them is open."""
    if state.packs or state.left <= 0:
        return
    found = configurations(state.counting, state.parameters.configurations)
    if found is None or (state.layout is not None and len(found.accepts) < 2):
        # The patterns of the master say the same.
        return
    state.phase = "configure"
    descent = Configuring(state, ConfigurationMaster(found, state.parameters.model))
    descend(state.goals, descent.master, descent.settle)
    descent.realise()


class Configuring:
    """Settles goal after goal; `proves` while every goal before was held at its bound."""

    def __init__(self, state: State, master: ConfigurationMaster) -> None:
        self.state = state
        self.master = master
        self.proves = True
        self._realisation = Realisation(master.configurations)
        self._fresh = False

    def settle(self, i: int, terms: Terms[Var]) -> int | None:
        state, goal = self.state, self.state.goals[i]
        if goal.tier is not TierName.ADMITTED:
            self.realise()
        if goal.tier.minimize or state.left <= 0:
            return None
        floor = state.worth.floors[i]
        if floor is not None:
            return floor
        if self.proves and state.reaches(i):
            return state.bounds[i]
        if not any(span([term]) for term in terms):
            return 0
        left = state.at_most(state.left * state.parameters.configuration_share)
        deadline = time.monotonic() + left
        bound = self.master.bound(terms, maximize=True, deadline=deadline)
        if self.proves:
            state.learn(i, bound)
            bound = state.bounds[i]
        answer = self.master.fill(
            terms,
            bound,
            maximize=True,
            seconds=max(deadline - time.monotonic(), state.parameters.least_seconds),
            effort=state.parameters.configuration_effort,
        )
        if answer.value is None:
            return None
        self._fresh = True
        self.proves = self.proves and answer.value == bound
        return answer.value

    def realise(self) -> None:
        """Make plans of what was found last."""
        state, p = self.state, self.state.parameters
        if not self._fresh or self.master.filling is None or state.left <= 0:
            return
        self._fresh = False
        plan = self._realisation.plan(
            self.master.filling,
            seconds=state.at_most(state.left / 4),
            effort=p.configuration_assignment_effort,
        )
        state.accept(state.builder.build(orders(state.problem)[0], start=plan))
