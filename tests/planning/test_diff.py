"""Two answers side by side."""

from __future__ import annotations

from typing import Any

import pytest

from placement.planning.diff import Moved, TierChange, difference, first_difference
from placement.planning.replay import compare


def answer(placed: dict[str, bool], at: dict[str, str], admitted: int = 0) -> dict[str, Any]:
    """Gangs of one pod each; `at` is the node of each gang's pod."""
    return {
        "bindings": [
            {"namespace": "ml", "pod": f"{g}-0", "node": n, "podGang": g} for g, n in at.items()
        ],
        "evictions": [],
        "podGangs": [{"namespace": "ml", "name": g, "placed": p} for g, p in placed.items()],
        "objective": [{"tier": "admitted", "value": admitted, "bound": admitted}],
        "stats": {"elapsedSeconds": 1.0, "engine": "e"},
    }


def test_gangs_are_won_lost_moved_added_and_removed() -> None:
    before = answer({"a": True, "b": True, "c": False, "old": True}, {"a": "n1", "b": "n2"}, 16)
    after = answer({"a": True, "b": False, "c": True, "new": True}, {"a": "n3", "c": "n2"}, 24)
    found = difference(before, after)
    assert found.won == ("ml/c",)
    assert found.lost == ("ml/b",)
    assert found.moved == (Moved("ml/a", 1, ("n1",), ("n3",)),)
    assert found.added == ("ml/new",)
    assert found.removed == ("ml/old",)
    assert found.tiers == (TierChange("admitted", 16, 24),)


def test_an_answer_does_not_differ_from_itself() -> None:
    one = answer({"a": True}, {"a": "n1"})
    assert difference(one, one).empty
    assert compare(one, one) == ""


def test_evictions_are_compared() -> None:
    before, after = answer({"a": True}, {}), answer({"a": True}, {})
    after["evictions"] = [{"namespace": "ml", "pod": "x", "podGang": "b", "kind": "PREEMPT"}]
    assert difference(before, after).evicted == ("ml/x",)
    assert difference(after, before).spared == ("ml/x",)


@pytest.mark.parametrize("wrong", [{}, {"podGangs": [{}]}, {"podGangs": [1]}])
def test_what_is_no_answer_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is not an answer"):
        difference(wrong, answer({}, {}))


def test_the_first_difference_names_its_place() -> None:
    one, other = answer({"a": True}, {"a": "n1"}), answer({"a": True}, {"a": "n2"})
    assert first_difference(one, other) == "bindings[0].node: 'n1', 'n2'"
    other = answer({"a": True}, {"a": "n1"})
    other["stats"]["elapsedSeconds"] = 9.0
    assert compare(one, other) == ""
    other["stats"]["engine"] = "f"
    assert compare(one, other) == "stats.engine: 'e', 'f'"
