"""The examples do what their README says."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format

from placement.cli.main import main
from placement.testing import serve
from placement.v1 import ComputePlacementRequest
from placement_service.api.wire import requests

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_nvl72_plan_is_proven_and_names_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", str(EXAMPLES / "nvl72"), "-o", "json", "--time-limit", "60s"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert err == ""
    assert answer["termination"]["reason"] == "OPTIMAL"
    waiting = [gang for gang in answer["podGangs"] if not gang["placed"]]
    assert [gang["name"].rsplit("-", 1)[0] for gang in waiting] == ["full-rack", "eval"]
    assert "17 of 18" in waiting[0]["reasons"][0]["message"]
    # A replacement follows the pods that run.
    (replacement,) = [b for b in answer["bindings"] if b["podGang"] == "finetune-0"]
    assert replacement["node"].startswith("a2-")


def test_the_nvl72_cluster_is_what_its_drawing_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = shutil.copy(EXAMPLES / "nvl72" / "generate.py", tmp_path)
    # The script reads its arguments, and those of this process are pytest's.
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    assert (tmp_path / "cluster.yaml").read_text() == (
        EXAMPLES / "nvl72" / "cluster.yaml"
    ).read_text()


def test_the_request_is_valid() -> None:
    text = (EXAMPLES / "request.json").read_text()
    request = requests.parse_request(json_format.Parse(text, ComputePlacementRequest()))
    assert len(request.snapshot.gangs) == 2


def test_the_script_prints_the_plan(tmp_path: Path) -> None:
    # A busy machine may need longer for a plan than the example gives it.
    patient = json.loads((EXAMPLES / "request.json").read_text()) | {"timeLimit": "50s"}
    request = tmp_path / "request.json"
    request.write_text(json.dumps(patient))
    with serve() as address:
        done = subprocess.run(
            [sys.executable, EXAMPLES / "plan.py", address, request],
            capture_output=True,
            text=True,
            check=False,
            # The script finds what this process finds.
            env={"PYTHONPATH": ":".join(filter(None, sys.path))},
        )
    assert done.returncode == 0, done.stderr
    assert "namespaces/ml/pods/serve-decode-0 -> nodes/" in done.stdout
    assert "namespaces/ml/podgangs/train waits: " in done.stdout


def test_the_script_says_how_it_is_called() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "plan.py"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert (done.returncode, done.stderr) == (1, "usage: plan.py HOST:PORT FILE\n")
