"""A controller in a process of its own that kills itself, by SIGKILL, at a given step.

Processes are forked from one that has imported everything and started nothing, so that
hundreds of them take minutes and not hours.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from controller.__main__ import running
from controller.settings import Settings
from controller.steps import Step
from tests.controller.conftest import QUICK

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["controller.__main__", "tests.controller.crashing"])


def begin(
    kubeconfig: Path,
    service: str,
    *,
    die_at: Step | None = None,
    visit: int = 1,
    **settings: Any,
) -> ForkServerProcess:
    """Starts a controller; it dies when it enters a step for the so many-th time."""
    given = {**QUICK, "service": service, "kubeconfig": kubeconfig, **settings}
    process = _CONTEXT.Process(target=_run, args=(given, die_at, visit), daemon=True)
    process.start()
    return process


def kill(process: ForkServerProcess) -> None:
    """Ends it without a word."""
    process.kill()
    process.join()


def _run(settings: dict[str, Any], die_at: Step | None, visit: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    visits = itertools.count(1)

    def entered(step: Step) -> None:
        if step is die_at and next(visits) == visit:
            os.kill(os.getpid(), signal.SIGKILL)

    with running(Settings(**settings), entered=entered):
        told_to_stop.wait()
