"""Solver processes, and how to search in them without ever waiting too long.

Each process does one search at a time. It is a plain child started with
`subprocess` and not with `multiprocessing`, whose start method would run the
main module of the program that uses this package again. A process that misses its
deadline, dies, or whose caller leaves is killed and replaced in the background;
the search then ends with the best answer that it had reported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from placement_service.entities.progress import NEVER, Interrupter
from placement_service.entities.solution import Limit, Solution
from placement_service.entities.stages import Passed, tell
from placement_service.formulation.problem import Problem
from placement_service.solver_process.child import ending, start_child
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
from placement_service.solver_process.worker import DEFAULT_ENGINE

logger = logging.getLogger(__name__)

#: The engine is asked to return this long before the deadline (a tenth of the time when that is
#: less), so that its last answer arrives.
GRACE_SECONDS = 0.2

#: How long a process may take to load the engine.
BOOT_SECONDS = 60.0

#: Pauses between attempts to start a process that does not start, in seconds.
BOOT_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Found:
    """How a search ended. `limit` is NONE when the engine returned by itself. `failure` is its
    traceback when it raised.
    """

    solution: Solution
    limit: Limit = Limit.NONE
    peak_memory_bytes: int = 0
    failure: str = ""


class SolverPool:
    """`size` solver processes; starts them at once and waits for none."""

    def __init__(
        self, size: int = 1, *, engine: str = DEFAULT_ENGINE, memory_bytes: int = 0
    ) -> None:
        self._command = ["--engine", engine, "--memory", str(memory_bytes)]
        self._changed = threading.Condition()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        #: Processes that were told of a problem, by its identity.
        self._expecting: dict[int, _Process] = {}
        self._failing = False
        self._closed = threading.Event()
        for _ in range(size):
            self._boot_in_background()

    def search(
        self,
        problem: Problem,
        start: Solution,
        *,
        deadline: float,
        interrupter: Interrupter = NEVER,
        report: Callable[[Solution], None],
    ) -> Found:
        """Improves an answer until it is proven or `time.monotonic()` is `deadline`.

        Returns by the deadline, give or take one call of `report`, which runs
        in this thread for every better answer. Returns early, with whatever
        there is, when the interrupter says so or the process dies.
        """
        with self._changed:
            process = self._expecting.pop(id(problem), None)
        if process is not None and not process.is_alive:
            # It died since, so this search begins with another one.
            self._give_back(process)
            process = None
        knows = process is not None
        process = process or self._take(deadline, interrupter)
        if process is None:
            return Found(start, Limit.SOLVER_LOST if self._failing else Limit.TIME)
        try:
            with interrupter.calling(process.kill):
                job = Job(None if knows else problem, start)
                return process.search(job, deadline, report)
        finally:
            self._give_back(process)

    @contextmanager
    def expecting(
        self, problem: Problem, *, deadline: float, interrupter: Interrupter = NEVER
    ) -> Iterator[None]:
        """Tells an idle process, if there is one, of a problem that is searched inside, or not."""
        with self._changed:
            process = self._idle.pop() if self._idle and self._idle[-1].is_alive else None
        if process is None:
            yield
            return
        try:
            with interrupter.calling(process.kill):
                process.expect(problem, deadline)
        except BaseException:
            self._give_back(process)
            raise
        if not process.is_idle:
            self._give_back(process)
            yield
            return
        with self._changed:
            self._expecting[id(problem)] = process
        try:
            yield
        finally:
            with self._changed:
                left = self._expecting.pop(id(problem), None)
            if left is not None:
                left.drop(deadline)
                self._give_back(left)

    def call(
        self,
        function: str,
        argument: object,
        /,
        *,
        deadline: float,
        interrupter: Interrupter = NEVER,
    ) -> object | None:
        """What ``module:function`` returns in a solver process, None when it does not in time.

        It is called as ``function(argument, deadline=...)`` and must be loadable there.
        """
        process = self._take(deadline, interrupter)
        if process is None:
            return None
        try:
            with interrupter.calling(process.kill):
                return process.call(Task(function, argument), deadline)
        finally:
            self._give_back(process)

    def wait_until_ready(self, timeout: float) -> bool:
        """Whether some process is ready, after waiting `timeout` seconds at most."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._idle), timeout)

    def process_ids(self) -> tuple[int, ...]:
        """The processes that run, busy ones included."""
        with self._changed:
            return tuple(sorted(p.pid for p in self._all))

    def close(self) -> None:
        """Kills all processes; searches that run end at once."""
        self._closed.set()
        with self._changed:
            processes, idle = tuple(self._all), tuple(self._idle)
            self._idle.clear()
            self._changed.notify_all()
        for process in processes:
            process.kill()
        # A thread that waits for one of the others sees it end, and discards it.
        for process in idle:
            process.discard()

    def _take(self, deadline: float, interrupter: Interrupter) -> _Process | None:
        def wake() -> None:
            with self._changed:
                self._changed.notify_all()

        def is_over() -> bool:
            return (
                bool(self._idle)
                or self._failing
                or self._closed.is_set()
                or interrupter.interrupted
            )

        with interrupter.calling(wake), self._changed:
            while True:
                self._changed.wait_for(is_over, max(0.0, deadline - time.monotonic()))
                if not self._idle or interrupter.interrupted:
                    return None
                process = self._idle.pop()
                if process.is_alive:
                    return process
                # It died while idle, so this search continues with another one.
                self._boot_in_background(instead_of=process)

    def _give_back(self, process: _Process) -> None:
        if process.is_idle and process.is_alive and not self._closed.is_set():
            with self._changed:
                self._idle.append(process)
                self._changed.notify_all()
        else:
            process.kill()
            self._boot_in_background(instead_of=process)

    def _boot_in_background(self, instead_of: _Process | None = None) -> None:
        threading.Thread(
            target=self._boot, args=(instead_of,), name="boot-solver", daemon=True
        ).start()

    def _boot(self, instead_of: _Process | None) -> None:
        if instead_of is not None:
            with self._changed:
                self._all.discard(instead_of)
            how = instead_of.discard()
            if how and not self._closed.is_set():
                logger.warning("the solver process %s; another one starts", how)
        attempt = 0
        while not self._closed.is_set():
            if self._booted():
                return
            if not self._closed.is_set():
                pause = BOOT_PAUSES[min(attempt, len(BOOT_PAUSES) - 1)]
                attempt += 1
                logger.error("the solver process did not start; next attempt in %g s", pause)
                self._closed.wait(pause)

    def _booted(self) -> bool:
        """Whether a new process came up; it is idle then."""
        process: _Process | None = None
        try:
            process = _Process(self._command)
        except OSError:
            # No memory, no process or no file handle is left, as may be for a moment.
            logger.exception("the solver process could not be started")
        else:
            with self._changed:
                self._all.add(process)
            if process.wait_until_ready(BOOT_SECONDS) and not self._closed.is_set():
                with self._changed:
                    self._failing = False
                    self._idle.append(process)
                    self._changed.notify_all()
                return True
            process.kill()
        with self._changed:
            if process is not None:
                self._all.discard(process)
            # Nobody should wait for a solver that may never start.
            self._failing = not self._closed.is_set()
            self._changed.notify_all()
        if process is not None:
            process.discard()
        return False


@dataclass(eq=False, slots=True)
class _Process:
    """One solver process and the socket to it."""

    options: list[str]
    is_idle: bool = field(default=False, init=False)
    _is_killed: bool = field(default=False, init=False)
    _is_lost: bool = field(default=False, init=False)
    _child: subprocess.Popen[bytes] = field(init=False)
    _socket: socket.socket = field(init=False)
    _connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._connection = Connection(os.dup(self._socket.fileno()))
        with theirs, self._closed_on_error():
            self._child = start_child(
                "placement_service.solver_process.worker", theirs, self.options
            )

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._connection.close()
            self._socket.close()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """False from the moment that it is killed or lost, though it takes a while to end."""
        return not (self._is_killed or self._is_lost) and self._child.poll() is None

    def kill(self) -> None:
        """Ends the process; a reader that waits for it gets an end of file."""
        self._is_killed = self._is_killed or self.is_alive
        self._child.kill()

    def discard(self) -> str:
        """Kills the process and frees what is left of it; it must not be used afterwards.

        Returns how it ended, where the server did not end it.
        """
        by_us = self._is_killed or self.is_alive
        self._child.kill()
        how = ending(self._child)
        self._connection.close()
        self._socket.close()
        return "" if by_us else how

    def wait_until_ready(self, timeout: float) -> bool:
        try:
            self.is_idle = isinstance(self._receive(time.monotonic() + timeout), Ready)
        except (EOFError, OSError):
            self.is_idle = False
        return self.is_idle

    def expect(self, problem: Problem, deadline: float) -> None:
        """Sends a problem ahead. What goes wrong shows when it is searched."""
        self.is_idle = False
        with contextlib.suppress(OSError):
            self._send(problem, Kind.EXPECTED, deadline)
            self.is_idle = True

    def drop(self, deadline: float) -> None:
        """Says that what was expected does not come."""
        self.is_idle = False
        with contextlib.suppress(OSError):
            self._send(None, Kind.DROPPED, deadline)
            self.is_idle = True

    def search(self, job: Job, deadline: float, report: Callable[[Solution], None]) -> Found:
        """Returns what was found; `is_idle` says whether the process can go on."""
        self.is_idle = False
        best, memory = job.start, 0
        try:
            self._send(job, Kind.ASKED, deadline)
            while True:
                message = self._receive(deadline)
                match message:
                    case None:
                        logger.warning("the solver process did not stop in time and is replaced")
                        return Found(best, Limit.TIME, memory)
                    case Better(solution, memory):
                        best = solution
                        report(best)
                    case Passed():
                        tell(message)
                    case Done(solution, memory):
                        self.is_idle = True
                        return Found(solution, Limit.NONE, memory)
                    case Failed(traceback, memory):
                        self.is_idle = True
                        return Found(best, Limit.SOLVER_LOST, memory, traceback)
                    case Ready() | Returned():
                        raise OSError("a solver process says what nobody asked")
        except (EOFError, OSError) as error:
            self._is_lost = isinstance(error, (EOFError, ConnectionError))
            return Found(best, Limit.SOLVER_LOST, memory)

    def call(self, task: Task, deadline: float) -> object | None:
        """What a task returned; `is_idle` says whether the process can go on."""
        self.is_idle = False
        try:
            self._send(task, Kind.ASKED, deadline)
            message = self._receive(deadline)
        except (EOFError, OSError):
            return None
        match message:
            case Returned(value):
                self.is_idle = True
                return value
            case Failed(traceback, _):
                self.is_idle = True
                logger.error("%s failed: %s", task.function, traceback)
        return None

    def _send(self, message: Job | Task | Problem | None, kind: Kind, deadline: float) -> None:
        payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
        self._limit_io(socket.SO_SNDTIMEO, deadline)
        self._connection.send_bytes(payload)
        left = deadline - time.monotonic()
        self._connection.send(Head(kind, left - min(GRACE_SECONDS, 0.1 * left)))

    def _receive(self, deadline: float) -> Message | None:
        """The next message, or None when the deadline passes first."""
        if not self._connection.poll(max(0.0, deadline - time.monotonic())):
            return None
        # A process that stops in the middle of a message must not hold up the server.
        self._limit_io(socket.SO_RCVTIMEO, deadline)
        message: Message = self._connection.recv()
        return message

    def _limit_io(self, option: int, deadline: float) -> None:
        seconds = max(0.05, deadline - time.monotonic())
        timeval = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
        self._socket.setsockopt(socket.SOL_SOCKET, option, timeval)
