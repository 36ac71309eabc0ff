"""Why pods beyond the minimum of a placed gang wait."""

from __future__ import annotations

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import (
    PackingScope,
)
from tests.scenario import Group, Scenario, near, spread
from tests.service.explain.asking import only

Code, State = ReasonCode, ReasonState


def test_extras_wait_where_the_gang_is() -> None:
    # The gang goes to r1, where two fit; r2 is of no use to the other three.
    scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8").gang("a", pods=5, gpus=8, min=1, pack="rack")
    assert only(scenario) == Reason(
        Code.INSUFFICIENT_RESOURCES,
        "3 extra pods wait: rack r1 has room for 0 of 3 more pods of 8 nvidia.com/gpu "
        "(required level rack).",
        level="rack",
        domain="r1",
        asked=3,
        state=State.AFTER_PLAN,
    )


def test_extras_of_several_groups_are_one_reason() -> None:
    scenario = Scenario("r1: x1=8").gang(
        "a",
        Group("p", pods=2, gpus=4, min=1),
        Group("q", pods=2, gpus=4, min=1),
    )
    assert only(scenario) == Reason(
        Code.INSUFFICIENT_RESOURCES,
        "2 extra pods wait: the cluster has room for 0 of 1 more pod of 4 nvidia.com/gpu "
        "(group p); the cluster has room for 0 of 1 more pod of 4 nvidia.com/gpu (group q).",
        asked=2,
        state=State.AFTER_PLAN,
    )


def test_extras_under_rules_between_pods() -> None:
    scenario = Scenario("r1: x1=8").gang(
        "a", Group("w", pods=2, gpus=1, min=1, away=(near("host", group="w"),))
    )
    reason = only(scenario)
    assert reason.code is Code.POD_RULES
    assert reason.message == (
        "1 extra pod waits: the cluster has room for 0 of 1 more pod of 1 nvidia.com/gpu "
        "under anti-affinity over kubernetes.io/hostname."
    )


def test_extras_of_a_gang_that_may_get_no_pods_say_why() -> None:
    scenario = Scenario("r1: x1=8").gang(
        "a", Group("w", pods=2, gpus=1, on=("x1",), min=1), uninitialized=True
    )
    assert only(scenario) == Reason(
        Code.UNINITIALIZED, "2 extra pods wait: the gang's pods are still being made."
    )


def test_extras_within_two_levels_are_counted_where_both_hold() -> None:
    scenario = Scenario("b1/r1: x1=8 | b1/r2: x2=8").gang(
        "a",
        Group("w", pods=3, gpus=8, min=1, pack="rack"),
        scopes=(PackingScope("all", ("w",), "block"),),
    )
    reason = only(scenario)
    assert (reason.level, reason.asked, reason.found) == ("rack", 2, 0)


def test_extras_go_only_where_every_level_is_labelled() -> None:
    # x2 has GPUs, but is in no rack.
    scenario = Scenario("r1: x1=0/8 | -: x2=8").gang(
        "a",
        Group("w", pods=1, gpus=8, min=0, pack="host"),
        scopes=(PackingScope("all", ("w",), "rack"),),
    )
    reason = only(scenario)
    assert (reason.level, reason.asked, reason.found) == ("kubernetes.io/hostname", 1, 0)


def test_extras_that_counting_would_let_in_are_proven_out() -> None:
    # With one pod in r1, a second makes a skew of 2 over r2, which is full.
    scenario = Scenario("r1: x1=8 | r2: x2=0/8").gang(
        "a", Group("w", pods=2, gpus=1, min=1, spread=(spread("rack", group="w"),))
    )
    assert only(scenario) == Reason(
        Code.POD_RULES,
        "1 extra pod waits: the cluster has room for at most 1 of 1 more pod of 1 nvidia.com/gpu "
        "by counting; it is proven that no plan as good has more extras under spread over rack.",
        asked=1,
        state=State.AFTER_PLAN,
    )
