"""The metrics of the controller, as Prometheus reads them."""

from __future__ import annotations

import re
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

from controller.cluster.gang_state import Lifecycle
from controller.runtime.steps import Step
from placement import __version__
from placement.cluster import Call

_PREFIX: Final = "placement_controller"
_SECONDS: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_NAMED = re.compile(r"/(?:api/[^/]+|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+(?=/))?/([^/]+)")
_PART = re.compile(r"/(status|binding|eviction)$")

#: They occur within other steps, several at a time.
_INNER_STEPS: Final = frozenset(
    {Step.EVICT, Step.EVICTED, Step.BIND, Step.BOUND, Step.WRITE, Step.ADVISE}
)


class Metrics:
    """All metrics of one controller, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.build = self._gauge("build_info", "1, with the version.", "version")
        self.build.labels(__version__).set(1)
        self.cycles = self._counter("cycles", "Cycles that asked the service.", "outcome")
        self.steps = self._histogram("step_seconds", "How long steps of a cycle took.", "step")
        self.gangs = self._gauge("gangs", "Gangs by state.", "state")
        self.gap = self._gauge("gap", "Proven relative gap of the last answer.")
        self.bindings = self._counter("bindings", "Bindings tried.", "result")
        self.evictions = self._counter("evictions", "Evictions tried.", "result")
        self.advice = self._counter("advice", "Advice that ended.", "adapter", "outcome")
        self.stale = self._counter("stale_plans", "Gangs whose plan was overtaken by events.")
        self.half_bound = self._gauge(
            "half_bound_gangs", "Gangs with some, but too few, pods bound."
        )
        self.unreferenced = self._gauge("stray_pods", "Pods of ours that no PodGang refers to.")
        self.oldest = self._gauge(
            "queue_oldest_seconds", "How long the gang that waits longest has waited."
        )
        self.to_bound = self._histogram(
            "gang_wait_seconds",
            "From when a gang could be planned until its last planned pod was bound.",
        )
        self.calls = self._counter(
            "api_calls", "Requests to the API server.", "method", "resource", "status"
        )
        self.call_seconds = self._histogram(
            "api_call_seconds",
            "How long requests to the API server took; of watches, until they began.",
            "method",
        )
        self.watch_events = self._counter("watch_events", "Events of watches.", "kind")
        self.lists = self._counter("lists", "Times that a kind was listed whole.", "kind")
        self.leader = self._gauge("leader", "1 while this replica acts.")
        for state in Lifecycle:
            self.gangs.labels(state.value)
        for step in set(Step) - _INNER_STEPS:
            self.steps.labels(step.name.lower())

    def nothing_known(self) -> None:
        """Clears the state: a replica that does not lead does not renew these values, so they would
        stay for ever.
        """
        for state in Lifecycle:
            self.gangs.labels(state.value).set(0)
        for gauge in (self.half_bound, self.unreferenced, self.oldest):
            gauge.set(0)

    def waiting_for_advice(self, count: int, oldest: float) -> None:
        """So many gangs wait for advice, the first of them for so many seconds."""
        self.gangs.labels(Lifecycle.PENDING.value).set(count)
        self.oldest.set(oldest)

    def called(self, call: Call) -> None:
        """Counts one request to the API server."""
        found = _NAMED.match(call.path)
        resource = found[1] if found else "other"
        if part := _PART.search(call.path):
            resource += "/" + part[1]
        self.calls.labels(call.method, resource, str(call.status)).inc()
        self.call_seconds.labels(call.method).observe(call.seconds)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(
            f"{_PREFIX}_{name}", text, labels, registry=self.registry, buckets=_SECONDS
        )
