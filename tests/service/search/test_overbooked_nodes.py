"""Gangs on nodes where more is used than they have, which may be evicted all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import Policy
from placement_service.formulation.prepare import prepare
from tests.brute import optimum
from tests.judged import no_answer_is_false
from tests.placed import solve
from tests.scenario import Group, Scenario

#: Node x1 lost two of its eight GPUs.
LOST = Scenario("r1: x1=-2/8 x2=0/8", policy=Policy(eviction=EvictionPolicy.PREEMPT))


def wanting(scenario: Scenario, *gpus: int) -> Scenario:
    """The same with a pod of a higher priority for each of these numbers of GPUs."""
    for i, number in enumerate(gpus):
        scenario = scenario.gang(f"a{i}", pods=1, gpus=number)
    kept = len(scenario.gangs) - len(gpus)
    gangs = (*scenario.gangs[:kept], *(replace(g, priority=1) for g in scenario.gangs[kept:]))
    return replace(scenario, gangs=gangs)


@pytest.mark.parametrize("wanted", [(6,), (8,), (8, 6), (8, 7), (4, 2)])
def test_the_room_that_a_gang_leaves_is_what_is_there(wanted: tuple[int, ...]) -> None:
    scenario = LOST.gang("wide", Group("w", gpus=8, told=("x1", "x2")))
    scenario = wanting(scenario, *wanted)
    snapshot, policy = scenario.snapshot(), scenario.policy
    assert prepare(snapshot, policy).exact
    assert no_answer_is_false(optimum(snapshot, policy), snapshot, policy)


@pytest.mark.parametrize("wanted", [(4,), (8,), (8, 4)])
def test_a_gang_goes_for_what_it_has_elsewhere(wanted: tuple[int, ...]) -> None:
    """Two gangs on the node: what comes free there depends on both."""
    scenario = LOST.gang("wide", Group("w", gpus=4, told=("x1", "x2", "x2")))
    scenario = wanting(scenario.gang("near", Group("w", gpus=4, told=("x1",))), *wanted)
    snapshot, policy = scenario.snapshot(), scenario.policy
    prepared = prepare(snapshot, policy)
    assert not prepared.exact
    assert prepared.missed == {gang.name for gang in snapshot.gangs[:2]}
    no_answer_is_false(optimum(snapshot, policy), snapshot, policy)
    assert any(assignment.gang == 2 for assignment in solve(snapshot, policy)[-1].assignments)
