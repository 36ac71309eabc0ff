"""Requests on which the service failed, saved for replay.

Writing happens in the background: a large request takes seconds to write, and
an answer may still be due. A request is saved once, however often it fails.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

logger = logging.getLogger(__name__)


class Dumps:
    """A folder of the latest dumps, at most `maximum`; without folder, nothing."""

    def __init__(self, folder: Path | None, maximum: int) -> None:
        self._folder = folder
        self._maximum = maximum
        self._lock = threading.Lock()
        self._saved: dict[str, str] = {}

    def save(self, content: bytes, to_text: Callable[[], str]) -> str:
        """Saves `to_text()` in the background; returns the file's name, "" for none.

        `content` identifies the request.
        """
        if self._folder is None:
            return ""
        digest = hashlib.sha256(content).hexdigest()[:8]
        with self._lock:
            known = self._saved.get(digest)
            if known is not None:
                return known
            name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{digest}.json"
            self._saved[digest] = name
            while len(self._saved) > self._maximum:
                del self._saved[next(iter(self._saved))]
        threading.Thread(
            target=self._write, args=(self._folder, name, to_text), name="dump"
        ).start()
        return name

    def _write(self, folder: Path, name: str, to_text: Callable[[], str]) -> None:
        try:
            text = to_text()
            folder.mkdir(parents=True, exist_ok=True)
            # Never a half-written dump, not even when we are killed.
            temporary = folder / f".{name}.tmp"
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, folder / name)
            with self._lock:
                for old in sorted(folder.glob("????????T??????-????????.json"))[: -self._maximum]:
                    old.unlink(missing_ok=True)
        except OSError:
            logger.exception("the dump %s could not be written", name)
