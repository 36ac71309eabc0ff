"""The pages on the house and the engine name files that exist, and no folder is missing."""

from __future__ import annotations

import re

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


def _named(page: str) -> list[str]:
    """Paths and modules in backticks, and the modules on the way of a request."""
    text = (ROOT / "docs" / page).read_text()
    fences = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    paths = re.findall(r"`((?:[a-z_]+/)+[a-z_.]*)`", text)
    modules = re.findall(
        r"`((?:api|formulation|search|cp_sat|judge|explain|heuristic)\.[a-z_]+)`", text
    )
    return [*paths, *modules, *re.findall(r"\b(?:cp_sat|search)\.[a-z_]+", "\n".join(fences))]


@pytest.mark.parametrize("page", ["architecture.md", "engine.md"])
def test_what_a_page_names_is_there(page: str) -> None:
    named = _named(page)
    assert len(named) > 10
    assert [path for path in named if not _there(path)] == []


def test_every_folder_of_the_service_is_shown() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    folders = {path.parent.name for path in (ROOT / "placement_service").glob("*/__init__.py")}
    assert {name for name in folders if f"`placement_service/{name}`" not in text} == set()
