"""The fewest places that one gang uses, where its parts have to lie in domains inside them."""

from __future__ import annotations

import random

import pytest

from placement_service.bounds.counting import Counting
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.one_gang.domain_facts import Topology
from tests.scenario import Group, Scenario

#: Four nodes in each block, of which two share a rack.
CLUSTER = "b1/r1: a=8 b=8 | b1/r2: c=8 | b1/r3: d=8 | b2/r4: e=8 f=8 | b2/r5: g=8 | b2/r6: h=8"
PAIRS = tuple(Group(name, pods=2, gpus=8, pack="rack") for name in "uv")


def fewest(scenario: Scenario) -> int:
    problem = formulate(scenario.snapshot(), Policy())
    counting = Counting(Topology(problem))
    [gang] = problem.pending
    return counting.fewest(gang)


@pytest.mark.parametrize(("groups", "blocks"), [(1, 1), (2, 2)])
def test_parts_that_need_a_large_rack_each_use_a_block_each(groups: int, blocks: int) -> None:
    """By single nodes, one block has room for both."""
    assert fewest(Scenario(CLUSTER).gang("g", *PAIRS[:groups], prefer="block")) == blocks


def test_pods_that_no_rack_binds_use_the_nodes_of_all_racks() -> None:
    assert fewest(Scenario(CLUSTER).gang("g", pods=4, gpus=8, prefer="block")) == 1


def test_where_a_rack_lies_in_no_block_only_nodes_are_counted() -> None:
    """Each node of it is a place of its own: the gang uses three, of which two are proven."""
    drawing = "b1/r1: a=8 b=8 | b1/r2: c=8 | -/r3: d=8 e=8"
    assert fewest(Scenario(drawing).gang("g", *PAIRS, prefer="block")) == 2


def test_gangs_alike_are_counted_once_and_unlike_ones_apart() -> None:
    scenario = Scenario(CLUSTER)
    for name, groups in (
        ("one", PAIRS),
        ("other", PAIRS),
        ("loose", (Group("u", pods=4, gpus=8),)),
    ):
        scenario = scenario.gang(name, *groups, prefer="block")
    problem = formulate(scenario.snapshot(), Policy())
    counting = Counting(Topology(problem))
    # The last asks for as much, and needs no rack.
    assert [counting.fewest(gang) for gang in problem.pending] == [2, 2, 1]
    assert len(counting.known_places) == 2


def test_racks_that_cross_blocks_do_not_count() -> None:
    """One block holds the gang, though one of the two racks goes on in the other."""
    drawing = "b1/r1: a=8 b=8 | b1/r2: c=8 d=8 | b2/r1: e=8"
    assert fewest(Scenario(drawing).gang("g", *PAIRS, prefer="block")) == 1


def test_a_plan_at_random_uses_no_fewer() -> None:
    """Parts are put into racks that have room for them, and their blocks are counted."""
    rng = random.Random(1)
    tight = 0
    for _ in range(200):
        racks = [(rng.randint(1, 3), rng.randint(1, 4)) for _ in range(rng.randint(2, 6))]
        drawing = " | ".join(
            f"b{block}/r{r}: " + " ".join(f"r{r}n{n}=8" for n in range(nodes))
            for r, (block, nodes) in enumerate(racks)
        )
        sizes = [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
        free = [nodes for _, nodes in racks]
        used = set()
        for size in sizes:
            able = [r for r, room in enumerate(free) if room >= size]
            if not able:
                break
            rack = rng.choice(able)
            free[rack] -= size
            used.add(racks[rack][0])
        else:
            groups = [
                Group(f"w{i}", pods=size, gpus=8, pack="rack") for i, size in enumerate(sizes)
            ]
            counted = fewest(Scenario(drawing).gang("g", *groups, prefer="block"))
            assert counted <= len(used)
            tight += counted == len(used) > 1
    assert tight > 5
