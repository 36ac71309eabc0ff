"""Filling block after block: what it finds, and that what it finds can be done."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from bench.instances import Instance
from placement_service.cp_sat.blocks.parts import MIXED, Kind
from placement_service.cp_sat.blocks.shapes import Blocks
from placement_service.entities.naming.pod_assignment import name_pods
from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import home_plan
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.score import score
from placement_service.judge.verify import verify
from placement_service.search.blocks.problem import BlockProblem, broadest_level
from placement_service.search.blocks.stage import fill_blocks, told
from placement_service.search.blocks.swaps import BlockSwaps
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.parameters import DEFAULTS, SearchParameters
from tests.planned import Taste, planned
from tests.scenario import Scenario
from tests.service.search.block_questions import question
from tests.waiting import LONG

SMALL = {"blocks": 3, "racks": 6, "gangs": 30}

#: Enough to see that what comes of swapping is a plan.
FEW_SWAPS = replace(
    DEFAULTS,
    block_effort=0.05,
    block_rest_effort=0.1,
    block_swaps_in_vain=2,
    block_swap_effort=0.02,
)

INSTANCES = [
    pytest.param(Instance("mix", {**SMALL, "load": 1.3}), id="overload"),
    pytest.param(Instance("pools", {"blocks": 2, "gangs": 20}), id="pools of blocks"),
    pytest.param(Instance("pools", {"blocks": 2, "gangs": 20, "scattered": 1}), id="of racks"),
    pytest.param(Instance("mix", {**SMALL, "extras": 0.5, "scaled": 0.6}), id="sets and extras"),
    pytest.param(Instance("rack_parts", {"blocks": 3, "gangs": 30}), id="only parts of racks"),
]


@given(st.integers(0, 2**32))
def test_whatever_is_filled_is_a_plan_worth_what_is_claimed(seed: int) -> None:
    snapshot = question(seed)
    problem = formulate(snapshot, Policy())
    state = State(problem, first_answer(problem), time.monotonic() + 60, lambda _: None, FEW_SWAPS)
    count(state)
    fill_blocks(state, anew=True)
    event(state.phase)
    solution = state.solution()
    bindings = name_pods(snapshot, solution.assignments)
    assert verify(snapshot, Policy(), bindings) == ()
    judged = score(snapshot, Policy(), bindings)
    for tier in solution.tiers:
        assert tier.value == judged.value(tier.name)
        if tier.bound is not None:
            worse = tier.value - tier.bound if tier.name.minimize else tier.bound - tier.value
            assert worse >= 0


def counted(instance: Instance, parameters: SearchParameters = FEW_SWAPS) -> State:
    """A search that knows its bounds and its target, and no plan."""
    problem = formulate(instance.snapshot(), Policy())
    start = first_answer(problem)
    state = State(problem, start, time.monotonic() + 60, lambda _: None, parameters)
    count(state)
    return state


@pytest.mark.parametrize("instance", INSTANCES)
def test_what_is_filled_obeys_every_rule(instance: Instance) -> None:
    state = counted(instance)
    fill_blocks(state, anew=True)
    bindings = name_pods(instance.snapshot(), state.solution().assignments)
    assert not verify(instance.snapshot(), Policy(), bindings)


def test_fewer_gangs_are_in_several_blocks() -> None:
    state = counted(Instance("mix", {"blocks": 5, "gangs": 60, "load": 1.0}))
    before = state.solution()
    fill_blocks(state, anew=True)
    domains = [
        next(tier.value for tier in s.tiers if tier.name is TierName.TOPOLOGY)
        for s in (before, state.solution())
    ]
    assert domains[1] < domains[0]
    assert state.packs


@pytest.mark.parametrize("instance", INSTANCES[2:4])
def test_what_is_encoded_of_a_plan_is_worth_as_much(instance: Instance) -> None:
    state = counted(instance)
    mine = BlockProblem(state)
    found = mine.encoded()
    assert mine.rank(found)[: mine.topology] == state.worth.rank[: mine.topology]
    # A model of all blocks takes it as a start.
    order = mine.blocks.order
    model = mine.model(order, mine.everybody, pooled=True)
    for c, placed in enumerate(found.placed(len(mine.classes))):
        model.hold([(model.placed[c], 1)], at_least=placed, at_most=placed)
    assert model.solve([], maximize=True, seconds=60, effort=5) is not None


def test_nothing_is_filled_when_the_time_is_over() -> None:
    state = counted(Instance("mix", {**SMALL, "load": 1.3}))
    before = state.plan
    mine = BlockProblem(state)
    state.deadline = time.monotonic()
    BlockSwaps(mine, mine.encoded()).run()
    fill_blocks(state, anew=True)
    assert state.plan is before


@pytest.mark.parametrize(("deterministic", "tries"), [(False, 10), (True, 30)])
def test_swaps_in_vain_leave_most_of_the_time_to_others(
    deterministic: bool, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless no clock may decide."""
    snapshot = Instance("mix", {**SMALL, "load": 1.3}).snapshot()
    problem = formulate(snapshot, Policy(deterministic=deterministic))
    parameters = replace(
        DEFAULTS, block_fillings_in_vain=30, block_swaps_in_vain=30, block_swaps_uncounted=99
    )
    late = time.monotonic() + 4e6
    state = State(problem, first_answer(problem), late, lambda _: None, parameters)
    count(state)
    mine = BlockProblem(state)
    tried: list[int] = []

    def fail(_: BlockSwaps, blocks: int) -> None:
        tried.append(blocks)
        state.deadline -= 1e5

    monkeypatch.setattr(BlockSwaps, "_swap", fail)
    BlockSwaps(mine, mine.encoded()).run()
    assert len(tried) == tries


def test_racks_of_one_pool_are_counted_by_pool_and_size() -> None:
    state = counted(Instance("pools", {"blocks": 2, "gangs": 20, "scattered": 1}))
    blocks = Blocks(state.counting, broadest_level(state), {})
    assert blocks.usable
    assert len({sort.pool for sort in blocks.racks}) == 3
    shapes = [blocks.shape(g) for g in state.problem.pending]
    kinds = {kind for shape in shapes if shape is not None for kind, _ in shape.kinds}
    assert Kind((0, 1, 2), 1) in kinds
    assert all(0 < kind.size <= 18 for kind in kinds)


def test_racks_of_unlike_nodes_are_told_by_the_nodes_of_each_pool() -> None:
    state = counted(Instance("cpu_shapes", {"blocks": 3, "gangs": 20}))
    blocks = Blocks(state.counting, broadest_level(state), {})
    assert blocks.usable
    assert len(blocks.mixed) > 10
    for sort, racks in blocks.racks.items():
        for rack in racks:
            assert (sort.pool == MIXED) == (rack in blocks.mixed)
            pools = Counter(blocks.pool[blocks.nodes_of[rack]].tolist())
            assert dict(sort.nodes) == pools


def test_groups_that_are_all_extras_do_no_harm() -> None:
    snapshot = planned(random.Random(5000399), Taste(nodes=4, pods=5)).snapshot
    problem = formulate(snapshot, Policy())
    start = first_answer(problem)
    state = State(problem, start, time.monotonic() + 60, lambda _: None, FEW_SWAPS)
    count(state)
    fill_blocks(state, anew=True)
    # One asks for nothing of whole nodes but extras.
    assert any(q.pending and not q.missing for g in problem.pending for q in g.requirements)


def test_extras_of_a_gang_in_several_blocks_count_in_its_queue() -> None:
    """There is room for the fourth pod, but the queue has none left for it."""
    scenario = Scenario("b1/r1: a=8 b=8 | b2/r2: c=8 d=8").queue("q", limit={"gpus": 24})
    scenario = scenario.gang("wide", pods=4, gpus=8, min=3, prefer="block", queue="q")
    problem = formulate(scenario.snapshot(), Policy())
    start = to_solution(problem, home_plan(problem))
    state = State(problem, start, time.monotonic() + 60, lambda _: None, FEW_SWAPS)
    count(state)
    mine = BlockProblem(state)
    model = mine.model(mine.blocks.order, mine.everybody, pooled=True)
    model.hold([(model.placed[0], 1)], at_least=1)
    found = model.solve(model.extra_units(None), maximize=True, seconds=60, effort=5)
    assert found is not None
    [part] = found.large
    assert sum(part.parts.values()) == 3
    assert not sum(part.extras.values())


def test_racks_of_very_many_pools_are_not_filled() -> None:
    problem = formulate(Instance("mix", SMALL).snapshot(), Policy())
    start, none = to_solution(problem, {}), replace(DEFAULTS, block_pools=0)
    for parameters, able in ((DEFAULTS, True), (none, False)):
        deadline = time.monotonic() + LONG
        state = State(problem, start, deadline, lambda solution: None, parameters)
        assert (told(state) is not None) is able
