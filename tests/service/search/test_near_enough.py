"""Where later tiers may spend some of a tier, its search ends once its best is nearly known."""

from __future__ import annotations

import time

from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.search.incumbent import State
from tests.scenario import Scenario


def searched(missing: float, *, spends: float) -> State:
    """A state that looks for the best of its first goal, of which such a share may be missing."""
    problem = formulate(Scenario("x1=8").gang("a", pods=1, gpus=8).snapshot(), Policy())
    state = State(problem, first_answer(problem), time.monotonic() + 60, lambda _: None)
    value = state.worth.values[0]
    state.bounds = (int(value * (1 + missing)), *state.bounds[1:])
    state.known_goals, state.spends = 1, spends
    return state


def test_a_tenth_of_what_may_be_spent_is_near_enough() -> None:
    assert searched(0.002, spends=0.03).proven
    assert not searched(0.004, spends=0.03).proven


def test_where_nothing_is_spent_nothing_may_be_missing() -> None:
    assert not searched(0.002, spends=0.0).proven
