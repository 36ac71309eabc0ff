"""Whether there is time for all of many steps."""

from __future__ import annotations

import math
import time

from placement_service.entities.request import Policy

#: So many steps tell how long the others take.
ENOUGH = 8

#: How much longer than there is time steps may seem to take: most of them can be made shorter.
MOST_BEHIND = 3.0


class NoTimeForAll(Exception):
    """Not nearly all steps would be done in time."""


class Pace:
    """How fast `count` steps are done that end at a deadline in `time.monotonic` seconds. Where no
    clock may decide there is time for all.
    """

    def __init__(self, count: int, until: float, policy: Policy) -> None:
        self._count, self._begin = count, time.monotonic()
        self._until = math.inf if policy.deterministic else until

    def behind(self, left: int) -> float:
        """How much longer than there is time the steps take that are left, if each takes as long as
        those before; 0 as long as these are few.
        """
        done, now = self._count - left, time.monotonic()
        if done < ENOUGH or self._until == math.inf:
            return 0.0
        return (now - self._begin) / done * left / max(self._until - now, 1e-9)

    def share(self, left: int) -> float:
        """When the next of the steps that are left should end, so that each has as much time."""
        now = time.monotonic()
        return now + (self._until - now) / left
