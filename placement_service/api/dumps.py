"""Requests on which the service failed, saved for replay.

A dump holds the request as it came, and as a whole where it came as changes to a base.
``python -m placement_service.api.dumps FILE`` prints one as JSON. Writing happens in the
background: an answer may still be due. A request is saved once, however often it fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from placement_service.api.snapshots.whole import whole_request

logger = logging.getLogger(__name__)

#: The names of dumps, and of those that are being written.
_DUMPS = "????????T??????-????????????????.binpb"
_UNFINISHED = f".{_DUMPS}.tmp"


class Dumps:
    """A folder of the latest dumps, at most `maximum`; without folder, nothing."""

    def __init__(self, folder: Path | None, maximum: int) -> None:
        self._folder = folder
        self._maximum = maximum
        self._lock = threading.Lock()
        self._saved: dict[str, str] = {}
        if folder is not None:
            # Left by a server that was killed while it wrote.
            for path in folder.glob(_UNFINISHED):
                path.unlink(missing_ok=True)

    def save(self, request: bytes | memoryview, told: Sequence[bytes] = ()) -> str:
        """Saves a request in the background; returns the file's name, "" for none.

        `told` are the requests that its base is made from, a whole one first.
        """
        if self._folder is None:
            return ""
        digest = hashlib.sha256(request).hexdigest()[:16]
        with self._lock:
            known = self._saved.get(digest)
            if known is not None:
                return known
            name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{digest}.binpb"
            self._saved[digest] = name
            while len(self._saved) > self._maximum:
                del self._saved[next(iter(self._saved))]
        threading.Thread(
            target=self._write, args=(self._folder, name, bytes(request), told), name="dump"
        ).start()
        return name

    def _write(self, folder: Path, name: str, request: bytes, told: Sequence[bytes]) -> None:
        # Never a half-written dump, not even when we are killed; and for our eyes only, because
        # a dump tells what runs in a cluster.
        temporary = folder / f".{name}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:
                file.write(whole_request(told, request) if told else request)
            os.replace(temporary, folder / name)
            with self._lock:
                for old in sorted(folder.glob(_DUMPS))[: -self._maximum]:
                    old.unlink(missing_ok=True)
        except OSError:
            logger.exception("the dump %s could not be written", name)
            with contextlib.suppress(OSError):
                temporary.unlink()


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
