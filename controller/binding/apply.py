"""Carries out an answer, gang by gang: binds pods in parallel until each result is known. Just
before its turn a gang is compared with the cache once more. If anything that its plan depends on
has changed (a pod, a node, the gang, its base), nothing of it is bound and it is planned anew. Once
binding has begun, the first pod that cannot be bound stops those that have not begun. The next plan
finds the bound pods in place: the fewer they are, the more freedom it has.

A binding carries the pod's uid, and the API server binds a pod once. After an unclear answer the
pod itself is read. A pod whose binding stays unconfirmed counts as bound, so that nothing is put in
its place.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from controller.binding.device_notes import Notes
from controller.cluster.cache import ClusterCache
from controller.cluster.gang_state import Key, is_free, key_of_resource
from controller.cluster.view import ClusterView
from controller.runtime.steps import Step, StepObserver, ignored
from placement import v1
from placement.cluster import ApiError, Body, Cluster
from placement.resources import PODS

#: So often the API server may fail to bind a pod, as when a webhook does not answer it, before the
#: pod waits for the next plan: other gangs have their turn meanwhile.
_MOST_FAULTS: Final = 4
#: Answers that the API server was not able to. After 504 it may still do it.
_FAULTS: Final = frozenset({500, 502, 503})


@dataclass(frozen=True, slots=True)
class Binding:
    """One pod and its node; `notes` are annotations that the pod gets with it."""

    pod: Key
    uid: str
    node: str
    notes: Notes = ()

    def __str__(self) -> str:
        return f"{self.pod[1]} on {self.node}"


@dataclass(frozen=True, slots=True)
class GangPlan:
    """The bindings of one gang in an answer.

    `base` is the gang that must be bound before. Those of `depends_on` that the same answer
    binds must be bound as well; see `dependencies`.
    """

    gang: Key
    bindings: tuple[Binding, ...]
    base: Key | None = None
    depends_on: frozenset[Key] = frozenset()


class Result(StrEnum):
    """What became of one binding."""

    BOUND = "bound"
    CONFLICT = "conflict"
    """The pod is bound elsewhere, or was changed meanwhile."""
    GONE = "gone"
    """The pod is gone, or being deleted, or another one of its name took its place."""
    REFUSED = "refused"
    """The API server does not allow it, or is not able to do it."""
    UNKNOWN = "unknown"
    """No answer came, and the pod could not be read."""
    SKIPPED = "skipped"
    """It was not begun, or the API server was too busy to take it."""


@dataclass(frozen=True, slots=True)
class BindAttempt:
    """A binding, what became of it, and why in words when it failed."""

    binding: Binding
    result: Result
    why: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one gang's plan. `stale` says why the plan was not begun; otherwise `tried` has
    every binding.
    """

    plan: GangPlan
    tried: tuple[BindAttempt, ...] = ()
    stale: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether every pod was bound."""
        return not self.stale and all(one.result is Result.BOUND for one in self.tried)

    @property
    def is_refused(self) -> bool:
        """Whether the API server took no binding of it, and may not take the same another time."""
        results = {one.result for one in self.tried}
        return Result.REFUSED in results and results <= {Result.REFUSED, Result.SKIPPED}

    @property
    def bound(self) -> tuple[Binding, ...]:
        return tuple(one.binding for one in self.tried if one.result is Result.BOUND)

    @property
    def failed(self) -> tuple[BindAttempt, ...]:
        return tuple(one for one in self.tried if one.result is not Result.BOUND)

    @property
    def why(self) -> str:
        """Why it is not whole, in words. What failed in the same way is told of one pod."""
        if self.stale:
            return self.stale
        alike: dict[str, list[BindAttempt]] = defaultdict(list)
        for one in self.failed:
            if one.why:
                alike[one.why.replace(one.binding.pod[1], "")].append(one)
        return "; ".join(map(_told_of_one, alike.values()))


def _told_of_one(alike: Sequence[BindAttempt]) -> str:
    first, others = alike[0], len(alike) - 1
    told = f"{first.binding}: {first.why}"
    return f"{told} (and so for {others} more)" if others else told


class Binder(Protocol):
    """Binds one pod. Called from several threads at once."""

    def bind(self, binding: Binding) -> BindAttempt:
        """Tries until the result is known, or time is up. Does not raise."""


def plans(
    placement: v1.Placement,
    asked: Iterable[Key],
    bases: Mapping[Key, Key],
    dependencies: Mapping[Key, frozenset[Key]],
    notes: Callable[[v1.Binding], Notes] = lambda binding: (),
) -> tuple[GangPlan, ...]:
    """The bindings of an answer by gang: bases before the gangs that scale them, and gangs before
    those that depend on them.

    Only gangs that were asked about are bound, whatever the answer holds.
    """
    found: dict[Key, list[Binding]] = {key: [] for key in asked}
    for binding in placement.bindings:
        gang = key_of_resource(binding.gang)
        if gang in found:
            found[gang].append(
                Binding(
                    key_of_resource(binding.pod),
                    binding.uid,
                    binding.node.removeprefix("nodes/"),
                    notes(binding),
                )
            )
    result = [
        GangPlan(gang, tuple(of), bases.get(gang), dependencies.get(gang, frozenset()))
        for gang, of in found.items()
        if of
    ]
    # A base may depend on a gang that scales it, which cannot come before it.
    return (
        *_dependents_last([plan for plan in result if plan.base is None]),
        *_dependents_last([plan for plan in result if plan.base is not None]),
    )


def _dependents_last(plans: Sequence[GangPlan]) -> Iterable[GangPlan]:
    """Each plan after those that it depends on. In a circle of dependencies one is first."""
    by_gang = {plan.gang: plan for plan in plans}
    begun: set[Key] = set()
    done: dict[Key, GangPlan] = {}
    todo = [*reversed(by_gang)]
    while todo:
        gang = todo[-1]
        if gang in begun:
            done.setdefault(todo.pop(), by_gang[gang])
        else:
            begun.add(gang)
            todo += sorted((by_gang[gang].depends_on & by_gang.keys()) - begun, reverse=True)
    return done.values()


def staleness(plan: GangPlan, view: ClusterView, cache: ClusterCache, scheduler_name: str) -> str:
    """Why a plan that was made on `view` must no longer be begun; empty when it may."""
    planned = view.states[plan.gang]
    now = cache.state(plan.gang)
    if now is None or now.uid != planned.uid:
        return "the PodGang is gone"
    if now.generation != planned.generation:
        return "the PodGang has changed"
    for binding in plan.bindings:
        pod = cache.pod(binding.pod)
        if pod is None or pod["metadata"].get("uid", "") != binding.uid:
            return f"pod {binding.pod[1]} is gone"
        if not is_free(pod, scheduler_name):
            return f"pod {binding.pod[1]} is no longer to be bound"
        revision = cache.node_revision(binding.node)
        if revision is None:
            return f"node {binding.node} is gone"
        if revision != view.node_revisions.get(binding.node, 0):
            return f"node {binding.node} has changed"
    wanted = {binding.pod for binding in plan.bindings}
    for group in now.groups:
        with_plan = group.bound + sum(key in wanted for key in group.free)
        if with_plan < group.minimum:
            return f"group {group.name} would run {with_plan} pods of {group.minimum}"
    if plan.base is not None:
        base = cache.state(plan.base)
        if base is None or not base.is_met:
            return f"its base {plan.base[1]} is not bound"
    return ""


class Applier:
    """Carries out plans, one gang after another. `may_act` is asked before each gang."""

    def __init__(
        self,
        cache: ClusterCache,
        binder: Binder,
        executor: Executor,
        *,
        scheduler_name: str,
        may_act: Callable[[], bool] = lambda: True,
        on_step: StepObserver = ignored,
    ) -> None:
        self._cache = cache
        self._binder = binder
        self._executor = executor
        self._scheduler_name = scheduler_name
        self._may_act = may_act
        self._on_step = on_step

    def apply(self, plans: Sequence[GangPlan], view: ClusterView) -> Iterator[Outcome]:
        """The outcome of each plan as it comes; ends early when we may no longer act."""
        failed: set[Key] = set()
        unclear: set[Key] = set()
        for plan in plans:
            if not self._may_act():
                return
            stale = staleness(plan, view, self._cache, self._scheduler_name)
            if plan.base in unclear:
                # Its pods count as bound, so that nothing is put in their place.
                stale = f"whether its base {plan.base[1]} is bound is not known"
            if lost := sorted(plan.depends_on & failed):
                stale = f"it depends on pods of {lost[0][1]}, which is not bound"
            outcome = Outcome(plan, stale=stale) if stale else self._bind(plan)
            if not outcome.is_whole:
                failed.add(plan.gang)
            if any(one.result is Result.UNKNOWN for one in outcome.tried):
                unclear.add(plan.gang)
            yield outcome

    def _bind(self, plan: GangPlan) -> Outcome:
        stop = threading.Event()
        # Before the first call: from now on every view shows the whole gang in place.
        for binding in plan.bindings:
            self._cache.assume(binding.pod, binding.uid, binding.node, binding.notes)
        tried = tuple(
            self._executor.map(lambda binding: self._bind_one(binding, stop), plan.bindings)
        )
        for one in tried:
            if one.result not in (Result.BOUND, Result.UNKNOWN):
                self._cache.forget(one.binding.pod, one.binding.uid)
        return Outcome(plan, tried)

    def _bind_one(self, binding: Binding, stop: threading.Event) -> BindAttempt:
        # A gang that was begun is finished, also while stopping. The binder knows whether a request
        # may still be sent.
        if stop.is_set():
            return BindAttempt(binding, Result.SKIPPED)
        self._on_step(Step.BIND)
        tried = self._binder.bind(binding)
        self._on_step(Step.BOUND)
        if tried.result is not Result.BOUND:
            stop.set()
        return tried


class KubernetesBinder:
    """Binds through the API server.

    `timeout` is how long one pod is tried, in seconds; `may_act` is asked before every
    request, so that nothing is sent after the lease was lost.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        timeout: float,
        may_act: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._may_act = may_act

    def bind(self, binding: Binding) -> BindAttempt:
        """Tries until the result is known, or time is up. Does not raise."""
        end = time.monotonic() + self._timeout
        pause = 0.05
        sent, faults = False, 0
        why = "there was no time"
        while (left := end - time.monotonic()) > 0 and self._may_act():
            try:
                self._post(binding, left)
            except ApiError as error:
                why = str(error)
                if error.status == 429:
                    # It was certainly not carried out.
                    wait = max(pause, error.retry_after or 0.0)
                elif error.status in (400, 403, 413, 422):
                    return BindAttempt(binding, Result.REFUSED, why)
                else:
                    sent = True
                    found = self._found(binding, error, end - time.monotonic())
                    if found is not None:
                        if found.result is not Result.SKIPPED:
                            return found
                        faults += error.status in _FAULTS
                        if faults == _MOST_FAULTS:
                            return BindAttempt(binding, Result.REFUSED, why)
                    wait = pause
            else:
                return BindAttempt(binding, Result.BOUND)
            time.sleep(min(wait, max(0.0, end - time.monotonic())))
            pause = min(2 * pause, 1.0)
        if not sent:
            return BindAttempt(binding, Result.SKIPPED, why)
        return BindAttempt(binding, Result.UNKNOWN, why)

    def look(self, binding: Binding, *, timeout: float) -> BindAttempt:
        """The result of a binding that got no clear answer; `SKIPPED` when it was not made.

        Raises `ApiError` when the pod cannot be looked at.
        """
        namespace, name = binding.pod
        try:
            pod = self._cluster.request("GET", PODS.path_of(name, namespace), timeout=timeout)
        except ApiError as error:
            if error.status == 404:
                return BindAttempt(binding, Result.GONE, "the pod is gone")
            raise
        if pod["metadata"].get("uid") != binding.uid:
            return BindAttempt(binding, Result.GONE, "another pod has its name")
        node = pod["spec"].get("nodeName")
        if node == binding.node:
            return BindAttempt(binding, Result.BOUND)
        if node:
            return BindAttempt(binding, Result.CONFLICT, f"the pod is bound to {node}")
        if pod["metadata"].get("deletionTimestamp"):
            return BindAttempt(binding, Result.GONE, "the pod is being deleted")
        return BindAttempt(binding, Result.SKIPPED)

    def _post(self, binding: Binding, timeout: float) -> None:
        namespace, name = binding.pod
        # The API server takes annotations of a binding over to the pod, in the same write.
        notes = {"annotations": dict(binding.notes)} if binding.notes else {}
        body: Body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": binding.uid, **notes},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        path = PODS.path_of(name, namespace, part="binding")
        self._cluster.request("POST", path, body=body, timeout=timeout)

    def _found(self, binding: Binding, error: ApiError, left: float) -> BindAttempt | None:
        """What an unclear answer meant, as far as the pod can be looked at: `SKIPPED` when the
        binding may be tried again.
        """
        if left <= 0:
            return None
        try:
            found = self.look(binding, timeout=left)
        except ApiError:
            return None
        if found.result is Result.SKIPPED and error.status in (404, 409):
            # It exists and is free, but the server refused: plan it again. After any other error
            # the same request may be sent again.
            return BindAttempt(binding, Result.CONFLICT, str(error))
        return found
