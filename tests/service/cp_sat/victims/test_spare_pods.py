"""What the victim model knows of whole nodes that running gangs give up, as a linear program."""

from __future__ import annotations

import pytest

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.request import Node, PodGang, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.prepare import prepare
from placement_service.formulation.problem import Problem
from tests.service.evictions import PREEMPT, new, running
from tests.service.questions import node


def most_that_stay(nodes: tuple[Node, ...], *gangs: PodGang, sharp: bool) -> int | None:
    """The bound of running gangs that stay where all others come, each counted a hundred times."""
    return bound_of(VictimModel(formulated(nodes, *gangs), sharp=sharp))


def formulated(nodes: tuple[Node, ...], *gangs: PodGang) -> Problem:
    question = Snapshot(nodes, gangs)
    return formulate(question, PREEMPT, prepare(question, PREEMPT))


def bound_of(model: VictimModel) -> int | None:
    for gang in model.waiting:
        model.row([(model.placed[gang.index], 1)], least=1)
    stay = [(model.placed[gang.index], 100) for gang in model.running]
    # Bounds are rounded to multiples of what all weights have in common.
    zero = model.variable(1)
    model.row([(zero, 1)], most=0)
    return model.relaxed([*stay, (zero, 1)], maximize=True, seconds=10).bound


def full(*names: str) -> tuple[Node, ...]:
    return tuple(node(name, used=8, rack=name[0]) for name in names)


def test_a_gang_that_stays_gives_up_whole_nodes() -> None:
    """It can spare three pods of its four, so of two nodes with two each it gives up one."""
    gangs = (
        running("x", "a0", "a0", "a1", "a1", gpus=4, minimum=1),
        running("y", "a2", "a2", gpus=4, minimum=1),
        new(2),
    )
    nodes = full("a0", "a1", "a2")
    assert most_that_stay(nodes, *gangs, sharp=False) == 200
    assert most_that_stay(nodes, *gangs, sharp=True) == 100


def test_a_gang_that_stays_gives_up_no_node_with_more_than_it_can_spare() -> None:
    gangs = (running(n, n, n, gpus=4, minimum=1) for n in ("a0", "a1"))
    assert most_that_stay(full("a0", "a1"), *gangs, new(1), sharp=True) == 100


def test_a_part_that_is_in_a_domain_by_half_takes_half_of_each_node_there() -> None:
    """In each rack a node is free, and a gang on the other one has to go."""
    nodes = (*full("a0", "b0"), node("a1", rack="a"), node("b1", rack="b"))
    gangs = running("x", "a0", gpus=8), running("y", "b0", gpus=8), new(2, "rack")
    assert most_that_stay(nodes, *gangs, sharp=False) == 200
    assert most_that_stay(nodes, *gangs, sharp=True) == 100


def test_a_gang_spares_nothing_in_a_domain_where_no_part_is() -> None:
    """Each of two gangs fills a rack and can spare one of its two nodes."""
    gangs = (
        running("x", "a0", "a1", gpus=8, minimum=1),
        running("y", "b0", "b1", gpus=8, minimum=1),
        new(2, "rack"),
    )
    nodes = full("a0", "a1", "b0", "b1")
    assert most_that_stay(nodes, *gangs, sharp=False) == 200
    assert most_that_stay(nodes, *gangs, sharp=True) == 100


@pytest.mark.parametrize(("least", "racks"), [(3, [1]), (0, [0, 1])])
def test_no_part_is_where_a_gang_that_stays_cannot_spare_all_nodes(
    least: int, racks: list[int]
) -> None:
    """Either of its nodes, but not both."""
    nodes = (*full("a0", "a1"), node("b0", rack="b"), node("b1", rack="b"))
    old = running("old", *("a0", "a1") * 2, "c0", minimum=least)
    problem = formulated((*nodes, *full("c0")), old, new(2, "rack"))
    model = VictimModel(problem, [GangIdx(0)], sharp=True)
    assert [d for (_, d), v in model.here.items() if model.most(v)] == racks


def test_a_model_is_sharpened_as_if_it_were_made_so() -> None:
    """What was added to the simple one is forgotten."""
    nodes = (*full("a0", "b0"), node("a1", rack="a"), node("b1", rack="b"))
    gangs = running("x", "a0", gpus=8), running("y", "b0", gpus=8), new(2, "rack")
    simple = VictimModel(formulated(nodes, *gangs))
    simple.row([(simple.placed[gang.index], 1) for gang in simple.running], most=0)
    assert bound_of(simple.sharpened()) == 100
    assert bound_of(simple) == 0
