"""What is remembered of each gang: its last answer, its last plan, and since when it is in
its present state. What is reported about it now follows from that. It may be lost: the cluster says
what is bound, and the next answer says the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from controller.batch import Queue
from controller.binding.apply import Outcome
from controller.cluster.gang_state import GangState, Key, Lifecycle
from controller.reports import notices
from controller.reports.notices import Notice

_ACTIVE = frozenset({Lifecycle.WAITING, Lifecycle.PENDING})


class GangHistory:
    """The memory of one term. Times are in seconds, of any clock that never goes back.

    A gang that is half bound is reported as such after `half_bound_limit`; one whose pods are
    missing, or whose plans fail, after `waiting_notice`.
    """

    def __init__(self, *, half_bound_limit: float, waiting_notice: float) -> None:
        self._half_bound_limit = half_bound_limit
        self._waiting_notice = waiting_notice
        self._uids: dict[Key, str] = {}
        self._answers: dict[Key, Notice] = {}
        self._outcomes: dict[Key, Outcome] = {}
        self._refused: set[Key] = set()
        self._half_since: dict[Key, float] = {}
        self._waiting_since: dict[Key, float] = {}

    @property
    def half_bound(self) -> int:
        """How many gangs run some pods, but too few."""
        return len(self._half_since)

    def look(self, states: Mapping[Key, GangState], now: float) -> None:
        """Takes in the states of all gangs, and forgets those that are gone."""
        # A later gang of the same name is another gang.
        later = {key for key, s in states.items() if self._uids.get(key, s.uid) != s.uid}
        self._uids = {key: state.uid for key, state in states.items()}
        for memory in (self._answers, self._outcomes, self._half_since, self._waiting_since):
            for key in (later & memory.keys()) | (memory.keys() - states.keys()):
                del memory[key]
        half = {key for key, s in states.items() if s.is_half_bound and s.lifecycle in _ACTIVE}
        waiting = {key for key, s in states.items() if s.lifecycle is Lifecycle.WAITING}
        for key in waiting & self._answers.keys():
            # The answer was about pods that are gone, or that could not be bound.
            if self._answers[key].reason != notices.REFUSED:
                del self._answers[key]
        self._half_since = {key: self._half_since.get(key, now) for key in half}
        self._waiting_since = {key: self._waiting_since.get(key, now) for key in waiting}

    def knows(self, key: Key) -> bool:
        """Whether there was an answer about a gang."""
        return key in self._answers

    def answered(self, key: Key, notice: Notice) -> bool:
        """Takes in the answer about a gang; returns whether it is new."""
        is_new = self._answers.get(key) != notice
        self._answers[key] = notice
        return is_new

    def not_answered(self, keys: Iterable[Key], notice: Notice) -> None:
        """Takes in why there was no answer about these gangs."""
        for key in keys:
            # The message differs from one failure to the next; the first is kept.
            if (before := self._answers.get(key)) is None or before.reason != notice.reason:
                self._answers[key] = notice

    def applied(self, outcome: Outcome) -> None:
        """Takes in what became of a gang's plan."""
        key = outcome.plan.gang
        if outcome.is_whole:
            self._outcomes.pop(key, None)
        elif outcome.stale:
            # The cause differs each time; the first is kept.
            self._outcomes.setdefault(key, outcome)
        else:
            self._outcomes[key] = outcome
            if outcome.is_refused:
                self._refused.add(key)

    def take_refused(self) -> frozenset[Key]:
        """The gangs of which the API server took no binding since this was asked last."""
        refused = frozenset(self._refused)
        self._refused.clear()
        return refused

    def notice(self, state: GangState, queue: Queue, now: float) -> Notice | None:
        """What is to be reported about a gang; None when nothing is known."""
        key = state.key
        answer = self._answers.get(key)
        if now - self._half_since.get(key, math.inf) >= self._half_bound_limit:
            waits = notices.of_waiting(state) if key in self._waiting_since else answer
            return notices.of_half_bound(state, waits, self._outcomes.get(key))
        if key in self._waiting_since:
            # Pods whose node is gone will never run: waiting longer does not help.
            due = state.has_lost or now - self._waiting_since[key] >= self._waiting_notice
            return notices.of_waiting(state) if due else None
        queued, outcome = queue.get(key), self._outcomes.get(key)
        if (
            queued is not None
            and outcome is not None
            and now - queued.since >= self._waiting_notice
            and not (answer is not None and answer.reason)
        ):
            return notices.of_outcome(outcome, answer)
        return answer
