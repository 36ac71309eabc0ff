"""Traces of calls by OpenTelemetry, from the caller's span to the stages of the search.

Nothing of OpenTelemetry is imported unless the setting `tracing` is on; it is installed with
`placement-service[tracing]`. Its environment variables (``OTEL_...``) say where spans are sent, how
many, and under what name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple, Protocol

import grpc

from placement_service.api.methods import Method
from placement_service.entities.stages import Passed, Stage

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

#: Stages of one call that are kept; a long search judges plan after plan.
MOST_STAGES = 500

#: Seconds that the last spans may take to leave when the server ends.
_LAST_SECONDS = 5.0

_NANOSECONDS = 1e9

#: What callers of gRPC are told of W3C's trace context.
_HEADERS = frozenset({"traceparent", "tracestate"})

#: Codes that are failures of the server, by OpenTelemetry's conventions.
_FAILURES = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)

Metadata = Iterable[tuple[str, str | bytes]]


class Trace(Protocol):
    """Records what happens in one call."""

    def passed(self, passed: Passed) -> None:
        """A stage is over."""

    def note(self, **attributes: str | int) -> None:
        """Something worth knowing about the call."""

    def end(self, code: grpc.StatusCode) -> None:
        """The call is over."""


class Tracing(Protocol):
    def begin(self, method: Method, metadata: Metadata | None) -> Trace:
        """A call with the metadata that its caller sent."""

    def close(self) -> None:
        """Sends what is left, for a few seconds at most. Blocks."""


class _Untraced:
    """Records and sends nothing."""

    def begin(self, method: Method, metadata: Metadata | None) -> Trace:
        return self

    def passed(self, passed: Passed) -> None: ...

    def note(self, **attributes: str | int) -> None: ...

    def end(self, code: grpc.StatusCode) -> None: ...

    def close(self) -> None: ...


UNTRACED: Tracing = _Untraced()


def open_tracing(wanted: bool) -> Tracing:
    """Tracing by OpenTelemetry where it is wanted, else none."""
    return _OpenTelemetry() if wanted else UNTRACED


class _OpenTelemetry:
    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        own = Resource(
            {
                SERVICE_NAME: "placement-service",
                SERVICE_VERSION: metadata.version("placement-service"),
            }
        )
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come first.
        named = {
            key: value
            for key, value in Resource.create().attributes.items()
            if not str(value).startswith("unknown_service")
        }
        self._provider = TracerProvider(resource=own.merge(Resource(named)), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("placement_service")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, method: Method, metadata: Metadata | None) -> Trace:
        from opentelemetry.trace import SpanKind

        headers = ((key, value) for key, value in metadata or () if key in _HEADERS)
        sent = {key: value for key, value in headers if isinstance(value, str)}
        # Spans know the time of day, stages the monotonic clock.
        offset = time.time_ns() - time.monotonic_ns()
        span = self._tracer.start_span(
            f"{method.service}/{method.name}",
            context=self._propagator.extract(sent),
            kind=SpanKind.SERVER,
            attributes={
                "rpc.system": "grpc",
                "rpc.service": method.service,
                "rpc.method": method.name,
            },
        )
        return _Call(self._tracer, span, lambda seconds: int(seconds * _NANOSECONDS) + offset)

    def close(self) -> None:
        # It sends what is left, and may wait long for a collector that does not answer.
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(_LAST_SECONDS)


class _Call:
    """A call's span; the spans of its stages are made when it ends, for parents end last."""

    def __init__(self, tracer: Tracer, span: Span, time_of: Callable[[float], int]) -> None:
        self._tracer = tracer
        self._span = span
        self._time_of = time_of
        self._passed: list[Passed] = []

    def passed(self, passed: Passed) -> None:
        if self._span.is_recording() and len(self._passed) < MOST_STAGES:
            self._passed.append(passed)

    def note(self, **attributes: str | int) -> None:
        for name, value in attributes.items():
            self._span.set_attribute(f"placement.{name}", value)

    def end(self, code: grpc.StatusCode) -> None:
        from opentelemetry.trace import StatusCode, set_span_in_context

        within: dict[Stage | None, _Open] = {None: _Open(self._span, float("inf"))}
        for which, begin, end in sorted(self._passed, key=lambda p: (p.begin, -p.end)):
            around = within[
                next(p for p in _parents(which) if p in within and begin < within[p].end)
            ]
            span = self._tracer.start_span(
                which.label,
                context=set_span_in_context(around.span),
                start_time=self._time_of(begin),
            )
            span.end(self._time_of(end))
            within[which] = _Open(span, end)
        self._span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code in _FAILURES:
            self._span.set_status(StatusCode.ERROR, code.name)
        self._span.end()


class _Open(NamedTuple):
    """A span that others may belong to, until `end` on the monotonic clock."""

    span: Span
    end: float


def _parents(which: Stage) -> Sequence[Stage | None]:
    """The stages that one may be part of, the nearest first; None is the call."""
    if which <= Stage.SEND:
        return (None,)
    if which is Stage.SEARCH:
        return (Stage.COMPUTE, None)
    return (Stage.SEARCH, Stage.COMPUTE, None)
