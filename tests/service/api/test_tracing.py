"""Traces by OpenTelemetry: from the caller's span to the stages of the search."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from placement_service.api.compute.frames import read_stage, stage_frame
from placement_service.entities.stages import Passed, Stage
from tests.service.api.serving import Running, running
from tests.service.questions import message, open_snapshot
from tests.waiting import LONG

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
TRACEPARENT = (("traceparent", f"00-{TRACE}-{CALLER}-01"),)

Spans = queue.SimpleQueue[Span]


@pytest.fixture(scope="module")
def collector() -> Iterator[tuple[str, Spans]]:
    """A collector's address, and the spans that it gets."""
    spans: Spans = queue.SimpleQueue()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            for of_resource in ExportTraceServiceRequest.FromString(content).resource_spans:
                names = {one.key: one.value.string_value for one in of_resource.resource.attributes}
                assert names["service.name"] == "placement-service"
                for of_scope in of_resource.scope_spans:
                    for span in of_scope.spans:
                        spans.put(span)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", spans
        server.shutdown()


@pytest.fixture(scope="module")
def traced(collector: tuple[str, Spans]) -> Iterator[Running]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector[0])
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        with running("placement_service.search.engine:search", tracing=True) as service:
            yield service


def spans_of_a_call(spans: Spans) -> dict[str, Span]:
    """Those of one call by name; that of the call is exported last."""
    found: dict[str, Span] = {}
    while not any(span.kind == Span.SPAN_KIND_SERVER for span in found.values()):
        span = spans.get(timeout=LONG)
        found[span.name] = span
    return found


def test_stages_are_spans_within_the_span_of_the_caller(
    traced: Running, collector: tuple[str, Spans]
) -> None:
    question = message(open_snapshot())
    question.label = "nightly"
    answer = traced.stub.ComputePlacement(question, timeout=LONG, metadata=TRACEPARENT)
    found = spans_of_a_call(collector[1])
    assert {span.trace_id.hex() for span in found.values()} == {TRACE}
    parents = {span.span_id: name for name, span in found.items()}
    call = found["placement.v1.PlacementService/ComputePlacement"]
    assert call.parent_span_id.hex() == CALLER
    assert call.status.code == Status.STATUS_CODE_UNSET
    noted = {one.key: one.value.string_value for one in call.attributes}
    assert noted["placement.label"] == "'nightly'"
    assert noted["placement.request"] == answer.placement.request_digest
    within = {
        name: parents[span.parent_span_id] for name, span in found.items() if span is not call
    }
    assert within["arrive"] == within["wait"] == within["compute"] == call.name
    assert within["read"] == within["formulate"] == within["search"] == "compute"
    assert within["count"] == "search", "what the solver process did"
    for name, parent in within.items():
        if name in ("read", "formulate", "search"):
            assert found[parent].start_time_unix_nano <= found[name].start_time_unix_nano
    assert found["arrive"].end_time_unix_nano <= found["wait"].start_time_unix_nano


def test_a_mistake_of_the_caller_is_no_failure_of_the_server(
    traced: Running, collector: tuple[str, Spans]
) -> None:
    bad = message()
    bad.snapshot.nodes[1].name = ""
    with pytest.raises(grpc.RpcError):
        traced.stub.ComputePlacement(bad, timeout=LONG)
    call = spans_of_a_call(collector[1])["placement.v1.PlacementService/ComputePlacement"]
    assert call.trace_id.hex() != TRACE
    assert not call.parent_span_id
    assert call.status.code == Status.STATUS_CODE_UNSET
    code = {one.key: one.value.int_value for one in call.attributes}["rpc.grpc.status_code"]
    assert code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


def test_a_caller_who_is_not_sampled_has_no_spans(
    traced: Running, collector: tuple[str, Spans]
) -> None:
    unsampled = (("traceparent", f"00-{TRACE}-{CALLER}-00"),)
    traced.stub.ComputePlacement(message(), timeout=LONG, metadata=unsampled)
    traced.stub.ComputePlacement(message(), timeout=LONG, metadata=(("traceparent", "00-zz"),))
    call = spans_of_a_call(collector[1])["placement.v1.PlacementService/ComputePlacement"]
    assert call.trace_id.hex() != TRACE, "nonsense begins a trace of its own"


def test_nothing_of_it_is_imported_unless_it_is_wanted() -> None:
    program = (
        "import sys; from placement_service.api.server import make_server\n"
        "import placement_service.api.compute.process, placement_service.solver_process.worker\n"
        "from placement_service.api.settings import Settings\n"
        "make_server(Settings(port=0, max_concurrent=1)).stop(0)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True, timeout=LONG
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        stage_frame(Passed(Stage.READ, 1.0, 2.0))[:-1],
        stage_frame(Passed(Stage.READ, 2.0, 1.0)),
        stage_frame(Passed(Stage.READ, float("nan"), 1.0)),
        b"\xff" + stage_frame(Passed(Stage.READ, 1.0, 2.0))[1:],
    ],
)
def test_a_stage_that_makes_no_sense_is_refused(frame: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_stage(frame)
