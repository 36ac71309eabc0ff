"""Reasons that name the running gangs which stay, and what protects them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.devices import Device
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.placement import ReasonCode
from placement_service.entities.queues import GPUS
from placement_service.entities.request import ExtrasPolicy
from placement_service.entities.reservations import ReservationSelector
from placement_service.formulation.eviction import ruled_pods
from tests.scenario import NOW, Group, Scenario, near, spread
from tests.service.explain.protected import ask, old


def preempt(scenario: Scenario) -> list[str]:
    """What is said of others that have the room of an urgent gang."""
    urgent = scenario.gang("urgent", pods=1, gpus=8, priority=100)
    reasons = ask(urgent, EvictionPolicy.PREEMPT)
    return [r.message for r in reasons if r.code is ReasonCode.OUTCOMPETED]


FULL = Scenario("r1: x1=0/8")
TWO = Scenario("r1: x1=0/8 x2=0/8")


def test_a_gang_that_is_not_preemptible_is_named() -> None:
    scenario = FULL.gang("old", old("old", "x1"), not_preemptible=True)
    assert preempt(scenario) == [
        "gang old (priority 0) is not preemptible; without it the gang would fit; "
        "its own priority is 100."
    ]


def test_gangs_on_nodes_that_are_not_there_are_in_nobodys_way() -> None:
    scenario = FULL
    for name in ("one", "two"):
        scenario = scenario.gang(name, old(name, "lost"), not_preemptible=True)
    assert preempt(scenario) == []


def test_a_gang_that_never_preempts_is_told_who_stays() -> None:
    scenario = FULL.gang("old", old("old", "x1"))
    urgent = scenario.gang("urgent", pods=1, gpus=8, priority=100, never_preempts=True)
    said = [r.message for r in ask(urgent, EvictionPolicy.PREEMPT)]
    assert said[-1] == (
        "gang old (priority 0) stays, as the waiting gang never preempts; "
        "without it the gang would fit; its own priority is 100."
    )


def test_a_budget_is_named_and_how_much_it_allows() -> None:
    scenario = FULL.gang("old", old("old", "x1", "x1", gpus=4))
    for allowed, said in ((0, "no eviction"), (1, "1 eviction")):
        assert preempt(scenario.budget(allowed, app="old")) == [
            f"gang old (priority 0) is in disruption budget b0, which allows {said}; "
            "without it the gang would fit; its own priority is 100."
        ]
    reasons = ask(
        scenario.budget(0, app="old").gang("urgent", pods=1, gpus=8, priority=100),
        EvictionPolicy.PREEMPT,
    )
    assert reasons[-1].subject == "namespaces/ml/poddisruptionbudgets/b0"


def test_a_budget_that_the_plan_has_used_up_is_named() -> None:
    """Either of two gangs may go, and one of them goes for another gang."""
    scenario = (
        TWO.gang("one", old("old", "x1"))
        .gang("two", old("old", "x2"))
        .budget(1, app="old")
        .gang("first", pods=1, gpus=8, priority=200)
    )
    message = preempt(scenario)[-1]
    assert "is in disruption budget b0, which allows 1 eviction; without it" in message


def test_a_budget_that_has_never_enough_for_a_gang_is_named_beside_one_that_used_it() -> None:
    scenario = Scenario("r1: x1=0/8 x2=0/8 x3=0/8")
    for i in (1, 2, 3):
        scenario = scenario.gang(f"old{i}", old("old", f"x{i}"))
    scenario = (
        scenario.budget(2, app="old")
        .gang("small", pods=2, gpus=8, priority=100)
        .gang("urgent", pods=3, gpus=8, priority=100)
    )
    [reason] = [
        r for r in ask(scenario, EvictionPolicy.PREEMPT) if r.code is ReasonCode.OUTCOMPETED
    ]
    assert reason.message == (
        "even with no other gang waiting, gangs old1 (priority 0), old2 (priority 0) and old3 "
        "(priority 0) are in disruption budget b0, which allows 2 evictions; without them the "
        "gang would fit; its own priority is 100."
    )


def test_a_gang_that_has_not_run_long_enough_is_named() -> None:
    scenario = FULL.gang("old", old("old", "x1"), start=NOW - 10, minimum_run_time=60)
    assert preempt(scenario) == [
        "gang old (priority 0) has not run for its minimum run time; without it the gang would "
        "fit; its own priority is 100."
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        (
            4,
            8,
            "gang old (priority 0) could be reclaimed only within the 4 GPUs guaranteed to queue "
            "a, which uses 0, and the gang asks for 8",
        ),
        (
            8,
            16,
            "gang old (priority 0) runs in queue b, which uses 16 of the 16 GPUs guaranteed to it",
        ),
    ],
)
def test_a_guarantee_that_forbids_reclaiming_is_named(mine: int, theirs: int, said: str) -> None:
    scenario = (
        TWO.queue("a", guaranteed={GPUS: mine})
        .queue("b", guaranteed={GPUS: theirs})
        .gang("old", old("old", "x1", "x2"), queue="b")
        .gang("urgent", pods=1, gpus=8, queue="a")
    )
    *_, reason = ask(scenario, EvictionPolicy.RECLAIM)
    assert reason.message == (f"{said}; without it the gang would fit; its own priority is 0.")
    assert reason.subject == ("queues/a" if mine == 4 else "queues/b")


def test_a_queue_that_is_not_reclaimable_is_named() -> None:
    scenario = (
        TWO.queue("a", guaranteed={GPUS: 8})
        .queue("b", not_reclaimable=True)
        .gang("old", old("old", "x1", "x2"), queue="b")
        .gang("urgent", pods=1, gpus=8, queue="a")
    )
    *_, reason = ask(scenario, EvictionPolicy.RECLAIM)
    assert reason.message == (
        "gang old (priority 0) runs in queue b, which is not reclaimable; "
        "without it the gang would fit; its own priority is 0."
    )
    assert reason.subject == "queues/b"


def test_a_gang_that_only_another_queue_may_reclaim_yet_is_named() -> None:
    """Of two queues in two organisations one lies in that of the running gang."""
    scenario = (
        TWO.queue("one", guaranteed={GPUS: 8})
        .queue("two")
        .queue("b", "two")
        .queue("c", "two", guaranteed={GPUS: 16})
        .gang("old", old("old", "x1", "x2"), queue="b")
        .gang("large", pods=1, gpus=16, queue="c")
        .gang("urgent", pods=1, gpus=8, queue="one")
    )
    queues = (
        replace(q, minimum_run_time_before_reclaim=600 * (q.name == "queues/two"))
        for q in scenario.queues
    )
    late = replace(scenario.gangs[0], start=0)
    gangs = (late, *scenario.gangs[1:])
    scenario = replace(scenario, queues=tuple(queues), gangs=gangs, as_of=10)
    *_, reason = ask(scenario, EvictionPolicy.RECLAIM)
    assert reason.message == (
        "gang old (priority 0) has not run for its minimum run time; "
        "without it the gang would fit; its own priority is 0."
    )


def test_what_may_not_be_moved_is_named() -> None:
    scenario = (
        Scenario("r1: x1=4/8 x2=4/8")
        .gang("one", old("one", "x1", gpus=4), not_preemptible=True)
        .gang("two", old("two", "x2", gpus=4), not_preemptible=True)
        .gang("urgent", pods=1, gpus=8)
    )
    *_, reason = ask(scenario, EvictionPolicy.REPACK)
    assert reason.message == (
        "gang one (priority 0) is not preemptible; without it the gang would fit; "
        "its own priority is 0."
    )


def test_several_causes_are_told_apart() -> None:
    scenario = (
        Scenario("r1: x1=0/8")
        .gang("one", old("one", "x1", gpus=4), not_preemptible=True)
        .gang("two", old("two", "x1", gpus=4))
        .budget(0, app="two")
    )
    assert preempt(scenario) == [
        "gang one (priority 0) is not preemptible; gang two (priority 0) is in disruption budget "
        "b0, which allows no eviction; without them the gang would fit; its own priority is 100."
    ]


def test_others_that_may_give_way_are_said_to_be_needed_as_well() -> None:
    scenario = FULL.gang("loose", old("loose", "x1", gpus=4)).gang(
        "fixed", old("fixed", "x1", gpus=4), not_preemptible=True
    )
    assert preempt(scenario) == [
        "gang fixed (priority 0) is not preemptible; without it the gang would fit where gangs "
        "that may give way do; its own priority is 100."
    ]


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(FULL.gang("old", old("old", "x1"), priority=100), id="as important"),
        pytest.param(
            FULL.gang("old", old("old", "x1", gpus=4), not_preemptible=True), id="not all of it"
        ),
        pytest.param(FULL.gang("old", old("old", "gone"), not_preemptible=True), id="not here"),
    ],
)
def test_who_does_not_help_is_not_named(scenario: Scenario) -> None:
    assert preempt(scenario) == []


def test_a_budget_with_room_protects_nobody() -> None:
    """Where nothing was evicted all the same, a plan is missing and not a right."""
    scenario = (
        FULL.gang("old", old("old", "x1"))
        .gang("urgent", pods=1, gpus=8, priority=100)
        .budget(1, app="old")
    )
    reasons = ask(scenario, EvictionPolicy.PREEMPT, nothing_goes=True)
    assert not [r for r in reasons if "budget" in r.message]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"on": ("x1",)}, "has 1 pod whose requests are not told"),
        ({"asks": {"same_pcie_nics": 2}}, "has pods with 2 network devices each"),
    ],
)
def test_a_gang_that_cannot_give_way_says_why(fields: dict[str, Any], said: str) -> None:
    scenario = FULL.gang("old", replace(old("old", "x1"), **fields))
    assert preempt(scenario) == [
        f"gang old (priority 0) {said}; without it the gang would fit; its own priority is 100."
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"asks": {"compute_domain": "ml/d"}}, "in ComputeDomain ml/d"),
        (
            {"asks": {"required_reservation": ReservationSelector("reservations/r")}},
            "that require a reservation",
        ),
        ({"near": (near("rack", app="x"),)}, "with required affinity"),
        ({"spread": (spread("rack", app="x"),)}, "that are spread"),
    ],
)
def test_a_gang_that_cannot_be_moved_says_why(
    fields: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ruled_pods, "MOST_HOMES", 0)
    scenario = Scenario("r1: x1=4/8 x2=0/4 x3=4/4").gang(
        "old", replace(old("old", "x1", gpus=4), **fields)
    )
    # So it matters which ComputeDomain a pod is in.
    *others, last = scenario.nodes
    scenario = replace(scenario, nodes=(*others, replace(last, compute_domain="ml/e")))
    *_, reason = ask(scenario.gang("urgent", pods=1, gpus=8), EvictionPolicy.REPACK)
    assert reason.message == (
        f"gang old (priority 0) has pods {said}, which are not moved; without it the gang would "
        "fit; its own priority is 0."
    )


@pytest.mark.parametrize("eviction", [EvictionPolicy.PREEMPT, EvictionPolicy.REPACK])
def test_a_gang_on_a_node_that_is_not_there_says_so(eviction: EvictionPolicy) -> None:
    scenario = Scenario("r1: x1=0/8 x2=2/8").gang("old", old("old", "x1", "gone"))
    *_, reason = ask(scenario.gang("urgent", pods=1, gpus=8, priority=100), eviction)
    assert "has 1 pod on a node that is not there; without it" in reason.message


def test_a_gang_that_breaks_a_rule_where_it_runs_says_so() -> None:
    """Its port is not listed by its node."""
    scenario = Scenario("r1: x1=0/8").gang("old", replace(old("old", "x1"), ports=(80,)))
    assert preempt(scenario) == [
        "gang old (priority 0) has 1 pod that breaks a rule about other pods where it is; without "
        "it the gang would fit; its own priority is 100."
    ]


@pytest.mark.parametrize(
    ("fields", "waiting", "extras", "said"),
    [
        ({}, 1, "WITH_PRIORITY", "waits for extras, which come with their priority"),
        ({"queue": "lost"}, 0, "AFTER_MINIMUMS", "is in queue lost, which does not exist"),
        ({"prefer": "rack"}, 1, "AFTER_MINIMUMS", "is what pods that wait prefer to be near"),
    ],
)
def test_a_gang_about_which_more_is_decided_than_its_place_says_why(
    fields: dict[str, Any], waiting: int, extras: str, said: str
) -> None:
    group = replace(old("old", "x1", gpus=4), pods=waiting, min=1)
    scenario = Scenario("r1: x1=4/8 | r2: x2=4/4").queue("a").gang("old", group, **fields)
    scenario = scenario.gang("urgent", pods=1, gpus=8, priority=1)
    *_, reason = ask(scenario, EvictionPolicy.REPACK, extras=ExtrasPolicy(extras))
    assert f"gang old (priority 0) {said}; without it the gang would fit;" in reason.message


def test_a_gang_in_a_queue_above_its_limit_is_not_moved_and_says_so() -> None:
    scenario = Scenario("r1: x1=4/8 | r2: x2=4/4").queue("a", limit={"gpus": 3})
    scenario = scenario.gang("old", old("old", "x1", gpus=4), queue="a")
    *_, reason = ask(scenario.gang("urgent", pods=1, gpus=8), EvictionPolicy.REPACK)
    assert "gang old (priority 0) is in queue a, where more runs than a limit;" in reason.message


def test_a_gang_that_waits_for_its_minimum_is_not_moved_and_says_so() -> None:
    group = replace(old("old", "x1", gpus=4), min=2)
    scenario = Scenario("r1: x1=4/8 | r2: x2=4/4").gang("old", group)
    *_, reason = ask(scenario.gang("urgent", pods=1, gpus=8), EvictionPolicy.REPACK)
    assert "gang old (priority 0) waits for 1 pod of its minimum itself; without it" in (
        reason.message
    )


@pytest.mark.parametrize("kind", EvictionPolicy)
def test_extras_of_a_gang_that_may_be_disturbed_wait_for_the_same_reason(
    kind: EvictionPolicy,
) -> None:
    group = replace(old("old", "x1", gpus=4), pods=1, min=1)
    scenario = Scenario("r1: x1=0/4 | r2: x2=0/8").gang("old", group)
    first, *_ = ask(scenario.gang("urgent", pods=1, gpus=8, priority=1), kind, of="old")
    assert first.message == (
        "1 extra pod waits: the cluster has room for 0 of 1 more pod of 4 nvidia.com/gpu."
    )


def test_a_gang_that_does_not_keep_its_levels_where_it_runs_says_so() -> None:
    scenario = Scenario("r1: x1=4/8 | r2: x2=0/8")
    extra = replace(old("old", "x1", "x2", gpus=4), min=1)
    scenario = scenario.gang("old", extra, pack="rack")
    *_, reason = ask(scenario.gang("urgent", pods=1, gpus=8), EvictionPolicy.REPACK)
    assert reason.message == (
        "gang old (priority 0) does not run in one domain of a level that it requires; without it "
        "the gang would fit; its own priority is 0."
    )


def test_a_host_port_comes_free_with_a_protected_gang() -> None:
    group = replace(old("old", "x1", gpus=1), ports=(80,))
    scenario = Scenario("r1: x1=7/8").node("x1", ports=[80])
    scenario = scenario.gang("old", group, not_preemptible=True)
    urgent = Group("w", pods=1, gpus=1, ports=(80,))
    *_, reason = ask(scenario.gang("urgent", urgent, priority=100), EvictionPolicy.PREEMPT)
    assert reason.message == (
        "gang old (priority 0) is not preemptible; without it the gang would fit; "
        "its own priority is 100."
    )


@pytest.mark.parametrize("told", [True, False])
def test_listed_gpus_come_free_with_a_protected_gang(told: bool) -> None:
    """Where it is said which of them it has."""
    devices = (Device(i, used_milli=1000 if i < 4 else 0) for i in range(8))
    scenario = Scenario("r1: x1=4/8").with_devices("x1", *devices)
    scenario = scenario.gang("old", old("old", "x1", gpus=4), not_preemptible=True)
    [one] = scenario.gangs
    [group] = one.groups
    [pods] = group.pod_sets
    [pod] = pods.bound_pods
    pods = replace(pods, bound_pods=(replace(pod, devices=(0, 1, 2, 3) if told else ()),))
    one = replace(one, groups=(replace(group, pod_sets=(pods,)),))
    assert (
        preempt(replace(scenario, gangs=(one,)))
        == [
            "gang old (priority 0) is not preemptible; without it the gang would fit; "
            "its own priority is 100."
        ][: int(told)]
    )


def test_what_is_held_for_several_owners_does_not_hide_who_stays() -> None:
    """Each room that is held for owners is a column of its own, with one name."""
    scenario = Scenario("x1=0/8 x2=8 x3=8").hold("p", "x2", 8, "p").hold("q", "x3", 8, "q")
    scenario = scenario.gang("old", old("old", "x1"), not_preemptible=True)
    for name in "pq":
        scenario = scenario.gang(name, Group(name, pods=1, gpus=1), priority=1)
    assert preempt(scenario) == [
        "gang old (priority 0) is not preemptible; without it the gang would fit; its own priority"
        " is 100."
    ]


@pytest.mark.parametrize(("asked", "told"), [(2, False), (3, True)])
def test_a_budget_that_lets_enough_extras_go_is_not_in_the_way(asked: int, told: bool) -> None:
    elastic = Group("w", gpus=1, min=1, told=("x1",) * 5, labels={"app": "old"})
    scenario = Scenario("r1: x1=0/5").gang("old", elastic).budget(2, app="old")
    scenario = scenario.gang("urgent", pods=asked, gpus=1, priority=100)
    reasons = ask(scenario, EvictionPolicy.PREEMPT, nothing_goes=True)
    assert any("in disruption budget b0" in r.message for r in reasons) is told
