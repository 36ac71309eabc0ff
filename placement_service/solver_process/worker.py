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

Its module may also have

    def prepare(problem: Problem, *, deadline: float, until: Callable[[], bool],
                asked: Callable[[], Solution | None],
                report: Callable[[Solution], None]) -> object: ...

which is called while the first answer is still made. What it returns is given to the engine as
`prepared`. When `until` says so, nobody will ask for it: then it should return soon. Once `asked`
gives the first answer, the engine is waited for, and what is better may be reported.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
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
from typing import NamedTuple, Protocol, cast

from placement_service.entities.solution import Solution
from placement_service.entities.stages import Passed, told
from placement_service.formulation.problem import Problem
from placement_service.solver_process.jobs import (
    Better,
    Done,
    Failed,
    Head,
    Job,
    Kind,
    Message,
    Ready,
    Returned,
    Task,
)

DEFAULT_ENGINE = "placement_service.search.engine:search"

#: Objects that must be left before garbage is collected: more than a search of a second makes, and
#: few enough that a long search takes no more memory.
COLLECT_AFTER = 200_000

#: The same between two jobs, when nobody waits.
COLLECT_BETWEEN = 20_000


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
        **prepared: object,
    ) -> Solution: ...


class Prepare(Protocol):
    """A function that finds out what a search needs before it has a first answer."""

    def __call__(
        self,
        problem: Problem,
        /,
        *,
        deadline: float,
        until: Callable[[], bool],
        asked: Callable[[], Solution | None],
        report: Callable[[Solution], None],
    ) -> object: ...


def load_engine(name: str) -> Engine:
    """The function that ``module:function`` names."""
    module, _, function = name.partition(":")
    return cast("Engine", getattr(importlib.import_module(module), function))


class Question(Protocol):
    """What a task calls."""

    def __call__(self, argument: object, /, *, deadline: float) -> object: ...


def load_prepare(name: str) -> Prepare | None:
    """What prepares the searches of the engine that ``module:function`` names; None if nothing."""
    module, _, _ = name.partition(":")
    return cast("Prepare | None", getattr(importlib.import_module(module), "prepare", None))


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
    engine, prepare = load_engine(options.engine), load_prepare(options.engine)
    _send(connection, Ready())
    inbox = _Inbox(connection)
    threading.Thread(target=inbox.receive, daemon=True).start()
    work = _Work(connection, engine, prepare, inbox)
    # What is loaded by now stays for ever: garbage collection need not look at it.
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    while True:
        work.do(inbox.next())
        if inbox.waiting() is None and gc.get_count()[0] > COLLECT_BETWEEN:
            gc.collect()


class _Sent(NamedTuple):
    """A pickled message, what it is, its number, and the deadline."""

    payload: bytes
    kind: Kind
    number: int
    deadline: float


class _Inbox:
    """Takes in what the server sends while the process works."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._jobs: queue.SimpleQueue[_Sent] = queue.SimpleQueue()
        self._waiting: _Sent | None = None
        #: The number of the last message that was taken back.
        self.dropped = 0

    def receive(self) -> None:
        """Ends the process, whatever it does, when the server is gone."""
        number = 0
        try:
            while True:
                payload = self._connection.recv_bytes()
                head: Head = self._connection.recv()
                if head.kind is Kind.DROPPED:
                    self.dropped = number
                    continue
                number += 1
                deadline = time.monotonic() + head.seconds
                self._jobs.put(_Sent(payload, head.kind, number, deadline))
        except (EOFError, OSError):
            os._exit(0)
        except BaseException:
            # Without this thread nothing is heard any more.
            traceback.print_exc()
            os._exit(1)

    def waiting(self) -> _Sent | None:
        """What comes next, if it is there."""
        if self._waiting is None:
            with contextlib.suppress(queue.Empty):
                self._waiting = self._jobs.get_nowait()
        return self._waiting

    def next(self) -> _Sent:
        """Takes what comes next, and waits for it."""
        sent, self._waiting = self._waiting or self._jobs.get(), None
        return sent


class _Work:
    """One job after another, and what is known of the problem that comes next."""

    def __init__(
        self, connection: Connection, engine: Engine, prepare: Prepare | None, inbox: _Inbox
    ) -> None:
        self._connection, self._engine, self._prepare = connection, engine, prepare
        self._inbox = inbox
        self._coming: Problem | None = None
        self._prepared: dict[str, object] = {}

    def do(self, sent: _Sent) -> None:
        """Answers what is asked; prepares what is expected."""
        _forget_peak_memory()
        if sent.kind is Kind.EXPECTED:
            self._coming, self._prepared = None, {}
            try:
                self._expect(sent)
            except Exception:
                # The search goes without.
                traceback.print_exc()
        else:
            _send(self._connection, self._answer(sent))

    def _answer(self, sent: _Sent) -> Message:
        try:
            job: Job | Task = pickle.loads(sent.payload)
            match job:
                case Task(function, argument):
                    return Returned(load_task(function)(argument, deadline=sent.deadline))
                case Job():
                    return Done(self._search(job, sent.deadline), _peak_memory())
        except Exception:
            return Failed(traceback.format_exc(), _peak_memory())

    def _expect(self, sent: _Sent) -> None:
        def until() -> bool:
            return self._inbox.dropped >= sent.number

        def asked() -> Solution | None:
            search = self._inbox.waiting()
            # A process that expects a search is asked nothing else until that is taken back.
            if search is None or search.kind is not Kind.ASKED or until():
                return None
            return cast("Job", pickle.loads(search.payload)).start

        self._coming = pickle.loads(sent.payload)
        if self._prepare is not None and not until():
            found = self._prepare(
                self._coming,
                deadline=sent.deadline,
                until=until,
                asked=asked,
                report=self._report,
            )
            self._prepared = {"prepared": found}

    def _report(self, solution: Solution) -> None:
        _send(self._connection, Better(solution, _peak_memory()))

    def _search(self, job: Job, deadline: float) -> Solution:
        problem = job.problem or self._coming
        prepared = self._prepared if job.problem is None else {}
        self._coming, self._prepared = None, {}
        if problem is None:
            raise ValueError("the problem that was expected could not be read")

        def took(passed: Passed) -> None:
            _send(self._connection, passed)

        with told(took):
            return self._engine(
                problem, job.start, deadline=deadline, report=self._report, **prepared
            )


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
