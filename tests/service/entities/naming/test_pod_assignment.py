"""Counts become names, for people and for collectives, and names become counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from placement_service.entities.naming.natural_order import natural_key
from placement_service.entities.naming.pod_assignment import count_pods, name_pods
from placement_service.entities.request import HOSTNAME, PackingScope, Policy, Snapshot
from placement_service.entities.solution import Assignment
from placement_service.formulation.formulate import formulate
from placement_service.heuristic.first_answer import first_answer
from tests.service.questions import gang, node, snapshot
from tests.strategies import snapshots


def test_numbers_in_names_count_as_numbers() -> None:
    names = ["w-10", "w-9", "w-2-b", "w-2-a", "w", "10", "9"]
    assert sorted(names, key=natural_key) == ["9", "10", "w", "w-2-a", "w-2-b", "w-9", "w-10"]


def test_the_first_pods_are_bound_when_not_all_are() -> None:
    question = snapshot(1, (gang("train", pods=12, gpus=1),))
    bindings = name_pods(question, [Assignment(0, 0, 0, 0, 3)])
    assert [b.pod for b in bindings] == [f"namespaces/ml/pods/train-{i}" for i in range(3)]
    assert bindings[2].uid == "uid-train-2"


def test_neighbours_in_rank_are_neighbours_in_the_topology() -> None:
    """Nodes n0 and n2 are in rack r2, n1 and n3 in rack r10."""
    scope = PackingScope("all", ("worker",), preferred_level="rack")
    question = Snapshot(
        nodes=tuple(node(f"n{i}", rack="r10" if i % 2 else "r2") for i in range(4)),
        gangs=(replace(gang("train", pods=4, gpus=8), packing_scopes=(scope,)),),
    )
    bindings = name_pods(question, [Assignment(0, 0, 0, n, 1) for n in range(4)])
    assert [b.node for b in bindings] == ["nodes/n0", "nodes/n2", "nodes/n1", "nodes/n3"]


def test_ranks_count_before_names() -> None:
    """And the lowest are bound first; pods without a rank come last."""
    question = snapshot(2, (gang("train", pods=4, gpus=8),))
    (group,) = question.gangs[0].groups
    ranks = (10, 9, None, 0)
    pods = tuple(
        pod._replace(rank=rank) for pod, rank in zip(group.pod_sets[0].pods, ranks, strict=True)
    )
    group = replace(group, pod_sets=(replace(group.pod_sets[0], pods=pods),))
    question = replace(question, gangs=(replace(question.gangs[0], groups=(group,)),))
    bindings = name_pods(question, [Assignment(0, 0, 0, 0, 2), Assignment(0, 0, 0, 1, 1)])
    assert {b.pod.rpartition("-")[2]: b.node for b in bindings} == {
        "3": "nodes/n0",
        "1": "nodes/n0",
        "0": "nodes/n1",
    }


def test_broad_levels_come_before_narrow_ones() -> None:
    """Blocks b1 and b2; racks x (b1), y (b2), z (b1): x and z are one block."""
    places = {"n0": ("b1", "x"), "n1": ("b2", "y"), "n2": ("b1", "z")}
    scopes = (
        PackingScope("racks", ("worker",), preferred_level="rack"),
        PackingScope("blocks", ("worker",), preferred_level="block"),
    )
    question = Snapshot(
        nodes=tuple(node(n, block=b, rack=r) for n, (b, r) in places.items()),
        gangs=(replace(gang("train", pods=3, gpus=8), packing_scopes=scopes),),
    )
    bindings = name_pods(question, [Assignment(0, 0, 0, n, 1) for n in range(3)])
    assert [b.node for b in bindings] == ["nodes/n0", "nodes/n2", "nodes/n1"]


def test_names_do_not_depend_on_the_order_of_the_request() -> None:
    question = snapshot(3, (gang("a", pods=2, gpus=4), gang("b", pods=2, gpus=4)))
    turned = replace(question, nodes=question.nodes[::-1], gangs=question.gangs[::-1])
    here = [Assignment(0, 0, 0, 0, 1), Assignment(0, 0, 0, 2, 1), Assignment(1, 0, 0, 1, 2)]
    there = [a._replace(gang=1 - a.gang, node=2 - a.node) for a in here]
    assert name_pods(question, here) == name_pods(turned, there)


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        pytest.param(Assignment(0, 0, 0, 0, 3), ValueError, id="more pods than there are"),
        pytest.param(Assignment(0, 0, 0, 9, 1), IndexError, id="a node that is not there"),
        pytest.param(Assignment(0, 0, 7, 0, 1), IndexError, id="a pod set that is not there"),
        pytest.param(Assignment(0, 0, 0, -1, 1), IndexError, id="a negative index"),
        pytest.param(Assignment(0, 0, 0, 0, -1), IndexError, id="a negative count"),
    ],
)
def test_nonsense_is_not_named(assignment: Assignment, error: type[Exception]) -> None:
    with pytest.raises(error):
        name_pods(snapshot(), [assignment])


@given(snapshots())
def test_counting_named_pods_gives_the_assignments_back(question: Snapshot) -> None:
    assignments = first_answer(formulate(question, Policy())).assignments
    assert count_pods(question, name_pods(question, assignments)) == assignments


def test_bindings_that_no_longer_fit_the_snapshot_are_left_out() -> None:
    question = snapshot(2)
    here, gone = name_pods(question, [Assignment(0, 0, 0, 0, 1), Assignment(0, 0, 0, 1, 1)])
    stranger = here._replace(pod="namespaces/ml/pods/stranger")
    after = Snapshot(question.nodes[:1], question.gangs)
    assert after.nodes[0].labels[HOSTNAME] == "n0"
    assert count_pods(after, (here, gone, stranger)) == (Assignment(0, 0, 0, 0, 1),)
