"""Threads whose end is noticed: otherwise a controller could run on without one of its parts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Threads:
    """Daemon threads. `failed` is set when one of them ended by an error."""

    def __init__(self) -> None:
        self.failed = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Runs `target` in a thread of this name."""

        def run() -> None:
            try:
                target()
            except Exception:
                logger.exception("a thread failed", extra={"thread_name": name})
                self.failed.set()

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    @property
    def ended(self) -> str:
        """The names of threads that have ended, in words; empty while all run."""
        names = sorted({thread.name for thread in self._threads if not thread.is_alive()})
        return f"ended: {', '.join(names)}" if names else ""
