"""A service for the tests of a module, and where its engines meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.api.serving import (
    Running,
    running,
)
from tests.service.engines import MEETING


@pytest.fixture
def meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which engines of that name meet (see `engines`)."""
    folder = tmp_path / "meeting"
    folder.mkdir()
    monkeypatch.setenv(MEETING, str(folder))
    return folder


@pytest.fixture(scope="module")
def usual() -> Iterator[Running]:
    with running("placement_service.search.engine:search") as service:
        yield service
