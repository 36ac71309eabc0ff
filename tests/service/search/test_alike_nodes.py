"""Nodes that are alike but for a few pods that avoid some of them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from bench.instances import Instance
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.queues import GPUS
from placement_service.entities.request import (
    Policy,
    Snapshot,
)
from placement_service.entities.solution import Assignment, Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from placement_service.search import alike_nodes as module
from placement_service.search import node_places
from placement_service.search.alike_nodes import NoPlaces, alike_nodes
from placement_service.search.engine import prepare, search
from placement_service.search.parameters import DEFAULTS
from tests.avoiding import avoiding
from tests.placed import solve
from tests.scenario import Group, Scenario, spread
from tests.waiting import LONG

POLICY = Policy(deterministic=True)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few pods avoid nodes, and however many of a group."""
    monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(module, "AVOIDED", 1.0)
    monkeypatch.setattr(module, "LEFT", 1.0)


def at(**nodes: str) -> tuple[Assignment, ...]:
    """One pod of each gang, in order, on a node named ``x1``, ``x2`` and so on."""
    return tuple(
        sorted(Assignment(g, 0, 0, int(n[1:]) - 1, 1) for g, n in enumerate(nodes.values()))
    )


def answer(problem: Problem, where: tuple[Assignment, ...]) -> Solution:
    return replace(to_solution(problem, {}), assignments=where)


def lies(scenario: Scenario, **nodes: str) -> dict[str, str]:
    """Where gangs lie once everybody may be there; raises NoPlaces."""
    problem = formulate(scenario.snapshot(), POLICY)
    alike = alike_nodes(problem)
    assert alike is not None
    found = alike.exchanged(answer(problem, at(**nodes)))
    names = list(nodes)
    return {names[a.gang]: f"x{a.node + 1}" for a in found.assignments}


RACK = "r1: x1=8 x2=8 x3=8"


@pytest.mark.usefixtures("always")
class TestExchange:
    """What lies on nodes of a group changes places."""

    def test_an_empty_node_is_enough(self) -> None:
        scenario = Scenario(RACK).gang("a", Group("w", 1, 8, asks=avoiding("x1")))
        assert lies(scenario, a="x1")["a"] in ("x2", "x3")

    def test_two_change_places(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8").gang("a", Group("w", 1, 8, asks=avoiding("x1")))
        scenario = scenario.gang("b", Group("w", 1, 8))
        assert lies(scenario, a="x1", b="x2") == {"a": "x2", "b": "x1"}

    def test_three_change_places(self) -> None:
        scenario = Scenario(RACK).gang("a", Group("w", 1, 8, asks=avoiding("x1", "x3")))
        scenario = scenario.gang("b", Group("w", 1, 8, asks=avoiding("x1")))
        scenario = scenario.gang("c", Group("w", 1, 8, asks=avoiding("x2")))
        assert lies(scenario, a="x1", b="x2", c="x3") == {"a": "x2", "b": "x3", "c": "x1"}

    def test_what_is_where_it_may_be_stays(self) -> None:
        scenario = Scenario(RACK).gang("a", Group("w", 1, 8, asks=avoiding("x1")))
        assert lies(scenario, a="x3") == {"a": "x3"}

    def test_pods_of_a_node_stay_together(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8").gang("a", Group("w", 1, 4, asks=avoiding("x1")))
        scenario = scenario.gang("b", Group("w", 1, 4))
        assert lies(scenario, a="x1", b="x1") == {"a": "x2", "b": "x2"}

    def test_nodes_with_other_room_are_not_alike(self) -> None:
        scenario = Scenario("r1: x1=8 x2=4/8 x3=8").gang("a", Group("w", 1, 4, asks=avoiding("x1")))
        assert lies(scenario, a="x1") == {"a": "x3"}

    def test_a_gang_stays_in_the_domain_that_it_names(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8")
        scenario = scenario.gang("a", Group("w", 1, 8, prefer="rack", asks=avoiding("x1")))
        scenario = scenario.gang("b", Group("w", 1, 8))
        assert lies(scenario, a="x1", b="x2") == {"a": "x2", "b": "x1"}

    def test_a_gang_that_names_none_may_leave_it(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8")
        scenario = scenario.gang("a", Group("w", 1, 8, asks=avoiding("x1")))
        scenario = scenario.gang("b", Group("w", 1, 8, pack="rack", asks=avoiding("x1")))
        assert lies(scenario, a="x1", b="x2") == {"a": "x3", "b": "x2"}

    def test_nodes_and_domains_that_are_no_longer_whole_are_counted_anew(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8").gang(
            "a", Group("w", 1, 8, asks=avoiding("x1"))
        )
        scenario = scenario.gang("b", Group("w", 1, 8, pack="rack", asks=avoiding("x1")))
        snapshot = scenario.snapshot()
        problem = formulate(snapshot, POLICY)
        alike = alike_nodes(problem)
        assert alike is not None
        found = alike.exchanged(answer(problem, at(a="x1", b="x2")))
        told = {tier.name: tier.value for tier in found.tiers}
        judged = score(snapshot, POLICY, name_pods(snapshot, found.assignments))
        # Both nodes that are used, and all three of both racks.
        assert told[TierName.FRAGMENTATION] == judged.value(TierName.FRAGMENTATION) == 5

    def test_gangs_that_used_nodes_before_stay(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8").gang("a", Group("w", 1, 8, asks=avoiding("x1")))
        scenario = scenario.gang("b", Group("w", 1, 8), previous=("x2",))
        with pytest.raises(NoPlaces):
            lies(scenario, a="x1", b="x2")

    def test_where_there_is_no_place_the_question_is_less_loose_from_then_on(self) -> None:
        scenario = Scenario("r1: x1=8 x2=8").gang("a", Group("w", 1, 8, asks=avoiding("x1")))
        scenario = scenario.gang("b", Group("w", 1, 8, asks=avoiding("x1")))
        problem = formulate(scenario.snapshot(), POLICY)
        alike = alike_nodes(problem)
        assert alike is not None
        assert alike.loose.eligible.all()
        with pytest.raises(NoPlaces):
            alike.exchanged(answer(problem, at(a="x1", b="x2")))
        assert (alike.loose.eligible == problem.eligible).all()
        (final,) = solve(scenario.snapshot(), POLICY)[-1:]
        assert final.proven
        assert len(final.assignments) == 1

    def test_who_needs_all_nodes_of_a_group_and_avoids_one_waits(self) -> None:
        scenario = Scenario(RACK).gang("a", Group("w", 3, 8, pack="rack", asks=avoiding("x1")))
        scenario = scenario.gang("b", Group("w", 2, 8, pack="rack", asks=avoiding("x2")))
        scenario.place().expect(placed=("b",), admitted=16)

    def test_pods_that_then_ask_for_the_same_are_of_one_class(self) -> None:
        scenario = Scenario(RACK).queue("q", limit={GPUS: 20})
        for name, host in (("a", "x1"), ("b", "x2"), ("c", "x3")):
            scenario = scenario.gang(name, Group("w", 1, 8, asks=avoiding(host)), queue="q")
        alike = alike_nodes(formulate(scenario.snapshot(), POLICY))
        assert alike is not None
        assert alike.loose.class_count == 1
        assert [len(row.weight) for row in alike.loose.queue_rows] == [1]
        scenario.place().expect(admitted=16)


def looser(scenario: Scenario) -> list[list[bool]]:
    """Which pod classes may use which nodes in the looser question."""
    alike = alike_nodes(formulate(scenario.snapshot(), POLICY))
    assert alike is not None
    found: list[list[bool]] = alike.loose.eligible.tolist()
    return found


@pytest.mark.usefixtures("always")
def test_gangs_with_previous_nodes_avoid_what_they_avoid() -> None:
    scenario = Scenario(RACK).gang("a", Group("w", 1, 8, asks=avoiding("x1")), previous=("x2",))
    scenario = scenario.gang("b", Group("w", 1, 4, asks=avoiding("x2")))
    assert looser(scenario) == [[False, True, True], [True, True, True]]


@pytest.mark.usefixtures("always")
def test_pods_under_a_rule_across_nodes_avoid_what_they_avoid_and_stay_apart() -> None:
    even = (spread("rack", app="a"),)
    scenario = Scenario("r1: x1=8 x2=8 | r2: x3=8 x4=8")
    asks = avoiding("x1")
    group = Group("w", 1, 8, labels={"app": "a"}, spread=even, asks=asks)
    scenario = scenario.gang("a", group).gang("b", Group("w", 1, 8, asks=avoiding("x2")))
    scenario = scenario.gang("c", Group("w", 1, 8, asks=avoiding("x3")))
    assert looser(scenario) == [[False, True, True, True], [True] * 4, [True] * 4]


def test_a_node_that_most_pods_avoid_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one with a taint."""
    monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(module, "LEFT", 1.0)
    scenario = Scenario("r1: x1=8 x2=8 x3=8 x4=8 x5=8")
    for name, hosts in (("a", ("x1", "x2")), ("b", ("x1", "x3")), ("c", ("x1",)), ("d", ())):
        scenario = scenario.gang(name, Group("w", 1, 8, asks=avoiding(*hosts) if hosts else {}))
    assert looser(scenario) == [[False, True, True, True, True], [True] * 5]


def test_few_sorts_of_pods_are_no_trouble() -> None:
    scenario = Scenario(RACK).gang("a", Group("w", 1, 8, asks=avoiding("x1")))
    assert alike_nodes(formulate(scenario.snapshot(), POLICY)) is None


@pytest.mark.usefixtures("always")
def test_the_room_of_victims_is_not_for_everybody() -> None:
    scenario = Scenario("r1: x1=4/8 x2=8").gang("v", Group("w", told=("x1",), gpus=4))
    scenario = scenario.gang("a", Group("w", 1, 8, asks=avoiding("x1")), priority=1)
    policy = Policy(eviction=EvictionPolicy.PREEMPT)
    assert alike_nodes(formulate(scenario.snapshot(), policy)) is None


@pytest.fixture(scope="module")
def large() -> Snapshot:
    """Three blocks, and gangs that avoid three nodes each."""
    return Instance("mix", {"blocks": 3, "racks": 6, "gangs": 30, "avoid": 3}).snapshot()


@pytest.mark.parametrize("ahead", [False, True])
def test_gangs_that_avoid_nodes_are_placed_as_if_they_did_not(large: Snapshot, ahead: bool) -> None:
    problem = formulate(large, POLICY)
    assert alike_nodes(problem) is not None
    deadline = time.monotonic() + LONG
    start = to_solution(problem, {})
    told: list[Solution] = []
    ground = prepare(problem, deadline=deadline) if ahead else None
    final = search(problem, start, deadline=deadline, report=told.append, prepared=ground)
    assert final.proven
    for one in (*told, final):
        assert verify(large, POLICY, name_pods(large, one.assignments)) == ()
    assert sum(a.pods for a in final.assignments) > 0
    values = [[tier.value for tier in one.tiers[:3]] for one in told]
    assert values == sorted(values)


def test_where_no_try_finds_places_the_question_is_asked_as_it_is(
    large: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(self: object, solution: Solution) -> Solution:
        raise NoPlaces

    monkeypatch.setattr(module.AlikeNodes, "exchanged", none)
    *_, final = solve(large, POLICY, seconds=5)
    assert verify(large, POLICY, name_pods(large, final.assignments)) == ()
    (admitted, *_) = final.tiers
    assert admitted.proven


@pytest.mark.usefixtures("always")
def test_not_too_many_change_places(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(RACK).gang("a", Group("w", 1, 8, asks=avoiding("x1", "x3")))
    scenario = scenario.gang("b", Group("w", 1, 8, asks=avoiding("x1")))
    scenario = scenario.gang("c", Group("w", 1, 8, asks=avoiding("x2")))
    monkeypatch.setattr(node_places, "MOST_MOVED", 1)
    with pytest.raises(NoPlaces):
        lies(scenario, a="x1", b="x2", c="x3")


def test_bounds_are_kept_where_a_plan_finds_no_places(
    large: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_nothing(self: object, solution: Solution) -> Solution:
        if solution.assignments:
            raise NoPlaces
        return solution

    monkeypatch.setattr(module.AlikeNodes, "exchanged", only_nothing)
    problem = formulate(large, POLICY)
    start, told = to_solution(problem, {}), list[Solution]()
    parameters = replace(DEFAULTS, alike_attempts=1)
    deadline = time.monotonic() + 3
    search(problem, start, deadline=deadline, report=told.append, parameters=parameters)
    bounds = [solution.tiers[0].bound or 0.0 for solution in told]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < bounds[0]
