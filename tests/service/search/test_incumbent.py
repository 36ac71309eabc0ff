"""What the search knows of a plan and its bounds."""

from __future__ import annotations

import time

from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import from_solution
from placement_service.heuristic.first_answer import first_answer
from placement_service.search.incumbent import State
from tests.scenario import Scenario


def begun() -> State:
    """Two gangs of each of three priorities, and nothing is placed yet."""
    scenario = Scenario("x1=8 x2=8")
    for k in range(6):
        scenario = scenario.gang(f"g{k}", pods=1, gpus=8, priority=k // 2)
    problem = formulate(scenario.snapshot(), Policy())
    return State(problem, to_solution(problem, {}), time.monotonic() + 60, None)


def test_every_plan_is_measured_by_the_same_goals() -> None:
    """They know what all of their gangs together are worth, which takes long to add up."""
    state = begun()
    assert state.accept(from_solution(state.problem, first_answer(state.problem)))
    assert state.worth.goals is state.goals


def test_a_tighter_bound_forgets_those_behind_it_unless_they_are_told_too() -> None:
    state = begun()
    trivial = state.bounds
    state.learn_all((trivial[0], trivial[1] // 2, trivial[2] // 4))
    assert state.bounds == (trivial[0], trivial[1] // 2, trivial[2] // 4, *trivial[3:])
    state.learn_all((trivial[0] // 2, trivial[1]))
    assert state.bounds == (trivial[0] // 2, *trivial[1:])


def test_looser_bounds_change_nothing() -> None:
    state = begun()
    trivial = state.bounds
    state.learn_all(tuple(bound + 1 for bound in trivial[:3]))
    assert state.bounds == trivial
