"""The wire is what it was, and the same in every language: see tests/golden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden import DIGESTS, FOLDER, encode, files, parse, snapshot_digest
from tests.golden.__main__ import contents

FILES = tuple(files())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_message_in_json_has_these_bytes(file: Path) -> None:
    assert encode(parse(file)) == file.with_suffix(".binpb").read_bytes()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_these_bytes_are_the_message(file: Path) -> None:
    message = parse(file)
    assert type(message).FromString(file.with_suffix(".binpb").read_bytes()) == message


def test_no_golden_file_is_alone() -> None:
    assert FILES
    assert {file.stem for file in FOLDER.glob("*.binpb")} == {file.stem for file in FILES}


@pytest.mark.parametrize(("name", "digest"), json.loads(DIGESTS.read_text()).items())
def test_a_snapshot_has_this_digest(name: str, digest: str) -> None:
    assert snapshot_digest(parse(FOLDER / name)) == digest


def test_golden_files_have_every_field() -> None:
    """Also those that came later: ``python -m tests.golden --write`` adds them."""
    assert [path.name for path, content in contents() if path.read_bytes() != content] == []
