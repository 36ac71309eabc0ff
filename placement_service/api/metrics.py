"""The metrics of the server, as Prometheus reads them."""

from __future__ import annotations

from typing import Final
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.process_collector import ProcessCollector

from placement import __version__

PREFIX: Final = "placement_service"

_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_BYTES: Final = tuple(float(4**n) for n in range(5, 14))


class Metrics:
    """All metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self._http: WSGIServer | None = None
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.build = self._gauge("build_info", "1, with the version.", "version")
        self.build.labels(__version__).set(1)
        self.calls = self._counter("calls", "Calls that ended.", "method", "code")
        self.seconds = self._histogram(
            "call_seconds", "From a call's begin until its answer left.", _SECONDS, "method"
        )
        self.bytes = self._histogram(
            "request_bytes", "Size of the requests that arrived.", _BYTES, "method"
        )
        self.stages = self._histogram(
            "stage_seconds", "What the stages of a call took.", _SECONDS, "stage"
        )
        self.answers = self._counter("answers", "Placements sent, by what is proven.", "end")
        self.present = self._gauge("requests", "Requests that wait or are computed.")
        self.held = self._gauge("request_bytes_held", "Bytes of the requests that wait or compute.")
        self.snapshots = self._counter(
            "snapshots",
            "Requests by how their snapshot came: whole, or based on one that the process held,"
            " that it had to be told, or that is unknown.",
            "result",
        )
        for result in ("whole", "held", "told", "unknown"):
            self.snapshots.labels(result)
        self.kept = self._gauge("snapshots_kept", "Snapshots that requests may be based on.")
        self.kept_bytes = self._gauge("snapshot_bytes_kept", "Bytes of the snapshots kept.")
        self.processes = self._gauge("compute_processes", "Compute processes, by state.", "state")
        self.deaths = self._counter("process_ends", "Compute processes that ended, or had to.")
        self.late = self._counter("late_stages", "Computations that were late and cut off.")
        self.defects = self._counter("defects", "Failures that are the service's own.")
        self.renewals = self._counter("renewals", "Certificates that were renewed.", "result")
        for result in ("renewed", "refused"):
            self.renewals.labels(result)
        self.expiry = self._gauge(
            "certificate_expiry_timestamp_seconds", "When the certificate ends; 0 without TLS."
        )

    def serve(self, host: str, port: int) -> None:
        """Serves /metrics over plain HTTP. Raises OSError when the port is taken."""
        try:
            self._http, _ = start_http_server(port, host, self.registry)
        except OSError as error:
            where = f"{host}:{port} (PLACEMENT_METRICS_PORT)"
            raise OSError(f"metrics cannot listen on {where}: {error}") from error

    def close(self) -> None:
        """Serves no more."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", about, labels, registry=self.registry)

    def _histogram(
        self, name: str, about: str, buckets: tuple[float, ...], *labels: str
    ) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", about, labels, buckets=buckets, registry=self.registry)
