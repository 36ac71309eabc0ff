"""What the model of victims bounds: no plan is cut off, and places of moved pods count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.request import Node, PackingScope, PodGang, Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.prepare import prepare
from placement_service.formulation.tiers.disruption import Disruption
from tests.brute import optimum
from tests.service.evictions import PREEMPT, REPACK, running, urgent
from tests.service.questions import gang, node


def model_of(question: Snapshot, policy: Policy, *, large_only: bool = False) -> VictimModel:
    problem = formulate(question, policy, prepare(question, policy))
    return VictimModel(problem, large_only=large_only)


def fewest_moves(question: Snapshot, *, large_only: bool = False) -> int:
    """At least so many pods move so that all gangs that wait run."""
    model = model_of(question, REPACK, large_only=large_only)
    for g in model.waiting:
        if g.demands:
            model.row([(model.placed[g.index], 1)], least=1)
    goal = Disruption(model.problem)
    bound = model.whole(goal.terms(model) or [], maximize=False, seconds=10).bound
    assert bound is not None
    return bound - goal.trivial_bound()


def moves(question: Snapshot) -> float:
    """The fewest that any plan moves, all tried out."""
    return len(optimum(question, REPACK).evictions)


@pytest.mark.parametrize("large_only", [True, False])
def test_a_pod_as_large_as_a_node_leaves_no_node_free(large_only: bool) -> None:
    """Moving the large pod alone would leave enough GPUs, but on two nodes."""
    large = running("large", "n0", gpus=8)
    small = running("small", "n1", "n1", gpus=2)
    nodes = (node("n0", used=8), node("n1", used=4), node("n2", used=4))
    question = Snapshot(nodes, (large, small, urgent(priority=0)))
    assert moves(question) == 2
    assert fewest_moves(question, large_only=large_only) == 2


def one_rack(gang: PodGang) -> PodGang:
    return replace(gang, packing_scopes=(PackingScope("s", ("worker",), "rack"),))


def beside(*nodes: Node) -> Snapshot:
    """Two nodes of a rack are wanted. A gang of three small pods could leave two; there is room for
    them on the last node.
    """
    three = running("three", "d0", "d0", "d1", gpus=2)
    wide = one_rack(gang("wide", pods=2, gpus=8))
    more = (
        node("d0", used=4, rack="d"),
        node("d1", used=2, rack="d"),
        node("e0", used=2, rack="e"),
    )
    return Snapshot((*nodes, *more), (three, wide))


def test_a_gang_that_moves_needs_a_domain_of_its_level() -> None:
    """There are two nodes for the pair that is in the way, but in two racks."""
    nodes = [node(n, used=8, rack="a") for n in ("a0", "a1")]
    nodes += [node(n, used=0, rack=n) for n in ("b", "c")]
    question = beside(*nodes)
    pair = one_rack(running("pair", "a0", "a1", gpus=8))
    question = replace(question, gangs=(*question.gangs, pair))
    assert moves(question) == 3
    assert fewest_moves(question) == 3


def test_extras_that_move_stay_in_the_domain_of_their_gang() -> None:
    """There is a node for the extra that is in the way, but in another rack."""
    nodes = [node(n, used=8, rack="a") for n in ("a0", "a1")]
    nodes += [node("a2", used=0, rack="a"), node("b", used=0, rack="b")]
    question = beside(*nodes)
    elastic = one_rack(running("elastic", "a0", "a1", gpus=8, minimum=1))
    question = replace(question, gangs=(*question.gangs, elastic))
    assert moves(question) == 3
    assert fewest_moves(question) == 3


def test_rooms_of_two_nodes_do_not_add_up() -> None:
    """Beside the pods of a gang, two nodes have six GPUs each, which is room for two pods of four
    and not three.
    """
    spread = running("spread", "n0", "n1", gpus=2)
    new = replace(urgent(), groups=gang("new", pods=3, gpus=4).groups)
    question = Snapshot((node("n0", used=2), node("n1", used=2)), (spread, new))
    model = model_of(question, PREEMPT)
    [coming, staying] = [*model.waiting, *model.running]
    both = [(model.placed[g.index], 1) for g in (coming, staying)]
    assert model.whole(both, maximize=True, seconds=10).bound == 1


def test_parts_in_parts_are_counted_once() -> None:
    """Three nodes of a block hold three pods, two of which share a rack."""
    racks = [("n0", "r0"), ("n1", "r0"), ("n2", "r1")]
    nodes = tuple(node(name, used=4, rack=rack, block="b") for name, rack in racks)
    old = [running(f"old{i}", f"n{i}") for i in range(3)]
    [pair] = gang("pair", pods=2, gpus=8).groups
    [single] = gang("single", pods=1, gpus=8).groups
    groups = (replace(pair, name="pair"), replace(single, name="single"))
    new = replace(
        urgent(),
        groups=groups,
        packing_scopes=(
            PackingScope("all", ("pair", "single"), "block"),
            PackingScope("pair", ("pair",), "rack"),
        ),
    )
    model = model_of(Snapshot(nodes, (*old, new)), PREEMPT)
    [waiting] = model.waiting
    placed = [(model.placed[waiting.index], 1)]
    assert model.whole(placed, maximize=True, seconds=10).bound == 1
