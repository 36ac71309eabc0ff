"""Two answers side by side."""

from __future__ import annotations

from typing import Any

import pytest

from placement.cli.findings.difference_page import page
from placement.cli.findings.differences import as_names, as_text
from placement.planning.diff import (
    Moved,
    RoomChange,
    Stay,
    TierChange,
    difference,
    first_difference,
    seats,
)
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


def test_pods_that_move_to_other_nodes_are_moved() -> None:
    def moving(where: str) -> dict[str, Any]:
        one = {"namespace": "ml", "pod": "x", "podGang": "a", "kind": "MOVE", "toNode": where}
        return {**answer({"a": True}, {}), "evictions": [one]}

    found = difference(moving("n1"), moving("n2"))
    assert found.moved == (Moved("ml/a", 1, ("n1",), ("n2",)),)
    assert not found.evicted
    assert difference(answer({"a": True}, {}), moving("n2")).moved == (
        Moved("ml/a", 1, (), ("n2",)),
    )


@pytest.mark.parametrize("field", ["devices", "reservation"])
def test_other_devices_and_reservations_of_a_node_are_told(field: str) -> None:
    before, after = (answer({"a": True}, {"a": "n1"}) for _ in range(2))
    before["bindings"][0][field] = [0] if field == "devices" else "one"
    after["bindings"][0][field] = [1] if field == "devices" else "two"
    found = difference(before, after)
    assert (found.reseated, found.moved, found.empty) == (("ml/a",), (), False)
    assert as_text(found) == "reseated     ml/a: other devices or reservations\n"
    assert as_names(found) == "ml/a\n"


def test_gpus_domains_and_what_is_free_are_compared() -> None:
    before, after = answer({"a": False, "b": True}, {}), answer({"a": True, "b": False}, {})
    after["podGangs"][0]["scopes"] = [{"domains": ["r1"]}, {"domains": ["n1", "n2"]}]
    before["room"] = {"freeGpus": 8, "freeDomains": {"rack": 1, "old": 1}}
    after["room"] = {"freeGpus": 4, "freeDomains": {"rack": 2}, "gpusOfGangs": {"ml/a": 12}}
    found = difference(before, after)
    assert found.stays_after == {"ml/a": Stay(("r1",), 12)}
    assert (found.gpus(found.won), found.gpus(found.lost)) == (12, 0)
    assert found.room == (RoomChange("GPUs", 8, 4), RoomChange("rack", 1, 2))
    assert as_text(found).splitlines() == [
        "won          ml/a: r1, 12 GPUs",
        "lost         ml/b",
        "free         8 -> 4 GPUs",
        "free         1 -> 2 whole domains of rack",
    ]
    assert as_names(found) == "ml/a\nml/b\n"


def test_answers_that_are_not_proven_are_named() -> None:
    """They may differ for lack of time alone."""
    before = answer({"a": False}, {}) | {"termination": {"reason": "FEASIBLE", "gap": 0.5}}
    after = answer({"a": True}, {"a": "n1"}) | {"termination": {"reason": "FEASIBLE", "gap": None}}
    found = difference(before, after)
    assert as_text(found).splitlines()[1:] == [
        "not proven   before: its first open tier could be 50 % better at most",
        "not proven   after: how much better it could be is not known",
    ]
    told = page(found, seats(before, after), before="a.json", after="b.json")
    assert "Not proven: before: its first open tier" in told
    after["termination"] = {"reason": "OPTIMAL", "gap": 0.0}
    assert [one.which for one in difference(before, after).unproven] == ["before"]


def test_pods_that_ran_and_are_bound_anew_were_running() -> None:
    before, after = answer({"a": True}, {}), answer({"a": True}, {"a": "n1"})
    assert as_text(difference(before, after)) == "moved        ml/a: 1 pod, running -> n1\n"


def test_many_moved_gangs_are_told_in_a_line() -> None:
    before = answer(dict.fromkeys("abc", True), dict.fromkeys("abc", "n1"))
    after = answer(dict.fromkeys("abc", True), dict.fromkeys("abc", "n2"))
    text = as_text(difference(before, after), most_moved=1)
    assert text == (
        "moved        ml/a: 1 pod, n1 -> n2\nmoved        and 2 more; -o wide lists them\n"
    )


GANG = {"namespace": "ml", "name": "a", "placed": True}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "is not an answer of `placementctl plan -o json`: podGangs is missing"),
        ({"podGangs": [{}]}, "podGangs[0].namespace must be a text"),
        ({"podGangs": [1]}, "podGangs[0] must be a mapping"),
        ({"podGangs": [{**GANG, "placed": "false"}]}, "podGangs[0].placed must be true or false"),
        ({"podGangs": [], "bindings": 5}, "bindings must be a list"),
        ({"podGangs": [], "evictions": [{"pod": "x"}]}, "evictions[0].namespace must be a text"),
        ({"podGangs": [{**GANG, "scopes": [1]}]}, "scopes[0] must be a mapping"),
        ({"podGangs": [{**GANG, "scopes": [{"domains": 5}]}]}, "domains of ml/a must be a list"),
    ],
)
def test_what_is_no_answer_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match="is not an answer") as refused:
        difference(wrong, answer({}, {}))
    assert told in str(refused.value)


@pytest.mark.parametrize(
    "tiers",
    [
        5,
        {"tier": "admitted"},
        [7],
        [{"tier": "a", "value": "x"}],
        [{"tier": "admitted", "value": float("inf")}],
        [{"tier": "admitted", "value": 10**400}],
    ],
)
def test_tiers_without_numbers_are_not_compared(tiers: object) -> None:
    """And a name of a node that is a number is still a name."""
    wrong = {**answer({"a": True}, {"a": "n1"}), "objective": tiers}
    wrong["bindings"] = [{**wrong["bindings"][0], "node": 7}]
    found = difference(answer({"a": True}, {"a": "n1"}), wrong)
    assert [tier.after for tier in found.tiers] == [None]
    assert found.moved == (Moved("ml/a", 1, ("n1",), ("7",)),)
    assert as_text(found)


def test_the_first_difference_names_its_place() -> None:
    one, other = answer({"a": True}, {"a": "n1"}), answer({"a": True}, {"a": "n2"})
    assert first_difference(one, other) == "bindings[0].node: 'n1', 'n2'"
    other = answer({"a": True}, {"a": "n1"})
    other["stats"]["elapsedSeconds"] = 9.0
    assert compare(one, other) == ""
    other["stats"]["engine"] = "f"
    assert compare(one, other) == "stats.engine: 'e', 'f'"
