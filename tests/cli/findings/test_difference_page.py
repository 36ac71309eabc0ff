"""The difference of two answers as a picture."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from placement.cli.findings.difference_page import page
from placement.planning.diff import difference, seats


def answer(placed: bool, node: str, admitted: float) -> dict[str, Any]:
    where = [{"namespace": "ml", "pod": "a-0", "podGang": "<a>", "node": node}]
    return {
        "podGangs": [
            {"namespace": "ml", "name": "<a>", "placed": True},
            {"namespace": "ml", "name": "b", "placed": placed},
        ],
        "bindings": where,
        "objective": [{"tier": "admitted", "value": admitted}],
    }


def drawn(before: dict[str, Any], after: dict[str, Any]) -> str:
    return page(difference(before, after), seats(before, after), before="x.json", after="y.json")


def test_gangs_tiers_and_nodes_that_changed_are_drawn() -> None:
    text = drawn(answer(False, "n1", 8), answer(True, "n2", 16))
    assert "placed only after" in text
    assert "1 pod moved" in text
    drawings = [
        ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>")
        for part in text.split("<svg")[1:]
    ]
    said = [[one.text for one in drawing.iter("text")] for drawing in drawings]
    assert said == [["admitted", "8", "16"], ["before", "after", "n1", "n2"]]
    assert len(list(drawings[1].iter("rect"))) == 2


def test_names_are_escaped() -> None:
    text = drawn(answer(True, "n1", 8), answer(True, "<script>", 8))
    assert "<script>" not in text
    assert "ml/&lt;a&gt;" in text


def test_equal_answers_say_so() -> None:
    assert "say the same" in drawn(answer(True, "n1", 8), answer(True, "n1", 8))
