"""Gangs and parts that count as one kind, and those that must stay apart."""

from __future__ import annotations

import pytest

from placement_service.cp_sat.aggregate.part_types import Content, Kind, Kinds
from placement_service.formulation.formulate import formulate
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.master_stage import count
from tests.scenario import Scenario
from tests.service.cp_sat.aggregate.asking import (
    POLICY,
    after,
    counted,
    judged,
    rack,
    values_and_bounds,
)


def test_gangs_alike_but_in_name_are_one_group_and_their_parts_one_kind() -> None:
    scenario = Scenario(" | ".join(rack(f"r{i}", 4) for i in range(3)))
    for i in range(5):
        scenario = scenario.gang(f"g{i}", pods=2, gpus=8, pack="rack")
    problem = formulate(scenario.snapshot(), POLICY)

    kinds = Kinds(*counted(problem), problem.gangs, {})

    assert [len(group.gangs) for group in kinds.groups] == [5]
    assert len(kinds.kinds) == 1


def test_a_base_and_its_scaled_gang_stay_apart_though_they_ask_for_the_same() -> None:
    scenario = (
        Scenario(f"{rack('r1', 4)} | {rack('r2', 4)}")
        .gang("base", pods=2, gpus=8, pack="rack")
        .gang("scaled", pods=2, gpus=8, pack="rack", base="base")
    )
    problem = formulate(scenario.snapshot(), POLICY)

    kinds = Kinds(*counted(problem), problem.gangs, {})

    assert [group.gangs for group in kinds.groups] == [[0], [1]]
    assert values_and_bounds(after(scenario, count, settle_aggregate).solution()) == [
        (32, 32),
        (0, 0),
        (0, 0),
    ]


@pytest.mark.parametrize(
    ("bound", "apart"),
    [((), 1), ((5,), 1), ((5, 6), 1), ((5, 6, 7), 2), ((-9,), 0)],
    ids=["nothing", "a rack", "two racks", "three racks", "a node in no rack"],
)
def test_a_part_that_is_split_costs_no_more_than_it_must(
    bound: tuple[int, ...], apart: int
) -> None:
    nothing = Content((), ())
    kind = Kind(
        at=0,
        preferred=1,
        pin=-1,
        running=bound,
        fixed=max(0, len(bound) - 1),
        least=max(1, len(bound)),
        apart=nothing,
        whole=nothing,
    )

    assert kind.cost_apart == apart


def test_sets_near_at_different_levels_are_no_family_though_their_bases_ask_for_the_same() -> None:
    # To a base of one pod a preferred level says nothing, but to its set it does.
    scenario = (
        Scenario("b1/r1: x1=8 | b1/r2: x2=8 | b1/r3: x3=8 x4=8")
        .gang("wide", pods=1, gpus=8, prefer="block")
        .gang("wide-x", pods=1, gpus=8, base="wide")
        .gang("narrow", pods=1, gpus=8, prefer="rack")
        .gang("narrow-x", pods=1, gpus=8, base="narrow")
        .gang("free", pods=1, gpus=8)
        .gang("free-x", pods=1, gpus=8, base="free")
    )
    problem = formulate(scenario.snapshot(), POLICY)

    kinds = Kinds(*counted(problem), problem.gangs, {})
    state = after(scenario, settle_aggregate, plan={})

    assert [len(family.sets) for family in kinds.families] == [1, 1, 1]
    judged(state)
    assert values_and_bounds(state.solution()) == [(32, 32), (0, 0), (0, 0)]
