"""Requests on which the service failed, or all of them, saved for replay.

A dump holds the request as it came, and as a whole where it came as changes to a base.
``python -m placement_service.api.dumps FILE`` prints one as JSON. Writing happens in the
background: an answer may still be due. A request is saved once, however often it fails, and so is
its first answer, which later ones are compared with. The first digits of the digest are in the
name; the answer lies beside it, as ``*.answer.binpb``.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from placement.v1 import ComputePlacementResponse, StreamPlacementResponse
from placement_service.api.methods import Call
from placement_service.api.snapshots.whole import whole_request

logger = logging.getLogger(__name__)

#: The names of dumps, and of those that are being written.
_DUMPS = "????????T??????-????????????????.binpb"
_ANSWER = ".answer.binpb"
_ANSWERS = f"{_DUMPS.removesuffix('.binpb')}{_ANSWER}"
_UNFINISHED = (f".{_DUMPS}.tmp", f".{_ANSWERS}.tmp")


def whole_request_of(call: Call) -> Callable[[Sequence[bytes], bytes], bytes]:
    """What makes a request of that call whole: of those that its base is made from, and itself."""
    if call is not Call.PLACE_OBJECTS:
        return whole_request
    # Only when it is asked for: it needs PyYAML.
    from placement_service.api import kubernetes

    return kubernetes.whole_request


class Dumps:
    """A folder of the latest dumps, at most `maximum` and `most_bytes`; without folder, nothing.

    The latest one is kept whatever its size.
    """

    def __init__(self, folder: Path | None, maximum: int, most_bytes: int = 2**40) -> None:
        self._folder = folder
        self._maximum = maximum
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._saved: dict[str, str] = {}
        #: The names of the latest answers.
        self._answered: dict[str, None] = {}
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                # They were left by a server that was killed while writing.
                for pattern in _UNFINISHED:
                    for path in folder.glob(pattern):
                        path.unlink(missing_ok=True)
                # It is said now, and not only after a defect.
                tempfile.TemporaryFile(dir=folder).close()
            except OSError as error:
                logger.warning("no dump can be saved in %s: %s", folder, error.strerror)

    def save(
        self,
        request: bytes | memoryview,
        digest: bytes = b"",
        told: Sequence[bytes] = (),
        whole: Callable[[Sequence[bytes], bytes], bytes] = whole_request,
    ) -> str:
        """Saves a request in the background; returns the file's name, "" for none.

        `digest` is that of the request, empty for one that could not be read: its bytes name it.
        `told` are the requests that its base is made from, a whole one first, and `whole`
        makes one of all.
        """
        if self._folder is None:
            return ""
        start = (digest or hashlib.sha256(request).digest()).hex()[:16]
        with self._lock:
            known = self._saved.get(start)
            if known is not None:
                return known
            name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{start}.binpb"
            self._saved[start] = name
            while len(self._saved) > self._maximum:
                del self._saved[next(iter(self._saved))]
        copy = bytes(request)
        self._in_background(self._folder, name, lambda: whole(told, copy) if told else copy)
        return name

    def answer(self, name: str, response: bytes, placement: int) -> None:
        """Saves the first answer to a saved request: the placement in that field of a response."""
        if self._folder is None or not name:
            return
        beside = f"{name.removesuffix('.binpb')}{_ANSWER}"
        with self._lock:
            if beside in self._answered:
                return
            self._answered[beside] = None
            while len(self._answered) > self._maximum:
                del self._answered[next(iter(self._answered))]
        # Both responses hold the placement alone; its field has either of two numbers.
        kind = (ComputePlacementResponse, StreamPlacementResponse)[placement - 1]
        self._in_background(
            self._folder, beside, lambda: kind.FromString(response).placement.SerializeToString()
        )

    def _in_background(self, folder: Path, name: str, content: Callable[[], bytes]) -> None:
        threading.Thread(target=self._write, args=(folder, name, content), name="dump").start()

    def _write(self, folder: Path, name: str, content: Callable[[], bytes]) -> None:
        # Never a half-written dump, not even when the server is killed; and readable only by its
        # own user, because a dump shows what runs in a cluster.
        temporary = folder / f".{name}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:
                file.write(content())
            os.replace(temporary, folder / name)
            with self._lock:
                self._make_room(folder, newest=name.removesuffix(_ANSWER).removesuffix(".binpb"))
        except OSError as error:
            logger.error("the dump %s could not be written: %s", name, error.strerror)
            with self._lock:
                self._forget(name)
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _forget(self, name: str) -> None:
        """What is not there any more is saved the next time."""
        self._saved = {start: saved for start, saved in self._saved.items() if saved != name}
        self._answered.pop(name, None)

    def _make_room(self, folder: Path, *, newest: str) -> None:
        """Deletes the oldest dumps, each with its answer, until the others are few enough."""
        size = 0
        # By the time of writing: within a second names do not tell the order. The newest one stays
        # also where the clock was set back.
        found = sorted(
            folder.glob(_DUMPS),
            key=lambda path: (path.stem == newest, path.stat().st_mtime_ns),
            reverse=True,
        )
        for place, path in enumerate(found):
            both = (path, path.with_name(f"{path.stem}{_ANSWER}"))
            size += sum(one.stat().st_size for one in both if one.exists())
            if place and (place >= self._maximum or size > self._most_bytes):
                for one in both:
                    one.unlink(missing_ok=True)
                    self._forget(one.name)
        # An answer is of no use where there was no space for its request.
        for answer in folder.glob(_ANSWERS):
            name = f"{answer.name.removesuffix(_ANSWER)}.binpb"
            if name not in self._saved.values() and not (folder / name).exists():
                answer.unlink(missing_ok=True)


def main() -> None:
    """Prints a dump as JSON."""
    # Only here: code that saves dumps need not read them.
    import argparse

    from google.protobuf import json_format

    from placement.v1 import placement_service_pb2

    parser = argparse.ArgumentParser(prog="placement_service.api.dumps", description=main.__doc__)
    parser.add_argument("file", type=Path, help="a file from PLACEMENT_DUMP_DIR")
    content = parser.parse_args().file.read_bytes()
    request = placement_service_pb2.ComputePlacementRequest.FromString(content)
    print(json_format.MessageToJson(request, indent=1))


if __name__ == "__main__":
    main()
