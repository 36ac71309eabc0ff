"""Orders of gangs: what has no choice comes first."""

from __future__ import annotations

import pytest

from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import is_placed
from placement_service.heuristic.orders import orders
from placement_service.heuristic.plan_builder import Builder
from tests.scenario import Group, Scenario


@pytest.mark.parametrize("order", ["required_first", "hardest_first"])
def test_gangs_that_run_in_a_rack_find_room_there_before_others(order: str) -> None:
    """The larger gang fits the other rack too, but would take the tighter one."""
    scenario = Scenario("r1: a=0 b=8 | r2: c=8 d=8")
    scenario = scenario.gang(
        "small",
        Group("v", pods=1, cpus=1),
        Group("w", pods=1, gpus=8, on=("a",), pack="rack"),
    )
    scenario = scenario.gang(
        "large",
        Group("v", pods=1, gpus=4, on=("a",)),
        Group("w", pods=1, gpus=8, pack="rack"),
    )
    problem = formulate(scenario.snapshot(), Policy())
    plan = Builder(problem).build(getattr(orders(problem), order))
    assert all(is_placed(gang, plan) for gang in problem.pending)
