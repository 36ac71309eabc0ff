"""Where the time of a request goes: its stages, and who is told of them.

    with stage(Stage.FORMULATE):
        ...

Stages are reported like log lines: no result ever depends on them. A compute process or a solver
process that wants to know says so once, for everything that runs in its context; otherwise they
cost nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import NamedTuple


class Stage(IntEnum):
    """A part of the way of a request; the numbers are what processes tell each other."""

    # At the edge.
    ARRIVE = 1
    """The message comes over the network."""
    WAIT = 2
    """Until it is its turn."""
    COMPUTE = 3
    """A compute process works on it; all stages below except `SEND` happen meanwhile."""
    SEND = 4
    """The answer is sent, and read by the caller."""
    # In the compute process.
    READ = 5
    """Bytes become values."""
    FORMULATE = 6
    FIRST_ANSWER = 7
    JUDGE = 8
    SEARCH = 9
    EXPLAIN = 10
    WRITE = 11
    """Values become bytes."""
    # In the solver process, while the compute process is in SEARCH.
    COUNT = 20
    DECODE = 21
    AGGREGATE = 22
    IMPROVE = 23
    EXACT = 24
    CONFIGURE = 25
    VICTIMS = 26
    FILL = 27
    EXCHANGE = 28

    @property
    def label(self) -> str:
        """Its name in metrics and traces."""
        return self.name.lower()


class Passed(NamedTuple):
    """A stage that is over; times in seconds on the machine's monotonic clock."""

    stage: Stage
    begin: float
    end: float


Tell = Callable[[Passed], None]

_tell: ContextVar[Tell | None] = ContextVar("tell", default=None)


@contextmanager
def stage(which: Stage) -> Iterator[None]:
    """Tells how long the block took, also when it ends by an exception."""
    tell = _tell.get()
    if tell is None:
        yield
        return
    begin = time.monotonic()
    try:
        yield
    finally:
        tell(Passed(which, begin, time.monotonic()))


@contextmanager
def told(tell: Tell) -> Iterator[None]:
    """Within the block `tell` learns of each stage as it ends."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def tell(passed: Passed) -> None:
    """Passes on a stage of another process."""
    if (listener := _tell.get()) is not None:
        listener(passed)
