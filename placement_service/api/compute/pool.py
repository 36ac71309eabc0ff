"""Compute processes, and how to use them without waiting longer than a caller does.

Each process answers one request at a time. It is a plain child with a socket, in a process
group of its own together with its solver; one that is late, hangs or dies is killed with all
its group and replaced in the background. Everything here runs on the edge's event loop, and
nothing blocks it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import NamedTuple

from placement_service.api.admission import Place
from placement_service.api.compute.frames import (
    DIGEST_SIZE,
    HEAD,
    LAST,
    SMALL,
    Arriving,
    Frame,
    JobHead,
    Kind,
    digests,
)
from placement_service.api.compute.turns import Turns
from placement_service.solver_process.child import ending, start_child

logger = logging.getLogger(__name__)

#: Seconds that a process may take to load, before another one is tried.
BOOT_SECONDS = 60.0

#: Pauses between attempts to start a process that does not start, in seconds.
BOOT_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

#: Seconds within which a process must stop when its caller left, or got another answer; longer
#: where it took longer to start. To wait as long as a new process takes to start costs at most
#: twice the better choice. And on a busy machine, where everything is late, processes are not
#: killed faster than they start.
CANCEL_SECONDS = 0.5


#: Bytes that are read from a process at once.
PIECE = 2**18


class ComputeProcess:
    """One compute process and the socket to it."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        edge: socket.socket,
        on_whole: Callable[[bytes, bytes], None],
    ) -> None:
        """`on_whole` gets the digest of a snapshot, and a request that tells it as a whole."""
        self._child = child
        self._on_whole = on_whole
        #: Digests of the snapshots that it holds.
        self.held: frozenset[bytes] = frozenset()
        self._socket = edge
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self.loaded = asyncio.Event()
        self.warm = asyncio.Event()
        #: Set once the process has ended, or will send nothing more.
        self.ended = asyncio.Event()
        #: Whether it works on a job.
        self.busy = False
        #: Whether we ended it.
        self.killed = False
        #: The connection that it works for.
        self.peer: str | None = None
        #: Whether a job is on its way to it, and may be cut off.
        self._sending = False
        self._arriving = Arriving()
        self._loop.add_reader(edge, self._read)

    @property
    def pid(self) -> int:
        return self._child.pid

    async def begin(
        self, job: JobHead, request: memoryview, snapshots: Iterable[bytes] = ()
    ) -> None:
        """Sends a job after the snapshots that it needs; frames follow from `next_frame`."""
        self.busy = True
        content = job.pack()
        head = HEAD.pack(Kind.JOB, len(content) + len(request)) + content
        self._sending = True
        with contextlib.suppress(OSError):
            for told in snapshots:
                await self._loop.sock_sendall(self._socket, HEAD.pack(Kind.SNAPSHOT, len(told)))
                await self._loop.sock_sendall(self._socket, told)
            # In one step, so that the process wakes up once; large ones are not copied.
            if len(request) < SMALL:
                await self._loop.sock_sendall(self._socket, b"".join((head, request)))
            else:
                await self._loop.sock_sendall(self._socket, head)
                await self._loop.sock_sendall(self._socket, request)
        self._sending = False

    async def next_frame(self) -> Frame | None:
        """The next frame of the job, None when the process is gone."""
        frame = await self._frames.get()
        if frame is not None and frame.kind in LAST:
            self.busy = False
        return frame

    async def stopped(self, within: float) -> bool:
        """Asks it to stop its job; returns whether it did within so many seconds."""
        if self._sending:
            # It would read what we ask as the rest of the job.
            return False
        try:
            async with asyncio.timeout(within):
                with contextlib.suppress(OSError):
                    await self._loop.sock_sendall(self._socket, HEAD.pack(Kind.CANCEL, 0))
                while self.busy and not self.ended.is_set():
                    await self.next_frame()
        except TimeoutError:
            return False
        return not self.busy and not self.ended.is_set()

    def kill(self) -> None:
        """Ends the process and its solver, whatever they do."""
        self.killed = True
        self.ended.set()
        # Its group lasts as long as any process in it, and its number until we wait for it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)

    async def discard(self) -> str:
        """Kills the process, and frees what is left of it; returns how it ended."""
        self.kill()
        self._stop_reading()
        self._socket.close()
        return await asyncio.to_thread(self._reap)

    def _reap(self) -> str:
        how = ending(self._child)
        # Where we are the first process, as in a container, its solver is now our child.
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-self._child.pid, 0)
        return how

    def _read(self) -> None:
        """Takes what has arrived; called whenever something has."""
        try:
            piece = self._socket.recv(PIECE)
            if not piece:
                raise EOFError
            for frame in self._arriving.take(piece):
                self._take(frame)
        except (BlockingIOError, InterruptedError):
            return
        except (EOFError, OSError, ValueError):
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._loop.remove_reader(self._socket):
            self.ended.set()
            self._frames.put_nowait(None)

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.LOG:
                level, _, line = frame.content.decode(errors="replace").partition("\n")
                name, _, text = line.partition("\n")
                logging.getLogger(name).log(int(level), "%s", text)
            case Kind.READY:
                self.loaded.set()
            case Kind.WARM:
                self.warm.set()
            case Kind.WHOLE:
                self._on_whole(frame.content[:DIGEST_SIZE], frame.content[DIGEST_SIZE:])
            case _:
                if frame.kind is Kind.HELD:
                    self.held = frozenset(digests(frame.content))
                self._frames.put_nowait(frame)


class Waiting(NamedTuple):
    """A call of a connection that waits for a process."""

    peer: str
    turn: asyncio.Future[ComputeProcess]


class ComputePool:
    """`size` compute processes, lent to one caller at a time, each in its turn."""

    def __init__(
        self,
        size: int,
        arguments: Sequence[str],
        *,
        on_end: Callable[[], None] = lambda: None,
        on_whole: Callable[[bytes, bytes], None] = lambda digest, told: None,
    ) -> None:
        """`on_end` is told of each process that ends though the pool is open.

        `on_whole` as of `ComputeProcess`.
        """
        self._size = size
        self._on_whole = on_whole
        self._on_end = on_end
        self._arguments = tuple(arguments)
        self._idle: list[ComputeProcess] = []
        self._all: set[ComputeProcess] = set()
        self._waiting: list[Waiting] = []
        self._turns = Turns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()
        #: Set once a process was ready for the first time.
        self.ready = asyncio.Event()
        #: What the last process took to start, in seconds.
        self._boot_seconds = 0.0

    def open(self) -> None:
        """Starts the processes, and waits for none. From the event loop."""
        for _ in range(self._size):
            self._in_background(self._boot())

    async def take(self, place: Place, wanted: bytes | None = None) -> ComputeProcess:
        """An idle process, as soon as it is this caller's turn; `give_back` it.

        If there is a choice, one that holds the wanted snapshot. Raises Busy when the place is
        given to another.
        """
        while self._idle and not self._waiting:
            process = next((p for p in self._idle if wanted in p.held), self._idle[-1])
            self._idle.remove(process)
            if not process.ended.is_set():
                self._turns.given(place.peer)
                process.peer = place.peer
                return process
        mine: asyncio.Future[ComputeProcess] = asyncio.get_running_loop().create_future()
        waiting = Waiting(place.peer, mine)
        self._waiting.append(waiting)
        place.turn = mine
        try:
            return await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled() and mine.exception() is None:
                self.give_back(mine.result())
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def give_back(self, process: ComputeProcess) -> None:
        """Takes back a process, also one that is busy or dead."""
        process.peer = None
        if process.ended.is_set():
            return
        if process.busy:
            self._in_background(self._settle(process))
        else:
            self._lend(process)

    def idle_count(self) -> int:
        """How many processes wait for a request."""
        return len(self._idle)

    def warm_count(self) -> int:
        """How many processes could search at once, without waiting for a solver to load."""
        return sum(1 for process in self._idle if process.warm.is_set())

    def process_ids(self) -> tuple[int, ...]:
        """The processes that run, busy ones included."""
        return tuple(sorted(process.pid for process in self._all))

    async def close(self) -> None:
        """Kills all processes; jobs that run end without an answer."""
        self._closed.set()
        for process in tuple(self._all):
            process.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _lend(self, process: ComputeProcess) -> None:
        """Gives an idle process to the caller whose turn it is."""
        able = [one for one in self._waiting if not one.turn.done()]
        if not able:
            self._idle.append(process)
            return
        next_one = self._turns.next(able, (p.peer for p in self._all if p.peer is not None))
        self._turns.given(next_one.peer)
        self._waiting.remove(next_one)
        process.peer = next_one.peer
        next_one.turn.set_result(process)

    async def _settle(self, process: ComputeProcess) -> None:
        if await process.stopped(within=max(CANCEL_SECONDS, self._boot_seconds)):
            self._lend(process)
        else:
            process.kill()

    async def _boot(self) -> None:
        """Brings up a process, and another one whenever it ends."""
        attempt = 0
        while not self._closed.is_set():
            process = await self._booted()
            if process is not None:
                attempt = 0
                self._lend(process)
                await process.ended.wait()
                if not self._closed.is_set():
                    self._on_end()
                if process in self._idle:
                    self._idle.remove(process)
                self._all.discard(process)
                by_us = process.killed
                how = await process.discard()
                if not self._closed.is_set():
                    how = "did not stop and was killed" if by_us else how
                    logger.warning("a compute process %s; another one starts", how)
            elif not self._closed.is_set():
                pause = BOOT_PAUSES[min(attempt, len(BOOT_PAUSES) - 1)]
                attempt += 1
                logger.error("the compute process did not start; next attempt in %g s", pause)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._closed.wait()

    async def _booted(self) -> ComputeProcess | None:
        """A new process that is idle, None when it does not come up."""
        begin = asyncio.get_running_loop().time()
        try:
            child, edge = await asyncio.to_thread(_start, self._arguments)
            process = ComputeProcess(child, edge, self._on_whole)
        except OSError:
            # No memory, no process or no file handle is left, as may be for a moment.
            logger.exception("the compute process could not be started")
            return None
        self._all.add(process)
        loaded, ended = (
            asyncio.ensure_future(event.wait()) for event in (process.loaded, process.ended)
        )
        if self._closed.is_set():
            process.kill()
        await asyncio.wait(
            {loaded, ended}, timeout=BOOT_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        loaded.cancel()
        ended.cancel()
        if process.loaded.is_set() and not process.ended.is_set():
            self._boot_seconds = asyncio.get_running_loop().time() - begin
            self.ready.set()
            return process
        self._all.discard(process)
        await process.discard()
        return None

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _start(arguments: Sequence[str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Starts a process; raises OSError."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        try:
            # A group of its own: killed as one, and out of reach of the terminal's Ctrl-C.
            child = start_child(
                "placement_service.api.compute.process", theirs, arguments, process_group=0
            )
        except OSError:
            ours.close()
            raise
    return child, ours
