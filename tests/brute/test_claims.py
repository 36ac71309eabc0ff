"""Which claims the optimum refutes, and which it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.entities.request import (
    Binding,
    ExtrasPolicy,
    Policy,
    Snapshot,
    Tolerance,
)
from placement_service.entities.solution import Solution, Tier, TierName
from placement_service.judge.score import score
from tests.brute import no_bound_cuts_off, optimum
from tests.service.questions import gang, node

#: The best plan has both pods of the first gang and nothing of the second: 8 GPUs are admitted.
POLICY = Policy(extras=ExtrasPolicy.WITH_PRIORITY, tolerances=(Tolerance("admitted", 0.1),))
ELASTIC = replace(gang("elastic", pods=2, gpus=8, minimum=1), priority=1)
LOW = gang("low", pods=1, gpus=8)
QUESTION = Snapshot((node("n0"), node("n1")), (ELASTIC, LOW))


def _hold(names: set[str], bound: float) -> None:
    """Hold the claim that no plan admits more against the optimum; one pod of each gang runs."""
    bindings = tuple(
        Binding(g.groups[0].pod_sets[0].pods[0].name, there.name, g.name, "worker")
        for g, there in zip(QUESTION.gangs, QUESTION.nodes, strict=True)
        if g.name.rpartition("/")[2] in names
    )
    reached = score(QUESTION, POLICY, bindings)
    tier = Tier(TierName.ADMITTED, reached.value(TierName.ADMITTED), bound)
    no_bound_cuts_off(optimum(QUESTION, POLICY), Solution((), (tier,)), reached)


def test_a_plan_that_lacks_extras_may_admit_more_than_the_best() -> None:
    _hold({"elastic", "low"}, bound=16)


def test_a_lower_priority_does_not_make_up_for_a_higher_one() -> None:
    with pytest.raises(AssertionError):
        _hold({"low"}, bound=8)


def test_no_value_lies_beyond_its_bound() -> None:
    with pytest.raises(AssertionError):
        _hold({"elastic", "low"}, bound=8)
