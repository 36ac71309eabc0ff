"""``placement-controller``: settings, threads, and a quiet end.

The watches, the lease, the probes and the cycle have a thread each; bindings and reports
share a pool. On SIGTERM the gang that is being bound is finished, what is known is
reported, and the lease is given up, so that the next replica begins at once.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from controller import logs
from controller.apply import Applier, KubernetesBinder
from controller.batch import Backoff, Window
from controller.cache import ClusterCache
from controller.cycle import AlwaysLeader, Cycle, CycleOptions
from controller.events import Recorder
from controller.lease import Elector, Timing
from controller.metrics import Metrics
from controller.probes import Probes
from controller.report import Reporter
from controller.service_client import ServiceClient
from controller.settings import Settings, faults
from controller.steps import StepObserver, ignored
from controller.watch import Watcher
from placement.cluster import PLANNED_FROM, PODS, UNFINISHED, ApiError, Cluster

logger = logging.getLogger("controller")

#: Seconds that the end may take after the cycle was told to stop; the lease is given up
#: within it, or runs out.
_LAST_WORDS = 20.0
#: Seconds between two looks at whether a thread has failed.
_GLANCE = 0.2
_CONTROLLER = "placement-controller"


@dataclass(frozen=True, slots=True)
class Running:
    """A controller that runs. `failed` is set when a thread of it ended by an error."""

    probes: Probes
    failed: threading.Event


def main(on_step: StepObserver = ignored) -> None:
    """Runs until SIGTERM or SIGINT; `entered` is told of every step."""
    parser = argparse.ArgumentParser(
        prog="placement-controller",
        description="Schedules PodGangs by asking the placement service. Settings are"
        " environment variables with PLACEMENT_CONTROLLER_ in front, or keys of the file: "
        + ", ".join(Settings.model_fields)
        + ".",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings as YAML")
    options = parser.parse_args()
    try:
        settings = Settings.load(options.config)
    except (ValueError, OSError, yaml.YAMLError) as error:
        told = faults(error) if isinstance(error, ValidationError) else error
        sys.exit(f"placement-controller: the settings are wrong\n{told}")
    logs.configure(settings.log_format, settings.log_level)
    told_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_stop.set())
    try:
        with running(settings, on_step=on_step) as controller:
            while not (told_to_stop.wait(_GLANCE) or controller.failed.is_set()):
                pass
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            logger.info("stopping")
        if controller.failed.is_set():
            sys.exit(1)
    except (ApiError, OSError, RuntimeError) as error:
        sys.exit(f"placement-controller: {error}")


@contextmanager
def running(settings: Settings, *, on_step: StepObserver = ignored) -> Iterator[Running]:
    """Runs the controller while the block runs.

    Raises `ApiError` when no cluster is configured, OSError when the port is taken.
    """
    metrics = Metrics()
    cluster = Cluster.connect(
        kubeconfig=None if settings.kubeconfig is None else str(settings.kubeconfig),
        connections=settings.parallel_calls + len(PLANNED_FROM) + 4,
        observe=metrics.called,
    )
    with ExitStack() as stack:
        stack.callback(cluster.close)
        cache = ClusterCache(settings.scheduler_name)
        watchers = _watchers(settings, cluster, cache, metrics)
        elector = _elector(settings, cluster, metrics)
        leadership = elector or AlwaysLeader()
        if elector is not None:
            # Who leads from the start reads the cluster once, and not again as a new leader.
            elector.attempt()
        pool = stack.enter_context(
            ThreadPoolExecutor(settings.parallel_calls, thread_name_prefix="call")
        )
        binder = KubernetesBinder(
            cluster, timeout=settings.bind_timeout, may_act=lambda: cycle.leads()
        )
        recorder = Recorder(
            cluster,
            controller=_CONTROLLER,
            instance=settings.identity,
            repeat=settings.event_repeat,
        )
        service = ServiceClient(
            settings.service or stack.enter_context(_embedded(settings)),
            ca=settings.service_ca,
            certificate=settings.service_certificate,
            key=settings.service_key,
        )

        def relist() -> None:
            for watcher in watchers:
                watcher.relist()

        cycle = Cycle(
            _options(settings),
            cache=cache,
            service=service,
            applier=Applier(
                cache,
                binder,
                pool,
                scheduler_name=settings.scheduler_name,
                may_act=lambda: cycle.may_act(),
                on_step=lambda step: cycle.on_step(step),
            ),
            lookup=binder,
            reporter=Reporter(
                cluster,
                recorder,
                pool,
                may_act=lambda: cycle.leads(),
                on_step=lambda step: cycle.on_step(step),
            ),
            leadership=leadership,
            term=leadership.term,
            relist=relist,
            metrics=metrics,
            on_step=on_step,
        )

        def healthy() -> str:
            stuck = cycle.stuck_for
            return "" if stuck < settings.stuck_after else f"a step takes {stuck:.0f} s"

        failed = threading.Event()
        threads = [_thread(watcher.run, "watch", failed) for watcher in watchers]
        threads.append(_thread(cycle.run, "cycle", failed))
        probes = stack.enter_context(
            Probes(
                settings.http_host,
                settings.http_port,
                healthy=lambda: healthy() or _dead(threads),
                ready=lambda: "" if cache.is_synced else "the cluster is not read yet",
                registry=metrics.registry,
            )
        )
        if elector is not None:
            threads.append(_thread(elector.run, "lease", failed))
        for thread in threads:
            thread.start()
        try:
            yield Running(probes, failed)
        finally:
            cycle.stop()
            threads[len(watchers)].join(_LAST_WORDS)
            if elector is not None:
                elector.stop()
                threads[-1].join(_LAST_WORDS)
            for watcher in watchers:
                watcher.stop()


def _thread(target: Callable[[], None], name: str, failed: threading.Event) -> threading.Thread:
    """A thread whose error is logged and ends the controller: a part that is missing would
    be noticed by nobody."""

    def run() -> None:
        try:
            target()
        except Exception:
            logger.exception("a thread failed", extra={"thread_name": name})
            failed.set()

    return threading.Thread(target=run, name=name, daemon=True)


def _dead(threads: list[threading.Thread]) -> str:
    dead = sorted({thread.name for thread in threads if not thread.is_alive()})
    return f"ended: {', '.join(dead)}" if dead else ""


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
    # Asked, not told: whoever is held up cannot tell.
    metrics.leader.set_function(lambda: float(elector.leads))
    return elector


def _options(settings: Settings) -> CycleOptions:
    return CycleOptions(
        scheduler_name=settings.scheduler_name,
        binds=settings.binds,
        window=Window(settings.idle_window, settings.longest_window, settings.most_gangs),
        backoff=Backoff(settings.shortest_backoff, settings.longest_backoff),
        time_limit=settings.time_limit,
        patience=settings.service_patience,
        deterministic=settings.deterministic,
        half_bound_limit=settings.half_bound_limit,
        waiting_notice=settings.waiting_notice,
    )


@contextmanager
def _embedded(settings: Settings) -> Iterator[str]:
    from controller.embedded import serving

    with serving(time_limit=settings.time_limit) as address:
        yield address


if __name__ == "__main__":
    main()
