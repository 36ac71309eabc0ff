"""Gangs that wait take the places of others, without a model.

Neighbourhoods are settled by models that know no rules between pods of different nodes, so they
leave out gangs of such pods. Here a few gangs of the plan, drawn at random, make room for one that
waits, and then all that wait are placed again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from placement_service.formulation.indices import GangIdx
from placement_service.formulation.problem import Gang
from placement_service.heuristic.orders import orders
from placement_service.search.incumbent import State


class ChangedPlaces:
    """Tries one change after another, until many in a row were in vain."""

    def __init__(self, state: State, rng: random.Random) -> None:
        self._state = state
        self._random = rng
        self._order = orders(state.problem).hardest_first
        self._in_vain = 0

    def is_over(self) -> bool:
        """Whether changes are no longer of use."""
        return self._in_vain >= self._state.parameters.places_in_vain

    def try_one(self, waiting: Sequence[Gang]) -> bool:
        """Places one of the waiting gangs first, with a few others taken out of the plan; returns
        whether that is better.
        """
        state = self._state
        state.phase = "improve"
        out = self._taken_out()
        start = {i: units for i, units in state.plan.items() if i not in out}
        one = self._random.choice(waiting)
        plan = state.builder.build(
            self._order, start=start, first=[one.index], until=state.deadline
        )
        better = state.accept(plan)
        self._in_vain = 0 if better else self._in_vain + 1
        return better

    def _taken_out(self) -> set[GangIdx]:
        """A few gangs of the plan, and those that need them."""
        state = self._state
        gangs, plan = state.problem.gangs, state.plan
        able = [g.index for g in gangs if g.index in plan and not (g.home or g.begins_anew)]
        count = self._random.randint(1, state.parameters.places_at_once)
        out = more = set(self._random.sample(able, min(len(able), count)))
        while more:
            more = {g for g in plan if g not in out and not out.isdisjoint(gangs[g].rests_on)}
            out = out | more
        return out
