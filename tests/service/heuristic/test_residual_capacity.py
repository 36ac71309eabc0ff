"""What fits after pods came and went is what would fit if it were counted anew."""

from __future__ import annotations

import random

import numpy as np
import pytest

from placement_service.entities.request import (
    PODS,
    Node,
    Pod,
    PodGang,
    PodGroup,
    PodSet,
    PodTemplate,
    Policy,
    Snapshot,
)
from placement_service.formulation.arrays import pods_that_fit
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import ClassIdx, DemandIdx, NodeIdx
from placement_service.formulation.problem import Problem, UnitsOnNode
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Resources of which one class asks for all, others for some, often equal amounts.
RESOURCES = ("a", "b", "c", "d", PODS)
REQUESTS = ((2, 3, 2, 3, 1), (0, 1, 1, 0, 1), (3, 2, 1, 2, 1))


def crowded(rng: random.Random, count: int = 12) -> Problem:
    nodes = tuple(
        Node(f"nodes/n{i}", allocatable={r: rng.randint(0, 30) for r in RESOURCES})
        for i in range(count)
    )
    gangs = tuple(
        PodGang(
            f"namespaces/ml/podgangs/g{k}",
            (
                PodGroup(
                    "w",
                    1,
                    (
                        PodSet(
                            PodTemplate(dict(zip(RESOURCES, amounts, strict=True))),
                            (Pod(f"namespaces/ml/pods/p{k}"),),
                        ),
                    ),
                ),
            ),
        )
        for k, amounts in enumerate(REQUESTS)
    )
    return formulate(Snapshot(nodes, gangs), Policy())


@pytest.mark.parametrize(
    ("nodes", "share"),
    [pytest.param(12, 1.0, id="many of them"), pytest.param(80, 0.2, id="few of them")],
)
def test_rows_follow_every_change(nodes: int, share: float) -> None:
    """Where few nodes have changed the others are not looked at."""
    rng = random.Random(1)
    for _ in range(20):
        problem = crowded(rng, nodes)
        residual = ResidualCapacity(problem)
        mark = residual.mark()
        for _ in range(10):
            for c in map(ClassIdx, range(len(REQUESTS))):
                if rng.random() > share:
                    continue
                row = residual.row(c)
                assert (row == pods_that_fit(residual.free, problem.request[c])).all()
                room = np.flatnonzero(row)
                if len(room):
                    one = np.array([rng.choice(room.tolist())])
                    residual.take(c, one, np.array([1]))
        residual.undo(mark)
        for c in map(ClassIdx, range(len(REQUESTS))):
            assert (residual.row(c) == pods_that_fit(problem.free, problem.request[c])).all()


def test_units_of_a_gang_come_and_go_as_if_one_by_one() -> None:
    rng = random.Random(2)
    for _ in range(20):
        problem = crowded(rng)
        gang = rng.choice(problem.gangs)
        spots = [(n, rng.randint(1, 3)) for n in rng.choices(range(4), k=3)]
        units = tuple(UnitsOnNode(DemandIdx(0), NodeIdx(n), c) for n, c in spots)
        at_once, in_turn = ResidualCapacity(problem), ResidualCapacity(problem)
        fits = True
        for n, count in spots:
            one = np.array([n]), np.array([count])
            fits = fits and bool(in_turn.row(gang.demands[0].pod_class)[n] >= count)
            in_turn.take(gang.demands[0].pod_class, *one)
        assert at_once.fits(gang, units) == fits
        before, mark = at_once.free.copy(), at_once.mark()
        at_once.take_units(gang, units)
        np.testing.assert_array_equal(at_once.free, in_turn.free)
        at_once.take_units(gang, units, -1)
        np.testing.assert_array_equal(at_once.free, before)
        at_once.undo(mark)
        np.testing.assert_array_equal(at_once.free, before)


def test_units_of_several_gangs_go_as_if_one_gang_after_another() -> None:
    rng = random.Random(3)
    for _ in range(20):
        problem = crowded(rng)
        at_once, in_turn = ResidualCapacity(problem), ResidualCapacity(problem)
        placed = []
        for gang in problem.gangs:
            spots = rng.sample(range(12), k=rng.randrange(4))
            units = tuple(UnitsOnNode(DemandIdx(0), NodeIdx(n), 1) for n in spots)
            placed.append((gang, units))
            for residual in (at_once, in_turn):
                residual.take_units(gang, units)
        taken, mark = at_once.free.copy(), at_once.mark()
        at_once.give_back(placed)
        for gang, units in placed:
            in_turn.take_units(gang, units, -1)
        np.testing.assert_array_equal(at_once.free, in_turn.free)
        np.testing.assert_array_equal(at_once.gpus_free, in_turn.gpus_free)
        for gang in problem.gangs:
            mine = gang.demands[0].pod_class
            np.testing.assert_array_equal(at_once.row(mine), in_turn.row(mine))
        at_once.undo(mark)
        np.testing.assert_array_equal(at_once.free, taken)


def test_nodes_that_are_closed_to_a_gang_hold_nothing_of_it() -> None:
    closed = Node("nodes/shut", allocatable={"a": 9, PODS: 9}, unschedulable=True)
    nodes = (closed, Node("nodes/open", allocatable={"a": 9, PODS: 9}))
    pods = PodSet(PodTemplate({"a": 1, PODS: 1}), (Pod("namespaces/ml/pods/p"),))
    gang = PodGang("namespaces/ml/podgangs/g", (PodGroup("w", 1, (pods,)),))
    problem = formulate(Snapshot(nodes, (gang,)), Policy())
    residual, mine = ResidualCapacity(problem), problem.gangs[0]
    on = [(UnitsOnNode(DemandIdx(0), NodeIdx(n), 1),) for n in range(2)]
    assert [residual.fits(mine, units) for units in on] == [False, True]
    assert residual.which_fit([(mine, units) for units in on]) == [False, True]
