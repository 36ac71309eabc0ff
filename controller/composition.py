"""Which parts a controller has, and how they are put together from its settings.

    cluster --watchers--> cache --cycle--> service
                                   +-> applier -> binder -> cluster
                                   +-> reports -> cluster

The watches, the lease, the probes and the cycle have a thread each; bindings and reports
share a pool. On the way out the cycle ends first, then the lease is given up, then the
watches end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from controller.apply import Applier, KubernetesBinder
from controller.authority import AlwaysLeader, Authority, Heartbeat
from controller.batch import Backoff, Window
from controller.cache import ClusterCache
from controller.cycle import Cycle, CycleOptions
from controller.events import Recorder
from controller.evict import Evictions, KubernetesEvictor
from controller.eviction_journal import Journal
from controller.inquiry import Inquiry
from controller.lease import Elector, Timing
from controller.metrics import Metrics
from controller.policy import policy
from controller.probes import Probes
from controller.report import Reporter, report_eviction
from controller.service_client import ServiceClient
from controller.settings import Settings
from controller.steps import StepObserver, ignored
from controller.threads import Threads
from controller.watch import Watcher
from placement.cluster import PLANNED_FROM, PODS, UNFINISHED, Cluster

#: Seconds that the cycle, and the lease, may each take to end. A lease that is not given up
#: in time runs out.
_GRACE = 20.0
_CONTROLLER = "placement-controller"


@dataclass(frozen=True, slots=True)
class Running:
    """A controller that runs. `failed` is set when a thread of it ended by an error."""

    probes: Probes
    failed: threading.Event


@contextmanager
def running(settings: Settings, *, on_step: StepObserver = ignored) -> Iterator[Running]:
    """Runs the controller while the block runs; `on_step` is told of every step.

    Raises `ApiError` when no cluster is configured, OSError when the port is taken.
    """
    metrics = Metrics()
    heartbeat = Heartbeat(on_step)
    with ExitStack() as stack:
        cluster = _cluster(settings, metrics, stack)
        cache = ClusterCache(settings.scheduler_name)
        watchers = _watchers(settings, cluster, cache, metrics)
        elector = _elector(settings, cluster, metrics)
        authority = Authority(elector or AlwaysLeader())
        pool = stack.enter_context(
            ThreadPoolExecutor(settings.parallel_calls, thread_name_prefix="call")
        )
        service = _service(settings, stack)
        cycle = _cycle(
            settings, cluster, cache, service, pool, authority, heartbeat, metrics, watchers
        )
        threads = Threads()
        probes = stack.enter_context(
            Probes(
                settings.http_host,
                settings.http_port,
                healthy=lambda: _stuck(heartbeat, settings.stuck_after) or threads.ended,
                ready=lambda: "" if cache.is_synced else "the cluster is not read yet",
                registry=metrics.registry,
            )
        )
        for watcher in watchers:
            stack.callback(watcher.stop)
            threads.start(watcher.run, "watch")
        if elector is not None:
            stack.callback(_end, elector.stop, threads.start(elector.run, "lease"))
        stack.callback(_end, cycle.stop, threads.start(cycle.run, "cycle"))
        yield Running(probes, threads.failed)


def _end(stop: Callable[[], None], thread: threading.Thread) -> None:
    stop()
    thread.join(_GRACE)


def _stuck(heartbeat: Heartbeat, limit: float) -> str:
    stuck = heartbeat.stuck_for
    return "" if stuck < limit else f"a step takes {stuck:.0f} s"


def _cluster(settings: Settings, metrics: Metrics, stack: ExitStack) -> Cluster:
    cluster = Cluster.connect(
        kubeconfig=None if settings.kubeconfig is None else str(settings.kubeconfig),
        connections=settings.parallel_calls + len(PLANNED_FROM) + 4,
        observe=metrics.called,
    )
    stack.callback(cluster.close)
    return cluster


def _watchers(
    settings: Settings, cluster: Cluster, cache: ClusterCache, metrics: Metrics
) -> list[Watcher]:
    return [
        Watcher(
            cluster,
            resource,
            cache,
            fields=UNFINISHED if resource is PODS else "",
            absent_poll=settings.crd_poll,
            silence=settings.watch_silence,
            on_event=lambda kind: metrics.watch_events.labels(kind).inc(),
            on_list=lambda kind: metrics.lists.labels(kind).inc(),
        )
        for resource in PLANNED_FROM
    ]


def _elector(settings: Settings, cluster: Cluster, metrics: Metrics) -> Elector | None:
    """Nobody is elected where nothing is written, or where we are alone."""
    if not (settings.leader_election and settings.binds):
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
    # Who leads from the start reads the cluster once, and not again as a new leader.
    elector.attempt()
    return elector


def _service(settings: Settings, stack: ExitStack) -> ServiceClient:
    address = settings.service
    if not address:
        # Only here: a controller with a service elsewhere never loads it.
        from controller.embedded import serving

        address = stack.enter_context(serving(time_limit=settings.time_limit))
    return ServiceClient(
        address,
        ca=settings.service_ca,
        certificate=settings.service_certificate,
        key=settings.service_key,
    )


def _cycle(
    settings: Settings,
    cluster: Cluster,
    cache: ClusterCache,
    service: ServiceClient,
    pool: Executor,
    authority: Authority,
    heartbeat: Heartbeat,
    metrics: Metrics,
    watchers: list[Watcher],
) -> Cycle:
    def relist() -> None:
        for watcher in watchers:
            watcher.relist()

    binder = KubernetesBinder(cluster, timeout=settings.bind_timeout, may_act=authority.leads)
    recorder = Recorder(
        cluster,
        controller=_CONTROLLER,
        instance=settings.identity,
        repeat=settings.event_repeat,
    )
    options = _options(settings)
    return Cycle(
        options,
        cache=cache,
        inquiry=Inquiry(
            service,
            timeout=settings.time_limit + settings.service_patience,
            backoff=options.backoff,
            notice_after=settings.failure_notice,
            authority=authority,
            heartbeat=heartbeat,
            metrics=metrics,
            clock=time.monotonic,
        ),
        applier=Applier(
            cache,
            binder,
            pool,
            scheduler_name=settings.scheduler_name,
            may_act=authority.may_act,
            on_step=heartbeat.step,
        ),
        lookup=binder,
        reporter=Reporter(cluster, recorder, pool, may_act=authority.leads, on_step=heartbeat.step),
        evictions=_evictions(settings, cluster, pool, authority, heartbeat, metrics, recorder),
        authority=authority,
        heartbeat=heartbeat,
        relist=relist,
        metrics=metrics,
    )


def _evictions(
    settings: Settings,
    cluster: Cluster,
    pool: Executor,
    authority: Authority,
    heartbeat: Heartbeat,
    metrics: Metrics,
    recorder: Recorder,
) -> Evictions | None:
    """Nothing that runs is touched unless the settings say so."""
    if settings.eviction == "none" or not settings.binds:
        return None
    return Evictions(
        KubernetesEvictor(cluster, timeout=settings.bind_timeout, may_act=authority.leads),
        Journal(cluster, namespace=settings.lease_namespace, name=settings.eviction_journal),
        pool,
        clock=time.time,
        count=lambda result: metrics.evictions.labels(result.value).inc(),
        on_eviction=lambda victim, plan: report_eviction(recorder, victim, plan),
        on_step=heartbeat.step,
    )


def _options(settings: Settings) -> CycleOptions:
    return CycleOptions(
        scheduler_name=settings.scheduler_name,
        binds=settings.binds,
        window=Window(settings.idle_window, settings.longest_window, settings.most_gangs),
        backoff=Backoff(settings.shortest_backoff, settings.longest_backoff),
        time_limit=settings.time_limit,
        policy=policy(
            deterministic=settings.deterministic,
            eviction=settings.eviction,
            starvation_after=settings.starvation_after,
            tolerances=settings.tolerances,
            extras=settings.extras,
        ),
        keep_gated=settings.keep_gated,
        eviction_timeout=settings.eviction_timeout,
        half_bound_limit=settings.half_bound_limit,
        waiting_notice=settings.waiting_notice,
    )
