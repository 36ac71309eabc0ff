"""Evicts pods, once each, and waits until their room is free.

A plan goes through these steps; if the controller dies at any of them, the next one continues.
First every eviction is tried as a dry run, so that a disruption budget that allows none stops the
plan before anything is lost. Then the plan is written to the journal. Then it is carried out, each
eviction with the uid of its victim. It ends when all victims are gone or its time is up. Until then
the gang is not asked about, and its room counts as taken. Afterwards it is asked about like any
other gang, and the room is free.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from enum import StrEnum
from typing import Final, Protocol

from controller.cluster.gang_state import Body, Key
from controller.cluster.view import ClusterView
from controller.eviction.plan import EvictionPlan, Victim
from controller.runtime.clocks import CLOCKS, Clocks
from controller.runtime.steps import Step, StepObserver, ignored
from placement.cluster import ApiError, Cluster
from placement.resources import PODS

logger = logging.getLogger(__name__)

#: Seconds between two tries of evictions that a budget does not allow yet.
_RETRY: Final = 2.0


class Eviction(StrEnum):
    """What became of one eviction."""

    EVICTED = "evicted"
    GONE = "gone"
    """The pod is gone already, or another one has its name."""
    BUDGET = "budget"
    """A disruption budget does not allow it now, or the API server is busy."""
    REFUSED = "refused"
    """It is not allowed at all."""
    UNKNOWN = "unknown"
    """No answer came; it may be sent again."""


class Evictor(Protocol):
    """Evicts one pod. Called from several threads at once."""

    def evict(self, victim: Victim, *, trial: bool) -> Eviction:
        """Tries once; with `trial` without effect. Does not raise."""


class PlanStore(Protocol):
    """Where plans that were begun are kept (see `journal`)."""

    def read(self) -> tuple[EvictionPlan, ...]: ...

    def write(self, plan: EvictionPlan) -> None: ...

    def erase(self, gang: Key) -> None: ...


class KubernetesEvictor:
    """Evicts with the Eviction API, which honours disruption budgets and grace periods."""

    def __init__(self, cluster: Cluster, *, timeout: float, may_act: Callable[[], bool]) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._may_act = may_act

    def evict(self, victim: Victim, *, trial: bool) -> Eviction:
        """Tries once; with `trial` without effect. Does not raise."""
        if not self._may_act():
            return Eviction.UNKNOWN
        namespace, name = victim.pod
        options: Body = {"preconditions": {"uid": victim.uid}}
        body: Body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {**options, "dryRun": ["All"]} if trial else options,
        }
        path = PODS.path_of(name, namespace, part="eviction")
        try:
            self._cluster.request("POST", path, body=body, timeout=self._timeout)
        except ApiError as error:
            if not trial:
                logger.warning("not evicted: %s", error, extra={"pod": str(victim)})
            if error.status == 404 or (error.status == 409 and self._is_gone(victim)):
                return Eviction.GONE
            if error.status == 409:
                return Eviction.UNKNOWN
            # A pod under several budgets is a 500, which no later try changes.
            if error.status == 429:
                return Eviction.BUDGET
            return Eviction.REFUSED if 400 <= error.status <= 500 else Eviction.UNKNOWN
        return Eviction.EVICTED

    def _is_gone(self, victim: Victim) -> bool:
        """Whether a conflict is that of another pod's uid: there are others."""
        namespace, name = victim.pod
        try:
            path = PODS.path_of(name, namespace)
            pod = self._cluster.request("GET", path, timeout=self._timeout)
        except ApiError as error:
            return error.status == 404
        metadata = pod["metadata"]
        return metadata.get("uid") != victim.uid or bool(metadata.get("deletionTimestamp"))


class Evictions:
    """The plans under way, each for `timeout` seconds at most.

    `may_act` is asked before the journal is written. `on_eviction` is told of every eviction that
    was carried out, with its plan.
    """

    def __init__(
        self,
        evictor: Evictor,
        journal: PlanStore,
        executor: Executor,
        *,
        timeout: float,
        may_act: Callable[[], bool] = lambda: True,
        count: Callable[[Eviction], None] = lambda result: None,
        on_eviction: Callable[[Victim, EvictionPlan], None] = lambda victim, plan: None,
        on_step: StepObserver = ignored,
        clocks: Clocks = CLOCKS,
    ) -> None:
        self._evictor = evictor
        self._journal = journal
        self._executor = executor
        self._timeout = timeout
        self._may_act = may_act
        self._clocks = clocks
        self._count = count
        self._on_eviction = on_eviction
        self._on_step = on_step
        self.forget()

    def forget(self) -> None:
        """A new term begins: what is under way has to be read again."""
        self._plans: dict[Key, EvictionPlan] = {}
        self._left: dict[Key, tuple[Victim, ...]] = {}
        # When their time is up, on the steady clock.
        self._ends: dict[Key, float] = {}
        self._again_at = -math.inf
        self._is_read = False

    @property
    def is_read(self) -> bool:
        """Whether it is known what is under way."""
        return self._is_read

    def left_of(self, gang: Key) -> int:
        """How many victims of a plan could not be evicted yet."""
        return len(self._left.get(gang, ()))

    @property
    def plans(self) -> Mapping[Key, EvictionPlan]:
        """The plans under way, by the gang that gets the room."""
        return self._plans

    def recover(self) -> bool:
        """Reads the journal, once a term; whether it has been read."""
        if not self._is_read:
            try:
                plans = self._journal.read()
            except ApiError as error:
                logger.warning("the journal of evictions cannot be read: %s", error)
                self._again_at = self._clocks.steady() + _RETRY
                return False
            for plan in plans:
                self._take_on(plan)
            self._is_read = True
        return True

    def begin(self, plan: EvictionPlan) -> str:
        """Begins a plan; why not, in words, when nothing was evicted."""
        self._on_step(Step.EVICT)
        tried = self._try(plan.victims, trial=True)
        if refused := {
            v: r for v, r in tried.items() if r not in (Eviction.EVICTED, Eviction.GONE)
        }:
            victim, result = next(iter(refused.items()))
            return f"{victim} cannot be evicted: {_WORDS[result]}"
        if not self._may_act():
            # The journal is the next leader's, which would not know of whom this plan is.
            return "another replica leads"
        try:
            self._journal.write(plan)
        except ApiError as error:
            return f"the evictions cannot be written down: {error}"
        self._take_on(plan)
        self._evict(plan)
        return ""

    def _take_on(self, plan: EvictionPlan) -> None:
        self._plans[plan.gang] = plan
        self._left[plan.gang] = plan.victims
        # Wherever the clock was set to meanwhile, nothing waits for longer than it may.
        self._ends[plan.gang] = self._clocks.steady() + min(
            plan.until - self._clocks.wall(), self._timeout
        )

    def has_work(self, view: ClusterView) -> bool:
        """Whether `advance` would do something."""
        is_time = self._clocks.steady() >= self._again_at
        return (is_time and not self._is_read) or any(
            self._is_over(plan, view) or (is_time and self._left[key])
            for key, plan in self._plans.items()
        )

    def advance(self, view: ClusterView) -> tuple[Key, ...]:
        """Continues every plan; returns the gangs whose plan has ended."""
        if not self.recover():
            return ()
        ended = []
        for key, plan in tuple(self._plans.items()):
            if not self._is_over(plan, view):
                if self._left[key] and self._clocks.steady() >= self._again_at:
                    self._evict(plan)
                continue
            if not self._may_act():
                # What it holds about the gang now may be of another leader.
                break
            try:
                self._journal.erase(key)
            except ApiError as error:
                logger.warning("the journal of evictions cannot be written: %s", error)
                continue
            del self._plans[key], self._left[key], self._ends[key]
            ended.append(key)
        if self._clocks.steady() >= self._again_at:
            self._again_at = self._clocks.steady() + _RETRY
        return tuple(ended)

    def _evict(self, plan: EvictionPlan) -> None:
        """Evicts those that were not evicted yet."""
        tried = self._try(self._left[plan.gang], trial=False)
        for victim, result in tried.items():
            self._count(result)
            if result is Eviction.EVICTED:
                self._on_eviction(victim, plan)
        self._left[plan.gang] = tuple(
            victim
            for victim, result in tried.items()
            if result in (Eviction.BUDGET, Eviction.UNKNOWN, Eviction.REFUSED)
        )

    def _try(self, victims: Collection[Victim], *, trial: bool) -> dict[Victim, Eviction]:
        def one(victim: Victim) -> Eviction:
            if not trial:
                self._on_step(Step.EVICT)
            result = self._evictor.evict(victim, trial=trial)
            if not trial:
                self._on_step(Step.EVICTED)
            return result

        return dict(zip(victims, self._executor.map(one, victims), strict=True))

    def _is_over(self, plan: EvictionPlan, view: ClusterView) -> bool:
        """Whether the room is free, the gang no longer needs it, or time is up."""
        state = view.states.get(plan.gang)
        if state is None or state.uid != plan.uid or state.is_met:
            return True
        if self._clocks.steady() >= self._ends[plan.gang]:
            return True
        return not any(is_there(victim, view) for victim in plan.victims)


_WORDS: Final = {
    Eviction.BUDGET: "a disruption budget does not allow it",
    Eviction.REFUSED: "the API server refuses it",
    Eviction.UNKNOWN: "no answer came",
}


def is_there(victim: Victim, view: ClusterView) -> bool:
    """Whether a victim still holds its room."""
    pod = view.pods.get(victim.pod)
    return pod is not None and pod["metadata"].get("uid", "") == victim.uid


def with_room_taken(
    pods: Mapping[Key, Body], plans: Collection[EvictionPlan]
) -> Mapping[Key, Body]:
    """The pods, where those that wait for evicted pods to go count as bound: no other gang is
    planned into their room.
    """
    result = dict(pods)
    for plan in plans:
        for binding in plan.bindings:
            pod = pods.get(binding.pod)
            if (
                pod is not None
                and pod["metadata"].get("uid", "") == binding.uid
                and not pod["spec"].get("nodeName")
            ):
                spec = {**pod["spec"], "nodeName": binding.node}
                result[binding.pod] = {**pod, "spec": spec}
    return result
