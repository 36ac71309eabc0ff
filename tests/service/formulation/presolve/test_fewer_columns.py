"""Fewer columns allow exactly the same pods on each node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from placement_service.entities.request import CPU, Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.presolve.fewer_columns import (
    with_fewer_columns,
    without_reservations,
)
from placement_service.formulation.problem import Problem
from tests.scenario import Group, Scenario
from tests.service.rooms import demand, fits
from tests.strategies import EVERYTHING, TINY, snapshots, with_reservations


def held_for_two(gpus: int, cpus: int = 0, asks: int = 8) -> Problem:
    """Two nodes of eight GPUs, each with some held for one of two gangs, whose pods ask for so many
    GPUs, and a third gang.
    """
    scenario = Scenario("x1=8 x2=8").node("x1", cpus=8).node("x2", cpus=8)
    for node, owner in (("x1", "v"), ("x2", "w")):
        scenario = scenario.hold(owner, node, gpus, owner)
    held = {CPU: 1000 * cpus} if cpus else {}
    reservations = [replace(r, held={**r.held, **held}) for r in scenario.reservations]
    scenario = replace(scenario, reservations=tuple(reservations))
    for name in "vw":
        scenario = scenario.gang(name, Group(name, pods=8 // asks, gpus=asks, cpus=1))
    scenario = scenario.gang("a", Group("big", pods=1, gpus=4), Group("small", pods=6, cpus=1))
    return formulate(scenario.snapshot(), Policy())


def test_who_finds_too_little_beside_a_reservation_may_not_be_there() -> None:
    before = held_for_two(gpus=8)
    after = with_fewer_columns(before)
    assert sum("beside" in name for name in before.columns) == 2
    assert not any("beside" in name for name in after.columns)
    allowed = {g.index: after.eligible[g.demands[0].pod_class].tolist() for g in after.gangs}
    assert allowed == {0: [True, False], 1: [False, True], 2: [False, False]}


def test_what_is_left_for_the_same_small_pods_is_one_column() -> None:
    before = held_for_two(gpus=8, cpus=4)
    after = with_fewer_columns(before)
    assert sum("beside" in name for name in before.columns) == 4
    assert sum("beside" in name for name in after.columns) == 1


def test_columns_stay_apart_where_an_owner_takes_of_one_and_not_of_the_other() -> None:
    before = held_for_two(gpus=4, asks=2)
    after = with_fewer_columns(before)
    assert sum("beside" in name for name in after.columns) == 2
    owner = before.gangs[0].demands[0].pod_class
    pods = np.zeros(before.class_count, dtype=np.int64)
    pods[owner] = 3
    assert [fits(after, node, pods) for node in (0, 1)] == [True, False]


def with_columns(*columns: tuple[list[int], list[int]]) -> Problem:
    """Three gangs of three pods each, class by class, on three nodes, and further columns: what
    each node has and a pod of each class takes.
    """
    scenario = Scenario("x1=8 x2=8 x3=8")
    for i in range(3):
        scenario = scenario.gang(f"g{i}", pods=3, gpus=i + 1)
    problem = formulate(scenario.snapshot(), Policy())
    room, takes = (np.array(part, dtype=np.int64).T for part in zip(*columns, strict=True))
    return replace(
        problem,
        columns=(*problem.columns, *(f"rule {i}" for i in range(len(columns)))),
        free=np.concatenate([problem.free, room], axis=1),
        request=np.concatenate([problem.request, takes], axis=1),
    )


def test_columns_of_the_same_node_stay_apart() -> None:
    before = with_columns(([1, 99, 99], [1, 1, 1]), ([2, 99, 99], [1, 1, 1]))
    after = with_fewer_columns(before)
    pods = np.array([2, 0, 0])
    assert [fits(p, node, pods) for p in (before, after) for node in (0, 1)] == [False, True] * 2


def test_a_column_fits_all_that_are_joined_already() -> None:
    some = [([1, 99, 99], [1, 0, 0]), ([99, 2, 99], [0, 1, 0]), ([99, 99, 2], [0, 2, 0])]
    before = with_columns(*some)
    # Pods of the first class may only be on the first node.
    eligible = before.eligible.copy()
    eligible[0, 1:] = eligible[1:, 0] = False
    before = replace(before, eligible=eligible)
    after = with_fewer_columns(before)
    pods = np.array([0, 2, 0])
    assert [fits(p, node, pods) for p in (before, after) for node in (1, 2)] == [True, False] * 2


def test_no_column_is_left_where_none_limits_anybody() -> None:
    before = with_columns(([99, 0, 99], [1, 1, 1]))
    some = before.columns.index("rule 0")
    before = replace(
        before,
        columns=("rule 0", "rule 1"),
        free=before.free[:, [some, some]],
        request=before.request[:, [some, some]],
    )
    after = with_fewer_columns(before)
    assert not after.columns
    assert after.eligible.tolist() == [[True, False, True]] * 3


def test_without_reservations_it_is_the_same_question() -> None:
    problem = formulate(Scenario("x1=8").gang("a", pods=1, gpus=8).snapshot(), Policy())
    assert with_fewer_columns(problem) is problem


@given(snapshot=with_reservations(snapshots(TINY, EVERYTHING)), data=st.data())
def test_the_same_pods_fit_on_every_node(snapshot: Snapshot, data: st.DataObject) -> None:
    before = formulate(snapshot, Policy())
    after = with_fewer_columns(before)
    event("fewer columns" if after is not before else "as it was")
    asked = demand(before)
    for node in range(before.node_count):
        for _ in range(4):
            pods = np.array([data.draw(st.integers(0, min(3, n))) for n in asked.tolist()])
            assert fits(before, node, pods) == fits(after, node, pods)


def test_without_reservations_room_that_is_held_serves_everybody() -> None:
    before = held_for_two(gpus=8, cpus=4)
    after = without_reservations(before)
    assert not any("beside" in name for name in after.columns)
    # Pods of both owners ask for the same, so nothing tells them apart any longer.
    assert after.class_count == before.class_count - 1
    pods = np.array([1, 0, 0])
    assert [fits(after, node, pods) for node in (0, 1)] == [True, True]


@given(snapshot=with_reservations(snapshots(TINY, EVERYTHING)))
def test_without_reservations_no_pod_finds_less_room(snapshot: Snapshot) -> None:
    before = formulate(snapshot, Policy())
    after = without_reservations(before)
    event("looser" if after is not before else "as it was")
    for gang, same in zip(before.gangs, after.gangs, strict=True):
        for one, other in zip(gang.demands, same.demands, strict=True):
            for node in range(before.node_count):
                for times in (1, 2):
                    mine = times * np.eye(before.class_count, dtype=np.int64)[one.pod_class]
                    loose = times * np.eye(after.class_count, dtype=np.int64)[other.pod_class]
                    assert fits(after, node, loose) >= fits(before, node, mine)
