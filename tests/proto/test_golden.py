"""The wire is what it was, and the same in every language: see tests/golden."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import FOLDER, encode, files, parse

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
