"""Where running gangs may give way that the problem cannot express, bounds come from a looser
question, and answers that are the best are mostly proven.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import BoundPod, ExtrasPolicy, PodGang, PodSet, Policy
from placement_service.formulation.eviction import looser_gangs
from placement_service.formulation.prepare import prepare
from tests.brute import optimum
from tests.drawing import GPU
from tests.judged import no_answer_is_false
from tests.placed import solve
from tests.scenario import Group, Scenario, near, spread
from tests.service.evictions import cluster, running, urgent
from tests.service.questions import gang
from tests.service.search.answering import answer

REPACK = Policy(eviction=EvictionPolicy.REPACK)


def halves(
    rules: dict[str, Any] | None = None, *, told: tuple[str, ...] = ("x1",), **fields: Any
) -> Scenario:
    """Two half full nodes of a rack, and a gang that wants a whole one. Gang "odd" has rules; that
    "plain" moves is as good.
    """
    scenario = Scenario("r1: x1=4/8 x2=4/8 | r2: x3=0/4", policy=REPACK)
    scenario = scenario.gang("odd", Group("w", gpus=4, told=told, **(rules or {})), **fields)
    scenario = scenario.gang("plain", Group("w", gpus=4, told=("x2",)))
    return scenario.gang("a", pods=1, gpus=8)


def odd(scenario: Scenario, gang: PodGang) -> Scenario:
    return replace(scenario, gangs=(gang, *scenario.gangs[1:]))


def with_waiting(scenario: Scenario, least: int) -> Scenario:
    """Of the odd gang also a pod waits that fits nowhere."""
    [group] = scenario.gangs[0].groups
    waits = Group("w", pods=1, gpus=9).pod_set("odd")
    group = replace(group, pod_sets=(*group.pod_sets, waits), min_replicas=least)
    return odd(scenario, replace(scenario.gangs[0], groups=(group,)))


def unlike(scenario: Scenario) -> Scenario:
    """Another pod of the odd gang runs that asks for less."""
    [group] = scenario.gangs[0].groups
    [runs] = group.pod_sets
    less = replace(runs.template, requests={**runs.template.requests, GPU: 1})
    pod = BoundPod("namespaces/ml/pods/less", "nodes/x3")
    group = replace(group, pod_sets=(runs, PodSet(less, (), (pod,))), min_replicas=2)
    return odd(scenario, replace(scenario.gangs[0], groups=(group,)))


def in_a_reservation(scenario: Scenario) -> Scenario:
    [group] = scenario.gangs[0].groups
    [runs] = group.pod_sets
    pods = tuple(replace(p, reservation="reservations/held") for p in runs.bound_pods)
    group = replace(group, pod_sets=(replace(runs, bound_pods=pods),))
    return odd(scenario.hold("held", "x1", 0, "w"), replace(scenario.gangs[0], groups=(group,)))


def in_a_queue(limit: int) -> Scenario:
    """The odd gang has five GPUs of a queue, one on a closed node, and another one wants two."""
    scenario = unlike(halves(queue="q")).gang("b", pods=1, gpus=2, queue="q", priority=1)
    return scenario.node("x3", cordoned=True).queue("q", limit={"gpus": limit})


ODD = {
    "affinity of unlike pods": unlike(halves({"near": (near("rack", group="w"),)})),
    "spread of unlike pods": unlike(halves({"spread": (spread("host", group="w"),)})),
    "a ComputeDomain": halves({"asks": {"compute_domain": "d"}}).gang(
        "other", Group("v", pods=1, gpus=2, asks={"compute_domain": "e"})
    ),
    "nodes that would not take it again, and unlike pods": unlike(
        halves({"select": {"kind": "gone"}})
    ),
    "a port that its node does not list": halves({"ports": (80,)}),
    "two racks where one is required, and an extra": halves(
        {"min": 1}, told=("x1", "x3"), pack="rack"
    ),
    "a queue that is not there": halves(queue="gone"),
    "pods that lack": with_waiting(halves(), 2),
    "pods that lack, and two racks where one is required": with_waiting(
        halves(told=("x1", "x3"), pack="rack"), 3
    ),
    "extras that come with their priority": replace(
        with_waiting(halves(), 1), policy=replace(REPACK, extras=ExtrasPolicy.WITH_PRIORITY)
    ),
    "a wish for pods that wait": with_waiting(halves(prefer="rack"), 1),
    "a wish for others of its set": halves(prefer="rack").gang(
        "scaled", pods=1, gpus=9, base="odd"
    ),
    "an overbooked node": halves().hold("held", "x1", 5, "nobody"),
    "a reservation": in_a_reservation(halves()),
    "a closed node, and unlike pods": unlike(halves()).node("x3", cordoned=True),
    "a closed node, unlike pods and a full queue": in_a_queue(5),
    "a closed node, unlike pods and a queue with room": in_a_queue(7),
    "a pod that is not told": halves({"on": ("x3",), "min": 1}),
}


@pytest.mark.parametrize("scenario", ODD.values(), ids=ODD)
def test_the_best_is_proven_though_some_that_may_move_stay(scenario: Scenario) -> None:
    snapshot, policy = scenario.snapshot(), scenario.policy
    assert prepare(snapshot, policy).missed == {scenario.gangs[0].name}
    assert no_answer_is_false(optimum(snapshot, policy), snapshot, policy)


@pytest.mark.parametrize("scenario", ODD.values(), ids=ODD)
def test_bounds_hold_where_nothing_else_could_move(scenario: Scenario) -> None:
    """Some could move, by the rules, and then that would be better."""
    first, plain, *others = scenario.gangs
    scenario = replace(scenario, gangs=(first, replace(plain, not_preemptible=True), *others))
    snapshot, policy = scenario.snapshot(), scenario.policy
    no_answer_is_false(optimum(snapshot, policy), snapshot, policy)


def evicting(scenario: Scenario, eviction: EvictionPolicy) -> Scenario:
    """The same where the last gang may evict the others."""
    *others, last = scenario.gangs
    gangs = (*others, replace(last, priority=1))
    return replace(scenario, gangs=gangs, policy=Policy(eviction=eviction))


#: It is worth nothing, so it would be the best one to go.
LACKING = with_waiting(ODD["a port that its node does not list"], 2)
STAYING = {
    name: ODD[name] for name in ("a port that its node does not list", "an overbooked node")
} | {
    "a port, and extras that wait": with_waiting(ODD["a port that its node does not list"], 1),
}


@pytest.mark.parametrize("eviction", [EvictionPolicy.PREEMPT, EvictionPolicy.RECLAIM])
@pytest.mark.parametrize("scenario", STAYING.values(), ids=STAYING)
def test_the_best_is_proven_though_some_that_may_go_stay(
    scenario: Scenario, eviction: EvictionPolicy
) -> None:
    scenario = evicting(scenario, eviction)
    snapshot, policy = scenario.snapshot(), scenario.policy
    assert prepare(snapshot, policy).missed == {scenario.gangs[0].name}
    assert no_answer_is_false(optimum(snapshot, policy), snapshot, policy)


@pytest.mark.parametrize("scenario", [LACKING, *STAYING.values()], ids=["pods lack", *STAYING])
def test_bounds_hold_where_nothing_else_could_go(scenario: Scenario) -> None:
    first, plain, *others = evicting(scenario, EvictionPolicy.PREEMPT).gangs
    gangs = (first, replace(plain, not_preemptible=True), *others)
    scenario = replace(evicting(scenario, EvictionPolicy.PREEMPT), gangs=gangs)
    snapshot, policy = scenario.snapshot(), scenario.policy
    no_answer_is_false(optimum(snapshot, policy), snapshot, policy)


def test_a_pod_of_a_closed_node_that_goes_leaves_its_share_of_the_queue() -> None:
    """Both have to go: one has that share, on a closed node, the other one the room."""
    scenario = halves({"ports": (80,)}, queue="q").node("x1", cordoned=True)
    *others, last = scenario.gangs
    scenario = replace(scenario, gangs=(*others, replace(last, queue=others[0].queue)))
    scenario = evicting(scenario.queue("q", limit={"gpus": 8}), EvictionPolicy.PREEMPT)
    snapshot, policy = scenario.snapshot(), scenario.policy
    best = optimum(snapshot, policy)
    assert len(best.evictions) == 2
    no_answer_is_false(best, snapshot, policy)


def test_nothing_is_bounded_where_one_on_which_others_are_based_may_begin_anew() -> None:
    """Its waiting pods could be its minimum, and what is based on it stays."""
    scenario = ODD["a port that its node does not list"]
    [group] = scenario.gangs[0].groups
    waits = Group("w", pods=1, gpus=4).pod_set("odd")
    group = replace(group, pod_sets=(*group.pod_sets, waits))
    scenario = odd(scenario, replace(scenario.gangs[0], groups=(group,)))
    alone = evicting(scenario, EvictionPolicy.PREEMPT)
    assert prepare(alone.snapshot(), alone.policy).looser is not None
    base = evicting(scenario.gang("scaled", pods=1, gpus=8, base="odd"), EvictionPolicy.PREEMPT)
    assert prepare(base.snapshot(), base.policy).looser is None
    no_answer_is_false(optimum(base.snapshot(), base.policy), base.snapshot(), base.policy)


def test_bounds_count_what_runs_of_a_gang_that_lacks_pods() -> None:
    """It meets no minimum, but has to run after the plan: the other gang finds no room."""
    scenario = Scenario("r1: x1=4/8", policy=REPACK)
    scenario = scenario.gang("odd", Group("w", gpus=4, told=("x1",))).gang("a", pods=1, gpus=8)
    scenario = with_waiting(scenario, 2)
    last = solve(scenario.snapshot(), scenario.policy)[-1]
    assert last.proven
    assert last.tiers[0].bound == 0


def test_large_questions_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = ODD["a port that its node does not list"]
    monkeypatch.setattr(looser_gangs, "MOST_NODES", 2)
    assert prepare(scenario.snapshot(), scenario.policy).looser is None
    assert not solve(scenario.snapshot(), scenario.policy)[-1].proven


def test_pods_of_a_gang_that_stays_incomplete_do_not_move() -> None:
    """One pod would make room, but its gang lacks another one; so two of a whole gang move."""
    lacking = running("lacking", "n0", gpus=4, minimum=2)
    [group] = lacking.groups
    waits = gang("lacking-more", pods=1, gpus=9).groups[0].pod_sets
    lacking = replace(lacking, groups=(replace(group, pod_sets=(*group.pod_sets, *waits)),))
    asked = cluster(lacking, running("whole", "n1", "n1", gpus=2), urgent(), used=4, nodes=2)
    found = answer(asked, REPACK)
    assert found.evicted() == ["whole", "whole"]
    assert found.solution.proven
