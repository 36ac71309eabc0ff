"""Copies of a gang, and domains that are missing."""

from __future__ import annotations

import pytest

from placement.planning.capacity import Bounded, copies, further_domains
from placement.planning.levels import levels_of
from placement.planning.planner import Ask, Planner
from tests.planning.clusters import BLOCK, RACK, gang, node, request, resource_name


def test_a_gang_that_waits_is_its_own_first_copy(planner: Planner) -> None:
    """Racks of 5 and 4 nodes hold two gangs of 3 nodes in one rack, not three."""
    nodes = [node(f"a{i}", rack="r1") for i in range(5)]
    nodes += [node(f"b{i}", rack="r2") for i in range(4)]
    asked = request(nodes, [gang("three", 3, required=RACK)])
    found = copies(asked, resource_name("three"), planner=planner)
    assert found.copies == Bounded(2, 2)


def test_of_a_gang_that_runs_further_copies_are_counted(planner: Planner) -> None:
    asked = request([node(f"n{i}") for i in range(3)], [gang("runs", 0, on=["n0"])])
    assert copies(asked, resource_name("runs"), planner=planner).copies == Bounded(2, 2)


def test_copies_stand_beside_all_that_the_plan_places(planner: Planner) -> None:
    gangs = [gang("other", 2), gang("one", 1)]
    asked = request([node(f"n{i}") for i in range(4)], gangs)
    assert copies(asked, resource_name("one"), planner=planner).copies == Bounded(2, 2)


def test_what_does_not_fit_at_all_has_no_copies(planner: Planner) -> None:
    asked = request([node("n1")], [gang("large", 2)])
    assert copies(asked, resource_name("large"), planner=planner).copies == Bounded(0, 0)


def test_the_fewest_further_domains_are_proven(planner: Planner) -> None:
    nodes = [node(f"n{i}", block="b1", rack="r1") for i in range(3)]
    asked = request(nodes, [gang(f"g{i}", 2, required=RACK) for i in range(3)])
    found = further_domains(asked, RACK, "r1", planner=planner, levels=levels_of(asked, [BLOCK]))
    assert found.domains == Bounded(2, 2)
    assert found.plan is not None
    assert all(one.placed for one in found.plan.gangs)


def test_nothing_is_missing_when_all_are_placed(planner: Planner) -> None:
    asked = request([node("n1", rack="r1")], [gang("a", 1)])
    found = further_domains(asked, RACK, None, planner=planner, levels=(RACK,))
    assert found.domains == Bounded(0, 0)


def test_no_number_of_domains_helps_a_pod_larger_than_a_node(planner: Planner) -> None:
    asked = request([node("n1", rack="r1")], [gang("a", 1, gpus=9)])
    found = further_domains(asked, RACK, "r1", planner=planner, levels=(RACK,))
    assert found.domains == Bounded(None, None)
    assert found.plan is None


def test_a_level_that_no_node_carries_is_a_mistake(planner: Planner) -> None:
    asked = request([node("n1", rack="r1")], [gang("a", 2)])
    with pytest.raises(ValueError, match="no node label"):
        further_domains(asked, "example.com/rack", None, planner=planner, levels=())


def test_without_time_nothing_is_claimed(ask: Ask) -> None:
    asked = request([node("n1", rack="r1")], [gang("a", 2)])
    late = Planner(ask, seconds=0)
    found = further_domains(asked, RACK, "r1", planner=late, levels=(RACK,))
    assert found.domains.value is None
