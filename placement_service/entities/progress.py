"""Watching a computation, and stopping it from another thread.

`SILENT` and `NEVER` are the doubles for callers who want neither.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from placement_service.entities.placement import Progress


class Observer(Protocol):
    """Is told whenever the answer or its bound improves; must not block."""

    def __call__(self, progress: Progress, /) -> None: ...


def silent(progress: Progress, /) -> None:
    """Watches nothing."""


SILENT: Observer = silent


class Interrupted(Exception):
    """Nobody waits for the answer any longer: the caller is gone."""


class Interrupter(Protocol):
    """Tells when nobody waits any longer."""

    @property
    def interrupted(self) -> bool: ...

    def calling(self, callback: Callable[[], None], /) -> AbstractContextManager[None]:
        """Calls back once interrupted; at once if it already is.

        After the `with` block the callback neither runs nor will run.
        """
        ...


class Switch:
    """An interrupter that any thread triggers with `interrupt`; idempotent."""

    def __init__(self) -> None:
        # Reentrant, because a callback may end in the interrupter again; held
        # during callbacks, so that leaving `calling` waits for a running one.
        self._lock = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []
        self._interrupted = False

    @property
    def interrupted(self) -> bool:
        return self._interrupted

    def interrupt(self) -> None:
        with self._lock:
            self._interrupted = True
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    @contextmanager
    def calling(self, callback: Callable[[], None], /) -> Iterator[None]:
        with self._lock:
            if self._interrupted:
                callback()
            else:
                self._callbacks.append(callback)
        try:
            yield
        finally:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)


@contextmanager
def heard(interrupter: Interrupter, /) -> Iterator[None]:
    """Raises Interrupted inside the block, at whatever line its Python code is then. For work that
    never asks the interrupter itself, and that may end at any line without leaving anything half
    done.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    raised = False

    def interrupt() -> None:
        nonlocal raised
        raised = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(Interrupted))

    with interrupter.calling(interrupt):
        yield
    if raised:
        # The exception arrives between two steps, at the latest in this loop, unless the block
        # caught it.
        for _ in range(100):
            pass
        raise Interrupted


class _Never:
    interrupted = False

    @contextmanager
    def calling(self, callback: Callable[[], None], /) -> Iterator[None]:
        yield


NEVER: Interrupter = _Never()
