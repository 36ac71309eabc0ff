"""The end of the time that a part of the work has."""

from __future__ import annotations

import time


class OutOfTime(Exception):
    """There is no time left for it; what was found before still counts."""


def check_time(until: float) -> None:
    """Raises OutOfTime where `time.monotonic` is past `until`."""
    if time.monotonic() > until:
        raise OutOfTime
