"""Counting by configurations: tight bounds where nodes are unlike, and plans that reach them.

Rows and patterns combine one reference and one set of nodes at a time. Where several shapes of
units share domains with several types of nodes, they allow more than fits in each domain.
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


def settle_configurations(state: State) -> bool:
    """Bounds and plans of what gets room, where rows leave open what can be admitted.

    Returns whether it found a better plan.
    """
    if state.open_tier is not TierName.ADMITTED or state.left <= 0:
        return False
    found = configurations(state.counting, state.parameters.configurations)
    if found is None or (state.layout is not None and len(found.accepts) < 2):
        # The patterns of the master say the same.
        return False
    state.phase = "configure"
    descent = Configuring(state, ConfigurationMaster(found, state.parameters.model))
    descend(state.goals, descent.master, descent.settle)
    descent.realise()
    return descent.helped


class Configuring:
    """Settles goal after goal. `proves` is true while every goal before was held at its bound,
    `helped` once a plan was better than the one before.
    """

    def __init__(self, state: State, master: ConfigurationMaster) -> None:
        self.state = state
        self.master = master
        self.proves = True
        self._realisation = Realisation(master.configurations)
        self._fresh = False
        self.helped = False

    def settle(self, i: int, terms: Terms[Var]) -> int | None:
        """Settles the i-th goal as far as configurations can; returns what to hold it at, None to
        stop.
        """
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
        value = self._fill(terms, bound, deadline)
        if value is None:
            return None
        self._fresh = True
        self.proves = self.proves and value == bound
        return value

    def _fill(self, terms: Terms[Var], bound: int, deadline: float) -> int | None:
        """The best filling, first of the configurations that cost hardly any of the bound."""
        p = self.state.parameters
        best: int | None = None
        for share in p.configuration_slacks:
            seconds = deadline - time.monotonic()
            if best == bound or (best is not None and seconds <= 0):
                break
            answer = self.master.fill(
                terms,
                bound,
                maximize=True,
                seconds=max(seconds, p.least_seconds),
                effort=p.configuration_effort,
                slack=int(share * bound),
            )
            if answer.value is not None and (best is None or answer.value > best):
                best = answer.value
        return best

    def realise(self) -> None:
        """Makes plans of the last result."""
        state, p = self.state, self.state.parameters
        if not self._fresh or self.master.filling is None or state.left <= 0:
            return
        self._fresh = False
        plan = self._realisation.plan(
            self.master.filling,
            seconds=state.at_most(state.left / 4),
            effort=p.configuration_assignment_effort,
        )
        built = state.builder.build(orders(state.problem)[0], start=plan)
        self.helped = state.accept(built) or self.helped
