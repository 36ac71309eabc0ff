"""Requests on which the service failed are kept, once each, and not too many."""

from __future__ import annotations

import threading
from pathlib import Path

from placement_service.api.dumps import Dumps


def wait_for_writers() -> None:
    for thread in threading.enumerate():
        if thread.name == "dump":
            thread.join()


def test_a_request_is_saved_once(tmp_path: Path) -> None:
    dumps = Dumps(tmp_path / "new", 5)
    names = {dumps.save(b"request", lambda: "{}") for _ in range(3)}
    wait_for_writers()
    assert [p.name for p in (tmp_path / "new").iterdir()] == list(names)


def test_the_oldest_dumps_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "20200101T000000-00000000.json").write_text("old")
    (tmp_path / "notes.json").write_text("not ours")
    dumps = Dumps(tmp_path, 2)
    names = []
    for i in range(2):
        names.append(dumps.save(bytes([i]), lambda: "{}"))
        wait_for_writers()
    assert {p.name for p in tmp_path.iterdir()} == {*names, "notes.json"}


def test_without_folder_nothing_is_saved() -> None:
    assert Dumps(None, 2).save(b"request", lambda: "{}") == ""


def test_a_folder_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert Dumps(tmp_path / "file", 2).save(b"request", lambda: "{}")
    wait_for_writers()
