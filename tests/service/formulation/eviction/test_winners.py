"""No gang is evicted unless some gang gains that may take the room."""

from __future__ import annotations

from dataclasses import replace

from placement_service.formulation.eviction.winners import rights_hold
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.plan import Units
from placement_service.formulation.problem import Problem, UnitsOnNode
from tests.service.evictions import PREEMPT, REPACK, cluster, running, urgent
from tests.service.questions import gang

OLD, URGENT, EQUAL = GangIdx(0), GangIdx(1), GangIdx(2)
ON_N0: Units = (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)


def problem() -> Problem:
    """One gang runs, one may take its room, and one of its priority may not."""
    equal = replace(gang("equal", pods=1, gpus=8), priority=0)
    return formulate(cluster(running("old", "n0"), urgent(), equal), PREEMPT)


def test_one_with_a_right_gains() -> None:
    assert rights_hold(problem(), {URGENT: ON_N0})


def test_one_without_a_right_is_not_enough() -> None:
    assert not rights_hold(problem(), {EQUAL: ON_N0})


def test_nobody_gains() -> None:
    assert not rights_hold(problem(), {})


def test_nobody_goes() -> None:
    one = problem()
    assert rights_hold(one, {OLD: one.gangs[OLD].home})


def test_what_moves_needs_nobody_who_gains() -> None:
    assert rights_hold(formulate(cluster(running("old", "n0"), urgent()), REPACK), {})
