"""Whether this replica may act, and whether it makes progress.

`Authority` and `Heartbeat` are shared by everything that writes to the cluster, so that
nothing is sent after the lease was lost, and a step that hangs is noticed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from controller.runtime.steps import Step, StepObserver, ignored


class Leadership(Protocol):
    """Whether we may act, and in which term; terms count from 1, and 0 is a term without end."""

    @property
    def leads(self) -> bool: ...

    @property
    def term(self) -> int: ...


class AlwaysLeader:
    """Leads always: there are no other replicas, or nothing is written."""

    leads = True
    term = 0


class Authority:
    """The right to act in one term. Any thread may ask.

    What was planned in one term is not carried out in another: a different leader may have
    overtaken it.
    """

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self._term = leadership.term
        self._stopped = threading.Event()

    def leads(self) -> bool:
        """Whether what was begun may be continued: we lead, in the same term."""
        return self._leadership.leads and not self.is_new_term

    def may_act(self) -> bool:
        """Whether something new may be begun."""
        return self.leads() and not self.is_stopped

    @property
    def is_leader(self) -> bool:
        """Whether we hold the lease, in whatever term."""
        return self._leadership.leads

    @property
    def is_new_term(self) -> bool:
        """Whether the lease was lost and won again since `begin_term`."""
        return self._leadership.term != self._term

    def begin_term(self) -> None:
        """Plans from now on belong to the present term."""
        self._term = self._leadership.term

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """From now on nothing new is begun."""
        self._stopped.set()

    def wait(self, seconds: float) -> None:
        """Waits for so many seconds, or until stopped."""
        self._stopped.wait(seconds)


class Heartbeat:
    """When something last happened. `on_step` is told of every step."""

    def __init__(
        self,
        on_step: StepObserver = ignored,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._on_step = on_step
        self._clock = clock
        self._moved_at = clock()

    def beat(self) -> None:
        """The present step makes progress."""
        self._moved_at = self._clock()

    def step(self, step: Step) -> None:
        """A step begins, in any thread."""
        self.beat()
        self._on_step(step)

    @property
    def stuck_for(self) -> float:
        """Seconds since something last happened."""
        return self._clock() - self._moved_at
