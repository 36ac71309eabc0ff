"""The service as people run it: signals, its version, its settings."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest

from placement.v1 import (
    StreamPlacementRequest,
)
from placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from tests.service.api.serving import (
    nodes_of,
)
from tests.service.questions import message, open_snapshot
from tests.waiting import LONG


def environment() -> dict[str, str]:
    """That of a program that finds our modules, and no settings."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PLACEMENT_")}
    return {**ours, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def program() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service as people run it, once it serves, and its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "placement_service"],
        stderr=subprocess.PIPE,
        env={
            **environment(),
            "PLACEMENT_PORT": "0",
            "PLACEMENT_LOG_FORMAT": "json",
            "PLACEMENT_ENGINE": "tests.service.engines:meeting",
        },
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            line = json.loads(process.stderr.readline())
            assert line["severity"] == "INFO"
            yield process, line["message"].rpartition(":")[2]
        finally:
            process.kill()


def test_lines_about_a_request_have_its_name_and_digest_in_fields(meeting: Path) -> None:
    (meeting / "go on").touch()
    with program() as (process, port), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert process.stderr is not None
        question = message(open_snapshot())
        question.label = "nightly"
        answer = PlacementServiceStub(channel).ComputePlacement(question, timeout=LONG)
        line = json.loads(process.stderr.readline())
        fields = {
            "method": "ComputePlacement",
            "label": "nightly",
            "request": answer.placement.request_digest,
        }
        assert fields.items() <= line.items()
        question.snapshot.nodes[0].name = ""
        with pytest.raises(grpc.RpcError):
            PlacementServiceStub(channel).ComputePlacement(question, timeout=LONG)
        line = json.loads(process.stderr.readline())
        assert (line["method"], line["label"]) == ("ComputePlacement", "nightly")


def test_the_program_serves_until_sigterm_and_then_drains(meeting: Path) -> None:
    with program() as (process, port):
        assert process.stderr is not None
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = PlacementServiceStub(channel)
            call = stub.StreamPlacement(
                StreamPlacementRequest(request=message(open_snapshot())), timeout=LONG
            )
            assert next(call).WhichOneof("event") == "progress"
            process.send_signal(signal.SIGTERM)
            assert any("draining" in json.loads(line)["message"] for line in process.stderr)
            (meeting / "go on").touch()
            *_, last = call
            assert nodes_of(last.placement) == {"nodes/n2"}
        assert process.wait(LONG) == 0


def test_the_program_ends_also_when_it_was_told_while_it_stood_still() -> None:
    """Any thread may take the signal then."""
    with program() as (process, _):
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert process.wait(LONG) == 0


@pytest.mark.parametrize(
    ("module", "name"),
    [("placement_service", "placement-service"), ("controller", "placement-controller")],
)
def test_the_programs_tell_their_version(module: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"],
        capture_output=True,
        check=True,
        env=environment(),
        text=True,
    )
    assert done.stdout == f"{name} {version('placement-service')}\n"


def test_wrong_settings_are_named_and_end_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "placement_service"],
        capture_output=True,
        check=False,
        env={**environment(), "PLACEMENT_PORT": "high", "PLACEMENT_TLS_CLIENTCA": "ca.pem"},
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 1
    assert "PLACEMENT_PORT: " in done.stderr
    assert (
        "PLACEMENT_TLS_CLIENTCA: no such setting; did you mean PLACEMENT_TLS_CLIENT_CA"
        in done.stderr
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        ("placement_service", {"PLACEMENT_LOG_FORMAT": "json", "PLACEMENT_PORT": "{port}"}),
        (
            "controller",
            {
                "PLACEMENT_CONTROLLER_LOG_FORMAT": "json",
                "PLACEMENT_CONTROLLER_HTTP_HOST": "127.0.0.1",
                "PLACEMENT_CONTROLLER_HTTP_PORT": "{port}",
                "PLACEMENT_CONTROLLER_KUBECONFIG": "{kubeconfig}",
                "PLACEMENT_CONTROLLER_SERVICE": "127.0.0.1:1",
            },
        ),
    ],
)
def test_why_a_program_ends_is_a_line_of_its_log(
    module: str, settings: dict[str, str], tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}],"
        " users: [{name: u, user: {}}], contexts: [{name: x, context: {cluster: c, user: u}}],"
        " current-context: x}"
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", module],
            capture_output=True,
            check=False,
            env={
                **environment(),
                **{
                    name: value.format(port=port, kubeconfig=kubeconfig)
                    for name, value in settings.items()
                },
            },
            text=True,
            timeout=LONG,
        )
    assert done.returncode == 1
    last = json.loads(done.stderr.splitlines()[-1])
    assert last["severity"] == "CRITICAL"
    assert str(port) in last["message"]
