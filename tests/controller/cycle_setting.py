"""A cycle with a service, a binder and an API server that do as they are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from controller.asking.inquiry import Inquiry
from controller.batch import Backoff, Window
from controller.binding.apply import Applier, BindAttempt, Binding, Result
from controller.cluster.cache import KINDS, ClusterCache
from controller.cluster.gangs.gated import GATE
from controller.cycle import Cycle, CycleOptions, Effects
from controller.eviction.evict import Evictions
from controller.reports.events import Recorder
from controller.reports.report import Reporter
from controller.runtime.authority import Authority, Heartbeat
from controller.runtime.clocks import Clocks
from controller.runtime.metrics import Metrics
from placement import v1
from placement.cluster import ApiError
from placement.errors import PlacementError
from placement.resources import Resource
from tests.controller.bodies import OURS, pod
from tests.kubernetes import build

NO_ROOM = v1.Reason(code=v1.ReasonCode.REASON_CODE_OUTCOMPETED, message="no")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Lease:
    leads = True
    term = 0


class Server:
    """Takes and notes every write, except those on `refused` objects."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Any]] = []
        self.events: list[Any] = []
        self.refused: Counter[str] = Counter()

    def request(self, method: str, path: str, *, body: Any = None, **_: object) -> Any:
        name = path.removesuffix("/status").rpartition("/")[2]
        if name in self.refused:
            self.refused[name] += 1
            raise ApiError(403, "by a webhook")
        if method == "POST":
            self.events.append(body)
        else:
            self.patches.append((path, body))
        return {}


class Setting:
    """A cycle with all that it calls; `answer` is what the service does."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        *,
        evictions: Evictions | None = None,
        others: Sequence[Resource] = (),
        **options: Any,
    ) -> None:
        self.cache = ClusterCache(OURS, others=others)
        for kind in KINDS:
            self.cache.replace(kind, [])
        for other in others:
            self.cache.of(other).replace(other.kind, [])
        self.clock, self.lease, self.server, self.metrics = Clock(), Lease(), Server(), Metrics()
        self.authority = Authority(self.lease)
        self.asked: list[v1.ComputePlacementRequest] = []
        self.bound: list[str] = []
        self.binds: Callable[[Binding], BindAttempt] = lambda binding: BindAttempt(
            binding, Result.BOUND
        )
        self.looks = self.binds
        self.answer: Callable[[v1.ComputePlacementRequest], v1.Placement] = all_on_first_node
        given: dict[str, Any] = {
            "scheduler_name": OURS,
            "binds": True,
            "window": Window(idle=0.0, longest=0.0, most=10),
            "backoff": Backoff(1.0, 60.0),
            "time_limit": 8.0,
            "policy": v1.Policy(),
            "eviction_timeout": 100.0,
            "keep_gated": 30.0,
            "half_bound_limit": 60.0,
            "waiting_notice": 30.0,
        }
        recorder = Recorder(
            self.server,  # type: ignore[arg-type]
            controller="c",
            instance="i",
            repeat=300.0,
            clock=self.clock,
        )
        heartbeat = Heartbeat(clock=self.clock)
        self.cycle = Cycle(
            CycleOptions(**{**given, **options}),
            cache=self.cache,
            inquiry=Inquiry(
                self,
                timeout=9.0,
                backoff=Backoff(1.0, 60.0),
                notice_after=30.0,
                authority=self.authority,
                heartbeat=heartbeat,
                metrics=self.metrics,
                clock=self.clock,
            ),
            effects=Effects(
                applier=Applier(
                    self.cache,
                    self,
                    pool,
                    scheduler_name=OURS,
                    may_act=self.authority.may_act,
                ),
                lookup=self,
                reporter=Reporter(
                    self.server,  # type: ignore[arg-type]
                    recorder,
                    pool,
                    clock=self.clock,
                ),
                evictions=evictions,
            ),
            authority=self.authority,
            heartbeat=heartbeat,
            relist=lambda: None,
            metrics=self.metrics,
            clocks=Clocks(steady=self.clock),
        )

    def ask(self, request: v1.ComputePlacementRequest, *, timeout: float) -> v1.Placement:
        self.asked.append(request)
        return self.answer(request)

    def cancel(self) -> None:
        pass

    def bind(self, binding: Binding) -> BindAttempt:
        tried = self.binds(binding)
        if tried.result is Result.BOUND:
            self.bound.append(str(binding))
        return tried

    def look(self, binding: Binding, *, timeout: float) -> BindAttempt:
        return self.looks(binding)

    def observe(self, *bodies: build.Body) -> None:
        for body in bodies:
            self.cache.observe(body["kind"], body)

    @property
    def pause(self) -> float:
        """Seconds until the service is asked again."""
        self.cycle._look()
        return self.cycle._pause()

    def cycles(self, seconds: float) -> None:
        """Lets time pass, with a cycle whenever there is one."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.cycle._unconfirmed.settle(self.clock.now)
            if self.pause <= 0 or self.cycle._has_news(self.cache.view()):
                self.cycle.once()
            self.clock.now += 0.25

    def told(self) -> list[dict[str, Any]]:
        """Conditions that were written on gangs."""
        return [
            condition
            for path, body in self.server.patches
            if "podgangs" in path
            for condition in body["status"].get("conditions", ())
            if condition["type"] == "Scheduled"
        ]


def all_on_first_node(request: v1.ComputePlacementRequest) -> v1.Placement:
    """Every pod that waits has a place on the first node."""
    placement = v1.Placement()
    for one in request.gangs:
        placement.gangs.append(v1.GangResult(name=one.name, placed=True, placement_score=1.0))
        for group in one.groups:
            for pods in group.pod_sets:
                for free in pods.pods:
                    placement.bindings.append(
                        v1.Binding(
                            pod=free.name,
                            uid=free.uid,
                            node=request.snapshot.nodes[0].name,
                            gang=one.name,
                            group=group.name,
                        )
                    )
    return placement


def raises(error: PlacementError) -> Callable[[object], v1.Placement]:
    def answer(request: object) -> v1.Placement:
        raise error

    return answer


def nobody_fits(request: v1.ComputePlacementRequest) -> v1.Placement:
    return v1.Placement(
        gangs=[v1.GangResult(name=one.name, reasons=[NO_ROOM]) for one in request.gangs]
    )


def gated(name: str) -> build.Body:
    body = pod(name)
    body["metadata"]["labels"] = {"grove.io/base-podgang": "base"}
    body["spec"]["schedulingGates"] = [{"name": GATE}]
    return body
