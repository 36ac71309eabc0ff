"""The cycle of advice: continue what is under way, ask about gangs that wait, write, release.

From one cycle to the next it remembers only since when each gang waits; the rest is in the cluster.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from controller.advice.adapter import Adapter
from controller.advice.advice import Advice, read_advice
from controller.advice.gpu_groups import GpuGroups, noted_groups
from controller.advice.lifecycle import AdviceLifecycle
from controller.advice.objects import ObjectCache, Objects
from controller.advice.request import AdviceRequest, Room, build_request, is_awaited
from controller.asking.inquiry import Inquiry
from controller.asking.request import Query
from controller.batch import Backoff
from controller.binding.apply import GangPlan, plans
from controller.binding.device_notes import DeviceNotes, Notes
from controller.cluster.gang_state import Key, key_of_resource
from controller.dependencies import depends_on
from controller.gang_history import GangHistory
from controller.runtime.authority import Authority, Heartbeat
from controller.runtime.clocks import CLOCKS, Clocks
from controller.runtime.steps import Step
from placement import v1
from placement.kubernetes import InputError
from placement.resources import DEVICES

logger = logging.getLogger(__name__)

#: Seconds between two checks of a cluster in which nothing happens.
_IDLE = 1.0
_TICK = 0.05
#: The part of the time to live that writing the advice of one answer may take.
_PART_FOR_WRITING = 4


#: A gang, and the uids of its pods that wait.
_Waiting = tuple[Key, frozenset[str]]


@dataclass(frozen=True, slots=True)
class _Notes:
    """What is noted about the devices of pods, for Koordinator and for KAI."""

    devices: DeviceNotes
    groups: GpuGroups
    objects: Objects

    def of(self, binding: v1.Binding) -> Notes:
        pod = self.objects.pods.get(key_of_resource(binding.pod))
        shared = self.groups.of(binding, pod) if pod is not None else ()
        return (*self.devices.of(binding), *shared)


@dataclass(frozen=True, slots=True)
class AdviceOptions:
    """How the cycle behaves; see the settings of the same names. Times are in seconds.

    Gangs without a place are asked about again after `retry`, and after `quick_retry` when
    room has appeared or their plan was overtaken.
    """

    policy: v1.Policy
    time_limit: float
    idle_window: float
    advice_ttl: float
    advice_timeout: float
    retry: float
    quick_retry: float


class AdviceCycle:
    """Runs cycles, one after another, in one thread. `measure` is told how many gangs wait, and how
    long the first of them has waited, in seconds."""

    def __init__(
        self,
        options: AdviceOptions,
        *,
        cache: ObjectCache,
        adapters: Sequence[Adapter],
        lifecycle: AdviceLifecycle,
        inquiry: Inquiry,
        authority: Authority,
        heartbeat: Heartbeat,
        relist: Callable[[], None],
        measure: Callable[[int, float], None] = lambda count, oldest: None,
        clocks: Clocks = CLOCKS,
    ) -> None:
        self._options = options
        self._cache = cache
        self._adapters = adapters
        self._lifecycle = lifecycle
        self._inquiry = inquiry
        self._authority = authority
        self._heartbeat = heartbeat
        self._relist = relist
        self._measure = measure
        self._clocks = clocks
        self._forget()

    def _forget(self) -> None:
        self._since: dict[_Waiting, float] = {}
        self._asked_at: dict[_Waiting, float] = {}
        self._begun_at: dict[_Waiting, float] = {}
        self._overtaken: set[_Waiting] = set()
        #: How often advice of each was overtaken, or could not be written.
        self._failures: dict[_Waiting, int] = {}
        self._under_way: set[_Waiting] = set()
        #: What was there when it was asked last, and how long the answer took.
        self._room = Room()
        self._took = 0.0
        self._refused: dict[Key, str] = {}
        self._reading_took = 0.0
        #: The revision that was read last, and what was read.
        self._known: tuple[int, AdviceRequest] | None = None
        self._inquiry.reset()

    def stop(self) -> None:
        """Ends `run`; from another thread."""
        self._authority.stop()
        self._inquiry.cancel()
        self._cache.wake()

    def run(self) -> None:
        """Cycles until stopped."""
        while not self._authority.is_stopped:
            revision = self._cache.revision
            if not self._authority.is_leader:
                self._measure(0, 0.0)
                self._authority.wait(_TICK)
            elif self._authority.is_new_term:
                self._authority.begin_term()
                self._forget()
                self._relist()
            elif self._cache.is_synced:
                self.once()
            self._heartbeat.step(Step.COLLECT)
            self._cache.wait(revision, self._pause())
            # Large clusters take seconds to read, and change all the time.
            self._authority.wait(max(_TICK, self._reading_took))

    def _pause(self) -> float:
        """How long nothing has to be done unless something changes: until a new gang is due."""
        due = (
            since + self._options.idle_window - self._clocks.steady()
            for one, since in self._since.items()
            if one not in self._asked_at
        )
        return min([_IDLE, *(left for left in due if left > 0)])

    def once(self) -> None:
        """One cycle."""
        # 1. Advice under way: followed, overruled, expired, or to be carried on.
        self._heartbeat.step(Step.SNAPSHOT)
        self._lifecycle.carry_on(self._cache.view())
        # 2. Who waits.
        objects = self._cache.view()
        self._reading_took = 0.0
        if not is_awaited(objects, self._adapters):
            self._look({}, (), objects)
            return
        known = self._read_at(objects.revision)
        request = known or self._read(objects)
        if request is None:
            return
        waiting = self._look(request.waiting, request.strays, objects)
        # 3. Gangs that got no advice in time are left to their scheduler, and are not planned.
        if self._let_go(request, objects):
            return
        # 4. Ask, when one of them is due, and write, gang by gang.
        if self._is_due(waiting, request.room):
            asked = request if known is None else self._read(objects)
            if asked is not None:
                self._advise(asked, objects, waiting)

    def _read(self, objects: Objects) -> AdviceRequest | None:
        """What is asked about the objects as of now; None where they cannot be read."""
        self._heartbeat.step(Step.TRANSLATE)
        begun = self._clocks.steady()
        try:
            request = build_request(objects, self._adapters, self._clocks.wall())
        except InputError as error:
            logger.error("the cluster cannot be read: %s", error)
            return None
        finally:
            self._reading_took = self._clocks.steady() - begun
        self._report_refused(request.refused)
        # The question itself is large.
        without = replace(request, request=v1.ComputePlacementRequest())
        self._known = objects.revision, without
        return request

    def _read_at(self, revision: int) -> AdviceRequest | None:
        """What was read at that revision, without the question: who waits has not changed."""
        if self._known is None or self._known[0] != revision:
            return None
        return self._known[1]

    def _look(
        self,
        gangs: Mapping[Key, tuple[Key, ...]],
        alone: Iterable[Key],
        objects: Objects,
    ) -> Mapping[Key, _Waiting]:
        """The gangs that wait. Each comes with its pods, which distinguish it from a later one of
        its name.

        A gang goes on waiting while it has advice, which may fail: advice that fails again and
        again must not hold a gang for longer than advice that never comes.
        """
        now = self._clocks.steady()
        waiting = {gang: _named(gang, members, objects) for gang, members in gangs.items()}
        known = set(waiting.values())
        strays = {_named(key, (key,), objects) for key in alone}
        advised = {b.uid for one in read_advice(objects.pods).values() for b in one.bindings}
        before = self._under_way
        self._under_way = {
            one for one in self._since if one not in known and not advised.isdisjoint(one[1])
        }
        for one in before & known:
            self._fail(one)
        known |= self._under_way
        self._failures = {one: count for one, count in self._failures.items() if one in known}
        self._since = {one: self._since.get(one, now) for one in known | strays}
        self._measure(len(self._since), now - min(self._since.values(), default=now))
        self._asked_at = {one: at for one, at in self._asked_at.items() if one in known}
        self._begun_at = {one: at for one, at in self._begun_at.items() if one in known - before}
        return waiting

    def _fail(self, one: _Waiting) -> None:
        """Advice of a gang was overtaken, or could not be written: it is asked about soon, and each
        time later, for an API server that takes nothing is not to be asked every second.
        """
        self._overtaken.add(one)
        self._failures[one] = self._failures.get(one, 0) + 1

    def _is_due(self, waiting: Mapping[Key, _Waiting], room: Room) -> bool:
        now = self._clocks.steady()
        if now < self._inquiry.not_before:
            return False
        # The service is idle for half of the time at least.
        quick = max(self._options.quick_retry, self._took)
        has_room = room.is_more_than(self._room)
        for one in waiting.values():
            asked_at = self._asked_at.get(one)
            if asked_at is None and now - self._since[one] >= self._options.idle_window:
                return True
            wait = self._options.retry
            if has_room:
                wait = quick
            elif one in self._overtaken:
                wait = Backoff(quick, wait).after(self._failures[one])
            if asked_at is not None and now - asked_at >= wait:
                return True
        return False

    def _advise(
        self,
        request: AdviceRequest,
        objects: Objects,
        waiting: Mapping[Key, _Waiting],
    ) -> None:
        self._heartbeat.step(Step.ASK)
        message = request.request
        # What of resource claims is a GPU, the translation has said.
        message.policy.MergeFrom(self._options.policy)
        message.time_limit.FromNanoseconds(round(self._options.time_limit * 1e9))
        message.label = f"advice at revision {objects.revision}"
        history = GangHistory(half_bound_limit=0.0, waiting_notice=0.0)
        begun = self._clocks.steady()
        placement, _ = self._inquiry.ask(Query(message, tuple(waiting)), history)
        now = self._clocks.steady()
        self._asked_at.update(dict.fromkeys(waiting.values(), now))
        self._room, self._took = request.room, now - begun
        self._overtaken.clear()
        if placement is None:
            return
        notes = _Notes(
            DeviceNotes(message, objects.of(DEVICES), objects.pods),
            GpuGroups(request.gpu_groups),
            objects,
        )
        gang_plans = _plans(placement, request, notes)
        expected = frozenset(one.uid for one in placement.bindings)
        expected |= {g for one in gang_plans for b in one.bindings for g in noted_groups(b.notes)}
        # Gangs that the answer counts on, and that get no advice from it.
        failed = {key_of_resource(one.gang) for one in placement.bindings}
        failed -= {one.gang for one in gang_plans}
        for plan in gang_plans:
            if not self._authority.may_act():
                return
            self._heartbeat.step(Step.APPLY)
            advice = self._new_advice(plan, request)
            if advice is None:
                failed.add(plan.gang)
                continue
            # The advice before this one has taken room, and is written on its pods. Its time runs
            # since then, and it has to be carried on before it expires.
            is_late = self._clocks.steady() - now > self._options.advice_ttl / _PART_FOR_WRITING
            may_begin = not (is_late or _needs(plan) & failed)
            if not (may_begin and self._lifecycle.begin(advice, objects, expected)):
                failed.add(plan.gang)
                self._fail(waiting[plan.gang])
            else:
                self._begun_at[waiting[plan.gang]] = self._clocks.steady()

    def _new_advice(self, plan: GangPlan, request: AdviceRequest) -> Advice | None:
        names = {request.adapters[binding.pod].name for binding in plan.bindings}
        if len(names) != 1:
            logger.error("pods of several schedulers", extra={"gang": "/".join(plan.gang)})
            return None
        until = self._clocks.wall() + self._options.advice_ttl
        digest = sha256("".join(sorted(b.uid + b.node for b in plan.bindings)).encode())
        digest.update(str(until).encode())
        name = digest.hexdigest()[:16]
        return Advice(name, plan.gang, names.pop(), plan.bindings, until, len(plan.bindings))

    def _let_go(self, request: AdviceRequest, objects: Objects) -> bool:
        """Leaves gangs to their scheduler that have waited for too long; whether there are any."""
        timeout, now = self._options.advice_timeout, self._clocks.steady()
        if not timeout:
            return False
        alone = {key: (key,) for key in request.strays}
        ours = {adapter.name for adapter in self._adapters}
        # Advice that has expired, and is not taken back yet.
        standing = [one for one in read_advice(objects.pods).values() if one.by in ours]
        advised = {binding.pod for one in standing for binding in one.bindings}
        late = False
        for gang, members in (*request.waiting.items(), *alone.items()):
            one = _named(gang, members, objects)
            # The watches may not show yet what was written.
            is_begun = now - self._begun_at.get(one, -math.inf) < AdviceLifecycle.catch_up
            if is_begun or now - self._since.get(one, now) < timeout:
                continue
            pods = {key: objects.pods[key] for key in members if key in objects.pods}
            if advised.isdisjoint(pods) and pods and self._authority.may_act():
                adapter = request.adapters[next(iter(pods))]
                self._lifecycle.release(adapter, gang, pods, objects)
                self._since[one] = now
                late = True
        return late

    def _report_refused(self, refused: Mapping[Key, str]) -> None:
        for key, fault in refused.items():
            if self._refused.get(key) != fault:
                logger.warning("cannot be read: %s", fault, extra={"object": "/".join(key)})
        self._refused = dict(refused)


def _plans(placement: v1.Placement, request: AdviceRequest, notes: _Notes) -> tuple[GangPlan, ...]:
    """The answer gang by gang, each behind those that it depends on."""
    gangs = {key_of_resource(gang.name): gang for gang in request.request.gangs}
    bases = {key: key_of_resource(gang.base_gang) for key, gang in gangs.items() if gang.base_gang}
    return plans(placement, request.waiting, bases, depends_on(gangs), notes.of)


def _needs(plan: GangPlan) -> frozenset[Key]:
    """The gangs without whose pods a plan may break a rule."""
    return plan.depends_on | ({plan.base} if plan.base else set())


def _named(gang: Key, members: Iterable[Key], objects: Objects) -> _Waiting:
    uids = (objects.pods[key]["metadata"].get("uid", "") for key in members if key in objects.pods)
    return gang, frozenset(uids)
