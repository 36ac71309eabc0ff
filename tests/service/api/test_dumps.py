"""Requests on which the service failed are kept, once each, and not too many."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from placement.v1 import ComputePlacementResponse, Placement
from placement_service.api.dumps import Dumps


def wait_for_writers() -> None:
    for thread in threading.enumerate():
        if thread.name == "dump":
            thread.join()


def test_a_request_is_saved_once_as_it_came(tmp_path: Path) -> None:
    dumps = Dumps(tmp_path / "new", 5)
    names = {dumps.save(b"request") for _ in range(3)}
    wait_for_writers()
    (path,) = (tmp_path / "new").iterdir()
    assert {path.name} == names
    assert path.read_bytes() == b"request"


def test_the_first_answer_stays_beside_its_request(tmp_path: Path) -> None:
    dumps = Dumps(tmp_path, 5)
    name = dumps.save(b"request")
    wait_for_writers()
    for revision in ("first", "second"):
        response = ComputePlacementResponse(placement=Placement(revision=revision))
        dumps.answer(name, response.SerializeToString(), 1)
        wait_for_writers()
    beside = tmp_path / f"{name.removesuffix('.binpb')}.answer.binpb"
    assert Placement.FromString(beside.read_bytes()).revision == "first"


def test_only_the_latest_answers_are_remembered(tmp_path: Path) -> None:
    """Also those to requests that are not there any more."""
    dumps = Dumps(tmp_path, 2)
    for n in range(5):
        dumps.answer(f"{n}.binpb", b"", 1)
    wait_for_writers()
    assert len(dumps._answered) <= 2


def test_only_the_owner_may_read_dumps(tmp_path: Path) -> None:
    name = Dumps(tmp_path / "new", 5).save(b"request")
    wait_for_writers()
    assert stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_the_oldest_dumps_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "20200101T000000-0000000000000000.binpb").write_text("old")
    (tmp_path / "notes.binpb").write_text("not ours")
    dumps = Dumps(tmp_path, 2)
    names = []
    for i in range(2):
        names.append(dumps.save(bytes([i])))
        wait_for_writers()
    assert {p.name for p in tmp_path.iterdir()} == {*names, "notes.binpb"}


def test_the_newest_dump_stays_where_the_clock_was_set_back(tmp_path: Path) -> None:
    for digit in range(2):
        ahead = tmp_path / f"20990101T000000-000000000000000{digit}.binpb"
        ahead.write_text("from before")
        os.utime(ahead, (4e9, 4e9))
    dumps = Dumps(tmp_path, 2)
    name = dumps.save(b"request")
    wait_for_writers()
    dumps.answer(name, ComputePlacementResponse().SerializeToString(), 1)
    wait_for_writers()
    left = {path.name for path in tmp_path.iterdir()}
    assert {name, f"{name.removesuffix('.binpb')}.answer.binpb"} < left
    assert len(left) == 3


def test_what_a_killed_server_left_half_written_is_deleted(tmp_path: Path) -> None:
    (tmp_path / ".20200101T000000-0000000000000000.binpb.tmp").write_text("half")
    (tmp_path / ".notes.tmp").write_text("not ours")
    Dumps(tmp_path, 2)
    assert [p.name for p in tmp_path.iterdir()] == [".notes.tmp"]


def test_answers_whose_requests_found_no_space_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "20200101T000000-0000000000000000.answer.binpb").write_text("")
    name = Dumps(tmp_path, 2).save(b"request")
    wait_for_writers()
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_without_folder_nothing_is_saved() -> None:
    assert Dumps(None, 2).save(b"request") == ""


def test_a_folder_that_cannot_be_written_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    dumps = Dumps(tmp_path / "file", 2)
    assert f"no dump can be saved in {tmp_path / 'file'}: File exists" in caplog.text
    assert dumps.save(b"request")
    wait_for_writers()
    assert "could not be written: File exists" in caplog.text
    assert "Traceback" not in caplog.text


def test_what_could_not_be_saved_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    dumps = Dumps(folder, 2)
    dumps.save(b"request")
    wait_for_writers()
    folder.unlink()
    name = dumps.save(b"request")
    wait_for_writers()
    assert (folder / name).read_bytes() == b"request"


def test_what_was_deleted_to_make_room_is_saved_again(tmp_path: Path) -> None:
    dumps = Dumps(tmp_path, 10, most_bytes=100)
    response = ComputePlacementResponse(placement=Placement(revision="r" * 50)).SerializeToString()
    for request in (b"1" * 40, b"2" * 40, b"1" * 40):
        name = dumps.save(request)
        wait_for_writers()
        dumps.answer(name, response, 1)
        wait_for_writers()
    answer = f"{name.removesuffix('.binpb')}.answer.binpb"
    assert {path.name for path in tmp_path.iterdir()} == {name, answer}
    assert (tmp_path / name).read_bytes() == b"1" * 40


def test_dumps_take_no_more_than_so_many_bytes_with_their_answers(tmp_path: Path) -> None:
    dumps = Dumps(tmp_path, 10, most_bytes=100)
    response = ComputePlacementResponse(placement=Placement(revision="r" * 50))
    for i in range(3):
        name = dumps.save(bytes([i]) * 40)
        wait_for_writers()
        dumps.answer(name, response.SerializeToString(), 1)
        wait_for_writers()
    left = {path.name.partition(".")[0] for path in tmp_path.iterdir()}
    assert len(left) == 1
    assert len(list(tmp_path.iterdir())) == 2
