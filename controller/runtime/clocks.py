"""The two clocks that decisions are made by."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clocks:
    """`steady` measures how long something takes, and never jumps. `wall` is seconds since the
    epoch, which may jump, for times that others read, or that another replica goes on with.
    """

    steady: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


CLOCKS = Clocks()
