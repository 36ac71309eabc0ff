"""Whether minimums ask for nearly all that is left, by sums."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.scarcity import somebody_may_wait
from tests.scenario import Scenario


@pytest.mark.parametrize(
    ("pods", "minimum", "waits"), [(5, None, True), (4, None, False), (5, 4, False)]
)
def test_minimums_are_compared_with_most_of_what_is_left(
    pods: int, minimum: int | None, waits: bool
) -> None:
    asked = Scenario("a=8 b=8 c=8 d=8 e=8 f=0").gang("g", pods=pods, gpus=8, min=minimum)
    assert somebody_may_wait(formulate(asked.snapshot(), Policy())) is waits


def test_nodes_that_take_nobody_count_for_nothing() -> None:
    asked = Scenario("a=8 b=8").gang("g", pods=2, gpus=8).snapshot()
    first, *others = asked.nodes
    closed = replace(asked, nodes=(replace(first, unschedulable=True), *others))
    assert somebody_may_wait(formulate(closed, Policy()))
