"""The nodes that are cleared are the cheapest of all that would do."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import pytest

from placement_service.entities.request import PackingScope, PodGang, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import home_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims.cleared_slots import MOST_TOGETHER, ClearedSlots
from placement_service.heuristic.victims.plan import VictimPlan
from tests.service.evictions import REPACK, new, running
from tests.service.questions import GPU, node

RACK = "rack"


def homes(one: PodGang) -> list[str]:
    """The node of each pod that runs."""
    return [pod.node.removeprefix("nodes/") for pod in one.groups[0].running_pods]


def slots(*gangs: PodGang, racks: dict[str, int], again: float = 1.0) -> ClearedSlots:
    """Slots of whole nodes in racks of so many nodes, named a0, a1 and so on."""
    used = {f"{r}{i}": 0 for r, count in racks.items() for i in range(count)}
    for one in gangs:
        for n in homes(one):
            used[n] += one.groups[0].pod_sets[0].template.requests[GPU]
    nodes = tuple(node(n, used=gpus, rack=n[0]) for n, gpus in used.items())
    question = Snapshot(nodes, (*gangs, new(2, RACK)))
    problem = formulate(question, REPACK, prepare(question, REPACK))
    (waits,) = [g for g in problem.pending if not g.home]
    standing = VictimPlan(Builder(problem), home_plan(problem))
    return ClearedSlots(standing, waits.demands[0].pod_class, problem.levels[0].domain, again)


def costs(found: ClearedSlots, domain: int = 0) -> list[float]:
    return [one.cost for one in found.of(domain)]


def test_a_gang_that_can_lose_no_pod_leaves_all_its_nodes_at_once() -> None:
    found = slots(running("whole", "a0", "a1", "a2"), running("lone", "a3"), racks={"a": 5})
    assert costs(found) == [0, 0, 1, 3, 3, 4]


def test_a_gang_gives_up_what_it_can_spare_and_then_moves_whole() -> None:
    found = slots(running("elastic", "a0", "a1", "a2", "a3", minimum=2), racks={"a": 4})
    assert costs(found) == [0, 1, 2, 4, 4]
    assert len(found.of(0)[3].nodes) == 4


def test_a_pod_that_takes_a_slot_again_costs_more() -> None:
    found = slots(running("large", "a0", "a1", gpus=8, minimum=1), racks={"a": 2}, again=2.5)
    assert costs(found) == [0, 3.5, 7]


def test_extras_whose_slots_have_to_be_in_one_domain_stay() -> None:
    large = running("large", "a0", "a1", gpus=8, minimum=1)
    bound = replace(large, packing_scopes=(PackingScope("all", ("worker",), RACK),))
    assert costs(slots(bound, racks={"a": 2})) == [0, 4, 4]


def test_a_gang_may_have_to_stay_or_have_left() -> None:
    found = slots(running("one", "a0"), running("two", "a1", "a1"), racks={"a": 2})
    assert costs(found) == [0, 1, 3]
    found.keep(GangIdx(0))
    assert costs(found) == [0, 2]
    found.leave(GangIdx(1))
    assert costs(found) == [0, 0]


def test_a_gang_may_spare_less_in_one_domain_than_in_another() -> None:
    found = slots(running("elastic", "a0", "a1", "b0", minimum=1), racks={"a": 2, "b": 1})
    assert costs(found, 0) == [0, 1, 2]
    found.limit(0, GangIdx(0), (1,))
    assert costs(found, 0) == [0, 1, 3]
    assert costs(found, 1) == [0, 1]


@pytest.mark.parametrize("seed", range(6))
def test_no_other_nodes_cost_less(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"a{i}" for i in range(7)]
    gangs = []
    for k in range(5):
        mine = rng.sample(names, rng.randint(1, 4))
        gangs.append(running(f"g{k}", *mine, gpus=1, minimum=rng.randint(1, len(mine))))
    found = slots(*gangs, racks={"a": 7})

    def cost(cleared: tuple[str, ...]) -> int:
        total = 0
        for one in gangs:
            lost = sum(n in cleared for n in homes(one))
            spare = len(homes(one)) - one.groups[0].min_replicas
            total += lost if lost <= spare else len(homes(one))
        return total

    for count, one in enumerate(found.of(0)):
        assert one.cost == min(map(cost, combinations(names, count)))
        assert len(one.nodes) >= count


def test_of_many_nodes_in_common_the_cheapest_alone_are_tried() -> None:
    names = [f"a{i}" for i in range(12)]
    dear = running("dear", *names[4:], *names[4:], gpus=1)
    spread = running("spread", *names, gpus=1, minimum=8)
    found = slots(dear, spread, racks={"a": 12})
    assert costs(found)[:5] == [0, 1, 2, 3, 4]
    assert len(found.of(0)) == 1 + MOST_TOGETHER
