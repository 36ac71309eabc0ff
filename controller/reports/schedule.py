"""When something is to be written about gangs and pods: once, and again when it has changed.

What the API server refuses is tried again at growing intervals, while the rest goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from controller.cluster.gang_state import Body, GangState, Key, Lifecycle
from controller.cluster.view import ClusterView
from controller.reports import notices
from controller.reports.notices import Notice
from controller.reports.report import POD_MESSAGE_EVERY, Reporter
from placement.kubernetes.objects import POD, POD_GANG

#: Seconds until what could not be written is tried again ...
_RETRY: Final = 2.0
#: ... and the longest such wait, after failures in a row.
_LONGEST_RETRY: Final = 15.0

#: What is to be reported about a gang now, None when there is nothing.
NoticeOf = Callable[[GangState], Notice | None]


class _Retry(NamedTuple):
    """When something is tried again, and the wait before that, in seconds."""

    at: float
    wait: float


class ReportSchedule:
    """What has been written in one term, and what is still to be.

    `unreferenced_notice` is how long a pod may be without a gang before that is reported, in
    seconds.
    """

    def __init__(
        self, reporter: Reporter, *, scheduler_name: str, unreferenced_notice: float
    ) -> None:
        self._reporter = reporter
        self._scheduler_name = scheduler_name
        self._unreferenced_notice = unreferenced_notice
        self._written: dict[Key, tuple[Body, GangState, Notice | None]] = {}
        self._again_at: dict[Key, float] = {}
        self._unreferenced_since: dict[Key, float] = {}
        self._reported: set[Key] = set()
        self._unclear: Collection[Key] = ()
        # What could not be written, by kind and name.
        self._postponed: dict[tuple[str, Key], _Retry] = {}

    def look(self, view: ClusterView, now: float, unclear: Collection[Key] = ()) -> None:
        """Takes in what there is, and forgets what is gone. Nothing is written about gangs that are
        `unclear`: it is not known whether their pods are bound.
        """
        self._unclear = unclear
        for memory in (self._written, self._again_at):
            for key in memory.keys() - view.states.keys():
                del memory[key]
        self._unreferenced_since = {
            key: self._unreferenced_since.get(key, now) for key in view.unreferenced
        }
        self._reported &= view.unreferenced

    def has_work(self, view: ClusterView, notice_of: NoticeOf, now: float) -> bool:
        """Whether there may be something new to write."""
        return bool(self._changed(view, notice_of, now) or self._unreferenced(now))

    def write(self, view: ClusterView, notice_of: NoticeOf, now: Callable[[], float]) -> None:
        """Writes what there is to write. `now` is the clock: writing takes its time."""
        changed = self._changed(view, notice_of, now())
        found = {key: notice_of(view.states[key]) for key in changed}
        unwritten = self._reporter.report(
            view, changed, {key: notice for key, notice in found.items() if notice is not None}
        )
        for key in changed:
            self._again_at.pop(key, None)
            if key not in unwritten:
                self._written[key] = (view.gangs[key], view.states[key], found[key])
        again_at = now() + POD_MESSAGE_EVERY
        self._again_at.update(dict.fromkeys(self._reporter.postponed, again_at))
        unreferenced = self._unreferenced(now())
        failed = self._reporter.report_unreferenced(
            view, unreferenced, notices.of_unreferenced(self._scheduler_name)
        )
        self._reported.update(key for key in unreferenced if key not in failed)
        self._postpone(POD_GANG, changed, unwritten, now())
        self._postpone(POD, unreferenced, failed, now())

    def _changed(self, view: ClusterView, notice_of: NoticeOf, now: float) -> tuple[Key, ...]:
        return tuple(
            key
            for key, state in view.states.items()
            if state.lifecycle is not Lifecycle.FOREIGN
            and key not in self._unclear
            and not self._is_postponed(POD_GANG, key, now)
            and (
                self._written.get(key) != (view.gangs[key], state, notice_of(state))
                or now >= self._again_at.get(key, math.inf)
            )
        )

    def _unreferenced(self, now: float) -> tuple[Key, ...]:
        """The pods without a gang that are to be reported. Their gang may still come."""
        return tuple(
            key
            for key, since in self._unreferenced_since.items()
            if key not in self._reported
            and not self._is_postponed(POD, key, now)
            and now - since >= self._unreferenced_notice
        )

    def _is_postponed(self, kind: str, key: Key, now: float) -> bool:
        retry = self._postponed.get((kind, key))
        return retry is not None and now < retry.at

    def _postpone(
        self, kind: str, keys: Iterable[Key], unwritten: Collection[Key], now: float
    ) -> None:
        """Postpones what could not be written, twice as long each time, and nothing else: a report
        that is always refused does not delay the others.
        """
        for key in keys:
            before = self._postponed.pop((kind, key), None)
            if key in unwritten:
                wait = _RETRY if before is None else min(2 * before.wait, _LONGEST_RETRY)
                self._postponed[kind, key] = _Retry(now + wait, wait)
        self._postponed = {
            one: retry for one, retry in self._postponed.items() if retry.at > now - _LONGEST_RETRY
        }
