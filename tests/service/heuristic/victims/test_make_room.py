"""The first answer makes room: the least important give way, and what is moved runs elsewhere."""

from __future__ import annotations

import math
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from placement_service.entities.queues import GPUS, Queue
from placement_service.entities.request import (
    BoundPod,
    PackingScope,
    Pod,
    PodGang,
    PodSet,
    PodTemplate,
    Snapshot,
)
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.plan import Plan, Units, home_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import UnitsOnNode
from placement_service.heuristic import first_answer as first_answers
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.orders import narrowest_first
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.victims import make_room as victims
from placement_service.heuristic.victims.clearing import Clearing
from placement_service.heuristic.victims.make_room import make_room, place_again
from tests.scenario import Group, Scenario, spread
from tests.service.evictions import PREEMPT, REPACK, cluster, running, urgent
from tests.service.heuristic.first_plans import evicted, first_plan
from tests.service.questions import GPU, gang, node

RACK = "rack"


def in_one_rack(one: PodGang) -> PodGang:
    return replace(one, packing_scopes=(PackingScope("all", ("worker",), RACK),))


def test_a_gang_leaves_a_domain_to_another_that_has_no_other() -> None:
    """Rack a is free. In rack b the first may evict extras, and the second nobody."""
    nodes = [node(n, used=8 * (n[0] != "a"), rack=n[0]) for n in ("a0", "a1", "b0", "b1", "c0")]
    extras = running("extras", "c0", "b0", "b1", gpus=8, priority=50, minimum=1)
    first = in_one_rack(replace(gang("first", pods=2, gpus=8), priority=100))
    second = in_one_rack(replace(gang("second", pods=2, gpus=8), priority=40))
    plan = first_plan(Snapshot(tuple(nodes), (extras, first, second)), PREEMPT)
    assert {b.node for b in plan.bindings if b.gang == second.name} == {"nodes/a0", "nodes/a1"}
    assert evicted(plan) == ["extras", "extras"]


def test_nobody_goes_for_a_gang_of_equal_priority() -> None:
    """The pods of `new` may be on the only host alone. `peer` would go for `large`, which fits
    nowhere, but not for `new`.
    """
    alone = spread("host", min_domains=2)
    question = (
        Scenario("n0=4/8", policy=PREEMPT)
        .gang("low", Group("w", gpus=2, told=("n0",)))
        .gang("peer", Group("w", gpus=2, told=("n0",)), priority=1)
        .gang("new", Group("w", pods=1, gpus=1, spread=(alone,)), priority=1)
        .gang("large", Group("w", pods=1, gpus=9), priority=5)
    )
    assert not first_plan(question.snapshot(), PREEMPT).evictions


def test_of_equals_the_oldest_gets_the_room() -> None:
    """Room comes free on one node alone, and the younger is the harder to place."""
    kept = replace(running("kept", "n1", gpus=8), not_preemptible=True)
    old = replace(gang("old", pods=4, gpus=2), priority=100, created=0)
    young = replace(gang("young", pods=1, gpus=8), priority=100, created=50_000)
    question = cluster(running("low", "n0", gpus=8), kept, young, old, nodes=2)
    plan = first_plan(replace(question, as_of=100_000), PREEMPT)
    assert {b.gang for b in plan.bindings} == {old.name}


def test_room_is_made_in_the_domain_where_a_gang_runs_already() -> None:
    """In all others it would cost less."""
    nodes = tuple(node(f"n{i}", used=8, rack=f"r{i // 2}") for i in range(10))
    here = running("here", "n1", "n1", priority=50)
    others = (running(f"other{i}", f"n{i}", gpus=8) for i in range(2, 10))
    grows = in_one_rack(replace(gang("grows", pods=1, gpus=8, minimum=2), priority=100))
    [group] = grows.groups
    runs = (BoundPod("namespaces/ml/pods/grows-fixed", "nodes/n0"),)
    grows = replace(grows, groups=(replace(group, fixed_pods=runs),))
    plan = first_plan(Snapshot(nodes, (here, *others, grows)), PREEMPT)
    assert evicted(plan) == ["here", "here"]


def test_a_large_gang_goes_before_a_small_one_of_higher_priority() -> None:
    nodes = [node(f"{r}{i}", used=8, rack=r) for r in "ab" for i in range(4)]
    small = running("small", "a0", gpus=8, priority=50)
    fixed = replace(running("fixed", "a1", "a2", "a3", gpus=8), not_preemptible=True)
    large = running("large", "b0", "b1", "b2", "b3", gpus=8, priority=10)
    question = Snapshot(tuple(nodes), (small, fixed, large, in_one_rack(urgent())))
    assert evicted(first_plan(question, PREEMPT)) == ["large"] * 4


def test_a_gang_of_higher_priority_gets_the_room_of_victims_before_a_larger_one() -> None:
    victims = [running(name, name, gpus=8) for name in ("n0", "n1")]
    large = replace(gang("large", pods=2, gpus=8), priority=50)
    plan = first_plan(cluster(*victims, large, urgent(), nodes=2), PREEMPT)
    assert {b.gang for b in plan.bindings} == {urgent().name}


def test_no_room_is_made_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> Plan:
        raise AssertionError("room was made")

    monkeypatch.setattr(first_answers, "make_room", made)
    monkeypatch.setattr(first_answers, "LEAST_SECONDS", 0.0)
    second = replace(gang("second", pods=1, gpus=8), priority=100)
    problem = formulate(cluster(running("old", "n0", gpus=8), urgent(), second), PREEMPT)
    assert first_answer(problem, deadline=0.0).tiers[0].value == 0


def test_what_is_in_the_way_is_moved() -> None:
    nodes = (node("n0", used=4), node("n1", used=4))
    question = Snapshot(nodes, (running("a", "n0"), running("b", "n1"), urgent(priority=0)))
    plan = first_plan(question, REPACK)
    assert len(plan.evictions) == 1
    assert len(plan.bindings) == 1


def test_what_fits_nowhere_else_stays() -> None:
    """One pod in the way has no room elsewhere, two others have."""
    nodes = [node("n0", used=8), node("n1", used=8), node("n2", used=4), node("n3", used=4)]
    whole = running("whole", "n0", gpus=8)
    halves = [running(name, "n1") for name in ("one", "other")]
    fixed = [replace(running(f"fixed-{n}", n), not_preemptible=True) for n in ("n2", "n3")]
    question = Snapshot(tuple(nodes), (whole, *halves, *fixed, urgent(priority=0)))
    assert evicted(first_plan(question, REPACK)) == ["one", "other"]


def test_a_gang_that_goes_frees_all_its_nodes() -> None:
    """In rack a three nodes are enough, of which one is free, and the pair leaves two."""
    nodes = [node(f"a{i}", used=8 * (i < 3), rack="a") for i in range(4)]
    nodes += [node(f"b{i}", rack="b") for i in range(2)]
    halves = running("halves", "a0", "a0")
    pair = running("pair", "a1", "a2", gpus=8)
    waits = in_one_rack(replace(gang("waits", pods=3, gpus=8), priority=0))
    plan = first_plan(Snapshot(tuple(nodes), (halves, pair, waits)), REPACK)
    assert evicted(plan) == ["pair", "pair"]


def test_no_pod_moves_to_a_node_that_another_gang_needs() -> None:
    """In rack a one large pod may leave, or two small ones. The large one needs all of b0."""
    free = [node("a2", rack="a"), node("b0", rack="b")]
    nodes = [node("a0", used=8, rack="a"), node("a1", used=8, rack="a"), *free]
    nodes += [node(f"c{i}", used=4, rack="c") for i in range(2)]
    small = [running(name, "a1") for name in ("one", "other")]
    fixed = [replace(running(f"fixed{i}", f"c{i}"), not_preemptible=True) for i in range(2)]
    inside = in_one_rack(replace(gang("inside", pods=2, gpus=8), priority=0))
    anywhere = replace(gang("anywhere", pods=1, gpus=8), priority=0)
    gangs = (running("large", "a0", gpus=8), *small, *fixed, inside, anywhere)
    plan = first_plan(Snapshot(tuple(nodes), gangs), REPACK)
    assert evicted(plan) == ["one", "other"]
    assert len({b.gang for b in plan.bindings} & {inside.name, anywhere.name}) == 2


def test_a_gang_of_a_rack_leaves_the_only_free_block_to_another() -> None:
    """Block a has two free nodes in two racks, and block b one."""
    nodes = [node("a0", rack="a0", block="a"), node("a1", rack="a1", block="a")]
    nodes += [node("b0", rack="b0", block="b"), node("b1", used=4, rack="b0", block="b")]
    nodes += [node("c0", used=4)]
    fixed = replace(running("fixed", "c0"), not_preemptible=True)
    small = in_one_rack(replace(gang("small", pods=1, gpus=8), priority=0))
    large = replace(gang("large", pods=2, gpus=8), priority=0)
    large = replace(large, packing_scopes=(PackingScope("all", ("worker",), "block"),))
    gangs = (running("old", "b1"), fixed, small, large)
    plan = first_plan(Snapshot(tuple(nodes), gangs), REPACK)
    assert not plan.evictions
    assert len(plan.bindings) == 3


def test_gangs_that_wait_make_room_together() -> None:
    """What was moved for one gang is not in the way of the next."""
    nodes = [node(f"n{i}", used=4) for i in range(6)]
    gangs = [running(f"old-{i}", f"n{i}") for i in range(6)]
    waiting = [replace(gang(f"new-{i}", pods=1, gpus=8), priority=0) for i in range(3)]
    plan = first_plan(Snapshot(tuple(nodes), (*gangs, *waiting)), REPACK)
    assert len(plan.bindings) == 3
    assert len(plan.evictions) == 3


@pytest.mark.parametrize(("base_gpus", "placed"), [(2, ["base"]), (6, [])])
def test_a_base_is_placed_before_what_is_based_on_it(base_gpus: int, placed: list[str]) -> None:
    """Four GPUs are free, which the larger of the two would have first."""
    base = replace(gang("base", pods=1, gpus=base_gpus), priority=0)
    based = replace(gang("based", pods=1, gpus=4), priority=0, base_gang=base.name)
    question = Snapshot((node("n0", gpus=8, used=4),), (running("old", "n0"), base, based))
    plan = first_plan(question, REPACK)
    assert [b.gang.rsplit("/", 1)[1] for b in plan.bindings] == placed


def test_a_base_stays_for_what_was_placed_with_it() -> None:
    """A base that may still grow may give way."""
    base = running("base", "n0", gpus=2)
    (group,) = base.groups
    more = PodSet(PodTemplate({GPU: 9}), (Pod("namespaces/ml/pods/base-more"),))
    base = replace(base, groups=(replace(group, pod_sets=(*group.pod_sets, more)),))
    based = replace(gang("based", pods=1, gpus=6), base_gang=base.name)
    question = Snapshot((node("n0", used=2),), (base, based, urgent(gpus=2)))
    plan = first_plan(question, PREEMPT)
    assert [b.gang.rsplit("/", 1)[1] for b in plan.bindings] == ["urgent"]


def test_nobody_goes_home_past_the_limit_of_a_queue() -> None:
    """There is room for both, but only one of them may run."""
    queues = (Queue("queues/q", limit={GPUS: 4}),)
    gangs = (running("old", "n0", gpus=4), urgent(4))
    question = Snapshot(
        (node("n0", used=4),), tuple(replace(g, queue="queues/q") for g in gangs), queues=queues
    )
    problem = formulate(question, PREEMPT)
    plan: dict[GangIdx, Units] = {GangIdx(1): (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)}
    residual, found = ResidualCapacity(problem), dict(plan)
    residual.take_plan(plan)
    Builder(problem).put_back_home(residual, found, [GangIdx(0)])
    assert found == plan


def test_a_gang_that_moves_keeps_to_the_nodes_it_may_use() -> None:
    """Its own nodes come first only where they are among them."""
    nodes = (node("a", rack="a"), node("b", rack="b"))
    question = Snapshot(nodes, (running("old", "a", gpus=8), urgent()))
    problem = formulate(question, REPACK, prepare(question, REPACK))
    old = next(g for g in problem.gangs if g.home)

    def placed(within: list[int]) -> list[int]:
        units = Builder(problem).place(
            ResidualCapacity(problem), old, within=np.array(within, dtype=np.int64)
        )
        return [u.node for u in units or ()]

    assert placed([0, 1]) == [0]
    assert placed([1]) == [1]


def test_a_gang_is_placed_once_more_beside_all_the_others() -> None:
    """It took the node of one that moved away, and another is free."""
    nodes = (node("n0", used=4), node("n1"), node("n2", used=4))
    stays = replace(running("stays", "n2"), not_preemptible=True)
    question = Snapshot(nodes, (running("one", "n0"), stays, urgent()))
    problem = formulate(question, REPACK, prepare(question, REPACK))
    one, waits = (g for g in problem.gangs if g.pending)
    worse = {
        one.index: (UnitsOnNode(DemandIdx(0), NodeIdx(2), 1),),
        waits.index: (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),),
    }
    found = place_again(Builder(problem), worse, narrowest_first(problem), until=math.inf)
    assert found[one.index] == one.home
    assert found[waits.index][0].node == 1


def test_victims_are_sought_once_for_gangs_that_ask_for_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two nodes the second gives way only to a gang that does not need it."""
    nodes = (node("a", used=8), node("b", used=8), node("c", gpus=1))
    others = (
        running("low", "a", gpus=8),
        running("middle", "b", gpus=8, priority=150),
        replace(gang("high", pods=1, gpus=1), priority=200),
    )
    alike = tuple(replace(gang(f"g{i}", pods=2, gpus=8), priority=100) for i in range(4))
    problem = formulate(Snapshot(nodes, (*others, *alike)), PREEMPT)
    tried = Mock(wraps=Clearing)
    monkeypatch.setattr(victims, "Clearing", tried)
    home = home_plan(problem)
    plan = make_room(Builder(problem), home, narrowest_first(problem), until=math.inf)
    assert plan.keys() == {*home, GangIdx(2)}
    assert tried.call_count == 1
