"""What tests of advice share."""

from __future__ import annotations

import pytest

from controller.advice import cycle, lifecycle


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watches are next door: what they do not show soon was not written."""
    for module in (cycle, lifecycle):
        monkeypatch.setattr(module, "_SETTLE", 3.0)
