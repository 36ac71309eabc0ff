"""The numbered steps of a cycle, and an observer of them.

The process may die between any two of them; tests kill it there.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum


class Step(IntEnum):
    """What the controller is doing. `EVICT` and `EVICTED`, `BIND` and `BOUND` come once per pod,
    inside `APPLY`, and `WRITE` once per object that is reported on, inside `REPORT`. `ADVISE` comes
    with each write of advice, in a cycle of its own (see `advice`)."""

    COLLECT = 1
    SNAPSHOT = 2
    TRANSLATE = 3
    ASK = 4
    APPLY = 5
    EVICT = 6
    EVICTED = 7
    BIND = 8
    BOUND = 9
    REPORT = 10
    WRITE = 11
    REQUEUE = 12
    ADVISE = 13


#: Called with each step as it begins, from the thread that does it.
StepObserver = Callable[[Step], None]


def ignored(step: Step) -> None:
    """Observes nothing."""
