"""The forest of domains: which levels stand in it, and which stay out."""

from __future__ import annotations

from placement_service.cp_sat.aggregate.domain_forest import ROOT, Forest
from placement_service.cp_sat.aggregate.part_types import is_plain
from placement_service.formulation.formulate import formulate
from tests.scenario import Scenario
from tests.service.cp_sat.aggregate.asking import (
    POLICY,
    counted,
)


def test_hierarchies_of_different_hardware_stand_side_by_side() -> None:
    scenario = (
        Scenario("b1/r1: x1=8 | b1/r2: x2=8 | -/r3: y1=8 | -/r3: y2=8")
        .gang("a", pods=1, gpus=8, pack="block", prefer="rack")
        .gang("b", pods=2, gpus=8, pack="rack")
    )

    forest = Forest(formulate(scenario.snapshot(), POLICY))

    block, r1, r2, r3 = (int(forest.holds[d, n]) for d, n in ((1, 0), (2, 0), (2, 1), (2, 2)))
    assert forest.above[r1] == (ROOT, block, r1)
    assert forest.above[r2] == (ROOT, block, r2)
    assert forest.above[r3] == (ROOT, r3)


def test_a_level_that_cuts_across_stays_out() -> None:
    # Block b1 has nodes of racks r1 and r2, and so has b2.
    scenario = (
        Scenario("b1/r1: x1=8 | b2/r1: x2=8 | b1/r2: x3=8 | b2/r2: x4=8")
        .gang("a", pods=2, gpus=8, pack="block")
        .gang("b", pods=2, gpus=8, pack="rack")
    )
    problem = formulate(scenario.snapshot(), POLICY)

    counting, forest = counted(problem)

    assert len(forest.levels) == 1
    assert sum(is_plain(counting, forest, gang) for gang in problem.gangs) == 1
