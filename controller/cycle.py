"""The cycle: collect, snapshot, translate, ask, apply, report, requeue.

Everything that it remembers from one cycle to the next is a convenience: since
when each gang waits, what was last reported. The controller may lose all of it at any line: the
cluster says what is bound, and the next cycle begins with that.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controller import batch
from controller.asking.inquiry import Inquiry
from controller.asking.request import Query, QueryOptions, build_query
from controller.binding.apply import Applier, GangPlan, Outcome, Result, plans, staleness
from controller.binding.device_notes import DeviceNotes
from controller.binding.dry_run import DryRun
from controller.binding.unconfirmed import BindingLookup, UnconfirmedBindings
from controller.cluster.cache import ClusterCache
from controller.cluster.gang_state import GangState, Key, Lifecycle, key_of_resource
from controller.cluster.gangs.gated import GatedGangs, Kept
from controller.cluster.view import ClusterView
from controller.dependencies import depends_on
from controller.eviction.evict import Evictions, with_room_taken
from controller.eviction.plan import EvictionPlan, eviction_plans
from controller.gang_history import GangHistory
from controller.reports import notices
from controller.reports.notices import Notice
from controller.reports.remedies import Remedies
from controller.reports.report import Reporter
from controller.reports.schedule import ReportSchedule
from controller.runtime.authority import Authority, Heartbeat
from controller.runtime.clocks import CLOCKS, Clocks
from controller.runtime.metrics import Metrics
from controller.runtime.steps import Step
from placement import v1
from placement.kubernetes import InputError
from placement.resources import DEVICES

logger = logging.getLogger(__name__)

#: Seconds between two checks of a busy cluster.
_TICK = 0.05
#: Seconds between two checks of a quiet cluster.
_IDLE = 1.0
#: Gangs whose state an answer tells: the service decided about pods that can be bound now.
_ANSWERABLE = frozenset({Lifecycle.PENDING, Lifecycle.SETTLED})


@dataclass(frozen=True, slots=True)
class CycleOptions:
    """How the cycle behaves; see the settings of the same names."""

    scheduler_name: str
    binds: bool
    window: batch.Window
    backoff: batch.Backoff
    time_limit: float
    policy: v1.Policy
    keep_gated: float
    eviction_timeout: float
    half_bound_limit: float
    waiting_notice: float


@dataclass(frozen=True, slots=True)
class Effects:
    """What changes the cluster: bindings, with a `lookup` of those whose result is unclear;
    reports; and evictions, where they are allowed.
    """

    applier: Applier
    lookup: BindingLookup
    reporter: Reporter
    evictions: Evictions | None = None


class Cycle:
    """Runs cycles, one after another, in one thread.

    A new term begins by reading the cluster anew (`relist`): another leader may have bound
    pods of which the watches have not reported yet.
    """

    def __init__(
        self,
        options: CycleOptions,
        *,
        cache: ClusterCache,
        inquiry: Inquiry,
        effects: Effects,
        remedies: Remedies | None = None,
        authority: Authority,
        heartbeat: Heartbeat,
        relist: Callable[[], None],
        metrics: Metrics,
        clocks: Clocks = CLOCKS,
    ) -> None:
        self._options = options
        self._cache = cache
        self._inquiry = inquiry
        self._effects = effects
        self._evictions = effects.evictions
        self._authority = authority
        self._heartbeat = heartbeat
        self._relist = relist
        self._metrics = metrics
        self._clocks = clocks
        self._remedies = remedies
        self._step = Step.COLLECT
        self._step_at = clocks.steady()
        self._forget()

    def _forget(self) -> None:
        options = self._options
        self._queue: batch.Queue = {}
        self._history = GangHistory(
            half_bound_limit=options.half_bound_limit, waiting_notice=options.waiting_notice
        )
        self._reports = ReportSchedule(
            self._effects.reporter,
            scheduler_name=options.scheduler_name,
            unreferenced_notice=options.waiting_notice,
        )
        self._unconfirmed = UnconfirmedBindings(self._cache, self._effects.lookup)
        self._gated = GatedGangs(keep=options.keep_gated)
        self._kept = Kept()
        self._stale: set[Key] = set()
        self._dry_run = DryRun()
        self._unscored: tuple[Key, ...] = ()
        self._inquiry.reset()
        if self._evictions is not None:
            self._evictions.forget()
        self._overtaken = 0
        self._evicts_nobody = False

    def stop(self) -> None:
        """Ends `run` after the gang that is being bound; from another thread."""
        self._authority.stop()
        self._inquiry.cancel()
        self._cache.wake()

    def run(self) -> None:
        """Cycles until stopped."""
        while not self._authority.is_stopped:
            if not self._authority.is_leader:
                self._enter(Step.COLLECT)
                self._metrics.nothing_known()
                self._authority.wait(_TICK)
            elif self._authority.is_new_term:
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
        if self._evictions is not None:
            # The evicted pods are gone: the gang is asked about at once.
            ended = self._evictions.advance(view)
            self._queue = batch.made_due(self._queue, ended, now=self._clocks.steady())
        had_turn: tuple[Key, ...] = ()
        if self._pause() <= 0:
            # 2. Snapshot: one moment.
            self._enter(Step.SNAPSHOT)
            view = self._look()
            # 3. Translate: the request.
            self._enter(Step.TRANSLATE)
            query = self._build_query(view)
            # 4. Ask.
            self._enter(Step.ASK)
            placement, query = self._inquiry.ask(query, self._history)
            # Without an answer no gang had its turn, except those that cannot be asked about.
            had_turn = tuple(query.refused)
            if placement is not None:
                had_turn += query.asked
                self._note(query, placement, view)
                # 5. to 9. Apply: gang by gang, binding in parallel.
                self._enter(Step.APPLY)
                self._apply(query, placement, view)
                if self._remedies is not None:
                    self._remedies.consider(query.request, placement)
            view = self._look()
        # 10. and 11. Report, each object in turn.
        self._enter(Step.REPORT)
        self._report(view)
        # 12. Requeue: a gang that still waits backs off.
        self._enter(Step.REQUEUE)
        self._requeue(had_turn, view)

    def _begin_term(self) -> None:
        """Forgets what another leader may have changed, and reads the cluster again."""
        self._authority.begin_term()
        self._forget()
        self._relist()

    # 1. Collect.

    def _collect(self) -> ClusterView | None:
        while self._authority.may_act():
            revision = self._cache.revision
            pause = _IDLE
            if self._cache.is_synced:
                self._unconfirmed.settle(self._clocks.steady())
                view = self._look()
                if self._pause() <= 0 or self._has_news(view):
                    return view
                pause = min(_IDLE, self._pause())
            self._heartbeat.beat()
            self._cache.wait(revision, pause)
            self._authority.wait(_TICK)
        return None

    def _look(self) -> ClusterView:
        """The cluster as it is now, and the queue that goes with it."""
        view, now = self._cache.view(), self._clocks.steady()
        unclear = self._unconfirmed.gangs
        self._history.look(view.states, now)
        self._reports.look(view, now, unclear)
        self._keep_room(view, now)
        self._queue = batch.refreshed(
            self._queue,
            view.states,
            freed=view.freed,
            now=now,
            backoff=self._options.backoff,
            unclear=unclear,
        )
        self._measure(view, now)
        # Bound before a restart, without a score: the next answer has it.
        self._unscored = tuple(
            key
            for key, state in view.states.items()
            if state.lifecycle is Lifecycle.SETTLED
            and state.bound
            and not self._history.knows(key)
            and "placementScore" not in (view.gangs[key].get("status") or {})
        )
        return view

    def _keep_room(self, view: ClusterView, now: float) -> None:
        before, self._kept = self._kept, self._gated.look(view, now)
        ended = (before.first - self._kept.first) & view.states.keys()
        if not all(view.states[key].is_met for key in ended):
            # Nothing was bound, and others may take the room.
            self._queue = batch.made_due(self._queue, self._queue, now=now)

    def _measure(self, view: ClusterView, now: float) -> None:
        counts = Counter(state.lifecycle for state in view.states.values())
        for lifecycle in Lifecycle:
            self._metrics.gangs.labels(lifecycle.value).set(counts[lifecycle])
        self._metrics.unreferenced.set(len(view.unreferenced))
        self._metrics.half_bound.set(self._history.half_bound)
        waited = batch.longest_wait(self._queue, view.gangs, now=now, wall=self._clocks.wall())
        self._metrics.oldest.set(waited)

    def _pause(self) -> float:
        """Seconds until the service is to be asked."""
        now = self._clocks.steady()
        if self._evictions is not None and not self._evictions.is_read:
            return math.inf
        queue = self._askable()
        pause = batch.wait(queue, now=now, window=self._options.window)
        if self._unscored and len(queue) < self._options.window.most:
            # There is room for them in the request.
            pause = 0.0
        return max(pause, self._inquiry.not_before - now)

    def _askable(self) -> batch.Queue:
        """The gangs that wait, except for evicted pods to go, or to know whether they are bound."""
        evicting = self._evicting()
        return {k: q for k, q in self._queue.items() if k not in evicting and q.due < math.inf}

    def _evicting(self) -> Mapping[Key, EvictionPlan]:
        return {} if self._evictions is None else self._evictions.plans

    def _has_news(self, view: ClusterView) -> bool:
        if self._evictions is not None and self._evictions.has_work(view):
            return True
        return self._options.binds and self._reports.has_work(
            view, self._notice, self._clocks.steady()
        )

    # 3. Translate.

    def _build_query(self, view: ClusterView) -> Query:
        try:
            query = build_query(
                replace(view, pods=with_room_taken(view.pods, self._evicting().values())),
                self._askable(),
                QueryOptions(
                    self._options.scheduler_name,
                    self._options.window.most,
                    with_running=self._evictions is not None and not self._evicts_nobody,
                ),
                as_of=self._clocks.wall(),
                also=self._unscored,
                kept=self._kept,
                held_back=batch.held_back(self._queue, now=self._clocks.steady()),
            )
        except InputError as error:
            logger.error("the cluster cannot be read: %s", error)
            self._inquiry.put_off(self._options.backoff.longest)
            return Query(v1.ComputePlacementRequest(), ())
        request = query.request
        # Where others bind all the time, an early answer is outdated less often.
        longest = self._options.time_limit
        limit = min(longest, max(0.5, longest / 2**self._overtaken))
        request.time_limit.FromNanoseconds(round(limit * 1e9))
        # What of resource claims is a GPU, the translation has said.
        request.policy.MergeFrom(self._options.policy)
        if self._evicts_nobody:
            request.policy.ClearField("eviction")
        request.label = f"cycle at revision {view.revision}"
        return query

    # 4. Ask.

    def _note(self, query: Query, placement: v1.Placement, view: ClusterView) -> None:
        """Remembers the answer about each gang that could be bound. About a gang that only kept its
        room, or was sent along, the answer does not tell the state.
        """
        sent = {key_of_resource(gang.name) for gang in query.request.gangs}
        known = {key for key in sent if view.states[key].lifecycle in _ANSWERABLE}
        for key in known:
            # A gang about which the answer says nothing is not asked about again.
            if not self._history.knows(key):
                self._history.answered(key, Notice())
        for result in placement.gangs:
            if (key := key_of_resource(result.name)) in known:
                digest = placement.request_digest
                notice = notices.of_result(result, kept=self._kept.first, request=digest)
                self._history.answered(key, notice)
        if placement.termination.HasField("gap"):
            self._metrics.gap.set(placement.termination.gap)

    # 5. Apply.

    def _apply(self, query: Query, placement: v1.Placement, view: ClusterView) -> None:
        gangs = {key_of_resource(gang.name): gang for gang in query.request.gangs}
        notes = DeviceNotes(query.request, view.others.get(DEVICES, {}), view.pods)
        wanted = plans(placement, query.asked, query.bases, depends_on(gangs), notes.of)
        if not self._options.binds:
            self._dry_run.log(query.asked, wanted, waiting=self._queue)
            return
        ready = self._without_evictions(placement, wanted, view)
        for outcome in self._effects.applier.apply(ready, view):
            self._record(outcome)
        if not placement.evictions:
            self._overtaken = min(self._overtaken + 1, 10) if self._stale else 0

    def _without_evictions(
        self, placement: v1.Placement, wanted: Sequence[GangPlan], view: ClusterView
    ) -> Sequence[GangPlan]:
        """The plans that can be carried out now; begins the evictions of an answer. What else is in
        it may need what evicted pods leave, so it is planned anew, without evictions."""
        self._evicts_nobody = False
        if not placement.evictions:
            return wanted
        until = self._clocks.wall() + self._options.eviction_timeout
        evicting = {p.gang: p for p in eviction_plans(placement, wanted, view, until=until)}
        for plan in wanted:
            if plan.gang in evicting:
                self._begin_eviction(plan, evicting[plan.gang], view)
        held = {plan.gang for plan in wanted} - evicting.keys()
        self._evicts_nobody = bool(held)
        self._stale |= held
        return ()

    def _begin_eviction(self, plan: GangPlan, eviction: EvictionPlan, view: ClusterView) -> None:
        if self._evictions is None:
            logger.error("the answer evicts, which the settings do not allow", extra=_extra(plan))
            return
        if not self._authority.may_act():
            return
        if why := staleness(plan, view, self._cache, self._options.scheduler_name):
            self._record(Outcome(plan, stale=why))
        elif why := self._evictions.begin(eviction):
            logger.warning("nothing evicted: %s", why, extra=_extra(plan))
            self._history.applied(Outcome(plan, stale=why))
        else:
            logger.info("evicting %d pods", len(eviction.victims), extra=_extra(plan))

    def _record(self, outcome: Outcome) -> None:
        key = outcome.plan.gang
        extra: dict[str, object] = {"gang": "/".join(key), "bound": len(outcome.bound)}
        self._heartbeat.beat()
        self._history.applied(outcome)
        if outcome.stale:
            self._metrics.stale.inc()
            self._stale.add(key)
            logger.info("plan overtaken: %s", outcome.stale, extra=extra)
            return
        for one in outcome.tried:
            self._metrics.bindings.labels(one.result.value).inc()
            if one.result is Result.UNKNOWN:
                self._unconfirmed.add(one.binding, key)
        if outcome.is_whole:
            if (queued := self._queue.get(key)) is not None:
                waited = self._clocks.steady() - queued.since
                self._metrics.to_bound.observe(waited)
                extra["seconds"] = round(waited, 3)
            logger.info("gang bound", extra=extra)
        else:
            logger.warning("gang not wholly bound: %s", outcome.why, extra=extra)

    # 10. Report.

    def _notice(self, state: GangState) -> Notice | None:
        """What is to be reported about a gang now."""
        if (plan := self._evicting().get(state.key)) is not None and self._evictions is not None:
            return notices.of_eviction(plan, self._evictions.left_of(plan.gang))
        notice = self._history.notice(state, self._queue, self._clocks.steady())
        return notice if self._remedies is None else self._remedies.told(state.key, notice)

    def _report(self, view: ClusterView) -> None:
        if self._options.binds:
            self._reports.write(view, self._notice, self._clocks.steady)

    # 12. Requeue.

    def _requeue(self, had_turn: Iterable[Key], view: ClusterView) -> None:
        now = self._clocks.steady()
        self._queue = batch.tried(
            self._queue, had_turn, freed=view.freed, now=now, backoff=self._options.backoff
        )
        self._queue = batch.made_due(self._queue, self._stale, now=now)
        self._queue = batch.refused(self._queue, self._history.take_refused(), now=now)
        self._stale.clear()

    def _enter(self, step: Step) -> None:
        now = self._clocks.steady()
        if step is not self._step:
            self._metrics.steps.labels(self._step.name.lower()).observe(now - self._step_at)
        self._step, self._step_at = step, now
        self._heartbeat.step(step)


def _extra(plan: GangPlan) -> dict[str, object]:
    return {"gang": "/".join(plan.gang)}
