"""Compressed input: snapshot archives of KAI without their secrets, gzip, and bombs."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from placement.kubernetes import Objects, load
from placement.kubernetes.files import bounded_files
from tests.kubernetes.build import node, pod, said


def zipped(name: str = "snapshot.json", **raw: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, json.dumps({"rawObjects": raw}))
    return buffer.getvalue()


def manifests(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def read(folder: Path, content: bytes, name: str = "s.zip") -> Objects:
    path = folder / name
    path.write_bytes(content)
    return load([str(path)])


def bare(body: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in body.items() if k not in ("kind", "apiVersion")}


@pytest.mark.parametrize("name", ["s.zip", "s.gzip", "s"])
def test_a_snapshot_gives_its_objects_whatever_it_is_called(tmp_path: Path, name: str) -> None:
    objects = read(tmp_path, zipped(nodes=[bare(node("n1"))], pods=[bare(pod("a"))]), name)
    assert [str(o) for o in (*objects.nodes, *objects.pods)] == ["Node n1", "Pod ml/a"]
    assert not objects.warnings
    assert not objects.problems


def test_a_list_of_a_snapshot_that_is_not_known_is_told(tmp_path: Path) -> None:
    content = zipped(podgroups=[{}], widgets=[], configMaps=[{}], nodes=[bare(node("n1"))])
    where = tmp_path / "s.zip"
    told = (f"{where}: rawObjects.podgroups: skipped: it is not read",)
    assert said(read(tmp_path, content).warnings) == told
    assert said(load([str(where)], strict=True).problems) == told


def test_nothing_secret_of_a_snapshot_is_kept(tmp_path: Path) -> None:
    told = bare(pod("a"))
    told["spec"]["containers"][0] |= {
        "env": [{"name": "TOKEN", "value": "hush"}],
        "envFrom": [{"secretRef": {"name": "hush"}}],
        "args": ["--password=hush"],
        "command": ["hush"],
    }
    told["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": "hush",
        "pod-group-name": "g",
    }
    secret = {"metadata": {"name": "c"}, "data": {"key": "hush"}}
    objects = read(tmp_path, zipped(pods=[told], configMaps=[secret]))
    (one,) = objects.pods
    assert "hush" not in json.dumps(one.body)
    assert one.body["metadata"]["annotations"] == {"pod-group-name": "g"}
    assert one.body["spec"]["containers"][0]["resources"]


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    (only,) = read(tmp_path, gzip.compress(json.dumps(node("n1")).encode()), "x.json.gz").nodes
    assert only.name == "n1"


def test_a_zip_of_manifests_is_read_like_a_folder(tmp_path: Path) -> None:
    listed = {"kind": "List", "apiVersion": "v1", "items": [node("n3")]}
    content = manifests(
        {
            "b/two.yml": yaml.safe_dump(node("n2")).encode(),
            "./a one.yaml": yaml.safe_dump(node("n1")).encode(),
            "c.json": json.dumps(listed).encode(),
            "README.md": b"\xff",
            "__MACOSX/c.json": b"\xff",
            "folder.yaml/": b"",
        }
    )
    objects = read(tmp_path, content)
    assert not objects.problems
    where = str(tmp_path / "s.zip")
    assert [(one.name, one.file) for one in objects.nodes] == [
        ("n1", f"{where}/./a one.yaml"),
        ("n2", f"{where}/b/two.yml"),
        ("n3", f"{where}/c.json"),
    ]


def test_what_is_wrong_in_a_zip_is_told_by_its_file(tmp_path: Path) -> None:
    (problem,) = read(tmp_path, manifests({"a\x1b[2J.yaml": b"a: ["})).problems
    assert problem.file == str(tmp_path / "s.zip") + "/" + r"'a\x1b[2J.yaml'"
    assert "is not valid YAML" in problem.message


@pytest.mark.parametrize(
    ("content", "want"),
    [
        pytest.param(zipped("other.txt"), "holds no .yaml, .yml or .json file", id="no manifests"),
        pytest.param(manifests({"a.yaml": b"\xff\xfe"}), "a.yaml in it is not text", id="no words"),
        pytest.param(
            manifests({f"{i}.yaml": b"" for i in range(10_001)}), "10,001 files", id="many files"
        ),
        pytest.param(zipped(pods=[])[:-30], "cannot be unpacked", id="cut off"),
        pytest.param(gzip.compress(b"a" * 999)[:-9], "cannot be unpacked", id="cut off gzip"),
        pytest.param(zipped(pods={"a": 1}), "rawObjects.pods must be a list", id="no list"),
        pytest.param(gzip.compress(b"\xff\xfe"), "is not text in UTF-8", id="no text"),
        pytest.param(b"\x1f\x8b\x08\x00" + b"a" * 40, "cannot be unpacked", id="wrong blocks"),
    ],
)
def test_what_cannot_be_unpacked_is_a_problem(tmp_path: Path, content: bytes, want: str) -> None:
    (problem,) = read(tmp_path, content).problems
    assert want in problem.message


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_files, "MOST_BYTES", 1 << 20)
    for content in (gzip.compress(b" " * (2 << 20)), zipped(pods=[" " * (2 << 20)])):
        (problem,) = read(tmp_path, content).problems
        assert problem.message == "is larger than 1 MiB when it is unpacked"


def test_what_grows_beyond_belief_is_not_unpacked(tmp_path: Path) -> None:
    for content in (gzip.compress(b" " * (65 << 20)), manifests({"a.yaml": b" " * (65 << 20)})):
        (problem,) = read(tmp_path, content).problems
        assert problem.message == "is larger than 64 MiB when it is unpacked"


def test_all_files_of_an_archive_share_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_files, "MOST_BYTES", 1 << 20)
    half = b" " * (600 << 10)
    (problem,) = read(tmp_path, manifests({"a.yaml": half, "b.yaml": half})).problems
    assert problem.message == "is larger than 1 MiB when it is unpacked"
    assert not read(tmp_path, manifests({"a.yaml": half})).problems


def test_a_file_without_an_end_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_files, "MOST_BYTES", 1 << 20)
    (problem,) = load(["/dev/zero"]).problems
    assert problem.message == "cannot be read: is larger than 1 MiB"
    with Path("/dev/zero").open("rb") as endless:
        (problem,) = load(["-"], stdin=endless).problems
    assert problem.message == "is larger than 1 MiB"
