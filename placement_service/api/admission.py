"""Who may compute now, who waits, and who is sent away.

At most `max_concurrent` requests compute at once, in order of arrival, and at
most `max_pending` wait for them. A request holds its place from the moment it
arrives, so that even reading it is bounded.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from placement_service.entities.errors import Busy, DeadlineTooShort, Draining
from placement_service.entities.progress import Interrupted, Interrupter


class Admission:
    """The door of the service."""

    def __init__(
        self, *, max_concurrent: int, max_pending: int, retry_after_seconds: float
    ) -> None:
        self._changed = threading.Condition()
        self._max_concurrent = max_concurrent
        self._max_pending = max_pending
        self._retry_after_seconds = retry_after_seconds
        self._present = 0
        self._computing = 0
        self._queue: deque[object] = deque()
        self._draining = False

    def drain(self) -> None:
        """Lets nobody in from now on; those inside go on."""
        with self._changed:
            self._draining = True

    def wait_until_empty(self, timeout: float) -> bool:
        """Whether nobody is inside, after waiting `timeout` seconds at most."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._present, timeout)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place inside; raises Draining, or Busy when all are taken."""
        with self._changed:
            if self._draining:
                raise Draining
            if self._present >= self._max_concurrent + self._max_pending:
                raise Busy(
                    maximum_pending=self._max_pending,
                    retry_after_seconds=self._retry_after_seconds,
                )
            self._present += 1
        try:
            yield
        finally:
            with self._changed:
                self._present -= 1
                self._changed.notify_all()

    @contextmanager
    def turn(self, *, deadline: float, interrupter: Interrupter) -> Iterator[None]:
        """A turn to compute, first come first served.

        Raises Interrupted when the interrupter says so while waiting, and
        DeadlineTooShort when `time.monotonic()` passes `deadline`.
        """
        me = object()
        begin = time.monotonic()

        def wake() -> None:
            with self._changed:
                self._changed.notify_all()

        def is_my_turn() -> bool:
            return self._queue[0] is me and self._computing < self._max_concurrent

        with self._changed:
            self._queue.append(me)
        try:
            with interrupter.calling(wake), self._changed:
                self._changed.wait_for(
                    lambda: is_my_turn() or interrupter.interrupted,
                    min(max(0.0, deadline - begin), threading.TIMEOUT_MAX),
                )
                if interrupter.interrupted:
                    raise Interrupted
                if not is_my_turn():
                    raise DeadlineTooShort(elapsed_seconds=time.monotonic() - begin)
                self._computing += 1
        finally:
            with self._changed:
                self._queue.remove(me)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._computing -= 1
                self._changed.notify_all()
