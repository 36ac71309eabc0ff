"""Gangs of parts that need roomy racks: a block with too few of these cannot hold them whole."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from placement_service.cp_sat.solving import Answer
from placement_service.entities.request import Policy
from placement_service.entities.solution import TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.heuristic.first_answer import first_answer
from placement_service.search import place_stage
from placement_service.search.blocks.problem import broadest_level
from placement_service.search.incumbent import State
from placement_service.search.master_stage import count
from placement_service.search.parameters import DEFAULTS, SearchParameters
from placement_service.search.place_stage import (
    confirm_places,
    count_places,
    least_torn,
    wide_places,
)
from tests.scenario import Group, Scenario

#: Two racks of two nodes, and two blocks of as many nodes with one such rack each.
CLUSTER = (
    "b1/r1: a1=8 a2=8 | b1/r2: a3=8 a4=8"
    " | b2/r3: c1=8 c2=8 | b2/r4: c3=8 | b2/r5: c4=8"
    " | b3/r6: d1=8 d2=8 | b3/r7: d3=8 | b3/r8: d4=8"
)

#: Parts of two nodes that need one rack each.
PARTS = [Group(name, pods=2, gpus=8, pack="rack") for name in ("left", "right")]


def counted(scenario: Scenario, parameters: SearchParameters = DEFAULTS) -> State:
    """A search that knows what can be admitted."""
    problem = formulate(scenario.snapshot(), Policy())
    late = time.monotonic() + 60
    state = State(problem, first_answer(problem), late, lambda _: None, parameters)
    count(state)
    return state


def fewest_domains(scenario: Scenario, *, by_place: bool = True) -> int:
    """What counting says of domains beyond the first, of plans that place everybody."""
    state = counted(scenario)
    if by_place:
        count_places(state)
        confirm_places(state)
    return domains_of(state)


def domains_of(state: State) -> int:
    """The bound of domains beyond the first."""
    at = next(i for i, goal in enumerate(state.goals) if goal.tier is TierName.TOPOLOGY)
    return state.bounds[at] // UNITS_PER_DOMAIN


def test_one_gang_of_such_parts_has_the_only_block_for_it() -> None:
    assert fewest_domains(Scenario(CLUSTER).gang("a", *PARTS, prefer="block")) == 0


def test_no_model_is_begun_that_would_be_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_stage, "BUILDING", 1e9)
    scenario = Scenario(CLUSTER)
    for name in "ab":
        scenario = scenario.gang(name, *PARTS, prefer="block")
    assert fewest_domains(scenario) == 0


def test_of_two_gangs_of_such_parts_one_is_split() -> None:
    scenario = Scenario(CLUSTER)
    for name in "ab":
        scenario = scenario.gang(name, *PARTS, prefer="block")
    # By nodes alone there is a block for each.
    assert fewest_domains(scenario, by_place=False) == 0
    assert fewest_domains(scenario) == 1
    assert scenario.place().solution.proven


def test_a_gang_that_needs_a_block_takes_it_from_one_that_prefers_one() -> None:
    scenario = Scenario(CLUSTER).gang("a", *PARTS, pack="block")
    assert fewest_domains(scenario) == 0
    assert fewest_domains(scenario.gang("b", *PARTS, prefer="block")) == 1


def test_a_node_without_a_block_is_a_place_as_well() -> None:
    scenario = Scenario("b1/r1: a1=8 | -/r2: e1=8")
    for name in "ab":
        scenario = scenario.gang(name, pods=1, gpus=8, prefer="block")
    assert fewest_domains(scenario) == 0


#: Racks for parts of two nodes by block: two, one, one, one, one.
NARROW = "b1/r1: a1=8 a2=8 | b1/r2: a3=8 a4=8 | " + " | ".join(
    f"b{b}/r{b}0: x{b}1=8 x{b}2=8 | b{b}/r{b}1: x{b}3=8 | b{b}/r{b}2: x{b}4=8" for b in range(2, 6)
)

#: Three parts of two nodes.
THREE = [Group(name, pods=2, gpus=8, pack="rack") for name in ("left", "middle", "right")]


def test_a_gang_uses_as_many_blocks_as_its_parts_need() -> None:
    narrow = NARROW.split(" | ", 2)[2]
    scenario = Scenario(narrow).gang("a", *THREE, prefer="block")
    assert fewest_domains(scenario) == 2
    assert scenario.place().solution.proven


def test_gangs_of_many_parts_take_roomy_blocks_from_each_other() -> None:
    scenario = Scenario(NARROW).gang("a", *THREE, prefer="block")
    assert fewest_domains(scenario) == 1
    # Two blocks would do for each alone; together they have two and one, and three of one.
    assert fewest_domains(scenario.gang("b", *THREE, prefer="block")) == 3


def test_a_gang_of_one_part_takes_a_rack_from_a_gang_of_many() -> None:
    scenario = Scenario(NARROW.rsplit(" | ", 3)[0]).gang("a", *THREE, prefer="block")
    scenario = scenario.gang("one", THREE[0], prefer="block")
    scenario = scenario.gang("other", THREE[0], prefer="block")
    # Five such racks, four blocks, and three parts in any two of them.
    assert fewest_domains(scenario) == 1


def test_it_names_a_gang_that_is_split_in_the_best_plan() -> None:
    scenario = Scenario(CLUSTER)
    for name in "ab":
        scenario = scenario.gang(name, *PARTS, prefer="block")
    state = counted(scenario)
    torn = least_torn(state, broadest_level(state), wide=False)
    assert torn is not None
    assert len(torn.gangs) == 1
    assert domains_of(state) == 1
    # No gang is larger than all blocks, so there is nothing more to ask.
    assert least_torn(state, broadest_level(state), wide=True) is None


def test_of_gangs_worth_the_same_it_takes_those_that_need_fewer_domains() -> None:
    # There is room for one of them, and only the first block has racks for all of "near".
    racks = "b1/r1: a1=8 a2=8 | b1/r2: a3=8 | b1/r3: a4=8 | b2/r4: c1=8 c2=8"
    scenario = Scenario(racks).gang("apart", *PARTS, prefer="block")
    scenario = scenario.gang("near", PARTS[0], Group("single", pods=2, gpus=8), prefer="block")
    state = counted(scenario)
    apart, near = (g.index for g in state.problem.gangs)
    state.target = (apart,)
    torn = least_torn(state, broadest_level(state), wide=False)
    assert torn is not None
    assert not torn.gangs
    assert state.target == (near,)


def test_it_names_the_blocks_of_a_gang_that_none_can_hold() -> None:
    scenario = Scenario(NARROW).gang("a", *THREE, prefer="block")
    state = counted(scenario.gang("whole", *PARTS, prefer="block"))
    torn = least_torn(state, broadest_level(state), wide=True)
    assert torn is not None
    # Only the first block has room for two such parts, and of the others each has it for one.
    (blocks,) = torn.places.values()
    assert len(blocks) == 3
    assert 0 not in blocks
    assert not torn.gangs
    assert domains_of(state) == 2


def test_gangs_that_no_block_can_hold_are_counted_alone_first() -> None:
    scenario = Scenario(NARROW).gang("a", *THREE, prefer="block")
    state = counted(scenario.gang("whole", *PARTS, prefer="block"))
    torn = wide_places(state, broadest_level(state))
    assert torn is not None
    # The other gang does not keep it out of the first block, which holds two of its parts.
    (blocks,) = torn.places.values()
    assert len(blocks) == 2
    assert 0 in blocks
    assert domains_of(state) == 1


def test_gangs_of_many_parts_are_bounded_together_when_counted_alone() -> None:
    scenario = Scenario(NARROW).gang("a", *THREE, prefer="block")
    state = counted(scenario.gang("b", *THREE, prefer="block"))
    assert wide_places(state, broadest_level(state)) is not None
    assert domains_of(state) == 3


def test_where_a_block_can_hold_each_gang_none_is_counted_alone() -> None:
    scenario = Scenario(CLUSTER)
    for name in "ab":
        scenario = scenario.gang(name, *PARTS, prefer="block")
    state = counted(scenario)
    assert wide_places(state, broadest_level(state)) is None


def test_what_takes_long_to_count_is_not_asked() -> None:
    scenario = Scenario(CLUSTER)
    for name in "ab":
        scenario = scenario.gang(name, *PARTS, prefer="block")
    few = replace(DEFAULTS, place_torn_ways=0)
    state = counted(scenario, few)
    assert least_torn(state, broadest_level(state), wide=False) is None


def test_who_is_torn_is_named_with_more_time_where_a_brief_count_settles_nothing() -> None:
    scenario = Scenario(CLUSTER)
    for name in "ab":
        scenario = scenario.gang(name, *PARTS, prefer="block")
    state = counted(scenario, replace(DEFAULTS, place_torn_brief_effort=0.0))
    assert least_torn(state, broadest_level(state)) is None
    torn = least_torn(state, broadest_level(state), longer=True)
    assert torn is not None
    assert len(torn.gangs) == 1


def test_with_more_time_few_gangs_torn_will_do_where_the_fewest_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = counted(Scenario(CLUSTER).gang("a", *PARTS, prefer="block"))
    level = broadest_level(state)
    some = Answer(None, 1000, 0, proven=False)
    monkeypatch.setattr(place_stage, "_fewest", lambda *_, **__: some)
    assert least_torn(state, level) is None
    assert least_torn(state, level, longer=True) is not None


def test_a_gang_that_is_not_in_the_only_place_for_it_uses_all_others() -> None:
    """Each of two alone lies whole; of both one is in three racks, which is two more than one."""
    scenario = Scenario("b1/r1: a1=8 a2=8 a3=8 | b1/r2: c1=8 | b1/r3: d1=8 | b1/r4: e1=8")
    for name in "ab":
        scenario = scenario.gang(name, pods=3, gpus=8, prefer="rack")
    assert fewest_domains(scenario, by_place=False) == 1
    assert fewest_domains(scenario) == 2
