"""Gangs that went come home where the gang in their place has a cheaper one."""

from __future__ import annotations

from placement_service.entities.request import PodGang, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.plan import home_plan
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import UnitsOnNode
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims.make_room import spare_victims
from tests.service.evictions import PREEMPT, new, running
from tests.service.questions import node


def spared(*gangs: PodGang, racks: str) -> list[str]:
    """Who runs at home in the end, where at first the gang that waits is on the first node."""
    nodes = tuple(node(f"n{i}", used=8, rack=rack) for i, rack in enumerate(racks))
    snapshot = Snapshot(nodes, gangs)
    problem = formulate(snapshot, PREEMPT, prepare(snapshot, PREEMPT))
    [waits] = [g for g in problem.pending if not g.home]
    home = home_plan(problem)
    plan = {i: u for i, u in home.items() if all(n != 0 for _, n, _ in u)}
    plan[waits.index] = (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)
    found = spare_victims(Builder(problem), plan, until=float("inf"))
    assert waits.index in found
    return sorted(snapshot.gangs[i].name for i in found if home.get(i) == found[i])


PAIR = running("pair", "n0", "n0", gpus=4)
ONE = running("one", "n1", gpus=8)


def test_the_gang_in_the_place_of_a_dear_one_takes_another_node() -> None:
    assert spared(PAIR, ONE, new(1), racks="aa") == [PAIR.name]


def test_nothing_changes_where_that_costs_more() -> None:
    first, second = running("first", "n0", gpus=8), running("second", "n1", "n1", gpus=4)
    assert spared(first, second, new(1), racks="aa") == [second.name]


def test_a_gang_takes_another_domain_where_its_own_has_no_other_node() -> None:
    assert spared(PAIR, ONE, new(1, "rack"), racks="ab") == [PAIR.name]
