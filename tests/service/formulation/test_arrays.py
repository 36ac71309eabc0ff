"""How often a request fits, against dividing each amount by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from placement_service.formulation.arrays import MANY, fit

AMOUNTS = st.integers(0, 40)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """What is left on some nodes, and a request."""
    columns = draw(st.integers(1, 5))
    row = st.lists(AMOUNTS, min_size=columns, max_size=columns)
    # Few different amounts, so that several columns have the same.
    request = draw(st.lists(st.sampled_from((0, 1, 1, 3, 7)), min_size=columns, max_size=columns))
    return draw(st.lists(row, min_size=1, max_size=4)), request


@given(questions())
def test_the_scarcest_column_decides(question: tuple[list[list[int]], list[int]]) -> None:
    free, request = question
    found = fit(np.array(free), np.array(request))
    for row, units in zip(free, found.tolist(), strict=True):
        shares = [left // asked for left, asked in zip(row, request, strict=True) if asked]
        assert units == min(shares, default=MANY)
