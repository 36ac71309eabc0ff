"""Unknown names, and what they may have meant."""

from __future__ import annotations

import pytest

from placement.near_names import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        pytest.param("trian", ["eval", "train"], "train", id="misspelled"),
        pytest.param("rack", ["rock", "example.com/rack"], "example.com/rack", id="what follows"),
        pytest.param("train", ["b/train", "a/train"], "a/train", id="the first of several"),
        pytest.param("train", ["strain/x", "mytrain"], "mytrain", id="no part of a word"),
        pytest.param("n1", ["zone-a", "zone-b"], "", id="none is near"),
        pytest.param("n1", [], "", id="nothing is known"),
    ],
)
def test_the_nearest_name_is_asked_for(name: str, known: list[str], near: str) -> None:
    assert did_you_mean(name, iter(known)) == (f"; did you mean {near}?" if near else "")


def test_what_stands_before_all_names_is_told_with_the_nearest() -> None:
    assert did_you_mean("MOED", ["MODE", "NODE"], prefix="P_") == "; did you mean P_MODE?"
