"""The command where its surroundings are poor: streams closed or full, odd variables, a proxy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from placement import v1
from placement.testing import ScriptedServer, scripted_server
from tests.cli.command import COMMAND, environment, run
from tests.waiting import LONG

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '8', memory: 8Gi, pods: '110', nvidia.com/gpu: '8'}}
"""

FULL = "placementctl: standard output could not be written: No space left on device\n"

GANG = """\
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata: {namespace: ml, name: g}
spec: {podgroups: [{name: w, minReplicas: 1, podReferences: []}]}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.yaml"
    file.write_text(NODE)
    return str(file)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server(lambda _: [v1.Progress(phase="greedy"), v1.Placement()]) as scripted:
        yield scripted


def in_shell(line: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell in which `$C` is the command."""
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
        env={**environment(), "C": " ".join(COMMAND)},
    )


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("form", ["table", "json"])
def test_an_answer_that_finds_no_space_is_none(
    cluster: str,
    server: ScriptedServer,
    form: str,
    buffered: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", buffered)
    done = in_shell(f"$C plan -f {cluster} --server {server.address} -o {form} >/dev/full")
    assert done.returncode == 3
    assert done.stderr.endswith(FULL)
    assert "Traceback" not in done.stderr


def test_help_that_finds_no_space_says_so() -> None:
    done = in_shell("$C plan --help >/dev/full")
    assert (done.returncode, done.stderr) == (3, FULL)


def test_without_standard_output_nothing_is_computed(cluster: str) -> None:
    done = in_shell(f"$C plan -f {cluster} >&-")
    assert (done.returncode, done.stderr) == (
        3,
        "placementctl: standard output is closed; there is no place for an answer\n",
    )


@pytest.mark.parametrize("place", ["&-", "/dev/full"])
def test_without_standard_error_the_status_still_tells(place: str) -> None:
    for wrong in ("-f nowhere.yaml", "--mistyped"):
        done = in_shell(f"$C plan {wrong} 2>{place}")
        assert (done.returncode, done.stdout) == (2, "")


def test_without_standard_input_two_answers_cannot_be_read_from_it() -> None:
    done = in_shell("$C diff - - <&-")
    assert (done.returncode, done.stderr) == (2, "placementctl: -: there is no standard input\n")


def test_progress_is_for_terminals_whatever_asks_for_colours(
    cluster: str, server: ScriptedServer
) -> None:
    done = in_shell(f"FORCE_COLOR=1 $C plan -f {cluster} --server {server.address} -o name")
    assert "\x1b" not in done.stderr


def test_a_terminal_without_columns_gets_a_table(cluster: str, server: ScriptedServer) -> None:
    done = in_shell(f"COLUMNS=0 $C plan -f {cluster} --server {server.address}")
    assert "1 node ─ 8 GPUs, 8 free" in done.stdout


def test_the_commands_own_service_is_asked_past_a_proxy(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    done = run("plan", "-f", cluster, "-o", "json")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "question",
    [
        "plan",
        "explain --gang ml/g",
        "capacity --gang ml/g",
        "repack --free kubernetes.io/hostname=1",
    ],
)
def test_wrong_variables_of_a_service_are_told_by_name(
    question: str, cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gang = tmp_path / "gang.yaml"
    gang.write_text(GANG)
    monkeypatch.setenv("PLACEMENT_LOG_LEVEL", "LOUD")
    monkeypatch.setenv("PLACEMENT_MAX_PENDING", "-1")
    done = run(*question.split(), "-f", cluster, str(gang))
    assert done.returncode == 3
    (line,) = [one for one in done.stderr.splitlines() if "could not start" in one]
    assert "PLACEMENT_LOG_LEVEL: " in line
    assert "PLACEMENT_MAX_PENDING: " in line


def test_a_saved_request_that_is_not_there_is_told_in_words() -> None:
    done = run("replay", "nowhere.binpb")
    assert (done.returncode, done.stderr) == (
        2,
        "placementctl: nowhere.binpb: cannot be read: No such file or directory\n",
    )
