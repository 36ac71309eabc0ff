"""A server on some processors: what it may use, and what is told of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import cores
from bench.__main__ import main
from bench.instances import Instance
from bench.server import running
from tests.waiting import LONG

TINY = Instance("tiny", {"gangs": 3})


def _children(pid: int) -> list[int]:
    """Of all its threads."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_a_server_and_its_processes_run_where_they_are_told() -> None:
    mine = os.sched_getaffinity(0)
    one = min(mine)
    before = set(_children(os.getpid()))
    with running(processors=[one]) as server:
        assert os.sched_getaffinity(0) == mine
        server.line(TINY, time_limit=LONG)
        (pid,) = set(_children(os.getpid())) - before
        workers = _children(pid)
        assert workers, "there is a compute process at least"
        for process in (pid, *workers):
            assert os.sched_getaffinity(process) == {one}


def test_each_number_of_processors_has_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--family", "tiny", "--set", "gangs=3", "--cores", "1"]
    assert main(["cores", *words, "--time-limit", str(LONG)]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "tiny gangs=3 #1" in line]
    assert "proven" in row


def test_processors_that_are_not_there_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    there = len(os.sched_getaffinity(0))
    assert main(["cores", "--family", "tiny", "--cores", f"{there + 1}"]) == 2
    assert f"{there + 1} processors were asked for; there are {there}" in capsys.readouterr().err
    with pytest.raises(cores.NotSoMany):
        next(cores.measure([TINY], [0], time_limit=1.0))
