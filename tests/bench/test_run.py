"""The whole way from an instance to a line and a table, on both paths."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench import compare, lines, standard
from bench.__main__ import main
from bench.engine import engine_line
from bench.instances import Instance
from bench.measurement import TierLine
from bench.server import running
from bench.solvers import PlainModel, TooLarge
from placement_service.entities.request import Policy
from placement_service.formulation.formulate import formulate
from tests.waiting import LONG

TINY = Instance("tiny", {"gangs": 4}, 2)


def test_the_engine_path_measures_and_judges() -> None:
    line = engine_line(TINY, time_limit=LONG)
    assert (line.family, line.params, line.seed, line.gangs) == ("tiny", {"gangs": 4}, 2, 4)
    assert line.faults == []
    assert 0 < line.formulate <= line.first <= line.total
    assert line.end == "proven"
    assert line.proof is not None
    assert line.gap == 0
    assert line.final.tiers["admitted"].value >= line.greedy.tiers["admitted"].value
    assert line.memory["bench"] > 10


def test_contenders_are_judged_alike() -> None:
    with running() as server:
        # Plain solvers take ten times as long for two gangs more.
        rows = list(compare.compare(Instance("tiny", {"gangs": 2}, 1), server, time_limit=LONG))
    assert [row.contender for row in rows[:3]] == [
        "service",
        "first answer",
        "first come, best fit",
    ]
    best = rows[0].answer
    assert best is not None
    # What plain solvers prove of so small a question is what the service proves.
    for row in rows[3:]:
        assert row.answer is not None
        assert row.answer.tiers["admitted"].value == best.tiers["admitted"].value
        assert row.gap == 0
        assert row.note == ""


def test_what_is_too_large_for_a_plain_model_is_not_built() -> None:
    problem = formulate(Instance("mix", {"blocks": 14, "gangs": 200}).snapshot(), Policy())
    with pytest.raises(TooLarge, match="variables"):
        PlainModel(problem)


def test_the_grpc_path_gives_the_same_answer() -> None:
    with running() as server:
        line = server.line(TINY, time_limit=LONG)
    there = engine_line(TINY, time_limit=LONG)
    assert line.faults == []
    assert line.end == "proven"
    assert (line.nodes, line.pods) == (there.nodes, there.pods)
    mine, theirs = line.greedy, there.greedy
    assert (mine.placed, mine.tiers) == (theirs.placed, theirs.tiers)
    assert [line.final.tiers[t] for t in ("admitted", "extra", "topology")] == [
        there.final.tiers[t] for t in ("admitted", "extra", "topology")
    ]
    assert set(line.memory) == {"server", "compute", "solver"}


def test_lines_are_read_as_they_were_written(tmp_path: Path) -> None:
    line = engine_line(TINY, time_limit=LONG)
    file = tmp_path / "lines.jsonl"
    file.write_text(lines.to_json(line) + "\n")
    assert lines.read([file]) == [line]


def test_what_is_not_as_expected_is_named() -> None:
    expected = standard.Expected(TINY, 0.01)
    line = engine_line(TINY, time_limit=LONG)
    assert list(standard.complaints(expected, line)) == []
    tiers = {**line.final.tiers, "admitted": TierLine(100.0, 110.0)}
    worse = replace(line, final=replace(line.final, tiers=tiers), faults=["broken"])
    assert list(standard.complaints(expected, worse)) == [
        "tiny gangs=4 #2: broken",
        "tiny gangs=4 #2: the gap is 10.000 %, expected at most 1 %",
    ]


def test_run_writes_lines_and_shows_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lines.jsonl"
    words = ["--family", "tiny", "--set", "gangs=3", "--seeds", "1,3-4", "--out", str(out)]
    assert main(["run", *words]) == 0
    assert [line.seed for line in lines.read([out])] == [1, 3, 4]
    assert "tiny gangs=3 #4" in capsys.readouterr().out
    assert main(["table", "--summary", str(out)]) == 0
    assert "tiny gangs=3 engine 5s" in capsys.readouterr().out


def test_an_instance_without_its_data_is_skipped_by_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLACEMENT_DATA", raising=False)
    assert main(["run", "--family", "openb"]) == 0
    assert "skipped openb #1: openb_node_list" in capsys.readouterr().err


def test_wrong_arguments_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--family", "tiny", "--set", "gangs"]) == 2
    assert "--set takes NAME=VALUE" in capsys.readouterr().err


def test_families_are_listed_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["families"]) == 0
    assert "nvl72 sizes=mix gangs=64 filled=0.0" in capsys.readouterr().out


def test_a_reader_that_has_enough_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "bench", "families"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(LONG) == 0
