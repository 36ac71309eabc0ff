"""Requests that the service saved, as input of the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import Call

OBJECTS = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: '8', pods: '110'}}
"""

REQUEST = """\
{"snapshot": {"nodes": [{"name": "nodes/n1", "allocatable": {"podCount": "110"}}]}}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    path.write_text(OBJECTS)
    return str(path)


def test_saved_bytes_are_neither_an_answer_nor_read_with_other_files(
    call: Call, cluster: str, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.binpb"
    saved.write_bytes(b"\n\xc6\xff")
    done = call("diff", str(saved), str(saved))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{saved}: is not an answer of `placementctl plan -o json`" in done.stderr
    done = call("plan", "-f", cluster, str(saved))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{saved}: is a saved request, which is read without other files" in done.stderr


def test_a_request_is_read_alone_from_a_folder_or_standard_input_as_well(
    call: Call, service: str, tmp_path: Path
) -> None:
    saved = tmp_path / "folder" / "request.json"
    saved.parent.mkdir()
    saved.write_text(REQUEST)
    digests = set()
    for origin in (str(saved.parent), str(saved), "-"):
        done = call("plan", "-f", origin, "-o", "json", "--server", service, stdin=REQUEST)
        assert done.returncode == 0, done.stderr
        digests.add(json.loads(done.stdout)["requestDigest"])
    assert len(digests) == 1
    assert call("plan", "-f", "-", "--server", service, stdin=OBJECTS).returncode == 0


def test_a_field_of_a_request_that_is_there_twice_is_an_error(call: Call, tmp_path: Path) -> None:
    saved = tmp_path / "request.json"
    saved.write_text(REQUEST.replace("{", '{"label": "a", "label": "b", ', 1))
    done = call("plan", "-f", str(saved))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{saved}: is not a saved request: label is there twice in one mapping" in done.stderr


def test_changes_to_a_base_are_no_question(call: Call, tmp_path: Path) -> None:
    saved = tmp_path / "request.json"
    saved.write_text('\ufeff{"gangs": [], "base": {"digest": "sha256:0"}}')
    done = call("plan", "-f", str(saved))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{saved}: base: the request holds changes to a snapshot" in done.stderr


@pytest.mark.parametrize("origin", ["folder", "folder/request.json", "-"])
def test_a_request_beside_other_files_is_told_of(
    call: Call, cluster: str, tmp_path: Path, origin: str
) -> None:
    saved = tmp_path / "folder" / "request.json"
    saved.parent.mkdir()
    saved.write_text(REQUEST)
    path = origin if origin == "-" else str(tmp_path / origin)
    done = call("plan", "-f", cluster, "-f", path, stdin=REQUEST)
    assert (done.returncode, done.stdout) == (2, "")
    where = "<stdin>" if origin == "-" else saved
    assert f"{where}: document 1: is a placement request, no Kubernetes object" in done.stderr
