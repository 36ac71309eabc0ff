"""Without implied limits exactly the same pods fit on each node."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from placement_service.cp_sat.node_classes import sorts_of
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import CPU, Policy
from placement_service.formulation.arrays import UNLIMITED, Ints
from placement_service.formulation.formulate import formulate
from placement_service.formulation.presolve.implied_room import without_implied_room
from placement_service.formulation.problem import Problem
from tests.scenario import Group, Scenario
from tests.service.rooms import demand, fits
from tests.strategies import GPU


def asking(*asks: tuple[int, int], cpus: int = 8) -> Problem:
    """Gangs of eight pods that ask for so many GPUs and CPUs, and a node of eight GPUs."""
    scenario = Scenario("x1=8").node("x1", cpus=cpus)
    for i, (gpus, of) in enumerate(asks):
        scenario = scenario.gang(f"g{i}", Group("w", pods=8, gpus=gpus, cpus=of))
    return formulate(scenario.snapshot(), Policy())


def made_of(free: list[list[int]], request: list[list[int]], eligible: list[list[bool]]) -> Problem:
    """Three gangs of three pods each, class by class, on three nodes."""
    scenario = Scenario("x1=8 x2=8 x3=8")
    for i in range(3):
        scenario = scenario.gang(f"g{i}", pods=3, gpus=i + 1)
    return replace(
        formulate(scenario.snapshot(), Policy()),
        columns=(CPU, "memory", GPU),
        free=np.array(free, dtype=np.int64),
        request=np.array(request, dtype=np.int64),
        eligible=np.array(eligible, dtype=bool),
    )


def test_pods_are_alike_where_gpus_are_used_up_before_cpus() -> None:
    before = asking((1, 1), (2, 1), (1, 0), (2, 2))
    after = without_implied_room(before)
    assert before.class_count == 4
    assert after.class_count == 2
    assert after.columns == (GPU,)
    assert [g.demands[0].pod_class for g in after.gangs] == [0, 1, 0, 1]


def test_pods_with_gpus_stay_apart_from_others_where_gpus_are_no_limit() -> None:
    """Which nodes have pods with GPUs is a goal, whatever else these ask for."""
    after = without_implied_room(asking((1, 2), (0, 2)))
    assert after.columns == (CPU,)
    assert after.class_count == 2
    assert sorts_of(after, (0, 1)) == (0, 1)


def test_what_pods_without_gpus_take_stays_a_limit() -> None:
    before = asking((1, 1), (0, 1))
    after = without_implied_room(before)
    assert CPU in after.columns
    assert after.class_count == 2


def test_pods_that_may_not_be_there_limit_nothing() -> None:
    before = asking((1, 1), (2, 1), (0, 1))
    none = before.gangs[2].demands[0].pod_class
    eligible = before.eligible.copy()
    eligible[none] = False
    after = without_implied_room(replace(before, eligible=eligible))
    assert after.columns == (GPU,)


def test_one_that_takes_more_than_its_share_keeps_the_limit() -> None:
    before = asking((1, 1), (2, 3))
    assert CPU in without_implied_room(before).columns


def test_room_that_nobody_can_use_is_left_out() -> None:
    free, request = [[17, 99, 8], [15, 99, 8], [99] * 3], [[2, 1, 2], [4, 1, 2], [0, 1, 0]]
    eligible = [[True, True, True], [True, True, True], [False, False, True]]
    after = without_implied_room(made_of(free, request, eligible))
    cpu = after.columns.index(CPU)
    # Eight GPUs are 16 CPUs at most.
    assert after.free[:2, cpu].tolist() == [16, 15]


def test_columns_that_rules_have_become_are_left_alone() -> None:
    """Host ports and reservations make hundreds of them, and pairs of these would take seconds."""
    problem = made_of([[8, 2, 4], [8, 99, 4], [8, 99, 4]], [[1, 1, 2]] * 3, [[True] * 3] * 3)
    problem = replace(problem, columns=(CPU, "cpu beside reservations", GPU))
    after = without_implied_room(problem)
    assert after.columns == ("cpu beside reservations", GPU)
    assert after.free[:, 0].tolist() == [2, 99, 99]


def test_where_running_gangs_may_give_way_limits_stay() -> None:
    running = Group("w", gpus=1, cpus=1, told=("x1",) * 4)
    scenario = Scenario("x1=8").node("x1", cpus=8).gang("old", running)
    scenario = scenario.gang("new", Group("w", pods=8, gpus=1, cpus=1), priority=100)
    problem = formulate(scenario.snapshot(), Policy(eviction=EvictionPolicy.PREEMPT))
    assert any(gang.home for gang in problem.gangs)
    assert without_implied_room(problem) is problem


def test_where_every_limit_counts_it_is_the_same_question() -> None:
    problem = made_of([[3] * 3] * 3, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], [[True] * 3] * 3)
    assert without_implied_room(problem) is problem


def test_amounts_beyond_all_numbers_imply_nothing() -> None:
    huge = UNLIMITED // 4
    problem = made_of([[huge, 9, huge]] * 3, [[huge // 2, 0, 7]] * 3, [[True] * 3] * 3)
    after = without_implied_room(problem)
    pods = np.array([3] + [0] * (after.class_count - 1))
    assert not fits(after, 0, pods)


def amounts(most: int, rows: int) -> st.SearchStrategy[list[list[int]]]:
    """So many rows of three amounts."""
    row = st.lists(st.integers(0, most), min_size=3, max_size=3)
    return st.lists(row, min_size=rows, max_size=rows)


@given(
    free=amounts(12, 3),
    request=amounts(3, 3),
    eligible=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=3, max_size=3),
)
def test_the_same_pods_fit_on_every_node(
    free: list[list[int]], request: list[list[int]], eligible: list[list[bool]]
) -> None:
    before = made_of(free, request, eligible)
    after = without_implied_room(before)
    event("fewer columns" if len(after.columns) < len(before.columns) else "as many columns")
    new = [g.demands[0].pod_class for g in after.gangs]
    old = [g.demands[0].pod_class for g in before.gangs]
    for node in range(3):
        for counts in np.ndindex(4, 4, 4):
            mine: Ints = np.bincount(old, counts, before.class_count).astype(np.int64)
            same: Ints = np.bincount(new, counts, after.class_count).astype(np.int64)
            assert fits(before, node, mine) == fits(after, node, same)


def test_a_looser_question_stays_looser() -> None:
    before = asking((1, 1), (2, 1))
    queues_alone = replace(before)
    other = replace(before, free=2 * before.free)
    for looser in (queues_alone, other):
        after = without_implied_room(replace(before, relaxation=looser))
        assert after.relaxation is not None
        assert after.relaxation.columns == (GPU,)
        assert (after.relaxation.free is after.free) == (looser is queues_alone)
        assert (after.relaxation.free >= after.free).all()
        assert demand(after.relaxation).tolist() == demand(after).tolist()
