"""The pages on the architecture and the engine name files that exist, and no folder is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import ROOT

#: What the pages leave out in front of a path.
ABOVE = (ROOT, ROOT / "placement_service", ROOT / "controller", ROOT / "clients/python/placement")


def _there(path: str) -> bool:
    """Whether a path, or a dotted module, names something, with or without ``.py``."""
    return any(
        (above / f"{path}{end}").exists()
        for path in (path, path.replace(".", "/"))
        for end in ("", ".py")
        for above in ABOVE
    )


def _modules(text: str) -> list[str]:
    """Dotted modules in backticks."""
    return re.findall(
        r"`((?:api|bounds|cp_sat|explain|formulation|heuristic|judge|pipeline|search)\.[a-z_.]+)`",
        text,
    )


def _named(page: str) -> list[str]:
    """Paths and modules in backticks, and the modules on the way of a request."""
    text = (ROOT / "docs" / page).read_text()
    fences = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    paths = re.findall(r"`((?:[a-z_]+/)+[a-z_.]*)`", text)
    shown = re.findall(r"\b(?:cp_sat|search)\.[a-z_.]+", "\n".join(fences))
    return [*paths, *_modules(text), *shown]


@pytest.mark.parametrize("page", ["architecture.md", "engine.md"])
def test_what_a_page_names_is_there(page: str) -> None:
    named = _named(page)
    assert len(named) > 10
    assert [path for path in named if not _there(path)] == []


def test_modules_that_the_code_speaks_of_are_there() -> None:
    """In docstrings and comments of the service, where no import keeps them true."""
    pages = {path: path.read_text() for path in (ROOT / "placement_service").rglob("*.py")}
    named = {(path.name, name) for path, text in pages.items() for name in _modules(text)}
    assert len(named) > 10
    assert {(path, name) for path, name in named if not _there(name)} == set()


@pytest.mark.parametrize("root", ["placement_service", "clients/python/placement", "controller"])
def test_every_folder_is_shown(root: str) -> None:
    """Those right below the root by their whole paths or without it, others without it."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    inside = {path.parent.relative_to(ROOT / root) for path in (ROOT / root).rglob("__init__.py")}
    # Stubs are the API's.
    folders = {folder for folder in inside if folder.name != "v1"}
    shown = {
        folder
        for folder in folders
        if any(f"`{name}`" in text for name in (folder, f"{folder}/", f"{root}/{folder}"))
    }
    assert folders - shown == {Path()}
