"""The cycle: collect, snapshot, translate, ask, apply, report, requeue.

Everything that it remembers from one cycle to the next is a convenience: who waits since
when, what was last said about whom. All of it may be lost at any line, for the cluster
says what is bound, and the next cycle begins with that.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from controller import batch, notices
from controller.apply import Applier, Binding, Outcome, Result, Tried, plans
from controller.ask import Asker
from controller.cache import ClusterCache, ClusterView
from controller.leaning import leans_on
from controller.metrics import Metrics
from controller.notices import Notice
from controller.question import Question, key_of_resource, pose, without
from controller.report import POD_MESSAGE_EVERY, Reporter
from controller.standing import Body, Key, Standing, State
from controller.steps import Entered, Step, ignored
from placement import v1
from placement.cluster import ApiError
from placement.errors import BusyError, InvalidRequestError, PlacementError
from placement.kubernetes import InputError
from placement.kubernetes.objects import POD, POD_GANG

logger = logging.getLogger(__name__)

#: Seconds between two looks at a cluster in which much happens.
_TICK = 0.05
#: Seconds between two looks at a cluster in which nothing happens.
_IDLE = 1.0
#: Seconds until what could not be written, or looked at, is tried again.
_RETRY = 2.0
#: ... and what cannot be written time and again.
_LONGEST_RETRY = 15.0
#: Questions with faulty parts left out, one after another, in one cycle.
_MOST_QUESTIONS = 4


class Leadership(Protocol):
    """Whether we may act, and since which term; terms count from 1, and 0 is for ever."""

    @property
    def leads(self) -> bool: ...

    @property
    def term(self) -> int: ...


class Alone:
    """Leads always: there are no other replicas, or nothing is written."""

    leads = True
    term = 0


class Looker(Protocol):
    """Finds out what became of a binding (see `apply.KubernetesBinder`)."""

    def look(self, binding: Binding, *, timeout: float) -> Tried: ...


@dataclass(frozen=True, slots=True)
class Rules:
    """How the cycle behaves; see the settings of the same names."""

    scheduler_name: str
    binds: bool
    window: batch.Window
    backoff: batch.Backoff
    time_limit: float
    patience: float
    deterministic: bool
    half_bound_limit: float
    waiting_notice: float


class Cycle:
    """Runs cycles, one after another, in one thread.

    `term` is the one in which the cluster began to be read; a later one reads it anew, by
    calling `relist`, for another leader may have bound what the watches are yet to tell.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        cache: ClusterCache,
        asker: Asker,
        applier: Applier,
        looker: Looker,
        reporter: Reporter,
        leadership: Leadership,
        term: int,
        relist: Callable[[], None],
        metrics: Metrics,
        entered: Entered = ignored,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rules = rules
        self._cache = cache
        self._asker = asker
        self._applier = applier
        self._looker = looker
        self._reporter = reporter
        self._leadership = leadership
        self._relist = relist
        self._metrics = metrics
        self._tell = entered
        self._clock = clock
        self._stopped = threading.Event()
        self._term = term
        self._step = Step.COLLECT
        self._step_at = self._moved_at = clock()
        self._forget()

    # From other threads.

    def stop(self) -> None:
        """Ends `run` after the gang that is being bound."""
        self._stopped.set()
        self._asker.cancel()
        self._cache.wake()

    def leads(self) -> bool:
        """Whether what was begun may be carried on: we lead, and in the same term. What was
        planned in another may be overtaken by what another leader did."""
        return self._leadership.leads and self._leadership.term == self._term

    def may_act(self) -> bool:
        """Whether the next gang may be begun."""
        return self.leads() and not self._stopped.is_set()

    @property
    def stuck_for(self) -> float:
        """Seconds since the cycle last moved."""
        return self._clock() - self._moved_at

    def entered(self, step: Step) -> None:
        """A step inside one of the cycle's own: it moves."""
        self._moved_at = self._clock()
        self._tell(step)

    # In the thread of the cycle.

    def run(self) -> None:
        """Cycles until stopped."""
        while not self._stopped.is_set():
            if not self._leadership.leads:
                self._enter(Step.COLLECT)
                self._metrics.nothing_known()
                self._stopped.wait(_TICK)
            elif self._leadership.term != self._term:
                self._begin_term()
            else:
                self.once()

    def once(self) -> None:
        """One cycle. It begins when there is something to do, or we may not act."""
        # 1. Collect: until a batch is closed, or there is something to report.
        self._enter(Step.COLLECT)
        view = self._collect()
        if view is None:
            return
        had_turn: tuple[Key, ...] = ()
        if self._pause() <= 0:
            # 2. Snapshot: one moment.
            self._enter(Step.SNAPSHOT)
            view = self._look()
            # 3. Translate: the question.
            self._enter(Step.TRANSLATE)
            question = self._pose(view)
            # 4. Ask.
            self._enter(Step.ASK)
            placement, question = self._ask(question)
            # Without an answer nobody's turn has passed, but of those whom no answer helps.
            had_turn = tuple(question.refused)
            if placement is not None:
                had_turn += question.asked
                self._note(question, placement)
                # 5. to 7. Apply: gang by gang, binding in parallel.
                self._enter(Step.APPLY)
                self._apply(question, placement, view)
            view = self._look()
        # 8. and 9. Report, each object in turn.
        self._enter(Step.REPORT)
        self._report(view)
        # 10. Requeue: who still waits waits longer.
        self._enter(Step.REQUEUE)
        self._requeue(had_turn, view)

    def _forget(self) -> None:
        self._queue: batch.Queue = {}
        self._uids: dict[Key, str] = {}
        self._answers: dict[Key, Notice] = {}
        self._outcomes: dict[Key, Outcome] = {}
        self._stale: set[Key] = set()
        self._half_since: dict[Key, float] = {}
        self._waiting_since: dict[Key, float] = {}
        self._reported: dict[Key, tuple[Body, Standing, Notice | None]] = {}
        self._again_at: dict[Key, float] = {}
        self._stray_since: dict[Key, float] = {}
        self._told: set[Key] = set()
        # What could not be written, gangs and strays: until when it rests, and how long.
        self._resting: dict[tuple[str, Key], tuple[float, float]] = {}
        self._unscored: tuple[Key, ...] = ()
        self._unknown: dict[Key, Binding] = {}
        self._settle_after = -math.inf
        self._failures = 0
        self._failing_since = math.inf
        self._ask_after = -math.inf
        self._overtaken = 0

    def _begin_term(self) -> None:
        """Forgets what another leader may have overtaken, and reads the cluster anew."""
        self._term = self._leadership.term
        self._forget()
        self._relist()

    # 1. Collect.

    def _collect(self) -> ClusterView | None:
        while self.may_act():
            revision = self._cache.revision
            pause = _IDLE
            if self._cache.is_synced:
                self._settle()
                view = self._look()
                if self._pause() <= 0 or self._changed(view) or self._strays():
                    return view
                pause = min(_IDLE, self._pause())
            self._moved_at = self._clock()
            self._cache.wait(revision, pause)
            self._stopped.wait(_TICK)
        return None

    def _settle(self) -> None:
        """Looks at the pods whose binding got no clear answer, and so count as bound."""
        if not self._unknown or self._clock() < self._settle_after:
            return
        self._settle_after = self._clock() + _RETRY
        assumed = self._cache.assumed
        for key, binding in tuple(self._unknown.items()):
            if key in assumed:
                try:
                    found = self._looker.look(binding, timeout=_RETRY)
                except ApiError as error:
                    logger.warning("%s: %s", binding, error, extra={"pod": "/".join(key)})
                    return
                if found.result is not Result.BOUND:
                    self._cache.forget(key, binding.uid)
            del self._unknown[key]

    def _look(self) -> ClusterView:
        """The cluster as it is now, and the queue that goes with it."""
        view, now = self._cache.view(), self._clock()
        self._stray_since = {key: self._stray_since.get(key, now) for key in view.strays}
        self._told &= view.strays
        self._metrics.strays.set(len(view.strays))
        self._queue = batch.refreshed(
            self._queue, view.standings, room=view.room, now=now, backoff=self._rules.backoff
        )
        self._watch_over(view.standings, now)
        # Bound, and nobody lived to say how well: the next answer says it.
        self._unscored = tuple(
            key
            for key, standing in view.standings.items()
            if standing.state is State.SETTLED
            and standing.bound
            and key not in self._answers
            and "placementScore" not in (view.gangs[key].get("status") or {})
        )
        return view

    def _watch_over(self, standings: Mapping[Key, Standing], now: float) -> None:
        """Since when gangs are half bound, or wait for pods; and what the metrics say."""
        # What is remembered of a gang says nothing about a later one of its name.
        later = {key for key, s in standings.items() if self._uids.get(key, s.uid) != s.uid}
        self._uids = {key: standing.uid for key, standing in standings.items()}
        for memory in (
            self._answers,
            self._outcomes,
            self._reported,
            self._again_at,
            self._half_since,
            self._waiting_since,
        ):
            for key in (later & memory.keys()) | (memory.keys() - standings.keys()):
                del memory[key]
        half = {key for key, s in standings.items() if s.is_half_bound and s.state in _ACTIVE}
        waiting = {key for key, s in standings.items() if s.state is State.WAITING}
        self._half_since = {key: self._half_since.get(key, now) for key in half}
        self._waiting_since = {key: self._waiting_since.get(key, now) for key in waiting}
        counts = dict.fromkeys(State, 0)
        for standing in standings.values():
            counts[standing.state] += 1
        for state, count in counts.items():
            self._metrics.gangs.labels(state.value).set(count)
        self._metrics.half_bound.set(len(half))
        since = min((waiter.since for waiter in self._queue.values()), default=now)
        self._metrics.oldest.set(now - since)

    def _pause(self) -> float:
        """Seconds until the service is to be asked."""
        now = self._clock()
        pause = batch.wait(self._queue, now=now, window=self._rules.window)
        if self._unscored and len(self._queue) < self._rules.window.most:
            # There is room for them in the question.
            pause = 0.0
        return max(pause, self._ask_after - now)

    def _changed(self, view: ClusterView) -> tuple[Key, ...]:
        """The gangs about which there may be something new to write."""
        now = self._clock()
        if not self._rules.binds:
            return ()
        return tuple(
            key
            for key, standing in view.standings.items()
            if standing.state is not State.FOREIGN
            and not self._rests(POD_GANG, key)
            and (
                self._reported.get(key) != (view.gangs[key], standing, self._notice(standing))
                or now >= self._again_at.get(key, math.inf)
            )
        )

    def _strays(self) -> tuple[Key, ...]:
        """The pods without a gang that are to be told so. Their gang may be yet to come."""
        now = self._clock()
        if not self._rules.binds:
            return ()
        return tuple(
            key
            for key, since in self._stray_since.items()
            if key not in self._told
            and not self._rests(POD, key)
            and now - since >= self._rules.waiting_notice
        )

    def _rests(self, kind: str, key: Key) -> bool:
        return self._clock() < self._resting.get((kind, key), (-math.inf, 0.0))[0]

    def _rest(self, kind: str, keys: Iterable[Key], unwritten: Collection[Key]) -> None:
        """Lets those rest that could not be written, twice as long each time, and no others:
        one that is refused for ever keeps nobody waiting."""
        now = self._clock()
        for key in keys:
            before = self._resting.pop((kind, key), (0.0, _RETRY / 2))[1]
            if key in unwritten:
                wait = min(2 * before, _LONGEST_RETRY)
                self._resting[kind, key] = now + wait, wait
        self._resting = {
            one: rest for one, rest in self._resting.items() if rest[0] > now - _LONGEST_RETRY
        }

    # 3. Translate.

    def _pose(self, view: ClusterView) -> Question:
        try:
            question = pose(
                view,
                self._queue,
                also=self._unscored,
                scheduler_name=self._rules.scheduler_name,
                most_gangs=self._rules.window.most,
            )
        except InputError as error:
            logger.error("the cluster cannot be read: %s", error)
            self._ask_after = self._clock() + self._rules.backoff.longest
            return Question(v1.ComputePlacementRequest(), ())
        request = question.request
        # The sooner the answer, the less it is overtaken where others bind all the time.
        limit = min(self._rules.time_limit, max(0.5, self._rules.time_limit / 2**self._overtaken))
        request.time_limit.FromNanoseconds(round(limit * 1e9))
        request.policy.deterministic = self._rules.deterministic
        request.label = f"cycle at revision {view.revision}"
        return question

    # 4. Ask.

    def _ask(self, question: Question) -> tuple[v1.Placement | None, Question]:
        """The answer, None when there is none, and the question that was really asked."""
        for left in reversed(range(_MOST_QUESTIONS)):
            self._refuse(question.refused)
            self._moved_at = self._clock()
            if not question.request.gangs:
                return None, question
            try:
                placement = self._asker.ask(
                    question.request, timeout=self._rules.time_limit + self._rules.patience
                )
            except InvalidRequestError as error:
                smaller = without(question, error) if left else None
                if smaller is None:
                    self._fail(question, error)
                    return None, question
                question = smaller
            except PlacementError as error:
                self._fail(question, error)
                return None, question
            else:
                self._failures, self._failing_since = 0, math.inf
                self._metrics.cycles.labels("answered").inc()
                return placement, question
        return None, question

    def _refuse(self, refused: Mapping[Key, str]) -> None:
        for key, fault in refused.items():
            notice = notices.of_refusal(fault)
            if self._answers.get(key) != notice:
                logger.warning("refused: %s", fault, extra={"gang": "/".join(key)})
            self._answers[key] = notice

    def _fail(self, question: Question, error: PlacementError) -> None:
        """No answer: nothing is bound, and the service is left in peace for a moment."""
        if self._stopped.is_set():
            return
        now = self._clock()
        self._failures += 1
        self._failing_since = min(self._failing_since, now)
        self._metrics.cycles.labels(error.code.name.lower()).inc()
        logger.warning(
            "no answer: %s: %s", error.code.name, error, extra={"gangs": len(question.asked)}
        )
        wait = min(self._rules.backoff.after(self._failures), 10.0)
        if isinstance(error, BusyError) and error.retry_after is not None:
            wait = max(wait, error.retry_after)
        self._ask_after = now + wait
        if now - self._failing_since >= self._rules.waiting_notice:
            told = notices.of_failure(f"{error.code.name}: {error}")
            for key in question.asked:
                # The words differ from one failure to the next; the first ones will do.
                if (before := self._answers.get(key)) is None or before.reason != told.reason:
                    self._answers[key] = told

    def _note(self, question: Question, placement: v1.Placement) -> None:
        """Remembers what the answer says about each gang."""
        for gang in question.request.gangs:
            # About whom nothing is said, nothing is to be asked again.
            self._answers.setdefault(key_of_resource(gang.name), Notice())
        for result in placement.gangs:
            self._answers[key_of_resource(result.name)] = notices.of_result(result)
        if placement.termination.HasField("gap"):
            self._metrics.gap.set(placement.termination.gap)
        logger.info(
            "answered: %d bindings for %d gangs",
            len(placement.bindings),
            len(placement.gangs),
            extra={
                "revision": placement.revision,
                "termination": v1.TerminationReason.Name(placement.termination.reason),
                "seconds": round(placement.stats.elapsed.ToTimedelta().total_seconds(), 3),
            },
        )

    # 5. Apply.

    def _apply(self, question: Question, placement: v1.Placement, view: ClusterView) -> None:
        gangs = {key_of_resource(gang.name): gang for gang in question.request.gangs}
        wanted = plans(placement, question.asked, question.bases, leans_on(gangs))
        if not self._rules.binds:
            for plan in wanted:
                told = ", ".join(map(str, plan.bindings))
                logger.info("would bind %s", told, extra={"gang": "/".join(plan.gang)})
            return
        for outcome in self._applier.apply(wanted, view):
            self._record(outcome)
        self._overtaken = min(self._overtaken + 1, 10) if self._stale else 0

    def _record(self, outcome: Outcome) -> None:
        key = outcome.plan.gang
        extra: dict[str, object] = {"gang": "/".join(key), "bound": len(outcome.bound)}
        self._moved_at = self._clock()
        if outcome.stale:
            self._metrics.stale.inc()
            self._stale.add(key)
            # What it is that overtakes differs each time; the first one will do.
            self._outcomes.setdefault(key, outcome)
            logger.info("plan overtaken: %s", outcome.stale, extra=extra)
            return
        for one in outcome.tried:
            self._metrics.bindings.labels(one.result.value).inc()
            if one.result is Result.UNKNOWN:
                self._unknown[one.binding.pod] = one.binding
        if outcome.is_whole:
            self._outcomes.pop(key, None)
            if (waiter := self._queue.get(key)) is not None:
                waited = self._clock() - waiter.since
                self._metrics.to_bound.observe(waited)
                extra["seconds"] = round(waited, 3)
            logger.info("gang bound", extra=extra)
        else:
            self._outcomes[key] = outcome
            logger.warning("gang not wholly bound: %s", outcome.why, extra=extra)

    # 8. Report.

    def _notice(self, standing: Standing) -> Notice | None:
        """What is to be said about a gang now."""
        key, now = standing.key, self._clock()
        answer = self._answers.get(key)
        if now - self._half_since.get(key, math.inf) >= self._rules.half_bound_limit:
            waits = notices.of_waiting(standing) if key in self._waiting_since else answer
            return notices.of_half_bound(standing, waits, self._outcomes.get(key))
        if key in self._waiting_since:
            due = now - self._waiting_since[key] >= self._rules.waiting_notice
            return notices.of_waiting(standing) if due else None
        waiter, outcome = self._queue.get(key), self._outcomes.get(key)
        if (
            waiter is not None
            and outcome is not None
            and now - waiter.since >= self._rules.waiting_notice
            and not (answer is not None and answer.reason)
        ):
            return notices.of_outcome(outcome, answer)
        return answer

    def _report(self, view: ClusterView) -> None:
        changed = self._changed(view)
        told = {key: self._notice(view.standings[key]) for key in changed}
        unwritten = self._reporter.report(
            view, changed, {key: notice for key, notice in told.items() if notice is not None}
        )
        for key in changed:
            self._again_at.pop(key, None)
            if key not in unwritten:
                self._reported[key] = (view.gangs[key], view.standings[key], told[key])
        again_at = self._clock() + POD_MESSAGE_EVERY
        self._again_at.update(dict.fromkeys(self._reporter.postponed, again_at))
        strays = self._strays()
        untold = self._reporter.report_strays(
            view, strays, notices.of_stray(self._rules.scheduler_name)
        )
        self._told.update(key for key in strays if key not in untold)
        self._rest(POD_GANG, changed, unwritten)
        self._rest(POD, strays, untold)

    # 10. Requeue.

    def _requeue(self, had_turn: Iterable[Key], view: ClusterView) -> None:
        now = self._clock()
        self._queue = batch.tried(
            self._queue, had_turn, room=view.room, now=now, backoff=self._rules.backoff
        )
        self._queue = batch.hurried(self._queue, self._stale, now=now)
        self._stale.clear()

    def _enter(self, step: Step) -> None:
        now = self._clock()
        if step is not self._step:
            self._metrics.steps.labels(self._step.name.lower()).observe(now - self._step_at)
        self._step, self._step_at, self._moved_at = step, now, now
        self._tell(step)


_ACTIVE = frozenset({State.WAITING, State.PENDING})
