"""All blocks at once: what an outline leaves out, and what comes of it."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest

from bench.instances import Instance
from placement_service.cp_sat.block_contents import Filled
from placement_service.entities.pod_assignment import name_pods
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.verify import verify
from placement_service.search.block_outline import from_outline
from placement_service.search.block_problem import BlockProblem
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.parameters import DEFAULTS, SearchParameters

CROWDED = Instance("mix", {"blocks": 4, "gangs": 50, "load": 1.2}, seed=2)

INSTANCES = [
    pytest.param(CROWDED, id="overload"),
    pytest.param(Instance("pools", {"blocks": 2, "gangs": 20, "scattered": 1}), id="pools"),
    pytest.param(Instance("rack_parts", {"blocks": 3, "gangs": 30}), id="only parts of racks"),
]


def counted(instance: Instance, parameters: SearchParameters = DEFAULTS) -> State:
    """A search that knows its bounds, its target and a first plan."""
    problem = formulate(instance.snapshot(), Policy())
    start = first_answer(problem)
    state = State(problem, start, time.monotonic() + 60, lambda _: None, parameters)
    count(state)
    return state


@pytest.mark.parametrize("instance", INSTANCES)
def test_a_rough_model_takes_whatever_lies_in_blocks(instance: Instance) -> None:
    mine = BlockProblem(counted(instance))
    plan = mine.encoded()
    assert rough(mine, plan.whole) is not None


def test_a_rough_model_knows_how_many_racks_are_large_enough() -> None:
    mine = BlockProblem(counted(CROWDED))
    sizes = [max((k.size for k, _ in c.shape.kinds), default=0) for c in mine.classes]
    c = max(range(len(sizes)), key=lambda c: sizes[c])
    block = mine.blocks.order[0]
    racks = mine.blocks.racks.items()
    able = sum(len(r) for s, r in racks if s.block == block and s.capacity >= sizes[c])
    assert rough(mine, {(c, block): 1}) is not None
    mine.classes[c].gangs *= able + 1
    assert rough(mine, {(c, block): able + 1}) is None


def rough(mine: BlockProblem, held: dict[tuple[int, int], int]) -> Filled | None:
    """A model of all blocks that says what racks hold by rounding, with gangs held in blocks."""
    model = mine.model(mine.blocks.order, mine.everybody, held=held, pooled=True, rough=True)
    return model.solve([], maximize=True, seconds=60, effort=5)


def test_what_comes_of_an_outline_reaches_every_bound_and_obeys_every_rule() -> None:
    state = counted(CROWDED)
    assert not state.proven
    mine = BlockProblem(state)
    found = from_outline(mine, random.Random(1))
    assert found is not None
    mine.take(found)
    assert state.proven
    bindings = name_pods(CROWDED.snapshot(), state.solution().assignments)
    assert not verify(CROWDED.snapshot(), Policy(), bindings)


def test_nothing_comes_of_an_outline_without_effort() -> None:
    state = counted(CROWDED, replace(DEFAULTS, block_outline_effort=0.0))
    assert from_outline(BlockProblem(state), random.Random(1)) is None
