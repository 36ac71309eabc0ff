"""What tests of advice share."""

from __future__ import annotations

import pytest

from controller.advice.lifecycle import AdviceLifecycle


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watches are next door: what they do not show soon was not written."""
    monkeypatch.setattr(AdviceLifecycle, "catch_up", 1.0)
