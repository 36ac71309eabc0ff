"""The local search that says which gang lies in which block, on numbers alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_service.search.block_guess.assignment import BlockAssignment, Pieces


@given(st.integers(0, 10_000))
def test_what_is_kept_up_step_by_step_is_what_counting_anew_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    takes, room = rng.integers(0, 9, (5, 3)), rng.integers(5, 20, (4, 3))
    gangs = rng.integers(0, 4, 5)
    search = BlockAssignment(takes, room, rng.integers(1, 30, 5), seed=seed)
    for gang, times in enumerate(gangs.tolist()):
        for _ in range(times):
            search.add(gang)
    before = search.cost
    search.run(30)
    assert search.cost <= before
    assert (search.count.sum(axis=1) == gangs).all()
    assert (search.count.T @ takes == search.load.T).all()
    over = np.maximum(search.load.T[:-1] - room, 0).sum()
    assert search.over == over
    search.relieve(np.ones(5, dtype=bool))
    assert (search.load.T[:-1] <= room).all()


def test_two_gangs_change_places_where_no_one_can_move() -> None:
    # Blocks of 10 and 9; three of 5, 5 and 4 and another of 5: only 5 + 5 and 5 + 4 fit.
    takes, room = np.array([[5], [4]]), np.array([[10], [9]])
    search = BlockAssignment(takes, room, np.array([100, 100]), seed=1)
    start = np.array([[1, 2, 0], [1, 0, 0]])
    search.begin(start)
    assert search.over == 1
    search.run(20)
    assert search.cost == 0


def test_parts_move_from_one_piece_of_a_gang_to_another_one() -> None:
    # A gang of eight single nodes in two pieces of four, in blocks that have room for six and two.
    takes, room = np.array([[4], [4], [3]]), np.array([[6], [5]])
    pieces = Pieces(np.array([0, 0, -1]), np.array([[4], [4], [0]]), np.array([[1]]))
    search = BlockAssignment(takes, room, np.array([900, 900, 900]), seed=1, pieces=pieces)
    search.begin(np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0]]))
    assert search.over == 2
    search.run(20)
    assert search.cost == 0
    assert sorted(search.content[:2, 0].tolist()) == [2, 6]
    assert search.load[0, :-1].tolist() == [6, 5]


def test_a_block_that_breaks_a_row_learned_for_another_one_is_known() -> None:
    takes, room = np.array([[5], [4]]), np.array([[10], [9], [10]])
    search = BlockAssignment(takes, room, np.array([100, 100]), seed=1)
    search.begin(np.array([[2, 0, 2, 0], [0, 2, 0, 0]]))
    assert not any(search.is_over(b) for b in range(3))
    search.learn(np.array([[1], [0]]), np.array([[1], [1], [1]]), np.zeros((0, 1), dtype=np.int64))
    assert [search.is_over(b) for b in range(3)] == [True, False, True]


def test_a_search_stops_when_its_time_is_over() -> None:
    takes, room = np.array([[5], [4]]), np.array([[10], [9]])
    search = BlockAssignment(takes, room, np.array([100, 100]), seed=1)
    search.begin(np.array([[1, 2, 0], [1, 0, 0]]))
    before = search.cost
    search.run(20, until=lambda: True)
    assert search.cost == before > 0
