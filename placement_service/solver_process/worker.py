"""The solver process: ``python -m placement_service.solver_process.worker --fd N``.

The solver is native code that may take all memory, hang or crash; here it can
do so without harm to the server, which kills this process whenever it likes
(see `pool`). The engine is loaded before the first job. The process ends itself
when the server is gone.

``--engine module:function`` names another engine, with the signature of
`placement_service.search.engine.search`:

    def search(problem: Problem, start: Solution, *, deadline: float,
               report: Callable[[Solution], None]) -> Solution: ...

It gets a complete first answer, calls `report` with complete better ones, and returns its best
before `time.monotonic()` passes `deadline`. The caller verifies every report, so an engine cannot
make the service break a rule.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pickle
import queue
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol, cast

from placement_service.entities.solution import Solution
from placement_service.entities.stages import Passed, told
from placement_service.formulation.problem import Problem
from placement_service.solver_process.jobs import (
    Better,
    Done,
    Failed,
    Job,
    Message,
    Ready,
    Returned,
    Task,
)

DEFAULT_ENGINE = "placement_service.search.engine:search"


class Engine(Protocol):
    """A function that searches for better answers than the first."""

    def __call__(
        self,
        problem: Problem,
        start: Solution,
        /,
        *,
        deadline: float,
        report: Callable[[Solution], None],
    ) -> Solution: ...


def load_engine(name: str) -> Engine:
    """The function that ``module:function`` names."""
    module, _, function = name.partition(":")
    return cast("Engine", getattr(importlib.import_module(module), function))


class Question(Protocol):
    """What a task calls."""

    def __call__(self, argument: object, /, *, deadline: float) -> object: ...


def load_task(name: str) -> Question:
    """The function that ``module:function`` names."""
    return cast("Question", load_engine(name))


def main(arguments: list[str] | None = None) -> None:
    """Loads the engine and works until the server is gone."""
    parser = argparse.ArgumentParser(description="The solver process of the placement service.")
    parser.add_argument("--fd", type=int, required=True, help="socket to the server")
    parser.add_argument("--engine", default=DEFAULT_ENGINE, help="module:function to search with")
    parser.add_argument("--memory", type=int, default=0, help="limit of address space in bytes")
    options = parser.parse_args(arguments)

    # Ctrl-C in a terminal is for the server, which decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if options.memory:
        resource.setrlimit(resource.RLIMIT_AS, (options.memory, options.memory))
    # When memory runs out, the kernel should kill this process, not the server.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")

    connection = Connection(options.fd)
    engine = load_engine(options.engine)
    _send(connection, Ready())
    jobs: queue.SimpleQueue[tuple[bytes, float]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, jobs), daemon=True).start()
    while True:
        payload, deadline = jobs.get()
        _work(connection, engine, payload, deadline)


def _receive(connection: Connection, jobs: queue.SimpleQueue[tuple[bytes, float]]) -> None:
    """Takes in jobs; ends the process, whatever it does, when the server is gone."""
    try:
        while True:
            payload = connection.recv_bytes()
            seconds = float(connection.recv_bytes())
            jobs.put((payload, time.monotonic() + seconds))
    except (EOFError, OSError):
        os._exit(0)


def _work(connection: Connection, engine: Engine, payload: bytes, deadline: float) -> None:
    _forget_peak_memory()

    def report(solution: Solution) -> None:
        _send(connection, Better(solution, _peak_memory()))

    def took(passed: Passed) -> None:
        _send(connection, passed)

    try:
        answer: Message
        job: Job | Task = pickle.loads(payload)
        if isinstance(job, Task):
            answer = Returned(load_task(job.function)(job.argument, deadline=deadline))
        else:
            with told(took):
                solution = engine(job.problem, job.start, deadline=deadline, report=report)
            answer = Done(solution, _peak_memory())
    except Exception:
        answer = Failed(traceback.format_exc(), _peak_memory())
    _send(connection, answer)


def _send(connection: Connection, message: Message) -> None:
    try:
        connection.send(message)
    except OSError:
        os._exit(0)


def _forget_peak_memory() -> None:
    """Starts the peak anew, where the kernel lets us; else it is that of all jobs."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> int:
    """Peak resident memory in bytes.

    Not from getrusage, whose peak includes that of the process that forked us.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
