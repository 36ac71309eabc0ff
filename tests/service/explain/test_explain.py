"""Every kind of reason on its smallest instance, and that no reason says what is not so.

The numbers in the messages are derived by hand in the comments. Below, random
questions: whatever a reason rules out, no plan of `brute` does, and a gang that
is said to fit without others does.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.pod_assignment import name_pods
from placement_service.entities.request import (
    CPU,
    MEMORY,
    PODS,
    Binding,
    PackingScope,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.entities.solution import Assignment, Solution
from placement_service.explain.gang_reasons import explain
from placement_service.explain.wording import amount, asks, closed, gang_word, listed, pod_rules
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from tests.brute import TooLarge, _plans
from tests.scenario import GPU, Group, Scenario, near, solve, spread
from tests.strategies import EVERYTHING, PACKING_ONLY, TINY, permuted, renamed, snapshots

POLICY = Policy()
EXAMPLES = settings().max_examples

Code, State = ReasonCode, ReasonState

#: Codes that say that something does not fit.
NO_ROOM = {
    Code.NO_ELIGIBLE_NODE,
    Code.INSUFFICIENT_RESOURCES,
    Code.NO_SUCH_LEVEL,
    Code.REQUIRED_DOMAIN_TOO_SMALL,
    Code.PINNED_DOMAIN_TOO_SMALL,
    Code.REQUIRED_DOMAIN_BROKEN,
    Code.POD_RULES,
    Code.NO_COMBINATION,
}


def reasons_of(
    snapshot: Snapshot, solution: Solution, deadline: float = math.inf
) -> dict[str, tuple[Reason, ...]]:
    """The reasons by the gangs' full names."""
    bindings = name_pods(snapshot, solution.assignments)
    result = score(snapshot, POLICY, bindings)
    problem = formulate(snapshot, POLICY)
    reasons = explain(snapshot, problem, solution, result, deadline=deadline)
    return {g.name: r for g, r in zip(snapshot.gangs, reasons, strict=True)}


def why(scenario: Scenario, gang: str = "a") -> tuple[Reason, ...]:
    """The reasons of one gang in the engine's answer."""
    snapshot = scenario.snapshot()
    found = reasons_of(snapshot, solve(snapshot, scenario.policy)[-1])
    return next(r for name, r in found.items() if name.endswith(f"/{gang}"))


def only(scenario: Scenario, gang: str = "a") -> Reason:
    (reason,) = why(scenario, gang)
    return reason


# --- what stands in the request -----------------------------------------------


def test_a_gang_without_waiting_pods_has_no_reason() -> None:
    assert why(Scenario("r1: x1=8").gang("a", pods=1, gpus=8)) == ()


def test_an_uninitialized_gang_that_uses_unsupported_things_says_both() -> None:
    scenario = Scenario("r1: x1=8").gang(
        "a", pods=1, gpus=1, uninitialized=True, unsupported=("pod a-0: spec.resourceClaims",)
    )
    assert why(scenario) == (
        Reason(
            Code.UNSUPPORTED,
            "the gang uses pod a-0: spec.resourceClaims, which is not supported.",
        ),
        Reason(Code.UNINITIALIZED, "the gang's pods are still being made."),
    )


def test_missing_pods_are_counted_and_gated_ones_named() -> None:
    scenario = Scenario("r1: x1=8").gang("a", Group("w", pods=1, gpus=1, on=("x1",), min=4))
    gang = scenario.gangs[0]
    gang = replace(gang, groups=(replace(gang.groups[0], gated_count=2),))
    # One bound and one pending make two of four.
    assert only(replace(scenario, gangs=(gang,))) == Reason(
        Code.PODS_MISSING, "group w needs 4 pods and has 2; 2 more are gated.", asked=4, found=2
    )


def test_a_gang_waits_for_its_base() -> None:
    scenario = (
        Scenario("r1: x1=8").gang("base", pods=2, gpus=8).gang("a", pods=1, gpus=1, base="base")
    )
    assert only(scenario) == Reason(Code.BASE_NOT_PLACED, "the base gang base is not placed.")


def test_a_level_that_no_node_has_is_named_in_full() -> None:
    scenario = Scenario("r1: x1=8").gang("a", pods=2, gpus=1, pack="example.com/no-such-level")
    assert only(scenario) == Reason(
        Code.NO_SUCH_LEVEL,
        "no node has the label example.com/no-such-level, of which group w must share one value.",
        level="example.com/no-such-level",
        asked=2,
    )


def test_running_pods_in_several_domains_are_told_where() -> None:
    scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8 | -: x4=8").gang(
        "a", Group("w", pods=1, gpus=1, on=("x1", "x2", "x3", "x4", "x9"), pack="rack", min=6)
    )
    # Five run, two of them in r1.
    assert only(scenario) == Reason(
        Code.REQUIRED_DOMAIN_BROKEN,
        "running pods of group w are in rack r1, rack r2, x4 without the label and x9, which is "
        "gone, where one rack is required (level rack).",
        level="rack",
        asked=5,
        found=2,
    )


# --- what counting shows --------------------------------------------------------


def test_no_node_accepts_the_pods() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 x3=8 x4=8 x5=8")
        .node("x1", taints=["infra"])
        .node("x2", taints=["infra"], labels={"model": "new"})
        .node("x3", cordoned=True)
        .node("x4", ready=False, cordoned=True)
        .gang("a", Group("w", pods=2, gpus=1, select={"model": "new"}))
    )
    # x2 has the label, yet its taint is looked at first; x5 lacks the label.
    assert only(scenario) == Reason(
        Code.NO_ELIGIBLE_NODE,
        "no node takes the 2 pods of group w: 2 of 5 nodes: taint infra; 1: cordoned; "
        "1: node selector model=new; 1: not ready.",
        asked=2,
        state=State.EMPTY_QUEUE,
    )


def test_the_cluster_has_too_little() -> None:
    # 8, 8 and 7 GPUs hold 2 pods of 8.
    scenario = Scenario("r1: x1=8 x2=8 x3=7/8").gang("a", pods=3, gpus=8)
    assert only(scenario) == Reason(
        Code.INSUFFICIENT_RESOURCES,
        "the cluster has room for 2 of 3 pods of 8 nvidia.com/gpu.",
        asked=3,
        found=2,
        state=State.EMPTY_QUEUE,
    )


def test_closed_nodes_are_counted_beside_the_room() -> None:
    scenario = Scenario("r1: x1=8 x2=8").node("x2", cordoned=True).gang("a", pods=2, gpus=8)
    assert only(scenario).message == (
        "the cluster has room for 1 of 2 pods of 8 nvidia.com/gpu. Closed: 1 of 2 nodes: cordoned."
    )


def test_the_group_that_lacks_room_is_named() -> None:
    scenario = Scenario("r1: x1=8").gang(
        "a", Group("small", pods=1, gpus=1), Group("large", pods=2, gpus=8)
    )
    assert only(scenario).message == (
        "the cluster has room for 1 of 2 pods of 8 nvidia.com/gpu (group large)."
    )


def test_groups_that_lack_room_together_are_counted_together() -> None:
    # Each group alone fits: 2 x 5 on two nodes of 8, 2 x 4 on one. Together they ask for 18
    # of 16 GPUs; without one pod of 5 they would ask for 13.
    scenario = Scenario("r1: x1=8 x2=8").gang(
        "a", Group("five", pods=2, gpus=5), Group("four", pods=2, gpus=4)
    )
    assert only(scenario) == Reason(
        Code.INSUFFICIENT_RESOURCES,
        "the cluster has room for at most 3 of 4 pods (2 of 5 nvidia.com/gpu and 2 of 4 "
        "nvidia.com/gpu); free is 16 of 18 nvidia.com/gpu.",
        asked=4,
        found=3,
        state=State.EMPTY_QUEUE,
    )


def test_what_binds_is_named_when_it_is_not_gpus() -> None:
    # 64 cores hold one pod of 40, 8 GPUs two of 4; on two nodes that makes 2 and 4.
    scenario = Scenario("r1: x1=8 x2=8").gang("a", Group("w", pods=4, gpus=4, cpus=40))
    assert only(scenario).message == (
        "the cluster has room for 2 of 4 pods of 4 nvidia.com/gpu; "
        "cpu binds, nvidia.com/gpu alone would do for 4."
    )


def test_no_resource_binds_by_itself_when_nodes_lack_different_ones() -> None:
    # x1 has GPUs for 2 and cores for 1, x2 the reverse: alone each resource holds 3.
    scenario = (
        Scenario("r1: x1=8 x2=4")
        .node("x1", cpus=10)
        .node("x2", cpus=20)
        .gang("a", Group("w", pods=3, gpus=4, cpus=10))
    )
    assert only(scenario).message == (
        "the cluster has room for 2 of 3 pods of 4 nvidia.com/gpu; no resource binds by itself: "
        "alone there is cpu for 3, nvidia.com/gpu for 3 and the pod limit for 220."
    )


def test_the_best_domain_of_a_required_level_is_named() -> None:
    # r1 holds 8+8, r2 8+8+8.
    scenario = Scenario("r1: x1=8 x2=8 | r7: x3=8 x4=8 x5=8").gang("a", pods=4, gpus=8, pack="rack")
    assert only(scenario) == Reason(
        Code.REQUIRED_DOMAIN_TOO_SMALL,
        "rack r7 has room for 3 of 4 pods of 8 nvidia.com/gpu; no other rack has more "
        "(required level rack).",
        level="rack",
        domain="r7",
        asked=4,
        found=3,
        state=State.EMPTY_QUEUE,
    )


def test_a_level_is_called_by_the_end_of_its_key_and_a_host_a_node() -> None:
    scenario = Scenario("r1: x1=8").node("x1", labels={"nvidia.com/gpu.clique": "c1"})
    clique = scenario.gang("a", pods=2, gpus=8, pack="nvidia.com/gpu.clique")
    assert only(clique).message == (
        "gpu.clique c1 has room for 1 of 2 pods of 8 nvidia.com/gpu "
        "(required level nvidia.com/gpu.clique)."
    )
    # The pods of a gang on one host are one unit for the engine, yet counted one by one.
    assert only(scenario.gang("a", pods=3, gpus=3, pack="host")).message == (
        "node x1 has room for 2 of 3 pods of 3 nvidia.com/gpu "
        "(required level kubernetes.io/hostname)."
    )


def test_scopes_that_say_the_same_say_it_once() -> None:
    groups = [Group(f"w{i}", pods=2, gpus=8, pack="rack") for i in range(3)]
    scenario = Scenario("r1: x1=8 | r2: x2=8").gang("a", *groups)
    assert only(scenario).message == (
        "rack r1 has room for 1 of 2 pods of 8 nvidia.com/gpu; no other rack has more "
        "(each of 3 scopes: w0; w1; w2, required level rack)."
    )


def test_the_outer_scope_is_named_and_that_the_inner_ones_fit() -> None:
    # The block has 4 nodes for 5 pods; two racks of 2 hold two parts of 2.
    scenario = Scenario("b1/r1: x1=8 x2=8 | b1/r2: x3=8 x4=8").gang(
        "a",
        Group("one", pods=2, gpus=8, pack="rack"),
        Group("two", pods=2, gpus=8, pack="rack"),
        Group("loose", pods=1, gpus=8),
        pack="block",
    )
    assert only(scenario) == Reason(
        Code.REQUIRED_DOMAIN_TOO_SMALL,
        "block b1 has room for 4 of 5 pods of 8 nvidia.com/gpu (required level block). "
        "Each of the 2 scopes within fits by itself.",
        level="block",
        domain="b1",
        asked=5,
        found=4,
        state=State.EMPTY_QUEUE,
    )


def test_too_few_racks_in_a_block_for_parts_that_need_one_each() -> None:
    # Four nodes for four pods, but only one rack holds a part of two.
    groups = [Group(name, pods=2, gpus=8, pack="rack") for name in ("one", "two")]
    scenario = Scenario("b1/r1: x1=8 x2=8 | b1/r2: x3=8 | b1/r3: x4=8")
    assert only(scenario.gang("a", *groups, pack="block")) == Reason(
        Code.REQUIRED_DOMAIN_TOO_SMALL,
        "block b1 has room for 1 of 2 parts of 2 pods of 8 nvidia.com/gpu that need one rack "
        "each (required levels rack and block).",
        level="block",
        domain="b1",
        asked=4,
        found=2,
        state=State.EMPTY_QUEUE,
    )
    assert only(scenario.gang("a", *groups)) == Reason(
        Code.NO_COMBINATION,
        "the cluster has room for 1 of 2 parts of 2 pods of 8 nvidia.com/gpu that need one rack "
        "each; after those rack r2 has most left, for 1 of 2 (required level rack).",
        level="rack",
        domain="r2",
        asked=4,
        found=2,
        state=State.EMPTY_QUEUE,
    )


def test_running_pods_pin_the_domain() -> None:
    # r2 would hold two, but one pod runs in r1.
    scenario = Scenario("r1: x1=0/8 x2=8 | r2: x3=8 x4=8").gang(
        "a", Group("w", pods=2, gpus=8, on=("x1",), pack="rack")
    )
    assert only(scenario) == Reason(
        Code.PINNED_DOMAIN_TOO_SMALL,
        "rack r1, where pods of the gang run, has room for 1 of 2 pods of 8 nvidia.com/gpu "
        "(required level rack).",
        level="rack",
        domain="r1",
        asked=2,
        found=1,
        state=State.EMPTY_QUEUE,
    )


# --- rules between pods ---------------------------------------------------------


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


# --- other gangs ------------------------------------------------------------------


def test_a_gang_that_fits_alone_is_told_who_took_the_room() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8").gang("b", pods=2, gpus=8, priority=5).gang("a", pods=1, gpus=8)
    )
    assert why(scenario) == (
        Reason(
            Code.INSUFFICIENT_RESOURCES,
            "the cluster has room for 0 of 1 pod of 8 nvidia.com/gpu.",
            asked=1,
            state=State.AFTER_PLAN,
        ),
        Reason(
            Code.OUTCOMPETED,
            "the gang fits if gang b (priority 5) waits; its own priority is 0.",
            asked=1,
            state=State.AFTER_PLAN,
        ),
    )


def test_the_gang_of_lowest_priority_that_suffices_is_named() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 x3=4")
        .gang("high", pods=1, gpus=8, priority=9)
        .gang("low", pods=1, gpus=8, priority=5)
        .gang("tiny", pods=1, gpus=4, priority=1)
        .gang("a", pods=1, gpus=8)
    )
    assert why(scenario)[-1].message == (
        "the gang fits if gang low (priority 5) waits; its own priority is 0."
    )


def test_all_gangs_that_must_wait_are_named() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 | r2: x3=8")
        .gang("one", pods=1, gpus=8, priority=5, pack="rack")
        .gang("two", pods=2, gpus=8, priority=5)
        .gang("a", pods=2, gpus=8, pack="rack")
    )
    placed = scenario.bind(two_w_0="x1", two_w_1="x3", one_w_0="x2")
    solution = as_solution(scenario.snapshot(), placed)
    reasons = reasons_of(scenario.snapshot(), solution)["namespaces/ml/podgangs/a"]
    # r1 is shared by both; either alone leaves one node there.
    assert [r.code for r in reasons] == [
        Code.REQUIRED_DOMAIN_TOO_SMALL,
        Code.OUTCOMPETED,
        Code.NOT_SEARCHED,
    ]
    assert reasons[1].message == (
        "the gang fits if gangs one (priority 5) and two (priority 5) wait; its own priority is 0."
    )


def test_a_base_waits_together_with_the_gangs_based_on_it() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=2")
        .gang("base", pods=1, gpus=8, priority=5)
        .gang("scaled", pods=1, gpus=2, priority=5, base="base")
        .gang("a", pods=1, gpus=8)
    )
    assert why(scenario)[-1].message == (
        "the gang fits if gangs base (priority 5) and scaled (priority 5) wait; "
        "its own priority is 0."
    )


def test_what_holds_alone_comes_first_and_what_the_plan_adds_second() -> None:
    # Of 9 pods the nodes hold 2 + 2; beside b they hold 2.
    scenario = (
        Scenario("r1: x1=8 x2=8").gang("b", pods=1, gpus=8, priority=5).gang("a", pods=9, gpus=4)
    )
    assert [(r.message, r.state) for r in why(scenario)] == [
        (
            "even with no other gang waiting, the cluster has room for 4 of 9 pods of "
            "4 nvidia.com/gpu.",
            State.EMPTY_QUEUE,
        ),
        (
            "beside the gangs that are placed, the cluster has room for 2 of 9 pods of "
            "4 nvidia.com/gpu.",
            State.AFTER_PLAN,
        ),
    ]


# --- unfinished searches ----------------------------------------------------------


def as_solution(snapshot: Snapshot, bindings: Sequence[Binding]) -> Solution:
    """A plan by hand, of which nothing is proven."""
    where = {b.pod: b.node for b in bindings}
    node = {n.name: i for i, n in enumerate(snapshot.nodes)}
    counts: dict[tuple[int, int, int, int], int] = {}
    for i, gang in enumerate(snapshot.gangs):
        for k, group in enumerate(gang.groups):
            for m, pod_set in enumerate(group.pod_sets):
                for pod in pod_set.pods:
                    if pod.name in where:
                        key = (i, k, m, node[where[pod.name]])
                        counts[key] = counts.get(key, 0) + 1
    return Solution(tuple(Assignment(*key, n) for key, n in sorted(counts.items())), ())


def test_a_gang_that_still_fits_was_not_tried() -> None:
    snapshot = Scenario("r1: x1=8").gang("a", pods=1, gpus=8).snapshot()
    ((reason,),) = reasons_of(snapshot, Solution((), ())).values()
    assert reason == Reason(
        Code.NOT_SEARCHED,
        "the gang fits beside what is placed; the search ended before it was added.",
    )


def test_without_a_proof_the_gap_is_told() -> None:
    scenario = Scenario("r1: x1=8").gang("b", pods=1, gpus=8).gang("a", pods=1, gpus=8)
    snapshot = scenario.snapshot()
    solution = first_answer(formulate(snapshot, POLICY))
    admitted = replace(solution.tiers[0], bound=9.0)
    solution = replace(solution, tiers=(admitted, *solution.tiers[1:]))
    (reasons,) = (r for r in reasons_of(snapshot, solution).values() if r)
    # 9 would be an eighth more than 8.
    assert reasons[-1] == Reason(
        Code.NOT_SEARCHED,
        "the search ended before a proof that the gang has to wait (gap 12.5% in admitted value).",
    )


def test_past_the_deadline_only_the_request_speaks() -> None:
    scenario = Scenario("r1: x1=8").gang("a", pods=2, gpus=8)
    scenario = scenario.gang("b", pods=1, gpus=1, uninitialized=True)
    found = reasons_of(scenario.snapshot(), Solution((), ()), deadline=time.monotonic() - 1)
    assert [[r.code for r in reasons] for reasons in found.values()] == [
        [Code.NOT_SEARCHED],
        [Code.UNINITIALIZED],
    ]


def test_a_trial_that_time_ends_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gang fits, but whoever places it finds that time has run out."""
    snapshot = Scenario("r1: x1=8").gang("a", pods=1, gpus=8).snapshot()
    problem = formulate(snapshot, POLICY)
    clock = SimpleNamespace(monotonic=lambda: float("inf"))
    monkeypatch.setattr("placement_service.heuristic.gang_placer.time", clock)
    ((reason,),) = explain(
        snapshot,
        problem,
        Solution((), ()),
        score(snapshot, POLICY, ()),
        deadline=time.monotonic() + 60,
    )
    assert reason.code is Code.NOT_SEARCHED
    assert reason.message.startswith("no placement was found")


# --- extras -----------------------------------------------------------------------


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
        "by counting; it is proven that no plan as good has more extras.",
        asked=1,
        state=State.AFTER_PLAN,
    )


# --- words ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        (CPU, 500, "0.5 cpu"),
        (CPU, 10000, "10 cpu"),
        (MEMORY, 16 << 30, "16Gi memory"),
        (MEMORY, 1536 << 20, "1536Mi memory"),
        (MEMORY, (1 << 30) + 1, "1.0Gi memory"),
        (MEMORY, 12, "12 memory"),
        (GPU, 8, "8 nvidia.com/gpu"),
    ],
)
def test_amounts_are_spelled_as_people_do(resource: str, value: int, text: str) -> None:
    assert amount(resource, value) == text


def test_a_pod_is_called_by_its_gpus_or_else_by_all_it_asks_for() -> None:
    requests = {GPU: 4, CPU: 2000, PODS: 1}
    assert asks(requests, POLICY) == "4 nvidia.com/gpu"
    assert asks(requests, POLICY, full=True) == "4 nvidia.com/gpu and 2 cpu"
    assert asks({CPU: 2000, PODS: 1}, POLICY) == "2 cpu"
    assert asks({PODS: 1}, POLICY) == ""


def test_long_lists_end_in_a_count() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_closed_nodes_and_rules_of_pods() -> None:
    assert closed((("cordoned", 1),), 1) == "1 of 1 node: cordoned"
    assert closed((("taint x", 3), ("cordoned", 1)), 9) == "3 of 9 nodes: taint x; 1: cordoned"
    assert pod_rules(PodTemplate({PODS: 1})) == "anti-affinity of other pods"


def test_a_gang_of_another_namespace_is_called_with_it() -> None:
    assert gang_word("namespaces/a/podgangs/x", "namespaces/a/podgangs/y") == "x"
    assert gang_word("namespaces/a/podgangs/x", "namespaces/b/podgangs/y") == "a/x"


# --- random questions ---------------------------------------------------------------


tiny = st.one_of(snapshots(TINY, EVERYTHING), snapshots(TINY, PACKING_ONLY))


def plans_of(snapshot: Snapshot, gang: int, rest: Sequence[Binding]) -> Iterator[list[Binding]]:
    """Every plan that gives the gang pods beside what others got, its base aside."""
    gangs = [replace(g, base_gang="") if i == gang else g for i, g in enumerate(snapshot.gangs)]
    alone = replace(snapshot, gangs=tuple(gangs))
    try:
        for plan in _plans(alone, gangs[gang], 3000):
            if plan and not verify(alone, POLICY, [*rest, *plan]):
                yield list(plan)
    except TooLarge:
        assume(False)


def fits(snapshot: Snapshot, gang: int, rest: Sequence[Binding]) -> bool:
    return next(plans_of(snapshot, gang, rest), None) is not None


def answers(snapshot: Snapshot, *, proven: bool) -> Solution:
    if proven:
        return solve(snapshot, POLICY)[-1]
    return first_answer(formulate(snapshot, POLICY))


@settings(max_examples=EXAMPLES)
@given(tiny, st.booleans())
def test_every_gang_that_waits_has_a_true_reason(snapshot: Snapshot, proven: bool) -> None:
    solution = answers(snapshot, proven=proven)
    bindings = name_pods(snapshot, solution.assignments)
    result = score(snapshot, POLICY, bindings)
    found = reasons_of(snapshot, solution)
    for i, (gang, outcome) in enumerate(zip(snapshot.gangs, result.gangs, strict=True)):
        reasons = found[gang.name]
        waiting = sum(g.pending_count for g in gang.groups) - outcome.new
        assert bool(reasons) == (waiting > 0 or not outcome.placed)
        rest = [b for b in bindings if b.gang != gang.name]
        for reason in reasons:
            assert re.fullmatch(r"[a-z0-9].*\.", reason.message)
            if reason.code in NO_ROOM and (reason.asked or reason.found):
                assert reason.asked > reason.found
            if outcome.placed:
                continue
            alone = reason.state is not State.AFTER_PLAN
            if reason.code in NO_ROOM and "no way" not in reason.message:
                assert not fits(snapshot, i, () if alone else rest)
            if reason.code is Code.OUTCOMPETED:
                named = set(re.findall(r"(\w+) \(priority", reason.message))
                assert named or "alone" in reason.message
                out = {g.name for g in snapshot.gangs if g.name.rpartition("/")[2] in named}
                left = [b for b in rest if named and b.gang not in out]
                assert fits(snapshot, i, left)


@settings(max_examples=EXAMPLES)
@given(tiny)
def test_what_is_said_to_fit_is_what_fits(snapshot: Snapshot) -> None:
    """Of a gang of one group, when it may be placed in part."""
    for i, gang in enumerate(snapshot.gangs):
        reasons = reasons_of(snapshot, Solution((), ()))[gang.name]
        required = [s for s in gang.packing_scopes if s.required_level]
        if len(gang.groups) > 1 or len(gang.groups[0].pod_sets) != 1 or len(required) > 1:
            continue
        free = replace(gang, groups=(replace(gang.groups[0], min_replicas=0),))
        gangs = tuple(free if k == i else g for k, g in enumerate(snapshot.gangs))
        for reason in reasons:
            if " has room for " in reason.message and " extra pod" not in reason.message:
                most = max(map(len, plans_of(replace(snapshot, gangs=gangs), i, ())), default=0)
                assert most <= reason.found
                assert most == reason.found or " at most " in reason.message


@settings(max_examples=EXAMPLES // 2)
@given(tiny)
def test_no_more_extras_fit_than_is_said(snapshot: Snapshot) -> None:
    solution = answers(snapshot, proven=False)
    bindings = name_pods(snapshot, solution.assignments)
    result = score(snapshot, POLICY, bindings)
    found = reasons_of(snapshot, solution)
    for i, (gang, outcome) in enumerate(zip(snapshot.gangs, result.gangs, strict=True)):
        if not outcome.placed:
            continue
        set_of = {p.name: (g.name, k) for g in gang.groups for k, s in enumerate(g.pod_sets)
                  for p in s.pods}  # fmt: skip
        mine = Counter((*set_of[b.pod], b.node) for b in bindings if b.gang == gang.name)
        rest = [b for b in bindings if b.gang != gang.name]
        for reason in found[gang.name]:
            if reason.code is Code.NOT_SEARCHED or reason.state is not State.AFTER_PLAN:
                continue
            for plan in plans_of(snapshot, i, rest):
                whole = Counter((*set_of[b.pod], b.node) for b in plan)
                if mine <= whole:
                    assert whole.total() - mine.total() <= reason.found


@settings(max_examples=EXAMPLES // 2)
@given(tiny, st.data())
def test_order_and_names_of_the_question_do_not_matter(
    snapshot: Snapshot, data: st.DataObject
) -> None:
    """Codes and numbers stay; of equally good domains another may be named."""

    def numbers(question: Snapshot) -> dict[str, object]:
        found = reasons_of(question, Solution((), ()))
        return {
            name: sorted((r.code.value, r.level, r.asked, r.found) for r in reasons)
            for name, reasons in found.items()
        }

    before = numbers(snapshot)
    assert numbers(data.draw(permuted(snapshot))) == before
    after = numbers(renamed(snapshot))
    assert list(after.values()) == list(before.values())


def test_the_same_answer_has_the_same_reasons() -> None:
    scenario = Scenario("b1/r1: x1=8 x2=8 | b1/r2: x3=8 x4=8")
    for k in range(6):
        scenario = scenario.gang(f"g{k}", pods=2, gpus=8, pack="rack", priority=k % 3)
    snapshot = scenario.snapshot()
    solution = first_answer(formulate(snapshot, POLICY))
    assert reasons_of(snapshot, solution) == reasons_of(snapshot, solution)
