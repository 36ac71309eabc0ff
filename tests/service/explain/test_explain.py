"""Kinds of reasons on their smallest instances.

The numbers in the messages are derived by hand in the comments.
"""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import Solution
from placement_service.explain import reservation_reasons
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.formulation.prepare import prepare
from placement_service.formulation.prepared import Prepared
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from tests.scenario import Group, Scenario
from tests.service.explain.asking import POLICY, as_solution, only, reasons_of, why

Code, State = ReasonCode, ReasonState


# --- what follows from the request ---------------------------------------------


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


def test_the_first_reason_about_room_names_the_claims_that_tie_pods() -> None:
    """Of a gang on which room does not depend nothing is said of them, nor of gangs without."""
    scenario = (
        Scenario("r1: x1=4 | r2: x2=4")
        .gang("a", pods=2, gpus=4, pack="rack", volume_claims=("data-0", "data-1"))
        .gang("b", pods=2, gpus=4, pack="rack", volume_claims=("data-2",))
        .gang("c", pods=2, gpus=4, pack="rack")
        .gang("d", pods=1, gpus=1, uninitialized=True, volume_claims=("data-3",))
    )
    told = {name: [reason.message for reason in why(scenario, name)] for name in "abcd"}
    plain = told["c"]
    assert told["a"] == [
        f"{plain[0]} PersistentVolumeClaims data-0 and data-1 tie pods to nodes.",
        *plain[1:],
    ]
    assert told["b"][0] == f"{plain[0]} PersistentVolumeClaim data-2 ties a pod to nodes."
    assert told["d"] == ["the gang's pods are still being made."]


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


def test_a_node_on_which_something_cannot_be_counted_is_not_called_cordoned() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 x3=8")
        .node("x1", closed_because="pod ml/b holds a claim")
        .node("x2", cordoned=True)
        .gang("a", pods=2, gpus=8)
    )
    assert only(scenario).message == (
        "the cluster has room for 1 of 2 pods of 8 nvidia.com/gpu. Closed: 1 of 3 nodes: closed, "
        "because pod ml/b holds a claim; 1: cordoned."
    )


def test_many_nodes_on_which_something_cannot_be_counted_are_told_by_one_of_them() -> None:
    scenario = (
        Scenario("r1: x1=8 x2=8 x3=8")
        .node("x1", closed_because="pod ml/b holds a claim")
        .node("x2", closed_because="pod ml/a holds a claim")
        .gang("a", pods=2, gpus=8)
    )
    assert only(scenario).message == (
        "the cluster has room for 1 of 2 pods of 8 nvidia.com/gpu. Closed: 2 of 3 nodes: closed, "
        "because pod ml/a holds a claim, and others likewise."
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


def test_where_all_together_lack_nothing_the_group_that_lacks_room_is_named() -> None:
    # x2 has the cores of two pods; of cores and GPUs alike the rack has enough for all eight.
    scenario = Scenario("r1: x1=8 x2=8")
    for name, cpus in (("x1", 100), ("x2", 20)):
        scenario = scenario.node(name, cpus=cpus, labels={"t": name})
    groups = [Group(t, pods=4, gpus=1, cpus=10, select={"t": t}) for t in ("x1", "x2")]
    assert only(scenario.gang("a", *groups, pack="rack")).message == (
        "rack r1 has room for at most 6 of 8 pods of 1 nvidia.com/gpu and 10 cpu; for group x2 "
        "alone there is room for 2 of 4: cpu binds, nvidia.com/gpu alone would do for 8 "
        "(required level rack)."
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


def test_a_scope_that_stands_twice_is_told_once() -> None:
    scenario = Scenario("r1: x1=8 | r2: x2=8")
    scenario = scenario.gang("a", Group("w", pods=2, gpus=8, pack="rack"), pack="rack")
    assert only(scenario).message == (
        "rack r1 has room for 1 of 2 pods of 8 nvidia.com/gpu; no other rack has more "
        "(required level rack)."
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


# --- unfinished searches ----------------------------------------------------------


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
    """The gang fits, but the time is over while it is placed."""
    snapshot = Scenario("r1: x1=8").gang("a", pods=1, gpus=8).snapshot()
    problem = formulate(snapshot, POLICY)
    clock = SimpleNamespace(monotonic=lambda: float("inf"))
    monkeypatch.setattr("placement_service.entities.deadline.time", clock)
    ((reason,),) = explain(
        snapshot,
        problem,
        Solution((), ()),
        score(snapshot, POLICY, ()),
        deadline=time.monotonic() + 60,
    )
    assert reason.code is Code.NOT_SEARCHED
    assert reason.message.startswith("no placement was found")


def test_pods_on_a_node_without_the_label_are_in_no_domain() -> None:
    scenario = Scenario("x1=0/8 | r1: x2=8")
    scenario = scenario.gang("a", Group("w", pods=1, gpus=8, on=("x1",)), pack="rack")
    reason = only(scenario)
    assert reason.code is Code.REQUIRED_DOMAIN_BROKEN
    assert reason.message == (
        "running pods of group w are in x1 without the label, where one rack is required "
        "(level rack)."
    )


def test_extras_that_the_search_did_not_come_to_are_told_so() -> None:
    scenario = Scenario("x1=8 x2=8").gang("a", pods=2, gpus=8, min=1)
    snapshot = scenario.snapshot()
    found = reasons_of(snapshot, as_solution(snapshot, scenario.bind(a_w_0="x1")))
    [reason] = found["namespaces/ml/podgangs/a"]
    assert reason.code is Code.NOT_SEARCHED
    assert reason.message == (
        "1 extra pod waits: the cluster has room for 1 of 1 more pod of 8 nvidia.com/gpu; "
        "the search ended before it was placed."
    )


def test_devices_are_tried_out_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    def prepared(snapshot: Snapshot, policy: Policy, *, until: float) -> Prepared:
        told.append(until)
        return prepare(snapshot, policy, until=until)

    monkeypatch.setattr(reservation_reasons, "prepare", prepared)
    held = Scenario("r1: x1=8").hold("for-b", "x1", 8, "b").gang("a", pods=1, gpus=8)
    deadline = time.monotonic() + 60
    (reasons,) = reasons_of(held.snapshot(), Solution((), ()), deadline=deadline).values()
    assert Code.RESERVED in [reason.code for reason in reasons]
    assert told == [deadline]
