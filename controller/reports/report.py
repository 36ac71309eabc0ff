"""Reports the state of gangs where people, Grove and autoscalers read it.

On a PodGang the condition Scheduled, the phase and the placement score; on a pod without
a place the condition PodScheduled=False/Unschedulable; on both events, as kube-scheduler
has them. What is written is a pure function of the gang's state and what is known about it, and
only differences from the cluster are written: after a crash the next cycle writes what the last one
could not.

Where more room would not help (the service is down, pods are missing, a field cannot be
honoured) the pod's reason is SchedulerError, so that no autoscaler adds nodes for nothing.

A PodGang's status belongs to Grove alone until it says Initialized=True, because Grove's own patch
would undo ours. Conditions of others are kept unchanged, and the API server refuses the write if
the object has changed since it was read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from controller.cluster.gang_state import (
    Body,
    GangState,
    Key,
    Lifecycle,
    condition_of,
    is_initialized,
)
from controller.cluster.gangs.others import stands_for
from controller.cluster.view import ClusterView
from controller.eviction.plan import EvictionPlan, Victim
from controller.reports import notices
from controller.reports.events import Recorder
from controller.reports.notices import (
    EVICTING,
    NO_ANSWER,
    NO_POD_GANG,
    NOT_BOUND,
    PLACED,
    REFUSED,
    WAITING_FOR_PODS,
    Notice,
)
from controller.runtime.steps import Step, StepObserver, ignored
from placement import v1
from placement.cluster import MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiError, Cluster
from placement.resources import POD_GANGS, PODS

logger = logging.getLogger(__name__)

SCHEDULED: Final = "Scheduled"
POD_SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
FAILED_SCHEDULING: Final = "FailedScheduling"

#: Reasons for which no room would help; autoscalers act on Unschedulable alone.
_NOT_FOR_ROOM: Final = frozenset(
    {
        REFUSED,
        EVICTING,
        NO_ANSWER,
        NOT_BOUND,
        NO_POD_GANG,
        WAITING_FOR_PODS,
        *map(
            notices.word_of,
            (
                v1.ReasonCode.REASON_CODE_UNSUPPORTED,
                v1.ReasonCode.REASON_CODE_UNINITIALIZED,
                v1.ReasonCode.REASON_CODE_PODS_MISSING,
                v1.ReasonCode.REASON_CODE_BASE_NOT_PLACED,
                v1.ReasonCode.REASON_CODE_NOT_SEARCHED,
                v1.ReasonCode.REASON_CODE_QUEUE_UNKNOWN,
                v1.ReasonCode.REASON_CODE_QUEUE_LIMIT,
                v1.ReasonCode.REASON_CODE_QUEUE_GUARANTEED,
            ),
        ),
    }
)
#: States in which a gang's status is ours to write.
_OURS: Final = frozenset({Lifecycle.WAITING, Lifecycle.PENDING, Lifecycle.SETTLED})
#: Seconds after which a pod's condition follows a message that changed; its reason does
#: not, and a gang of a thousand pods is a thousand writes.
POD_MESSAGE_EVERY: Final = 60.0
_CONFLICTS: Final = 3


@dataclass(frozen=True, slots=True)
class GangStatus:
    """What the status of a gang should say. A score of None is unknown, and left alone
    while the gang is placed."""

    phase: str
    scheduled: bool
    reason: str
    message: str
    score: float | None = None
    request: str = field(default="", compare=False)


def wanted_status(state: GangState, notice: Notice | None) -> GangStatus | None:
    """What a gang's status should be; None when nothing is known, or it is not ours."""
    if state.lifecycle not in _OURS:
        return None
    refused = notice is not None and notice.reason == REFUSED
    if state.is_met and (state.bound or not refused):
        phase = "Running" if state.runs else "Starting"
        waiting = len(state.free)
        are_bound = "pod is bound" if state.bound == 1 else "pods are bound"
        text = f"{state.bound} {are_bound}, the minimum is {state.minimum}"
        if waiting:
            text += f", {waiting} more wait{'s' if waiting == 1 else ''}"
            if notice is not None and notice.message:
                text += f": {notice.message}"
        return GangStatus(phase, True, PLACED, text, None if notice is None else notice.score)
    if notice is None or not notice.reason:
        return None
    return GangStatus("Pending", False, notice.reason, notice.message, request=notice.request)


def patch(gang: Body, wanted: GangStatus, *, now: str) -> dict[str, Any] | None:
    """The merge patch that makes a gang's status so; None when it is so already."""
    status = gang.get("status") or {}
    before = condition_of(gang, SCHEDULED)
    word = "True" if wanted.scheduled else "False"
    same_status = before is not None and before.get("status") == word
    condition = {
        "type": SCHEDULED,
        "status": word,
        "reason": wanted.reason,
        "message": wanted.message,
        "observedGeneration": gang["metadata"].get("generation", 0),
        "lastTransitionTime": before["lastTransitionTime"] if before and same_status else now,
    }
    changes: dict[str, Any] = {}
    if condition != before:
        changes["conditions"] = [
            *(c for c in status.get("conditions") or () if c.get("type") != SCHEDULED),
            condition,
        ]
    if status.get("phase") != wanted.phase:
        changes["phase"] = wanted.phase
    if not wanted.scheduled and "placementScore" in status:
        changes["placementScore"] = None
    elif wanted.score is not None and status.get("placementScore") != wanted.score:
        changes["placementScore"] = wanted.score
    if not changes:
        return None
    # With the version the API server refuses the patch when the conditions of others
    # have changed meanwhile.
    version = gang["metadata"].get("resourceVersion")
    return {"metadata": {"resourceVersion": version}, "status": changes}


def pod_patch(pod: Body, notice: Notice, *, now: str) -> dict[str, Any] | None:
    """The patch that says that a pod has no place, and why; None when that is there already."""
    before = condition_of(pod, POD_SCHEDULED)
    wanted = {
        "type": POD_SCHEDULED,
        "status": "False",
        "reason": SCHEDULER_ERROR if notice.reason in _NOT_FOR_ROOM else UNSCHEDULABLE,
        "message": f"{notice.reason}: {notice.message}",
    }
    if before is not None and all(before.get(k) == v for k, v in wanted.items()):
        return None
    if before is None or before.get("status") != "False":
        wanted["lastTransitionTime"] = now
    return {"status": {"conditions": [wanted]}}


class _Said(NamedTuple):
    """What an event said of the object with this uid."""

    uid: str
    scheduled: bool
    reason: str


class Reporter:
    """Writes what is known. Several writes are under way at once."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        executor: Executor,
        *,
        may_act: Callable[[], bool] = lambda: True,
        on_step: StepObserver = ignored,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._executor = executor
        self._may_act = may_act
        self._on_step = on_step
        self._clock = clock
        # When a pod's condition was last written, by uid.
        self._pod_writes: dict[str, float] = {}
        self._postponed: set[Key] = set()
        # How many could not be written in this report, by status.
        self._unwritten: Counter[int] = Counter()
        self._counting = threading.Lock()
        # What was last said of gangs of other kinds, whose status is not ours to write.
        self._said: dict[Key, _Said] = {}

    def report(
        self, view: ClusterView, keys: Iterable[Key], notices: Mapping[Key, Notice]
    ) -> frozenset[Key]:
        """Reports on these gangs; returns those about which not all could be written."""
        gangs: list[tuple[Key, GangState]] = []
        pods: list[tuple[Key, Body, Notice]] = []
        for key in keys:
            state = view.states.get(key)
            if state is None or key not in view.gangs:
                continue
            gangs.append((key, state))
            notice = notices.get(key)
            if notice is None or not notice.reason or state.lifecycle not in _OURS:
                continue
            pods += [(key, view.pods[pod], notice) for pod in state.free]
        self._pod_writes = {
            uid: at
            for uid, at in self._pod_writes.items()
            if self._clock() - at < POD_MESSAGE_EVERY
        }
        self._postponed.clear()
        self._said = {key: said for key, said in self._said.items() if key in view.gangs}
        unwritten = self._executor.map(
            lambda one: self._attempt(
                one[0], lambda: self._gang(view.gangs[one[0]], one[1], notices.get(one[0]))
            ),
            gangs,
        )
        unwritten_pods = self._executor.map(
            lambda one: self._attempt(one[0], lambda: self._pod(one[1], one[2], one[0])), pods
        )
        result = frozenset(key for key in (*unwritten, *unwritten_pods) if key is not None)
        self._tell_unwritten()
        return result

    @property
    def postponed(self) -> frozenset[Key]:
        """The gangs of the last report some of whose pods have an older message, for it was
        too soon to write it again."""
        return frozenset(self._postponed)

    def report_unreferenced(
        self, view: ClusterView, keys: Iterable[Key], notice: Notice
    ) -> frozenset[Key]:
        """Writes on these pods what keeps them waiting; returns those that could not be written."""
        unwritten = self._executor.map(
            lambda key: self._attempt(key, lambda: self._pod(view.pods[key], notice)), keys
        )
        result = frozenset(key for key in unwritten if key is not None)
        self._tell_unwritten()
        return result

    def _attempt(self, key: Key, write: Callable[[], None]) -> Key | None:
        """Writes; returns the key if it failed, so that the next cycle tries again."""
        if not self._may_act():
            return key
        self._on_step(Step.WRITE)
        try:
            write()
        except ApiError as error:
            # An outage would be told of once for each pod.
            with self._counting:
                self._unwritten[error.status] += 1
                is_first = self._unwritten[error.status] == 1
            logger.log(
                logging.WARNING if is_first else logging.DEBUG,
                "report not written: %s",
                error,
                extra={"object": "/".join(key), "status": error.status},
            )
            return key
        return None

    def _tell_unwritten(self) -> None:
        for status, count in self._unwritten.items():
            if count > 1:
                logger.warning("%d more reports not written", count - 1, extra={"status": status})
        self._unwritten.clear()

    def _gang(self, gang: Body, state: GangState, notice: Notice | None) -> None:
        wanted = wanted_status(state, notice)
        if wanted is None:
            return
        original = stands_for(gang)
        if original is not None:
            self._say(state.key, original, wanted)
            return
        before = condition_of(gang, SCHEDULED)
        if not self._write_gang(gang, wanted):
            return
        if (
            before is None
            or (before.get("status") == "True") != wanted.scheduled
            or (not wanted.scheduled and before.get("reason") != wanted.reason)
        ):
            self._record(gang, wanted)

    def _say(self, key: Key, original: Body, wanted: GangStatus) -> None:
        """Reports in an event on an object of another kind what a PodGang would have as status."""
        uid = original["metadata"].get("uid", "")
        said = _Said(uid, wanted.scheduled, wanted.reason)
        if self._said.get(key) != said:
            self._record(original, wanted)
            self._said[key] = said

    def _record(self, about: Body, wanted: GangStatus) -> None:
        self._recorder.record(
            about,
            type="Normal" if wanted.scheduled else "Warning",
            reason=SCHEDULED if wanted.scheduled else FAILED_SCHEDULING,
            topic=wanted.reason,
            action="Scheduling",
            note=wanted.message if wanted.scheduled else f"{wanted.reason}: {wanted.message}",
            request="" if wanted.scheduled else wanted.request,
        )

    def _write_gang(self, gang: Body, wanted: GangStatus) -> bool:
        """Writes what has to be written; returns whether something was."""
        metadata = gang["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        for attempt in range(_CONFLICTS):
            change = patch(gang, wanted, now=_time())
            if change is None:
                return False
            try:
                self._cluster.request(
                    "PATCH",
                    POD_GANGS.path_of(name, namespace, part="status"),
                    body=change,
                    content_type=MERGE_PATCH,
                )
            except ApiError as error:
                if error.status == 404:
                    return False
                if error.status != 409 or attempt == _CONFLICTS - 1:
                    raise
            else:
                return True
            gang = self._cluster.request("GET", POD_GANGS.path_of(name, namespace))
            if gang["metadata"].get("uid") != metadata.get("uid") or not is_initialized(gang):
                return False
        return False

    def _pod(self, pod: Body, notice: Notice, gang: Key | None = None) -> None:
        metadata = pod["metadata"]
        uid = metadata.get("uid", "")
        change = pod_patch(pod, notice, now=_time())
        if change is None:
            return
        before = condition_of(pod, POD_SCHEDULED) or {}
        (wanted,) = change["status"]["conditions"]
        if before.get("reason") == wanted["reason"] and uid in self._pod_writes:
            if gang is not None:
                self._postponed.add(gang)
            return
        change["metadata"] = {"uid": uid}
        try:
            self._cluster.request(
                "PATCH",
                PODS.path_of(metadata["name"], metadata["namespace"], part="status"),
                body=change,
                content_type=STRATEGIC_MERGE_PATCH,
            )
        except ApiError as error:
            if error.is_gone:
                # It is gone, or another one has its name.
                return
            raise
        self._pod_writes[uid] = self._clock()
        self._recorder.record(
            pod,
            type="Warning",
            reason=FAILED_SCHEDULING,
            topic=notice.reason,
            action="Scheduling",
            note=wanted["message"],
            request=notice.request,
        )


def report_eviction(recorder: Recorder, victim: Victim, plan: EvictionPlan) -> None:
    """Reports on a pod why it was evicted. An event that cannot be written is lost."""
    namespace, name = victim.pod
    metadata = {"namespace": namespace, "name": name, "uid": victim.uid}
    try:
        recorder.record(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata},
            type="Warning",
            reason="Preempted",
            topic="Preempted",
            action="Preempting",
            note=f"gives way to PodGang {'/'.join(plan.gang)} on node {victim.node}",
        )
    except ApiError as error:
        logger.warning("event not written: %s", error, extra={"pod": str(victim)})


def _time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
