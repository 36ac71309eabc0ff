"""Filling domains anew: the same pods lie in fewer domains."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import pytest

from bench.instances import Instance
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan, units_of
from placement_service.judge.verify import verify
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count, decode_shared
from placement_service.search.refill.domain_filling import Content, DomainFilling
from placement_service.search.refill.stage import refill_domains
from tests.scenario import Group, Scenario, near
from tests.service.search.block_questions import domains


def begun(snapshot: Snapshot, plan: Plan | None = None) -> State:
    """A search in which it is settled who gets room, with this plan or a greedy one."""
    problem = formulate(snapshot, Policy())
    start = to_solution(problem, plan or {})
    state = State(problem, start, time.monotonic() + 60, lambda _: None)
    count(state)
    assert state.packs or decode_shared(state)
    return state


def placed(*gangs: dict[tuple[int, int], int]) -> Plan:
    """A plan of pods by demand and node."""
    return {GangIdx(g): units_of(spots) for g, spots in enumerate(gangs)}


def pods(plan: Plan) -> Counter[tuple[int, int]]:
    """How many pods of each demand of each gang are placed."""
    return sum((Counter({(g, d): n}) for g, units in plan.items() for d, _, n in units), Counter())


@pytest.mark.parametrize(
    ("load", "gangs", "before", "after"), [(1.0, 40, 3, 0), (1.0, 20, 9, 4), (1.15, 20, 8, 7)]
)
def test_the_same_pods_lie_in_fewer_domains(
    load: float, gangs: int, before: int, after: int
) -> None:
    """In all three cases no plan has less, or only one domain less."""
    sizes = {"blocks": 2, "racks": 6, "nodes": 8, "gangs": gangs, "load": load}
    snapshot = Instance("shared", sizes, 1).snapshot()
    state = begun(snapshot)
    there = pods(state.plan)
    assert domains(state) == before
    refill_domains(state)
    assert domains(state) == after
    assert state.refilled
    assert pods(state.plan) == there
    solution = to_solution(state.problem, state.plan)
    assert not verify(snapshot, Policy(), name_pods(snapshot, solution.assignments))


def adding_up(beside: str = "") -> Scenario:
    """Two racks of ten GPUs, and gangs that add up to them."""
    asked = Scenario(f"b/r1: x1=8 x2=2 | b/r2: x3=8 x4=2 {beside}")
    for i, pods in enumerate((7, 6, 4, 3)):
        asked = asked.gang(f"g{i}", pods=pods, gpus=1, prefer="rack")
    return asked


#: The third of them is split.
SPLIT = {(0, 0): 7}, {(0, 2): 6}, {(0, 0): 1, (0, 1): 2, (0, 2): 1}, {(0, 2): 1, (0, 3): 2}


def test_gangs_that_add_up_lie_whole() -> None:
    state = begun(adding_up().snapshot(), placed(*SPLIT))
    assert domains(state) == 1
    refill_domains(state)
    assert domains(state) == 0


def test_gangs_that_say_more_of_where_they_lie_stay() -> None:
    """A gang that requires a block, and one without a level."""
    asked = adding_up("x5=4").gang("pinned", pods=1, gpus=2, pack="block", prefer="rack")
    asked = asked.gang("free", pods=1, gpus=2)
    state = begun(asked.snapshot(), placed(*SPLIT, {(0, 4): 1}, {(0, 4): 1}))
    before = state.plan
    refill_domains(state)
    assert domains(state) == 0
    assert all(state.plan[GangIdx(i)] == before[GangIdx(i)] for i in (4, 5))


def test_gangs_of_a_set_stay() -> None:
    """They belong near each other, too."""
    asked = adding_up("x5=8").gang("base", pods=1, gpus=4, prefer="rack")
    asked = asked.gang("scaled", pods=1, gpus=4, prefer="rack", base="base")
    state = begun(asked.snapshot(), placed(*SPLIT, {(0, 4): 1}, {(0, 4): 1}))
    before = state.plan
    refill_domains(state)
    assert domains(state) == 0
    assert all(state.plan[GangIdx(i)] == before[GangIdx(i)] for i in (4, 5))


def test_pods_under_a_rule_across_nodes_stay() -> None:
    """By what they ask for, both would fit into one rack."""
    asked = adding_up("x5=2 | b/r3: x6=2")
    apart = Group("p", pods=1, gpus=1, away=(near("rack", group="p"),))
    asked = asked.gang("one", apart, prefer="rack").gang("two", apart, prefer="rack")
    state = begun(asked.snapshot(), placed(*SPLIT, {(0, 4): 1}, {(0, 5): 1}))
    before = state.plan
    refill_domains(state)
    assert domains(state) == 0
    assert all(state.plan[GangIdx(i)] == before[GangIdx(i)] for i in (4, 5))


def test_a_gang_that_prefers_a_domain_for_a_part_of_it_stays() -> None:
    asked = adding_up("x5=4").gang(
        "part", Group("a", pods=1, gpus=2, prefer="rack"), Group("b", pods=1, gpus=2)
    )
    state = begun(asked.snapshot(), placed(*SPLIT, {(0, 4): 1, (1, 4): 1}))
    before = state.plan
    refill_domains(state)
    assert domains(state) == 0
    assert state.plan[GangIdx(4)] == before[GangIdx(4)]


def test_large_pods_get_nodes_before_small_ones() -> None:
    """A small pod would use the small node first, and then the fourth large one finds none."""
    asked = Scenario("b/r1: x1=7 x2=2 | b/r2: x3=7 x4=2")
    for i in range(2):
        asked = asked.gang(f"s{i}", pods=1, gpus=1, prefer="rack")
        asked = asked.gang(f"t{i}", pods=4, gpus=2, prefer="rack")
    split = {(0, 0): 1}, {(0, 0): 3, (0, 3): 1}, {(0, 2): 1}, {(0, 2): 3, (0, 1): 1}
    state = begun(asked.snapshot(), placed(*split))
    assert domains(state) == 2
    refill_domains(state)
    assert domains(state) == 0


def test_what_nodes_do_not_hold_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    state = begun(adding_up().snapshot(), placed(*SPLIT))
    before = state.plan

    def one_too_many(
        self: DomainFilling, domains: Sequence[int], content: Content, **options: object
    ) -> dict[int, Content]:
        """Eleven pods in the first rack, and nine in the second."""
        first = Counter({part: n for part, n in content.items() if part.gang in (0, 2)})
        return {0: first, 1: content - first}

    monkeypatch.setattr(DomainFilling, "fill", one_too_many)
    refill_domains(state)
    assert state.plan is before


def test_where_hardly_any_pods_share_nodes_nothing_is_filled_anew() -> None:
    asked = Scenario("b/r1: x1=8 x2=8 | b/r2: x3=8 x4=8")
    for i, pods in enumerate((1, 2, 1)):
        asked = asked.gang(f"g{i}", pods=pods, gpus=8, prefer="rack")
    split = {(0, 0): 1}, {(0, 1): 1, (0, 2): 1}, {(0, 3): 1}
    state = begun(asked.snapshot(), placed(*split))
    refill_domains(state)
    assert not state.refilled


def test_gangs_of_several_kinds_of_pods_move_with_their_extras() -> None:
    asked = Scenario("b/r1: x1=8 x2=2 | b/r2: x3=8 x4=2")
    asked = asked.gang("a", Group("l", pods=1, gpus=4), Group("s", pods=3, gpus=1), prefer="rack")
    asked = asked.gang("b", Group("l", pods=1, gpus=4), Group("s", pods=2, gpus=1), prefer="rack")
    asked = asked.gang("c", pods=1, gpus=4, prefer="rack")
    asked = asked.gang("d", Group("s", pods=3, gpus=1, min=1), prefer="rack")
    split = (
        {(0, 0): 1, (1, 0): 2, (1, 1): 1},
        {(0, 2): 1, (1, 0): 2},
        {(0, 2): 1},
        {(0, 1): 1, (0, 3): 2},
    )
    state = begun(asked.snapshot(), placed(*split))
    assert domains(state) == 2
    refill_domains(state)
    assert domains(state) == 0
    assert pods(state.plan) == pods(placed(*split))
