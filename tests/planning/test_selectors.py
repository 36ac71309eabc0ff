"""Label selectors as people type them."""

from __future__ import annotations

import pytest

from placement.planning.selectors import parse_selector

LABELS = {"rack": "r7", "zone": "a", "gpu": ""}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("rack=r7", True),
        ("rack==r7", True),
        ("rack=r8", False),
        ("rack!=r8", True),
        ("absent!=x", True),
        ("gpu", True),
        ("gpu=", True),
        ("absent", False),
        ("!absent", True),
        ("!gpu", False),
        ("zone in (a, b)", True),
        ("zone notin (a,b)", False),
        ("absent notin (a)", True),
        ("rack=r7,zone=b", False),
        ("rack=r7, zone in (a,b) ,gpu", True),
    ],
)
def test_a_selector_matches_as_in_kubernetes(text: str, want: bool) -> None:
    assert parse_selector(text)(LABELS) is want


@pytest.mark.parametrize(
    "text", ["", ",", "a=b,", "a in b", "a in (b", "=b", "a=b c=d", "!", "a b"]
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="label selector"):
        parse_selector(text)
