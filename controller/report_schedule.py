"""When something is to be written about gangs and pods: once, and again when it has changed.

What the API server does not take is tried again later and later, while the rest goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import Final

from controller import notices
from controller.cache import ClusterView
from controller.gang_state import Body, GangState, Key, Lifecycle
from controller.notices import Notice
from controller.report import POD_MESSAGE_EVERY, Reporter
from placement.kubernetes.objects import POD, POD_GANG

#: Seconds until what could not be written is tried again ...
_RETRY: Final = 2.0
#: ... and what cannot be written time and again.
_LONGEST_RETRY: Final = 15.0

#: What is to be said about a gang now, None when there is nothing.
NoticeOf = Callable[[GangState], Notice | None]


class ReportSchedule:
    """What has been written in one term, and what is still to be.

    `stray_notice` is how long a pod may be without a gang before it is told so, in seconds.
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
        # What could not be written, gangs and strays: until when it rests, and how long.
        self._resting: dict[tuple[str, Key], tuple[float, float]] = {}

    def look(self, view: ClusterView, now: float) -> None:
        """Takes in what there is, and forgets what is gone."""
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
        told = {key: notice_of(view.states[key]) for key in changed}
        unwritten = self._reporter.report(
            view, changed, {key: notice for key, notice in told.items() if notice is not None}
        )
        for key in changed:
            self._again_at.pop(key, None)
            if key not in unwritten:
                self._written[key] = (view.gangs[key], view.states[key], told[key])
        again_at = now() + POD_MESSAGE_EVERY
        self._again_at.update(dict.fromkeys(self._reporter.postponed, again_at))
        unreferenced = self._unreferenced(now())
        untold = self._reporter.report_unreferenced(
            view, unreferenced, notices.of_unreferenced(self._scheduler_name)
        )
        self._reported.update(key for key in unreferenced if key not in untold)
        self._rest(POD_GANG, changed, unwritten, now())
        self._rest(POD, unreferenced, untold, now())

    def _changed(self, view: ClusterView, notice_of: NoticeOf, now: float) -> tuple[Key, ...]:
        return tuple(
            key
            for key, state in view.states.items()
            if state.lifecycle is not Lifecycle.FOREIGN
            and not self._rests(POD_GANG, key, now)
            and (
                self._written.get(key) != (view.gangs[key], state, notice_of(state))
                or now >= self._again_at.get(key, math.inf)
            )
        )

    def _unreferenced(self, now: float) -> tuple[Key, ...]:
        """The pods without a gang that are to be told so. Their gang may be yet to come."""
        return tuple(
            key
            for key, since in self._unreferenced_since.items()
            if key not in self._reported
            and not self._rests(POD, key, now)
            and now - since >= self._unreferenced_notice
        )

    def _rests(self, kind: str, key: Key, now: float) -> bool:
        return now < self._resting.get((kind, key), (-math.inf, 0.0))[0]

    def _rest(self, kind: str, keys: Iterable[Key], unwritten: Collection[Key], now: float) -> None:
        """Lets those rest that could not be written, twice as long each time, and no others:
        one that is refused for ever keeps nobody waiting."""
        for key in keys:
            before = self._resting.pop((kind, key), (0.0, _RETRY / 2))[1]
            if key in unwritten:
                wait = min(2 * before, _LONGEST_RETRY)
                self._resting[kind, key] = now + wait, wait
        self._resting = {
            one: rest for one, rest in self._resting.items() if rest[0] > now - _LONGEST_RETRY
        }
