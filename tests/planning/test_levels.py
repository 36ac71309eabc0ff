"""Which levels lie above and below each other."""

from __future__ import annotations

from placement.planning.levels import HOSTNAME, coarser, finer, levels_of
from tests.planning.clusters import BLOCK, RACK, gang, node, request

NODES = [
    node("n1", block="b1", rack="r1"),
    node("n2", block="b1", rack="r2"),
    node("n3", block="b2", rack="r3"),
]


def test_levels_are_found_by_what_gangs_use_and_ordered_by_the_nodes() -> None:
    asked = request(NODES, [gang("a", 1, required=RACK)])
    assert levels_of(asked, ()) == (BLOCK, RACK, HOSTNAME)
    assert coarser(asked, RACK, levels_of(asked, ())) == [BLOCK]
    assert coarser(asked, HOSTNAME, levels_of(asked, ())) == [RACK, BLOCK]
    assert finer(asked, BLOCK, levels_of(asked, ())) == [RACK, HOSTNAME]


def test_levels_that_do_not_nest_are_not_above_each_other() -> None:
    nodes = [
        node("n1", block="b1", rack="r1"),
        node("n2", block="b2", rack="r1"),
        node("n3", block="b1", rack="r2"),
        node("n4", block="b2", rack="r3"),
    ]
    asked = request(nodes, [gang("a", 1, required=RACK)])
    assert coarser(asked, RACK, levels_of(asked, ())) == []


def test_a_node_outside_of_all_racks_does_not_hide_that_others_are_in_one() -> None:
    nodes = [*NODES, node("cpu"), node("n4", rack="r4")]
    asked = request(nodes, [gang("a", 1, required=HOSTNAME)])
    assert coarser(asked, HOSTNAME, levels_of(asked, ())) == [RACK, BLOCK]
    assert finer(asked, BLOCK, levels_of(asked, ())) == [RACK, HOSTNAME]
    split = request([*NODES, node("n4", rack="r1")], [])
    assert coarser(split, RACK, levels_of(split, ())) == []


def test_of_levels_with_equal_numbers_the_order_named_counts() -> None:
    asked = request([node("n1", block="b1", rack="r1")], [])
    assert levels_of(asked, [BLOCK, RACK, HOSTNAME]) == (BLOCK, RACK, HOSTNAME)
