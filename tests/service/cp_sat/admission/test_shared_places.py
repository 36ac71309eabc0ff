"""Which of several gangs alike, that no place can hold whole, uses which places."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_service.cp_sat.admission.shared_places import shares
from placement_service.search.place_stage import wide_places
from tests.scenario import Group, Scenario
from tests.service.search.block_questions import counted


def test_each_gang_takes_the_fewest_places_and_leaves_none_of_its_parts_there() -> None:
    there = np.array([[6], [3], [4], [5]])
    assert shares(np.array([9]), there, 2) == [(0, 1), (2, 3)]
    assert there.tolist() == [[6], [3], [4], [5]]


def test_gangs_share_a_place_that_has_parts_of_both() -> None:
    assert shares(np.array([3]), np.array([[4], [2]]), 2) == [(0,), (0, 1)]


def test_a_place_counts_only_for_parts_that_lie_there() -> None:
    # The first two places have as many parts in sum, but none of the second kind.
    assert shares(np.array([2, 2]), np.array([[2, 0], [2, 0], [0, 2], [0, 2]]), 2) == [
        (0, 2),
        (1, 3),
    ]


def test_of_many_places_the_fullest_hold_a_gang() -> None:
    there = np.array([[1], [2], [1], [3], [2], [1]])
    assert shares(np.array([9]), there, 1) == [(3, 1, 4, 0, 2)]
    assert shares(np.array([5]), there, 2) == [(1, 3), (4, 0, 2, 5)]
    assert shares(np.array([11]), there, 1) == [()]


@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=4))
def test_all_gangs_have_places_that_hold_them(split: list[list[int]]) -> None:
    """Gangs of so many parts that lie in places of their own."""
    need = max(map(sum, split))
    there = [n for places in split for n in (*places[:-1], places[-1] + need - sum(places))]
    found = shares(np.array([need]), np.array([[n] for n in there]), len(split))
    assert len(found) == len(split)
    assert sum(need for _ in found) == sum(there)
    assert set().union(*found) == set(range(len(there)))


def test_two_gangs_alike_have_places_of_their_own() -> None:
    scenario = Scenario(
        " | ".join(f"b{b}/r{b}{r}: x{b}{r}=8 y{b}{r}=8" for b in "1234" for r in "12")
    )
    for name in "gh":
        parts = [Group(part, pods=2, gpus=8, pack="rack") for part in ("left", "mid", "right")]
        scenario = scenario.gang(name, *parts, prefer="block")
    state = counted(scenario.snapshot())
    torn = wide_places(state, 0)
    assert torn is not None
    assert sorted(map(len, torn.places.values())) == [2, 2]
    assert not torn.gangs
