"""What is written of advice on pods, and what is read there: anybody may write on their own."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from controller.advice.advice import Advice, Mark, read_advice
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body
from placement.advice_marks import ADVICE
from placement.kubernetes.nodes.device_annotations import ALLOCATED
from placement.kubernetes.pods.pods import KAI_GROUP

ID = "0123456789abcdef"
MARK = Mark("ml", ID)


def pod(name: str, said: str | None, namespace: str = "ml") -> Body:
    annotations = {} if said is None else {ADVICE: said}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"metadata": {**metadata, "annotations": annotations}}


def said(**changes: Any) -> str:
    """Advice for one pod with other values; a value that is None is left out."""
    usual = {"id": ID, "gang": "ml/g", "by": "kai", "size": 2, "node": "a", "until": 5.5}
    return json.dumps({k: v for k, v in {**usual, **changes}.items() if v is not None})


def read(*pods: Body) -> dict[Mark, Advice]:
    return read_advice({(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in pods})


def test_what_is_written_is_read() -> None:
    """Without what nobody has seen or noted, and without notes that are not about devices."""
    notes = ((ALLOCATED, "{}"), (KAI_GROUP, "one"))
    advice = Advice(
        ID,
        ("ml", "g"),
        "kai",
        (Binding(("ml", "p"), "uid-p", "a", notes), Binding(("ml", "q"), "uid-q", "b")),
        1234.568,
        2,
        {"a": "print"},
    )
    texts = [advice.annotation(one) for one in advice.bindings]
    assert [sorted(json.loads(text)) for text in texts] == [
        ["by", "gang", "id", "node", "notes", "seen", "size", "until"],
        ["by", "gang", "id", "node", "size", "until"],
    ]
    assert read(pod("p", texts[0]), pod("q", texts[1])) == {MARK: advice}
    (other,) = read(pod("p", said(notes={"example.com/note": "x"}))).values()
    assert other.bindings[0].notes == ()


def test_advice_is_whole_when_it_is_on_every_pod() -> None:
    assert not read(pod("p", said()))[MARK].is_whole
    both = read(pod("p", said(seen="x")), pod("q", said(node="b", seen="y")))[MARK]
    assert both.is_whole
    assert both.nodes == {("ml", "p"): "a", ("ml", "q"): "b"}
    assert both.seen == {"a": "x", "b": "y"}


def test_what_is_told_twice_counts_as_it_was_told_first() -> None:
    (found,) = read(pod("p", said()), pod("q", said(by="x", until=9.0, size=7))).values()
    assert (found.by, found.until, found.size) == ("kai", 5.5, 2)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="nothing"),
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="a list"),
        pytest.param("[" * 100_000, id="nested without end"),
        pytest.param(said(id="x" * 16), id="an id that is none"),
        pytest.param(said(id=ID + "0"), id="a longer id"),
        pytest.param(said(gang="other/g"), id="a gang of another namespace"),
        pytest.param(said(until=math.inf), id="for ever"),
        pytest.param(said(until=math.nan), id="at no time"),
        pytest.param(said(until="soon"), id="a time in words"),
        pytest.param(said(size=math.inf), id="of endless size"),
        pytest.param(said(notes=5), id="notes that are none"),
        pytest.param(said(node=None), id="without a node"),
    ],
)
def test_what_is_no_advice_is_passed_over(text: str | None) -> None:
    assert list(read(pod("p", text), pod("q", said()))) == [MARK]
    assert read(pod("p", text)) == {}


def test_another_namespace_may_copy_an_id() -> None:
    found = read(pod("p", said()), pod("p", said(gang="other/g"), namespace="other"))
    assert {mark: one.gang for mark, one in found.items()} == {
        MARK: ("ml", "g"),
        Mark("other", ID): ("other", "g"),
    }
    assert all(len(one.bindings) == 1 for one in found.values())
