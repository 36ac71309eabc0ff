"""Rows get columns of their own so that costs sum to the least, whatever the costs are."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_service.heuristic.victims.domain_assignment import least_assignment

COSTS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, np.inf])

#: What a row costs that gets nothing.
NOTHING = 1e6


@st.composite
def tables(draw: st.DrawFn) -> list[list[float]]:
    rows = draw(st.integers(1, 4))
    columns = draw(st.integers(rows, 6))
    return [[draw(COSTS) for _ in range(columns)] for _ in range(rows)]


@given(tables())
def test_the_sum_is_the_least_of_all_ways(table: list[list[float]]) -> None:
    cost = np.where(np.array(table) < np.inf, np.array(table), NOTHING)
    found = least_assignment(np.array(table)).column
    taken = [c for c in found if c >= 0]
    assert len(set(taken)) == len(taken)
    got = sum(cost[r, c] if c >= 0 else NOTHING for r, c in enumerate(found))
    ways = permutations(range(cost.shape[1]), len(cost))
    assert got == min(sum(cost[r, c] for r, c in enumerate(way)) for way in ways)


def test_a_column_that_both_rows_would_take_is_wanted() -> None:
    found = least_assignment(np.array([[0.0, 1.0, 9.0], [0.0, 5.0, 9.0]]))
    assert found.column == [1, 0]
    assert found.wanted == {0}


def test_nobody_gets_what_costs_beyond_all_bounds() -> None:
    assert least_assignment(np.array([[1.0, np.inf], [2.0, np.inf]])).column == [0, -1]
