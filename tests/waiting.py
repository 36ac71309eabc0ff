"""Waiting for what must happen: long, for only what never happens takes so long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: Seconds. Longer than anything takes, even on a busy machine that hangs for a while.
LONG: Final = 90.0


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = LONG) -> None:
    """Wait for a fact. Raises AssertionError, saying what was waited for.

    What takes longer is looked at less often: looks keep servers and other tests waiting.
    """
    begun = time.monotonic()
    while not condition():
        waited = time.monotonic() - begun
        assert waited < seconds, f"after {seconds:g} s still not: {what}"
        time.sleep(min(max(0.04, waited / 5), 0.4))
