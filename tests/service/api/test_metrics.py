"""Metrics tell of calls, answers and processes, over HTTP."""

from __future__ import annotations

import os
import signal
import socket
import urllib.error
import urllib.request

import grpc
import pytest

from placement import __version__
from placement_service.api.server import make_server
from placement_service.api.settings import Settings
from tests.ports import reserve
from tests.service.api.serving import running
from tests.service.questions import message, open_snapshot
from tests.waiting import wait_until


def test_calls_answers_and_processes_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    port = reserve()
    with running("moving", max_concurrent=1, metrics_port=port) as service:

        def metric(line: str) -> float:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                lines = answer.read().decode().splitlines()
            return float(next((x.split()[-1] for x in lines if x.startswith(line + " ")), "0"))

        calls = 'placement_service_calls_total{{code="{}",method="{}"}}'
        service.compute(message())
        list(service.stream(message(open_snapshot())))
        bad = message()
        bad.snapshot.nodes[1].name = ""
        with pytest.raises(grpc.RpcError):
            service.compute(bad)
        wait_until(
            lambda: metric(calls.format("INVALID_ARGUMENT", "ComputePlacement")) == 1, "counted"
        )
        assert metric(calls.format("OK", "ComputePlacement")) == 1
        assert metric(calls.format("OK", "StreamPlacement")) == 1
        assert metric('placement_service_answers_total{end="optimal"}') >= 1
        assert metric('placement_service_call_seconds_count{method="ComputePlacement"}') == 2
        for which in ("arrive", "wait", "compute", "read", "formulate", "search", "write"):
            assert metric(f'placement_service_stage_seconds_count{{stage="{which}"}}') >= 1, which
        assert metric("placement_service_requests") == 0
        assert metric(f'placement_service_build_info{{version="{__version__}"}}') == 1
        idle = 'placement_service_compute_processes{state="idle"}'
        wait_until(lambda: metric(idle) == 1, "the process is free again")
        (pid,) = service.server.process_ids()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: metric("placement_service_process_ends_total") == 1, "its end is told")
        told = "a compute process ended by SIGKILL; another one starts"
        wait_until(lambda: told in caplog.messages, "the log says how")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")


def test_a_port_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        server = make_server(Settings(port=0, metrics_port=port))
        try:
            with pytest.raises(OSError, match="PLACEMENT_METRICS_PORT"):
                server.start()
        finally:
            server.stop(0)
