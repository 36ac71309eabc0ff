"""Keeps the cache up to date: list once, then watch, for each kind in a thread of its own.

A watch that ends or breaks is resumed where it was. Only when the API server no longer has that
version (410) everything is listed anew. A kind that the cluster does not have (404: Grove is not
installed yet) counts as empty and is looked for from time to time. What to do about an error is a
value, `after`; the thread only does it.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from controller.cluster import gang_state as state
from placement.cluster import ApiError, Body, Cluster, WatchStream
from placement.resources import Resource

logger = logging.getLogger(__name__)

_SHORTEST = 0.2
_LONGEST = 15.0
#: Seconds; a watch that ends sooner, without any event, is broken.
_BRIEF = 1.0
#: So many broken ones in a row, and only lists show what there is.
_MANY = 3
#: Seconds; where a watch keeps its history for longer, losing it is no habit.
_LASTING = 60.0


class Action(Enum):
    """What to do about an error."""

    RESUME = "resume"
    RELIST = "relist"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Next:
    """What to do, after so many seconds."""

    action: Action
    seconds: float


def after(error: ApiError, failures: int, *, absent_poll: float, jitter: float) -> Next:
    """What to do about an error; `failures` counts those in a row, from 1.

    `jitter` between 0 and 1 keeps replicas from coming back all at once.
    """
    backoff = min(_LONGEST, _SHORTEST * 2.0 ** min(failures - 1, 30)) * (0.5 + jitter / 2)
    if error.status == 404:
        return Next(Action.ABSENT, absent_poll)
    if error.status == 410:
        return Next(Action.RELIST, 0.0 if failures == 1 else backoff)
    if error.status == 429:
        return Next(Action.RESUME, max(backoff, error.retry_after or 0.0))
    if error.status == 0 or error.status >= 500 or error.status in (401, 408):
        return Next(Action.RESUME, backoff)
    # The server does not understand this version; it is of no use to name it again. Or we may list
    # and not watch (403): then a list now and then shows what there is.
    return Next(Action.RELIST, backoff)


class Sink(Protocol):
    """Where a watch stores what it sees (see `cache.ClusterCache`)."""

    def observe(self, kind: str, body: Body, *, deleted: bool = False) -> None: ...

    def replace(self, kind: str, bodies: Iterable[state.Body]) -> None: ...

    def unsync(self, kind: str) -> None: ...

    def trimmed(self, bodies: Iterable[Body]) -> list[state.Body]: ...


class Watcher:
    """Watches one kind. `run` returns after `stop`. All three of `run`, `stop` and `relist` may be
    called from any thread.
    """

    def __init__(
        self,
        cluster: Cluster,
        resource: Resource,
        cache: Sink,
        *,
        fields: str = "",
        absent_poll: float = 10.0,
        silence: float = 90.0,
        on_event: Callable[[str], None] = lambda kind: None,
        on_list: Callable[[str], None] = lambda kind: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._cluster = cluster
        self._resource = resource
        self._cache = cache
        self._fields = fields
        self._absent_poll = absent_poll
        self._silence = silence
        self._on_event = on_event
        self._on_list = on_list
        self._jitter = jitter
        # Several kinds have the same name.
        self._which = {"kind": resource.kind, "api": resource.api_version}
        self._stopped = threading.Event()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._stream: WatchStream | None = None
        self._relist = False
        # In a row, and how often the history was lost soon after a list.
        self._failures = 0
        self._losses = 0

    def run(self) -> None:
        """Lists and watches until stopped."""
        revision = ""
        while not self._stopped.is_set():
            try:
                with self._lock:
                    if self._relist:
                        self._relist, revision = False, ""
                if not revision:
                    revision = self._list()
                if revision:
                    revision = self._follow(revision)
            except ApiError as error:
                revision = self._recover(error, revision)

    def relist(self) -> None:
        """Lists everything anew, without waiting for the watch to end; until then the kind
        counts as unknown."""
        with self._lock:
            self._relist = True
            self._cache.unsync(self._resource.kind)
            if self._stream is not None:
                self._stream.close()
        self._woken.set()

    def stop(self) -> None:
        """Ends `run`."""
        self._stopped.set()
        self.relist()

    def _list(self) -> str:
        """Lists everything; where to watch from, empty when it is to be listed once more."""
        kind = self._resource.kind
        bodies: list[state.Body] = []
        revision = ""
        for page in self._cluster.pages(self._resource, fields=self._fields):
            bodies += self._cache.trimmed(page.items)
            revision = page.revision
        with self._lock:
            if self._relist:
                # This list was begun before a new one was asked for, so it may be too old.
                return ""
            self._cache.replace(kind, bodies)
        self._on_list(kind)
        logger.info("listed %d", len(bodies), extra={**self._which, "revision": revision})
        return revision

    def _follow(self, revision: str) -> str:
        """Watches until the server ends it; where to resume."""
        stream = self._cluster.watch(
            self._resource,
            revision,
            fields=self._fields,
            seconds=int(300 * (1 + self._jitter())),
            silence=self._silence,
        )
        with self._lock:
            self._stream = stream
            if self._relist:
                stream.close()
        began, started = revision, time.monotonic()
        try:
            with stream:
                for event in stream:
                    revision = self._take(event) or revision
        except ApiError as error:
            # Events before the break were stored already.
            raise _Broken(error, revision) from error
        finally:
            lasted = time.monotonic() - started
            if lasted >= _LASTING:
                self._losses = 0
            with self._lock:
                self._stream = None
                wanted = self._relist
        if revision == began and lasted < _BRIEF and not wanted:
            # With some proxy in between, asking again at once would repeat without end.
            raise _Broken(ApiError(0, "the watch ended as it began"), revision, told=False)
        self._failures = 0
        return revision

    def _take(self, event: Body) -> str:
        """Passes one event on; returns where it leaves us."""
        kind, body = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise ApiError(int(body.get("code") or 500), str(body.get("message", "")))
        self._failures = 0
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            self._cache.observe(self._resource.kind, body, deleted=kind == "DELETED")
            self._on_event(self._resource.kind)
        return str((body.get("metadata") or {}).get("resourceVersion", ""))

    def _recover(self, error: ApiError, revision: str) -> str:
        """Waits as the error demands; returns where to go on, empty for a new list."""
        silent = False
        if isinstance(error, _Broken):
            revision, silent = error.revision, not error.told
        # A list that succeeds does not count: if its version were lost at once each time,
        # everything would be listed without end.
        self._failures += 1
        count = self._failures
        if error.status == 410:
            # Events before it do not count either.
            self._losses += 1
            count = max(count, self._losses)
        todo = after(error, count, absent_poll=self._absent_poll, jitter=self._jitter())
        if silent and count >= _MANY:
            # Nothing may ever come on it: a list now and then shows what there is.
            todo = Next(Action.RELIST, todo.seconds)
        kind = self._resource.kind
        # An outage is said at its beginning, and ever less often while it lasts.
        is_power_of_two = count & (count - 1) == 0
        level = logging.WARNING if is_power_of_two else logging.DEBUG
        if todo.action is Action.ABSENT:
            level = logging.INFO if self._failures == 1 else logging.DEBUG
            self._cache.replace(kind, [])
            # However long that lasts, it does not delay the recovery from later errors.
            self._failures = min(self._failures, 2)
        logger.log(
            level,
            "%s; %s in %.1f s",
            error,
            todo.action.value,
            todo.seconds,
            extra={**self._which, "status": error.status},
        )
        self._woken.clear()
        with self._lock:
            wanted = self._relist
        if not wanted:
            self._woken.wait(todo.seconds)
        return revision if todo.action is Action.RESUME else ""


class _Broken(ApiError):
    """A watch that broke, and how far it had come."""

    def __init__(self, error: ApiError, revision: str, *, told: bool = True) -> None:
        """With `told` it broke with an error; else it ended without a word."""
        super().__init__(
            error.status, error.message, reason=error.reason, retry_after=error.retry_after
        )
        self.revision = revision
        self.told = told
