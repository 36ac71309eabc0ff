"""Which parts a controller has, and how they are put together from its settings.

    cluster --watchers--> cache --cycle--> service
                                   +-> applier -> binder -> cluster
                                   +-> evictions, reports -> cluster

    cluster --watchers--> objects --cycle of advice--> service
                                   +-> lifecycle -> adapters -> cluster

The watches, the lease, the probes and the cycle have a thread each; bindings and reports
share a pool. When it stops, the cycle ends first, then the lease is given up, then the
watches end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from controller.advice.composition import adapters
from controller.advice.cycle import AdviceCycle, AdviceOptions
from controller.advice.lifecycle import AdviceLifecycle
from controller.advice.objects import ObjectCache
from controller.advice.writes import guarded
from controller.asking.inquiry import Inquiry
from controller.asking.service_client import ServiceClient
from controller.batch import Backoff, Window
from controller.binding.apply import Applier, KubernetesBinder
from controller.cluster.cache import ClusterCache
from controller.cluster.watch import Sink, Watcher
from controller.cycle import Cycle, CycleOptions, Effects
from controller.eviction.evict import Evictions, KubernetesEvictor
from controller.eviction.journal import Journal
from controller.policy import EvictionSetting, policy
from controller.reports.events import Recorder
from controller.reports.remedies import Remedies
from controller.reports.report import Reporter, report_eviction
from controller.runtime.authority import AlwaysLeader, Authority, Heartbeat
from controller.runtime.lease import Elector, Timing
from controller.runtime.metrics import Metrics
from controller.runtime.probes import Probes
from controller.runtime.steps import StepObserver, ignored
from controller.runtime.threads import Threads
from controller.settings import Settings
from placement import v1
from placement.cluster import Cluster
from placement.resources import (
    ALSO_PLANNED_FROM,
    PLANNED_FROM,
    PODS,
    RESPECTED,
    UNFINISHED,
    Resource,
)

#: Seconds that the cycle, and the lease, may each take to end. A lease that is not given up
#: in time runs out.
_GRACE = 20.0
#: Watches that are open at once, at most.
_MOST_WATCHES = len(PLANNED_FROM) + len(ALSO_PLANNED_FROM)
_CONTROLLER = "placement-controller"
#: Kinds that are named as not read yet.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Running:
    """A controller that runs. `failed` is set when a thread of it ended by an error."""

    probes: Probes
    failed: threading.Event


class RunnableCycle(Protocol):
    """What is run in the thread of the cycle."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Mode:
    """The parts that differ by mode: the cycle, and what it watches."""

    cycle: RunnableCycle
    watchers: Sequence[Watcher]
    unread: Callable[[], Collection[str]]


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts that every mode needs."""

    settings: Settings
    cluster: Cluster
    pool: Executor
    service: ServiceClient
    recorder: Recorder
    authority: Authority
    heartbeat: Heartbeat
    metrics: Metrics


@contextmanager
def running(settings: Settings, *, on_step: StepObserver = ignored) -> Iterator[Running]:
    """Runs the controller while the block runs; `on_step` is told of every step.

    Raises `ApiError` when no cluster is configured, OSError when the port is taken.
    """
    with ExitStack() as stack:
        metrics = Metrics()
        cluster = _cluster(settings, metrics, stack)
        elector = _elector(settings, cluster, metrics)
        shared = Shared(
            settings,
            cluster,
            stack.enter_context(
                ThreadPoolExecutor(settings.parallel_calls, thread_name_prefix="call")
            ),
            _service(settings, stack),
            Recorder(
                cluster,
                controller=_CONTROLLER,
                instance=settings.identity,
                repeat=settings.event_repeat,
            ),
            Authority(elector or AlwaysLeader()),
            Heartbeat(on_step),
            metrics,
        )
        mode = _advising(shared) if settings.mode == "advise" else _scheduling(shared)
        threads = Threads()
        probes = stack.enter_context(
            Probes(
                settings.http_host,
                settings.http_port,
                healthy=lambda: _stuck(shared.heartbeat, settings.stuck_after) or threads.ended,
                ready=lambda: _unread(mode.unread()),
                registry=metrics.registry,
            )
        )
        for watcher in mode.watchers:
            stack.callback(watcher.stop)
            threads.start(watcher.run, "watch")
        if elector is not None:
            stack.callback(_end, elector.stop, threads.start(elector.run, "lease"))
        stack.callback(_end, mode.cycle.stop, threads.start(mode.cycle.run, "cycle"))
        yield Running(probes, threads.failed)


def _end(stop: Callable[[], None], thread: threading.Thread) -> None:
    stop()
    thread.join(_GRACE)


def _stuck(heartbeat: Heartbeat, limit: float) -> str:
    stuck = heartbeat.stuck_for
    return "" if stuck < limit else f"a step takes {stuck:.0f} s"


def _unread(kinds: Collection[str]) -> str:
    more = len(kinds) - _MOST_NAMED
    named = sorted(kinds)[:_MOST_NAMED] + ([f"{more} more"] if more > 0 else [])
    return f"the cluster is not read yet: {', '.join(named)}" if kinds else ""


def _cluster(settings: Settings, metrics: Metrics, stack: ExitStack) -> Cluster:
    cluster = Cluster.connect(
        kubeconfig=None if settings.kubeconfig is None else str(settings.kubeconfig),
        connections=settings.parallel_calls + _MOST_WATCHES + 4,
        observe=metrics.called,
    )
    stack.callback(cluster.close)
    return cluster


def _watcher(shared: Shared, resource: Resource, sink: Sink) -> Watcher:
    settings, metrics = shared.settings, shared.metrics
    return Watcher(
        shared.cluster,
        resource,
        sink,
        fields=UNFINISHED if resource is PODS else "",
        absent_poll=settings.crd_poll,
        silence=settings.watch_silence,
        on_event=lambda kind: metrics.watch_events.labels(kind).inc(),
        on_list=lambda kind: metrics.lists.labels(kind).inc(),
    )


def _relist(watchers: Sequence[Watcher]) -> None:
    for watcher in watchers:
        watcher.relist()


def _elector(settings: Settings, cluster: Cluster, metrics: Metrics) -> Elector | None:
    """There is no election where nothing is written, or with a single replica."""
    if not (settings.leader_election and settings.writes):
        metrics.leader.set(1)
        return None
    elector = Elector(
        cluster,
        namespace=settings.lease_namespace,
        name=settings.lease_name,
        identity=settings.identity,
        timing=Timing(settings.lease_duration, settings.renew_deadline, settings.renew_period),
    )
    # Read when asked for: a replica that hangs cannot set it.
    metrics.leader.set_function(lambda: float(elector.leads))
    # A replica that leads from the start reads the cluster once, and not again as a new leader.
    elector.attempt()
    return elector


def _service(settings: Settings, stack: ExitStack) -> ServiceClient:
    address = settings.service
    if not address:
        # Only here: a controller with a service elsewhere never loads it.
        from controller.asking.embedded import serving

        address = stack.enter_context(serving(time_limit=settings.time_limit))
    return ServiceClient(
        address,
        ca=settings.service_ca,
        certificate=settings.service_certificate,
        key=settings.service_key,
    )


def _scheduling(shared: Shared) -> Mode:
    """We are the scheduler, or would be in a dry run."""
    settings, authority, heartbeat = shared.settings, shared.authority, shared.heartbeat
    cache = ClusterCache(settings.scheduler_name, others=RESPECTED)
    watched = (*PLANNED_FROM, *RESPECTED)
    watchers = [_watcher(shared, resource, cache.of(resource)) for resource in watched]
    binder = KubernetesBinder(
        shared.cluster, timeout=settings.bind_timeout, may_act=authority.leads
    )
    cycle = Cycle(
        _options(settings),
        cache=cache,
        inquiry=_inquiry(shared),
        effects=Effects(
            applier=Applier(
                cache,
                binder,
                shared.pool,
                scheduler_name=settings.scheduler_name,
                may_act=authority.may_act,
                on_step=heartbeat.step,
            ),
            lookup=binder,
            reporter=Reporter(
                shared.cluster,
                shared.recorder,
                shared.pool,
                may_act=authority.leads,
                on_step=heartbeat.step,
            ),
            evictions=_evictions(shared),
        ),
        remedies=Remedies(
            shared.service.explain, seconds=settings.remedy_time_limit, wake=cache.wake
        ),
        authority=authority,
        heartbeat=heartbeat,
        relist=lambda: _relist(watchers),
        metrics=shared.metrics,
    )
    return Mode(cycle, watchers, lambda: cache.unread)


def _advising(shared: Shared) -> Mode:
    """Other schedulers bind, and get advice."""
    settings, metrics = shared.settings, shared.metrics
    cluster = guarded(shared.cluster, shared.heartbeat, may_act=shared.authority.leads)
    advised = adapters(
        settings.advise,
        cluster,
        shared.pool,
        pool=settings.advise_pool,
        kai_settle=settings.advise_kai_settle,
    )
    watched = (*PLANNED_FROM, *ALSO_PLANNED_FROM)
    cache = ObjectCache(watched)
    watchers = [_watcher(shared, resource, cache.of(resource)) for resource in watched]
    lifecycle = AdviceLifecycle(
        cluster,
        advised,
        shared.recorder,
        shared.pool,
        ttl=settings.advice_ttl,
        may_act=shared.authority.leads,
        count=lambda adapter, end: metrics.advice.labels(adapter, end.value).inc(),
    )
    cycle = AdviceCycle(
        AdviceOptions(
            policy=_policy(settings, eviction="none"),
            time_limit=settings.time_limit,
            idle_window=settings.idle_window,
            advice_ttl=settings.advice_ttl,
            advice_timeout=settings.advice_timeout,
            retry=10 * settings.shortest_backoff,
            quick_retry=settings.shortest_backoff,
        ),
        cache=cache,
        adapters=advised,
        lifecycle=lifecycle,
        inquiry=_inquiry(shared),
        authority=shared.authority,
        heartbeat=shared.heartbeat,
        relist=lambda: _relist(watchers),
        measure=metrics.waiting_for_advice,
    )
    return Mode(cycle, watchers, lambda: cache.unread)


def _inquiry(shared: Shared) -> Inquiry:
    settings = shared.settings
    return Inquiry(
        shared.service,
        timeout=settings.time_limit + settings.service_patience,
        backoff=_backoff(settings),
        notice_after=settings.failure_notice,
        authority=shared.authority,
        heartbeat=shared.heartbeat,
        metrics=shared.metrics,
        clock=time.monotonic,
    )


def _evictions(shared: Shared) -> Evictions | None:
    """Running pods are not touched unless the settings allow it."""
    settings, metrics = shared.settings, shared.metrics
    if settings.eviction == "none" or not settings.binds:
        return None
    return Evictions(
        KubernetesEvictor(
            shared.cluster, timeout=settings.bind_timeout, may_act=shared.authority.leads
        ),
        Journal(shared.cluster, namespace=settings.lease_namespace, name=settings.eviction_journal),
        shared.pool,
        timeout=settings.eviction_timeout,
        may_act=shared.authority.leads,
        count=lambda result: metrics.evictions.labels(result.value).inc(),
        on_eviction=lambda victim, plan: report_eviction(shared.recorder, victim, plan),
        on_step=shared.heartbeat.step,
    )


def _policy(settings: Settings, *, eviction: EvictionSetting) -> v1.Policy:
    return policy(
        deterministic=settings.deterministic,
        eviction=eviction,
        starvation_after=settings.starvation_after,
        tolerances=settings.tolerances,
        extras=settings.extras,
    )


def _backoff(settings: Settings) -> Backoff:
    return Backoff(settings.shortest_backoff, settings.longest_backoff)


def _options(settings: Settings) -> CycleOptions:
    return CycleOptions(
        scheduler_name=settings.scheduler_name,
        binds=settings.binds,
        window=Window(settings.idle_window, settings.longest_window, settings.most_gangs),
        backoff=_backoff(settings),
        time_limit=settings.time_limit,
        policy=_policy(settings, eviction=settings.eviction),
        keep_gated=settings.keep_gated,
        eviction_timeout=settings.eviction_timeout,
        half_bound_limit=settings.half_bound_limit,
        waiting_notice=settings.waiting_notice,
    )
