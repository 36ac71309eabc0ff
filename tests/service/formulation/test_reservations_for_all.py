"""Reservations that all pods which wait may use, or none: they keep nobody out."""

from __future__ import annotations

from placement_service.formulation.formulate import formulate
from tests.placed import solve
from tests.scenario import Group, Scenario


def test_what_all_may_use_keeps_nobody_out() -> None:
    """More kinds of owners than are told apart, of which the reservation serves one."""
    scenario = Scenario("x1=55").hold("held", "x1", 55, "own", allocate_once=True)
    for gpus in range(1, 11):
        scenario = scenario.gang(f"a{gpus}", Group("own", pods=1, gpus=gpus))
    snapshot, policy = scenario.snapshot(), scenario.policy
    assert formulate(snapshot, policy).exact
    assert solve(snapshot, policy)[-1].tiers[0].value == 55


def test_a_restricted_one_that_all_may_use_is_used_or_not() -> None:
    """Pods of three, three and two GPUs: four are held, and four are free, so two pods fit."""
    scenario = Scenario("x1=8").hold("held", "x1", 4, "own", restricted=True)
    for i, gpus in enumerate((3, 3, 2)):
        scenario = scenario.gang(f"a{i}", Group("own", pods=1, gpus=gpus))
    scenario.place().expect(admitted=6)


def test_a_pod_takes_nothing_of_further_reservations_that_all_may_use() -> None:
    """Each holds half of the node, and a pod that asks for more than that takes from one only."""
    for once in (True, False):
        scenario = Scenario("x1=8").hold("one", "x1", 4, "own", allocate_once=once)
        scenario = scenario.hold("other", "x1", 4, "own", allocate_once=once)
        larger = scenario.gang("a", Group("own", pods=1, gpus=6))
        assert solve(larger.snapshot(), larger.policy)[-1].tiers[0].value == 0
        fitting = scenario.gang("a", Group("own", pods=2, gpus=4))
        assert solve(fitting.snapshot(), fitting.policy)[-1].tiers[0].value == 8


def test_reservations_for_one_pod_each_keep_nobody_out_who_finds_all_in_any_of_them() -> None:
    scenario = Scenario("x1=8").hold("one", "x1", 4, "own", allocate_once=True)
    scenario = scenario.hold("other", "x1", 4, "own", allocate_once=True)
    for gpus in (1, 3, 4):
        scenario = scenario.gang(f"a{gpus}", Group("own", pods=1, gpus=gpus))
    snapshot, policy = scenario.snapshot(), scenario.policy
    assert not formulate(snapshot, policy).rules
    assert solve(snapshot, policy)[-1].tiers[0].value == 8


def test_several_for_one_pod_each_keep_out_who_may_use_none_of_them() -> None:
    """Nobody who waits owns any of them."""
    scenario = Scenario("x1=8").hold("one", "x1", 2, "absent", allocate_once=True)
    scenario = scenario.hold("other", "x1", 2, "absent", allocate_once=True)
    scenario.gang("a", pods=1, gpus=4).gang("b", pods=1, gpus=4).place().expect(admitted=4)


def test_several_that_serve_many_pods_keep_what_theirs_leave() -> None:
    """Each pod finds all in any of them, and a third one only what both would have left."""
    scenario = Scenario("x1=6").hold("one", "x1", 3, "own").hold("other", "x1", 3, "own")
    scenario.gang("a", Group("own", pods=3, gpus=2)).place().expect(admitted=0)
    scenario.gang("a", Group("own", pods=2, gpus=2)).place().expect(admitted=4)
