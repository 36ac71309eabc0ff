"""YAML that would end the program that reads it."""

from __future__ import annotations

import pytest

from placement.kubernetes.files.yaml_text import documents

DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("- " * DEEP, id="lists"),
        pytest.param("a: " + "[" * DEEP, id="lists in brackets"),
        pytest.param("{a: " * DEEP, id="mappings in brackets"),
        pytest.param("? " * DEEP, id="keys of keys"),
        pytest.param("- ? " * DEEP, id="keys in lists"),
        pytest.param('["]", ' * DEEP, id="brackets in words"),
        pytest.param("".join(f"{' ' * i}a:\n" for i in range(1000)), id="lines"),
    ],
)
def test_what_nests_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(RecursionError, match="nested too deeply"):
        list(documents(text))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("- " * 100 + "a", id="lists"),
        pytest.param("[" * 100 + "]" * 100, id="lists in brackets"),
        pytest.param("- [a]\n" * 1000, id="many brackets"),
        pytest.param("# " + "[" * 1000 + "\na: 1", id="a remark"),
        pytest.param("-" * 1000 + "\n", id="a line"),
        pytest.param("a: |\n" + "".join(f"{' ' * (i + 1)}b\n" for i in range(600)), id="a text"),
    ],
)
def test_what_only_looks_like_it_is_read(text: str) -> None:
    assert len(list(documents(text))) == 1
