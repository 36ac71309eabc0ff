"""Domains in which a part has no room are not tried one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import NodeIdx
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.placer import GangPlacer
from placement_service.heuristic.one_gang.regions import EVERYWHERE
from placement_service.heuristic.residual_capacity import ResidualCapacity
from tests.scenario import Group, Scenario, near, spread

RACKS = "r1: x1=8 x2=8 | r2: x3=8 x4=8 | r3: x5=8 x6=8 | r4: x7=8 x8=8"


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """What a method was called with."""
    calls: list[object] = []
    plain: Callable[..., object] = getattr(GangPlacer, name)

    def call(self: GangPlacer, *arguments: object) -> object:
        calls.append(arguments[0])
        return plain(self, *arguments)

    monkeypatch.setattr(GangPlacer, name, call)
    return calls


def placed(asked: Scenario | Snapshot) -> list[list[NodeIdx]]:
    """The nodes of each gang in turn."""
    snapshot = asked.snapshot() if isinstance(asked, Scenario) else asked
    problem = formulate(snapshot, Policy())
    topology, residual = Topology(problem), ResidualCapacity(problem)
    found: list[list[NodeIdx]] = []
    for gang in problem.pending:
        mine = GangPlacer(topology, residual, gang)
        found.append([node for _, node, _ in mine.units()] if mine.run() else [])
    return found


def domain(name: str) -> dict[str, object]:
    return {"compute_domain": name}


def test_no_domain_is_looked_for_where_none_holds_a_group_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = counted(monkeypatch, "next_domain")
    large = Group("a", pods=3, gpus=8, prefer="rack"), Group("b", pods=1, gpus=8)
    (nodes,) = placed(Scenario(RACKS).gang("g", *large, prefer="rack"))
    assert len(nodes) == 4
    # For the large group alone, not in each rack.
    assert len(looked) == 2


def test_a_group_is_not_tried_in_a_domain_without_room_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = counted(monkeypatch, "_part")
    groups = (Group(name, pods=2, gpus=8, prefer="rack") for name in "abc")
    scenario = Scenario("r1: x1=8 x2=8 | r2: x3=4 x4=8 | r3: x5=8 x6=8 | r4: x7=8 x8=8")
    (nodes,) = placed(scenario.gang("g", *groups, prefer="rack"))
    assert len(nodes) == 6
    # The whole gang, and each group once, where it fits.
    assert len(tried) == 4


def test_nodes_that_serve_another_compute_domain_have_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrowed = counted(monkeypatch, "_soft")
    scenario = Scenario(RACKS).gang("a", Group("w", pods=1, gpus=4, asks=domain("a")))
    both = (Group(name, pods=n, gpus=4, asks=domain("b")) for name, n in (("w", 2), ("v", 1)))
    scenario = scenario.gang("b", *both, pack="rack")
    first, second = placed(scenario)
    assert {n // 2 for n in second}.isdisjoint(n // 2 for n in first)
    # One rack is tried.
    assert len(narrowed) == 1


def test_pods_that_only_avoid_others_are_placed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one = counted(monkeypatch, "_one_by_one")
    scenario = Scenario(RACKS)
    for name in "ab":
        scenario = scenario.gang(name, Group("w", pods=12, gpus=1, asks=domain(name)))
    first, second = placed(scenario)
    assert not one_by_one
    assert not set(first) & set(second)
    apart = Group("w", pods=2, gpus=1, labels={"app": "c"}, away=(near("rack", app="c"),))
    (nodes,) = placed(Scenario(RACKS).gang("c", apart))
    assert not one_by_one
    assert len({node // 2 for node in nodes}) == 2


def test_pods_that_are_only_counted_are_placed_together_within_the_skew_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_by_one = counted(monkeypatch, "_one_by_one")
    even = Group("w", pods=4, gpus=1, labels={"app": "x"}, spread=(spread("rack", 2, app="x"),))
    crowd = Group("w", pods=8, gpus=1, labels={"app": "x"})
    first, second = placed(Scenario(RACKS).gang("even", even).gang("crowd", crowd))
    # The spread ones alone look at each rack again after each pod.
    assert len(one_by_one) == 1
    assert len(first) == 4
    # Each rack may have two more than the one with the fewest.
    assert {node // 2 for node in second} == {0, 1, 2, 3}


def test_pods_that_are_spread_take_one_place_in_each_domain_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = counted(monkeypatch, "_one_in_each")
    even = Group("w", pods=8, gpus=8, labels={"app": "x"}, spread=(spread("rack", app="x"),))
    (nodes,) = placed(Scenario(RACKS).gang("even", even))
    assert sorted(nodes) == list(range(8))
    assert len(looked) == 2


def test_domains_without_room_for_all_groups_together_are_not_tried() -> None:
    small = " | ".join(f"r{i}: x{i}a=8 x{i}b=8" for i in range(10))
    groups = Group("a", pods=2, gpus=6), Group("b", pods=2, gpus=4)
    (nodes,) = placed(Scenario(f"{small} | big: y1=8 y2=8 y3=8").gang("g", *groups, pack="rack"))
    assert set(nodes) == {20, 21, 22}


def test_domains_whose_overlaps_with_others_are_too_small_are_not_tried() -> None:
    """All pods need one rack, and two of them one power feed, of which each rack has two."""
    racks = " | ".join(f"r{i}: x{i}=8 y{i}=8" for i in range(9))
    groups = Group("a", pods=2, gpus=7, pack="power"), Group("b", pods=1, gpus=1)
    asked = Scenario(racks).gang("g", *groups, pack="rack")
    snapshot = asked.snapshot()
    nodes = (
        replace(n, labels={**n.labels, "power": f"p{i % 2 if i < 16 else 0}"})
        for i, n in enumerate(snapshot.nodes)
    )
    (found,) = placed(replace(snapshot, nodes=tuple(nodes)))
    assert set(found) == {16, 17}


def test_the_first_domains_for_groups_together_are_those_of_the_whole_list() -> None:
    rooms = (f"r{i}: x{i}a=8 x{i}b=8" + f" x{i}c=8" * (i % 3 == 0) for i in range(12))
    groups = Group("a", pods=2, gpus=6), Group("b", pods=2, gpus=4)
    asked = Scenario(" | ".join(rooms)).gang("g", *groups, pack="rack")
    problem = formulate(asked.snapshot(), Policy())
    (gang,) = problem.pending
    mine = GangPlacer(Topology(problem), ResidualCapacity(problem), gang)
    tree = mine.topology.tree(gang)
    assert tree is not None
    every = mine.candidates(tree, tree.required, EVERYWHERE)
    racks = [problem.levels[tree.required].values[d] for d in every]
    assert racks == ["r0", "r3", "r6", "r9"]
    for most in range(1, 6):
        assert mine.candidates(tree, tree.required, EVERYWHERE, most) == every[:most]


def test_groups_together_may_use_nodes_that_only_some_of_them_fit() -> None:
    groups = Group("a", pods=2, gpus=6), Group("b", pods=2, gpus=4)
    (nodes,) = placed(Scenario("r1: x1=6 x2=6 y1=4 y2=4").gang("g", *groups, pack="rack"))
    assert sorted(nodes) == [0, 1, 2, 3]
