"""A controller in a process of its own that kills, or freezes, itself at a given step.

Processes are forked from one that has imported everything and started nothing, so that
hundreds of them take minutes and not hours.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from controller.composition import running
from controller.runtime.steps import Step
from controller.settings import Settings
from tests.controller.conftest import QUICK
from tests.waiting import wait_until

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["controller.composition", "tests.controller.crashing"])


def begin(
    kubeconfig: Path,
    service: str,
    *,
    die_at: Step | None = None,
    freeze_at: Step | None = None,
    visit: int = 1,
    **settings: Any,
) -> ForkServerProcess:
    """Starts a controller; it dies, or freezes until `thaw`, when it enters a step for the
    so many-th time."""
    given = {**QUICK, "service": service, "kubeconfig": kubeconfig, **settings}
    how = signal.SIGKILL if freeze_at is None else signal.SIGSTOP
    process = _CONTEXT.Process(
        target=_run, args=(given, freeze_at or die_at, visit, how), daemon=True
    )
    process.start()
    return process


def kill_again_and_again(
    kubeconfig: Path, service: str, *, at: Step, until: Callable[[], bool], **settings: Any
) -> int:
    """Controllers one after the other: one dies when it enters a step for the first time, the
    next one for the second time, and so on, each with what the one before left.

    Ends once it is done, though somebody may still live; returns how many died.
    """
    for visit in itertools.count(1):
        process = begin(kubeconfig, service, die_at=at, visit=visit, **settings)

        def ended(process: ForkServerProcess = process) -> bool:
            return process.exitcode is not None or until()

        try:
            wait_until(ended, f"it is done, or controller {visit} dies")
        finally:
            died = process.exitcode
            kill(process)
        if died is None:
            return visit - 1
        assert died == -signal.SIGKILL
    raise AssertionError("it counts for ever")


def kill(process: ForkServerProcess) -> None:
    """Ends it without a word."""
    process.kill()
    process.join()


def is_frozen(process: ForkServerProcess) -> bool:
    """Whether all of it stands still."""
    threads = Path(f"/proc/{process.pid}/task").glob("*/stat")
    try:
        return all(thread.read_text().rpartition(") ")[2].startswith("T") for thread in threads)
    except OSError:
        # A thread has ended meanwhile: it did not stand still.
        return False


def thaw(process: ForkServerProcess) -> None:
    """Lets it go on as if no time had passed."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)


def _run(settings: dict[str, Any], at: Step | None, visit: int, how: signal.Signals) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    visits = itertools.count(1)

    def on_step(step: Step) -> None:
        if step is at and next(visits) == visit:
            # To this thread: another one would let it go on for a moment.
            signal.pthread_kill(threading.get_ident(), how)

    with running(Settings(**settings), on_step=on_step):
        # Not for ever: another thread may have taken the signal.
        while not told_to_stop.wait(0.2):
            pass
