"""Reasons where rules between pods, or pods too large for any node, leave no room."""

from __future__ import annotations

import pytest

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import (
    PackingScope,
)
from tests.scenario import Group, Scenario, near, spread
from tests.service.explain.asking import only

Code, State = ReasonCode, ReasonState


@pytest.mark.parametrize(
    ("group", "text"),
    [
        pytest.param(
            Group("w", pods=3, gpus=1, away=(near("host", group="w"),)),
            "2 of 3 pods of 1 nvidia.com/gpu under anti-affinity over kubernetes.io/hostname",
            id="one a node, two nodes",
        ),
        pytest.param(
            Group("w", pods=2, gpus=1, near=(near("rack", app="cache"),)),
            "0 of 2 pods of 1 nvidia.com/gpu under affinity over rack",
            id="near pods that are not there",
        ),
        pytest.param(
            Group("w", pods=3, gpus=4, near=(near("rack", group="w"),)),
            "at most 2 of 3 pods of 4 nvidia.com/gpu under affinity over rack",
            id="near each other, two in a rack",
        ),
        pytest.param(
            Group("w", pods=3, gpus=1, ports=(80,)),
            "2 of 3 pods of 1 nvidia.com/gpu under host port 80/TCP",
            id="one port a node",
        ),
    ],
)
def test_rules_between_pods_leave_too_little(group: Group, text: str) -> None:
    reason = only(Scenario("r1: x1=8 | r2: x2=8").gang("a", group))
    assert reason.code is Code.POD_RULES
    assert reason.message == f"the cluster has room for {text}; resources alone would do."
    assert reason.asked > reason.found


def test_pods_that_avoid_each_other_over_several_nodes_are_counted_at_most() -> None:
    # Four nodes in two racks, one pod a rack.
    scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=8").gang(
        "a", Group("w", pods=3, gpus=1, away=(near("rack", group="w"),))
    )
    assert only(scenario).message == (
        "the cluster has room for at most 2 of 3 pods of 1 nvidia.com/gpu under anti-affinity "
        "over rack; resources alone would do."
    )


def test_rules_and_closed_nodes_that_leave_too_few_racks_are_named() -> None:
    # Racks r1 and r2 would hold two pods each, but a pod on x1 keeps all others away.
    scenario = Scenario("b1/r1: x1=8 x2=8 | b1/r2: x3=8 x4=8 | b1/r3: x5=8 | b1/r4: x6=8")
    scenario = scenario.node("x5", cordoned=True).runs("guard", "x1", away=[near("host")])
    parts = [Group(name, pods=2, gpus=8, pack="rack") for name in ("one", "two")]
    parts_of = "1 of 2 parts of 2 pods of 8 nvidia.com/gpu that need one rack each"
    rule = "under anti-affinity of other pods"
    inside = only(scenario.gang("a", *parts, pack="block"))
    loose = only(scenario.gang("a", *parts))
    assert inside.code is loose.code is Code.POD_RULES
    assert inside.message == (
        f"block b1 has room for {parts_of} {rule}; resources alone would do in block b1 "
        "(required levels rack and block). Closed in block b1: 1 of 6 nodes: cordoned."
    )
    assert loose.message == (
        f"the cluster has room for {parts_of} {rule}; resources alone would do; after those "
        "rack r1 has most left, for 1 of 2 (required level rack). Closed: 1 of 6 nodes: cordoned."
    )


def test_groups_whose_pods_ask_for_the_same_are_counted_as_one_kind() -> None:
    near_x = (near("rack", app="x"),)
    groups = [Group("one", pods=2, gpus=8, near=near_x), Group("two", pods=2, gpus=8)]
    scenario = Scenario("r1: x1=8 x2=8 x3=8").runs("x", "x1", app="x")
    assert only(scenario.gang("a", *groups)).message == (
        "the cluster has room for at most 3 of 4 pods of 8 nvidia.com/gpu; free is 24 of 32 "
        "nvidia.com/gpu."
    )


def test_running_pods_keep_the_pods_away_from_every_node() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8")
        .node("x2", cordoned=True)
        .runs("guard", "x1", away=[near("rack", group="w")])
        .gang("a", pods=1, gpus=1)
    )
    assert only(scenario) == Reason(
        Code.POD_RULES,
        "no node takes the 1 pod of group w: 1 of 2 nodes: cordoned; "
        "1: anti-affinity of other pods.",
        asked=1,
        state=State.EMPTY_QUEUE,
    )


def test_what_only_the_proof_knows_is_said_to_be_proven() -> None:
    # Two pods in r1 and none in r2, where there is no room, is a skew of 2.
    scenario = Scenario("r1: x1=8 | r2: x2=0/8").gang(
        "a", Group("w", pods=2, gpus=1, spread=(spread("rack", group="w"),))
    )
    assert only(scenario) == Reason(
        Code.POD_RULES,
        "it is proven that the 2 pods do not fit together under spread over rack, even with no "
        "other waiting; by counting alone they would.",
        state=State.EMPTY_QUEUE,
    )


def test_no_combination_is_proven_where_counting_sees_none() -> None:
    # 6 + 3 + 3 GPUs are as many as 8 + 4; but beside 6 no 3 fits, and 4 holds one 3.
    scenario = Scenario("r1: x1=8 x2=4").gang(
        "a", Group("six", pods=1, gpus=6), Group("three", pods=2, gpus=3), pack="rack"
    )
    assert only(scenario) == Reason(
        Code.NO_COMBINATION,
        "it is proven that the 3 pods do not fit together, even with no other waiting "
        "(required level rack); by counting alone they would, but a trial placed only 2 of 3 "
        "pods in rack r1.",
        level="rack",
        domain="r1",
        asked=3,
        found=2,
        state=State.EMPTY_QUEUE,
    )


def test_no_combination_names_the_domain_in_which_most_fit() -> None:
    # Both racks have 12 GPUs left; in r2 all three are on nodes of 4.
    scenario = Scenario("r1: x1=4 x2=4 x3=4 | r2: x4=8 x5=4").gang(
        "a", Group("six", pods=1, gpus=6), Group("three", pods=2, gpus=3), pack="rack"
    )
    reason = only(scenario)
    assert reason.code is Code.NO_COMBINATION
    assert (reason.domain, reason.asked, reason.found) == ("r2", 3, 2)


def test_no_combination_of_scopes_that_fit_by_themselves_names_the_best_of_them() -> None:
    # Each pair fits either rack, and "b" must be with both others.
    scopes = [PackingScope("one", ("a", "b"), "rack"), PackingScope("two", ("b", "c"), "rack")]
    groups = [Group(name, pods=1, gpus=4) for name in "abc"]
    scenario = Scenario("r1: x1=8 | r2: x2=8").gang("a", *groups, scopes=scopes)
    reason = only(scenario)
    assert reason.code is Code.NO_COMBINATION
    assert reason.message.endswith("; by counting alone they would, best in rack r1.")
    assert (reason.level, reason.domain, reason.asked, reason.found) == ("rack", "r1", 0, 0)


def test_a_pod_larger_than_any_node_is_told_the_largest() -> None:
    # More nodes are in r2, but r1 has the one with most GPUs left.
    cluster = Scenario("r1: x1=4/8 x2=6/8 | r2: x3=4 x4=4 x5=4").node("x2", cpus=32)
    assert only(cluster.gang("a", pods=2, gpus=8, pack="rack")) == Reason(
        Code.REQUIRED_DOMAIN_TOO_SMALL,
        "rack r1 has room for 0 of 2 pods of 8 nvidia.com/gpu; the most free on one node is "
        "6 nvidia.com/gpu, on x2; no other rack has more (required level rack).",
        level="rack",
        domain="r1",
        asked=2,
        state=State.EMPTY_QUEUE,
    )
    assert only(cluster.gang("a", Group("w", pods=1, gpus=1, cpus=80))).message == (
        "the cluster has room for 0 of 1 pod of 1 nvidia.com/gpu; cpu binds, nvidia.com/gpu alone "
        "would do for 22; a pod asks for 80 cpu and the most free on one node is 64 cpu, on x1."
    )


def test_one_pod_of_several_that_is_larger_than_any_node_is_told_the_largest() -> None:
    groups = Group("small", pods=2, gpus=1), Group("large", pods=1, gpus=16)
    reason = only(Scenario("r1: x1=8 x2=4").gang("a", *groups, pack="rack"))
    assert reason.message == (
        "rack r1 has room for at most 2 of 3 pods (2 of 1 nvidia.com/gpu and 1 of 16 "
        "nvidia.com/gpu); free is 12 of 18 nvidia.com/gpu; the most free on one node is "
        "8 nvidia.com/gpu, on x1 (required level rack)."
    )
