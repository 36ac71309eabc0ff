"""A call while it is answered: its time, and the best answer so far."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from google.protobuf import duration_pb2

from placement.v1 import placement_pb2
from placement_service.api import envelope
from placement_service.api.compute.frames import JobHead, Standing
from placement_service.api.methods import Method
from placement_service.api.settings import Settings
from placement_service.api.tracing import Trace

#: gRPC gives a call without deadline one in the far future, in seconds.
_FOREVER = 10 * 365 * 86400.0

#: Characters of a label in a log line.
MOST_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Budget:
    """Times on the clock of the event loop, which is the machine's monotonic one.

    `late` is when the best answer is sent, whatever the compute process does.
    """

    arrival: float
    answer_by: float
    deadline: float
    late: float

    @property
    def turn_by(self) -> float:
        """After this it is too late to begin."""
        return self.answer_by - 0.1 * (self.answer_by - self.arrival)

    @property
    def ended_by_deadline(self) -> bool:
        return self.answer_by >= self.deadline


def budget_of(
    settings: Settings, arrival: float, remaining: float | None, time_limit: float | None
) -> Budget:
    """The sooner of time limit and deadline, the latter less a margin."""
    limit = time_limit if time_limit is not None and time_limit > 0 else settings.default_time_limit
    limit = min(limit, settings.max_time_limit)
    answer_by = arrival + limit
    late = answer_by + 0.04 * limit + 0.08
    deadline = float("inf")
    if remaining is not None and remaining < _FOREVER:
        margin = min(settings.deadline_margin, 0.1 * remaining)
        deadline = arrival + remaining - margin
        late = min(late, arrival + remaining - margin / 3)
    return Budget(arrival, min(answer_by, deadline), deadline, late)


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call: its request and the question in it, its time, and the best answer so far."""

    method: Method
    request: memoryview
    question: memoryview
    label: str
    title: str
    #: What its log lines are about, in fields, and where they are written.
    about: dict[str, str]
    log: logging.LoggerAdapter[logging.Logger]
    budget: Budget
    tell: Callable[[bytes], None]
    trace: Trace
    #: The digest of the snapshot that it is based on, and the requests that this is made from.
    base: bytes | None = None
    told: Sequence[bytes] = field(default=(), init=False)
    #: The digest of the request, empty until it was read.
    digest: bytes = field(default=b"", init=False)
    best: bytes | None = field(default=None, init=False)
    #: The answer that nothing is placed, for when time ends before the request is read.
    bare: bytes | None = field(default=None, init=False)
    standing: Standing = field(default=Standing.NOTHING, init=False)
    end: asyncio.Timeout | None = field(default=None, init=False)
    hurried: bool = field(default=False, init=False)
    #: The name of the saved request, "" for none.
    dump: str = field(default="", init=False)

    def hurry(self) -> None:
        """Ends the call with the best answer, now or once there is one."""
        self.hurried = True
        found = self.standing is not Standing.NOTHING
        if found and self.end is not None and not self.end.expired():
            self.end.reschedule(asyncio.get_running_loop().time())

    def head(self) -> JobHead:
        """What the compute process is told with the request."""
        budget = self.budget
        return JobHead(self.method.call, budget.arrival, budget.answer_by, budget.deadline)

    def elapsed(self) -> float:
        """Seconds since the request arrived."""
        return asyncio.get_running_loop().time() - self.budget.arrival

    def best_so_far(self, termination: placement_pb2.Termination | None = None) -> bytes:
        """The best answer, with the time that passed, and another end if it is not proven."""
        assert self.best is not None
        if self.standing is Standing.PARTIAL or not self.method.placement:
            return self.best
        if self.standing is Standing.PROVEN:
            termination = None
        elapsed = duration_pb2.Duration()
        elapsed.FromNanoseconds(int(self.elapsed() * 1e9))
        stats = placement_pb2.SolveStats(elapsed=elapsed)
        change = placement_pb2.Placement(stats=stats, termination=termination)
        return envelope.amended(self.best, self.method.placement, change)


def shown_title(label: str) -> str:
    """The name of a request in log lines; callers may give it one."""
    if not label:
        return "a request without a label"
    return ascii(label if len(label) <= MOST_SHOWN else label[:MOST_SHOWN] + "...")
