"""The command as people run it: a process with files, pipes, signals and statuses.

Most runs ask a scripted server, so that each answer is known; two start the
real service inside the command. Plans themselves are judged elsewhere.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from placement import v1
from placement.errors import BusyError, InvalidRequestError, Violation
from placement.testing import ScriptedServer, scripted_server, serve
from tests.certificates import issue
from tests.cli.command import Call, environment, run
from tests.cli.foreground import IN_THE_FOREGROUND
from tests.ports import reserve
from tests.waiting import LONG

#: What an interrupt leaves when nothing was asked yet.
NO_ANSWER = b"placementctl: interrupted; there is no answer\n"

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.example.com/rack: r1}}
status: {allocatable: {cpu: '8', memory: 8Gi, pods: '110', nvidia.com/gpu: '8'}}
---
apiVersion: v1
kind: Pod
metadata: {name: a-0, namespace: ml}
spec:
  containers: [{name: main, resources: {requests: {nvidia.com/gpu: '8'}}}]
---
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {name: a, namespace: ml}
spec:
  podgroups:
  - name: a
    minReplicas: 1
    podReferences: [{namespace: ml, name: a-0}]
"""


def an_answer() -> v1.Placement:
    return v1.Placement(
        bindings=[
            v1.Binding(
                pod="namespaces/ml/pods/a-0",
                node="nodes/n1",
                gang="namespaces/ml/podgangs/a",
                group="a",
            )
        ],
        gangs=[v1.GangResult(name="namespaces/ml/podgangs/a", placed=True)],
        tiers=[
            v1.ObjectiveTier(name="admitted", value=8, bound=8),
            v1.ObjectiveTier(name="fragmentation", value=1, minimize=True),
        ],
        termination=v1.Termination(reason=v1.TerminationReason.TERMINATION_REASON_OPTIMAL, gap=0.0),
    )


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(CLUSTER)
    return str(file)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server(lambda _: [v1.Progress(phase="greedy"), an_answer()]) as scripted:
        yield scripted


def test_a_service_behind_tls_is_asked_by_those_with_a_certificate(
    cluster: str, tmp_path: Path
) -> None:
    issue(tmp_path, "server", "client")
    authority = str(tmp_path / "ca.crt")
    with serve(
        tls_certificate=tmp_path / "server.crt",
        tls_key=tmp_path / "server.key",
        tls_client_ca=tmp_path / "ca.crt",
    ) as address:
        ask = ["plan", "-f", cluster, "-o", "json", "--tls-ca", authority, "--time-limit", "5s"]
        ask += ["--server", "localhost:" + address.rpartition(":")[2]]
        own = ("--tls-certificate", str(tmp_path / "client.crt"))
        done = run(*ask, *own, "--tls-key", str(tmp_path / "client.key"))
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["bindings"]
        missing = run(*ask, *own, "--tls-key", "missing.key")
        assert missing.returncode == 2
        assert "missing.key" in missing.stderr
        unknown = run(*ask)
        assert unknown.returncode == 3
        assert unknown.stderr.endswith("; it demands a certificate of its callers\n")
        plain = run(*(one for one in ask if one not in ("--tls-ca", authority)))
        assert plain.returncode == 3
        assert plain.stderr.endswith("something listens there: if it speaks TLS, give --tls-ca\n")


def test_wrong_files_for_tls_are_wrong_input(call: Call, cluster: str, tmp_path: Path) -> None:
    issue(tmp_path, "one", "other")
    ask = ("plan", "-f", cluster, "--server", "localhost:1")
    done = call(*ask, "--tls-ca", cluster)
    said = f"placementctl: {cluster}: cannot be read: holds no certificate in PEM\n"
    assert (done.returncode, done.stderr) == (2, said)
    own, key = tmp_path / "one.crt", tmp_path / "other.key"
    identity = ("--tls-certificate", str(own), "--tls-key", str(key))
    done = call(*ask, "--tls-ca", str(tmp_path / "ca.crt"), *identity)
    assert done.returncode == 2
    assert done.stderr == (
        f"placementctl: {key}: cannot be read: "
        f"holds no key in PEM without passphrase that belongs to {own}\n"
    )
    identity = ("--tls-certificate", cluster, "--tls-key", str(key))
    done = call(*ask, "--tls-ca", str(tmp_path / "ca.crt"), *identity)
    assert (done.returncode, done.stderr) == (2, said)


# --- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_standard_output_holds_the_answer_alone(
    call: Call, cluster: str, server: ScriptedServer, output: str
) -> None:
    done = call("plan", "-f", cluster, "--server", server.address, "-o", output)
    assert (done.returncode, done.stderr) == (0, "")
    answer: dict[str, Any] = (
        json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)
    )
    assert answer["bindings"] == [
        {"namespace": "ml", "pod": "a-0", "node": "n1", "podGang": "a", "podGroup": "a"}
    ]
    assert answer["termination"] == {"reason": "OPTIMAL", "gap": 0.0}


def test_the_table_opens_with_the_drawing(cluster: str, server: ScriptedServer) -> None:
    done = run("plan", "-f", cluster, "--server", server.address)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:3] == [
        "╭─ 1 node ─ 8 GPUs, 0 free ─╮",
        "│ AAAAAAAA                  │",
        "╰───────────────────────────╯",
    ]
    assert "1 of 1 gang placed, 1 pod to bind. Proven optimal." in done.stdout


def test_a_poor_encoding_spoils_the_drawing_but_no_data(
    cluster: str, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    table = run("plan", "-f", cluster, "--server", server.address)
    assert table.returncode == 0
    assert "? AAAAAAAA" in table.stdout
    page = run("plan", "-f", cluster, "--server", server.address, "-o", "html")
    assert page.returncode == 0
    assert '<td class="n">–</td>' in page.stdout


def test_html_is_a_page(call: Call, cluster: str, server: ScriptedServer) -> None:
    done = call("plan", "-f", cluster, "--server", server.address, "-o", "html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("<!DOCTYPE html>")


def test_standard_input_is_read_for_a_dash(server: ScriptedServer) -> None:
    done = run("plan", "-f", "-", "--server", server.address, "-o", "json", stdin=CLUSTER)
    assert done.returncode == 0
    assert [n.name for n in server.calls[0].request.snapshot.nodes] == ["nodes/n1"]


def test_time_limit_and_policy_reach_the_service(
    call: Call, cluster: str, server: ScriptedServer, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("deterministic: true\n")
    options = ["--time-limit", "1m30s", "--policy", str(policy), "--server", server.address]
    assert call("plan", "-f", cluster, *options).returncode == 0
    [asked] = server.calls
    assert asked.request.time_limit.ToMilliseconds() == 90_000
    assert asked.request.policy == v1.Policy(deterministic=True)
    assert asked.timeout is not None
    assert asked.timeout > 90


def test_unknown_kinds_are_named_and_skipped(call: Call, server: ScriptedServer) -> None:
    service = "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    done = call(
        "plan", "-f", "-", "--server", server.address, "-o", "json", stdin=CLUSTER + service
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["bindings"]
    assert done.stderr.startswith("placementctl: warning: ")
    assert "Service" in done.stderr


def test_without_a_server_the_command_has_its_own(cluster: str) -> None:
    done = run("plan", "-f", cluster, "-o", "json", "--time-limit", "20s")
    assert (done.returncode, done.stderr) == (0, "")
    assert [b["node"] for b in json.loads(done.stdout)["bindings"]] == ["n1"]


# --- problems ---------------------------------------------------------------------------------


def test_every_problem_is_told_with_file_object_and_field(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(
        CLUSTER.replace("cpu: '8'", "cpu: eight").replace("minReplicas: 1", "minReplicas: -1")
    )
    policy = tmp_path / "policy.yaml"
    policy.write_text("gpus: 3\n")
    done = call("plan", "-f", str(file), "--policy", str(policy))
    assert (done.returncode, done.stdout) == (2, "")
    told = done.stderr.splitlines()
    assert len(told) == 3
    assert told[0].startswith(f"placementctl: {policy}: Policy: gpus: is not a field")
    assert all(line.startswith(f"placementctl: {file}: ") for line in told[1:])
    assert any("Node n1: status.allocatable" in line for line in told)
    assert any("PodGang ml/a: spec.podgroups[0].minReplicas" in line for line in told)


def test_a_file_that_is_not_there_is_wrong_input(call: Call) -> None:
    done = call("plan", "-f", "/does/not/exist.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/does/not/exist.yaml" in done.stderr


def test_wrong_arguments_have_the_status_of_wrong_input() -> None:
    done = run("plan", "-f", "-", "-o", "xml")
    assert (done.returncode, done.stdout) == (2, "")


def test_an_authority_that_is_not_there_is_wrong_input(call: Call, cluster: str) -> None:
    done = call("plan", "-f", cluster, "--server", "localhost:1", "--tls-ca", "/does/not/exist")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "placementctl: /does/not/exist: cannot be read: No such file or directory\n"
    )


def test_what_the_service_finds_wrong_is_wrong_input_too(call: Call, cluster: str) -> None:
    error = InvalidRequestError(
        "invalid", violations=[Violation("gangs[0].name", "is empty")], violation_count=3
    )
    with scripted_server([error]) as server:
        done = call("plan", "-f", cluster, "--server", server.address)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "placementctl: request: gangs[0].name: is empty",
        "placementctl: and 2 more",
    ]


def test_a_service_that_gives_no_answer_has_status_3(call: Call, cluster: str) -> None:
    with scripted_server([BusyError("17 requests wait")]) as server:
        done = call("plan", "-f", cluster, "--server", server.address)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"placementctl: the service at {server.address} could not answer: "
        "resource exhausted: 17 requests wait\n"
    )


def test_a_stream_without_a_placement_has_status_3(call: Call, cluster: str) -> None:
    with scripted_server([[v1.Progress(phase="greedy")]]) as server:
        done = call("plan", "-f", cluster, "--server", server.address)
    assert (done.returncode, done.stdout) == (3, "")


def test_a_service_that_is_not_there_has_status_3(call: Call, cluster: str) -> None:
    done = call("plan", "-f", cluster, "--server", f"127.0.0.1:{reserve()}")
    assert (done.returncode, done.stdout) == (3, "")
    assert "unavailable" in done.stderr


# --- the process ------------------------------------------------------------------------------


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [*IN_THE_FOREGROUND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_second_interrupt_cancels_the_call_and_leaves_without_an_answer(cluster: str) -> None:
    called, cancelled = threading.Event(), threading.Event()

    def never(_: v1.ComputePlacementRequest) -> Iterator[v1.Progress]:
        called.set()
        try:
            while True:  # The server ends the iteration when the call is cancelled.
                yield v1.Progress(phase="exact")
        finally:
            cancelled.set()

    with (
        scripted_server(never) as server,
        started("plan", "-f", cluster, "--server", server.address) as process,
    ):
        assert called.wait(LONG)
        process.send_signal(signal.SIGINT)
        assert server.finish.wait(LONG)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LONG)
        assert cancelled.wait(LONG)
    assert (process.returncode, stdout, stderr) == (130, b"", NO_ANSWER)


@pytest.mark.parametrize(
    "arguments",
    [
        "plan -f {file}",
        "explain -f {file} --gang ml/a",
        "capacity -f {file} --gang ml/a",
        "repack -f {file} --free rack=1",
        "simulate -f {file} --jobs {file}",
        "expand -f {file}",
        "replay {file}",
        "diff {file} {file}",
    ],
)
def test_an_interrupt_while_the_input_is_read_says_that_there_is_no_answer(
    arguments: str, tmp_path: Path
) -> None:
    slow = tmp_path / "slow.json"
    os.mkfifo(slow)
    # The file opens when the command opens it, and gives it nothing.
    with started(*arguments.format(file=slow).split()) as process, slow.open("wb"):
        process.send_signal(signal.SIGINT)
        try:
            stdout, stderr = process.communicate(timeout=LONG / 3)
        except subprocess.TimeoutExpired:
            # It came just before the read began, which nothing ends but another one.
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=LONG)
    assert (process.returncode, stdout, stderr) == (130, b"", NO_ANSWER)


def test_a_reader_that_has_enough_is_no_error(cluster: str, server: ScriptedServer) -> None:
    with started("plan", "-f", cluster, "--server", server.address, "-o", "html") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(LONG) == 0


@pytest.mark.parametrize("command", ["expand -f {file}", "diff {file} {file}", "replay {file}"])
def test_every_command_takes_what_all_take(call: Call, tmp_path: Path, command: str) -> None:
    alike = "--server localhost:1 --time-limit 5s --policy none --as-of 2026-11-01T00:00:00Z"
    arguments = command.format(file=tmp_path / "none").split()
    done = call(*arguments, *alike.split(), "--strict", "-o", "json")
    assert done.returncode == 2
    assert "none: cannot be read" in done.stderr


def test_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("placementctl ")


def test_the_end_waits_for_nothing_but_what_was_written() -> None:
    """Objects of gRPC wait for locks when the interpreter ends, and nobody may be left who would
    open these.
    """
    words = (
        "import atexit; from placement.cli.__main__ import end;"
        "atexit.register(print, 'late'); print('in time', end=''); end(3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "in time", "")
