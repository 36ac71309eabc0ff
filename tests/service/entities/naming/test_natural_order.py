"""Names sort as people sort them, whether in columns or one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_service.entities.naming.natural_order import natural_key, natural_ranks

TEXT = st.text(st.sampled_from("ab-0127\n\u0663"), max_size=7)


@given(
    st.lists(TEXT, max_size=9)
    | st.lists(TEXT, min_size=5, max_size=9).map(
        # More than are sorted one by one.
        lambda names: [f"{name}{k}" for k in range(21) for name in names]
    )
)
def test_ranks_are_places_in_the_natural_order(names: list[str]) -> None:
    ranks = natural_ranks(names).tolist()
    assert sorted(ranks) == list(range(len(names)))
    in_order = [name for _, name in sorted(zip(ranks, names, strict=True))]
    assert in_order == sorted(names, key=natural_key)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("w-2", "w-10"),
        ("w-02", "w-2"),
        ("w-0", "w-00"),
        ("w", "w-0"),
        ("1", "a"),
        ("a" + "9" * 18, "a" + "9" * 19),
    ],
)
def test_numbers_count_as_numbers(before: str, after: str) -> None:
    assert natural_ranks((after, before)).tolist() == [1, 0]
