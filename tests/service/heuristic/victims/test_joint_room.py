"""Several gangs find room at once, and who is in their way runs elsewhere."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest

from placement_service.entities.request import Node, PackingScope, PodGang, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import NamedPlan, name_plan
from placement_service.formulation.objective import to_solution
from placement_service.formulation.prepare import prepare
from placement_service.heuristic import first_answer
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims.joint_room import joint_room
from placement_service.judge.verify import verify
from tests.service.evictions import REPACK, running
from tests.service.questions import GPU, gang, node

RACK, BLOCK = "rack", "block"


def nodes_of(racks: dict[str, int], *gangs: PodGang) -> tuple[Node, ...]:
    """Nodes of racks of so many, named a0, a1 and so on; racks a to c are of one block."""
    used = {f"{r}{i}": 0 for r, count in racks.items() for i in range(count)}
    for one in gangs:
        for pod in one.groups[0].running_pods:
            gpus = one.groups[0].pod_sets[0].template.requests[GPU]
            used[pod.node.removeprefix("nodes/")] += gpus
    return tuple(
        node(n, used=gpus, rack=n[0], block="1" if n[0] in "abc" else "2")
        for n, gpus in used.items()
    )


def waiting(name: str, pods: int, level: str = "") -> PodGang:
    one = replace(gang(name, pods=pods, gpus=8), priority=100)
    scopes = (PackingScope("all", ("worker",), level),) if level else ()
    return replace(one, packing_scopes=scopes)


def fixed(*nodes: str, gpus: int) -> PodGang:
    """A gang that has to stay."""
    return replace(running(f"fixed-{nodes[0]}", *nodes, gpus=gpus), not_preemptible=True)


def plan_of(racks: dict[str, int], runs: list[PodGang], waits: list[PodGang]) -> NamedPlan | None:
    """The plan in names; it keeps every rule."""
    question = Snapshot(nodes_of(racks, *runs), (*runs, *waits))
    prepared = prepare(question, REPACK)
    problem = formulate(question, REPACK, prepared)
    plan = joint_room(Builder(problem), until=math.inf)
    if plan is None:
        return None
    named = name_plan(question, REPACK, prepared, to_solution(problem, plan).assignments)
    assert not verify(question, REPACK, *named)
    return named


def moved(plan: NamedPlan | None) -> list[str]:
    assert plan is not None
    return sorted(e.gang.rsplit("/", 1)[1] for e in plan.evictions)


def racks_of(plan: NamedPlan | None, name: str) -> set[str]:
    assert plan is not None
    return {b.node.removeprefix("nodes/")[0] for b in plan.bindings if b.gang.endswith(name)}


def test_gangs_share_out_the_domains() -> None:
    """Rack a is free; b is cheap for the small gang, c dear for the large one."""
    runs = [
        running("cheap", "b0", gpus=1),
        running("dear", "c0", "c1", "c2", gpus=4),
        fixed("b2", gpus=8),
    ]
    waits = [waiting("small", 2, RACK), waiting("large", 3, RACK)]
    plan = plan_of({"a": 3, "b": 3, "c": 3, "d": 1}, runs, waits)
    assert moved(plan) == ["cheap"]
    assert racks_of(plan, "large") == {"a"}
    assert racks_of(plan, "small") == {"b"}


def test_what_a_gang_spares_is_divided_among_domains() -> None:
    """One extra serves one rack; the other has to do with the small gang."""
    runs = [
        running("elastic", "a0", "b0", "c0", gpus=4, minimum=2),
        running("lone", "b1", gpus=4),
        fixed("c1", "d1", gpus=6),
    ]
    waits = [waiting("one", 1, RACK), waiting("two", 1, RACK), waiting("three", 1, RACK)]
    plan = plan_of({"a": 1, "b": 2, "c": 2, "d": 2}, runs, waits)
    assert moved(plan) == ["elastic", "lone"]


def test_a_gang_that_moves_to_another_domain_claims_it() -> None:
    """Only rack a has three nodes; who needs two together there goes to rack b."""
    bound = replace(
        running("bound", "a0", "a1", gpus=8),
        packing_scopes=(PackingScope("all", ("worker",), RACK),),
    )
    runs = [bound, fixed("c1", "d0", gpus=5)]
    waits = [waiting("three", 3, RACK), waiting("one", 1, RACK)]
    plan = plan_of({"a": 3, "b": 2, "c": 2, "d": 1}, runs, waits)
    assert moved(plan) == ["bound", "bound"]
    assert plan is not None
    assert {e.to_node for e in plan.evictions} == {"nodes/b0", "nodes/b1"}
    assert racks_of(plan, "one") == {"c"}


def test_a_gang_without_another_place_stays() -> None:
    """The large pod is the cheapest to move, and no node has room for it."""
    runs = [
        running("large", "a0", gpus=7),
        running("small", "b0", "b0", "b0", gpus=2),
        running("cheap", "c0", gpus=2),
        fixed("e0", gpus=2),
        fixed("f0", gpus=6),
    ]
    waits = [waiting("one", 1, RACK), waiting("two", 1, RACK)]
    plan = plan_of({"a": 1, "b": 1, "c": 1, "e": 1, "f": 1}, runs, waits)
    assert moved(plan) == ["cheap", "small", "small", "small"]


def test_a_broad_domain_holds_what_is_left() -> None:
    runs = [running("cheap", "d0", gpus=1), running("rest", "e0", gpus=1)]
    waits = [waiting("narrow", 2, RACK), waiting("broad", 4, BLOCK), waiting("any", 1)]
    plan = plan_of({"a": 2, "b": 2, "d": 3, "e": 1}, runs, waits)
    assert racks_of(plan, "broad") == {"a", "b"}
    assert racks_of(plan, "narrow") == {"d"}
    assert len(moved(plan)) == 1


def test_one_gang_needs_no_joint_choice() -> None:
    assert plan_of({"a": 2}, [running("one", "a0")], [waiting("new", 1, RACK)]) is None


def test_nothing_is_found_at_a_level_that_no_node_has() -> None:
    runs = [running("old", "a0", gpus=4), running("other", "a1", gpus=4)]
    waits = [waiting("one", 1, "hall"), waiting("two", 1, "hall"), waiting("three", 1)]
    assert plan_of({"a": 3}, runs, waits) is None


def test_nothing_is_found_without_time() -> None:
    runs = [running("one", "a0", gpus=1)]
    waits = [waiting("new", 1, RACK), waiting("other", 1, RACK)]
    question = Snapshot(nodes_of({"a": 3}, *runs), (*runs, *waits))
    problem = formulate(question, REPACK, prepare(question, REPACK))
    assert joint_room(Builder(problem), until=0.0) is None
    assert joint_room(Builder(problem), until=math.inf) is not None


def test_the_first_answer_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def noted(builder: Builder, *, until: float) -> None:
        asked.append(until)

    monkeypatch.setattr(first_answer, "joint_room", noted)
    runs = [running("one", "a0", gpus=1)]
    waits = [waiting("new", 2, RACK), waiting("other", 1, RACK)]
    question = Snapshot(nodes_of({"a": 2, "b": 1}, *runs), (*runs, *waits))
    problem = formulate(question, REPACK, prepare(question, REPACK))
    begin = time.monotonic()
    first_answer.first_answer(problem, deadline=begin + 80.0)
    # After half of the time it is given up.
    assert asked == [pytest.approx(begin + 40.0, abs=5.0)]
