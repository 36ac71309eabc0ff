"""Traces of `placementctl simulate`, here and on Ray."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from placement.cli.failures import Failure, Status, wrong_input
from placement.cli.findings.simulations import as_text
from placement.cli.main import main
from placement.planning.simulate import Job, Outcome, Run

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n0, labels: {kubernetes.io/hostname: n0}}
status:
  allocatable: {cpu: "8", pods: "110", nvidia.com/gpu: "8"}
  conditions: [{type: Ready, status: "True"}]
"""
JOBS = "name,submit,duration,pods,gpus\na,0,100,1,8\nb,10,50,1,8\n"


@pytest.fixture
def question(tmp_path: Path) -> list[str]:
    (tmp_path / "nodes.yaml").write_text(CLUSTER)
    (tmp_path / "jobs.csv").write_text(JOBS)
    (tmp_path / "other.yaml").write_text("deterministic: true\n")
    files = {"-f": "nodes.yaml", "--jobs": "jobs.csv", "--compare": "other.yaml"}
    options = [word for option, file in files.items() for word in (option, str(tmp_path / file))]
    return ["simulate", *options, "--time-limit", "2s", "-o", "json"]


def test_ray_runs_the_traces_as_this_machine_does(
    question: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    assert main(question) == Status.OK
    here = json.loads(capsys.readouterr().out)
    assert main([*question, "--ray", "local"]) == Status.OK
    assert json.loads(capsys.readouterr().out) == here
    assert [run["waited"] for run in here["policies"][1]["jobs"]] == [0, 90]


def test_what_fails_on_a_machine_of_ray_is_told_as_here(
    question: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    assert main([*question, "--ray", "local", "--server", "localhost:1"]) == Status.NO_ANSWER
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the service at localhost:1 could not answer: unavailable" in captured.err


def test_a_column_that_is_not_read_is_told(
    question: list[str], service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submit,duration,pods,gpus,priorty\n0,1,1,1,5\n")
    assert main([*question, "--strict"]) == Status.WRONG_INPUT
    told = f"{jobs}: priorty: is not a column of traces; is priority meant?"
    assert f"placementctl: {told}" in capsys.readouterr().err
    assert main([*question, "--server", service]) == Status.OK
    captured = capsys.readouterr()
    assert f"warning: {told}" in captured.err
    warning, *_ = json.loads(captured.out)["warnings"]
    assert warning["field"] == "priorty"
    jobs.write_bytes(b"\xff")
    assert main(question) == Status.WRONG_INPUT
    assert f"{jobs}: is not text in UTF-8" in capsys.readouterr().err


def test_who_may_give_way_is_the_same_for_policies_that_do_not_say_it(
    question: list[str], service: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text(
        "name,submit,duration,pods,gpus,priority\na,0,100,1,8,0\nb,10,50,1,8,1\n"
    )
    (tmp_path / "calm.yaml").write_text("eviction: NONE\n")
    calm = ["--compare", str(tmp_path / "calm.yaml")]
    assert main([*question, *calm, "--evict", "preempt", "--server", service]) == Status.OK
    answer = json.loads(capsys.readouterr().out)
    starts = [[job["starts"] for job in policy["jobs"]] for policy in answer["policies"]]
    assert starts == [[2, 1], [2, 1], [1, 1]]


def test_a_policy_is_named_once(
    question: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(tmp_path / "other.yaml")
    for again in ("--policy", "--compare"):
        assert main([*question, again, other]) == Status.WRONG_INPUT
        assert f"--compare: {other} is named more than once" in capsys.readouterr().err


def test_a_trace_ends_before_the_last_year_of_calendars(
    question: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jobs.csv").write_text("submit,duration,pods,gpus\n9e9,1,1,1\n")
    assert main([*question, "--as-of", "9900-01-01T00:00:00Z"]) == Status.WRONG_INPUT
    assert "the trace goes on beyond the year 9999" in capsys.readouterr().err


def test_a_failure_can_be_sent_to_another_machine() -> None:
    failure = wrong_input("one", "two")
    sent = pickle.loads(pickle.dumps(failure))
    assert isinstance(sent, Failure)
    assert (sent.status, sent.problems, str(sent)) == (2, ("one", "two"), "one; two")


def test_without_ray_it_is_said_how_to_get_it(
    question: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "placement.cli.asking.on_ray", raising=False)
    assert main([*question, "--ray", "auto"]) == Status.WRONG_INPUT
    assert "pip install" in capsys.readouterr().err


def test_workers_are_of_this_machine_alone(
    question: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*question, "--ray", "auto", "--workers", "2"]) == Status.WRONG_INPUT
    assert "--workers" in capsys.readouterr().err


def test_columns_are_as_wide_as_what_they_hold() -> None:
    job = Job("j", submit=0.0, duration=10.0, pods=1, gpus=8, minimum=1)
    late = Run(replace(job, name="late"), None, 0, why="no room.")
    last = Run(replace(job, name="last", submit=40_000.0), None, 0, why="no room.")
    outcome = Outcome((Run(job, 20_000.0, 1), late, last), end=30_000.0, utilisation=0.25)
    assert as_text({"fair.yaml": outcome, "b": Outcome((), 0.0, None)}).splitlines() == [
        "policy     jobs that ran  median wait  95 % within     longest  of all GPUs  evicted",
        "fair.yaml         1 of 3   5 h 33 min   5 h 33 min  5 h 33 min       25.0 %        0",
        "b                 0 of 0            –            –           –            –        0",
        "late waits for 8h20m: no room.",
        "last waits: no room.",
    ]
