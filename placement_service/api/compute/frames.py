"""What the edge and a compute process say to each other: kind, size, and bytes.

The edge sends each snapshot that the process lacks as a `SNAPSHOT`, then a `JOB`, and `CANCEL` when
nobody waits for it any longer. The compute process sends `READY` once, and `WARM` when its solver
is ready. For each job it sends `NAMED` and `HELD` together with the first frame after it was read,
any number of `PROGRESS`, `BEST`, `STAGE` and `DEFECT`, then exactly one of `DONE`, `REFUSED`,
`FAILED` and `CANCELLED`. `LOG` may come at any time, `WHOLE` after a job. Nothing is pickled: a
compute process reads data from outside, so the edge trusts only its lengths.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self

from placement_service.api.methods import Call
from placement_service.entities.stages import Passed, Stage


class Kind(IntEnum):
    """The kind of a frame, and what its bytes hold."""

    JOB = 1
    """A `JobHead`, then the request of its call."""
    CANCEL = 2
    READY = 3
    WARM = 4
    PROGRESS = 5
    """A StreamPlacementResponse; for a question of planning, a Progress."""
    BEST = 6
    """A byte, the `Standing`, and the answer to send if no later one comes."""
    DEFECT = 7
    """What failed, for the log; the job goes on."""
    SUMMARY = 8
    """For the log: what is proven, in one word, and on the next line the answer in a few words."""
    DONE = 9
    """The answer of the call."""
    REFUSED = 10
    """A google.rpc.Status: the error to answer with."""
    FAILED = 11
    """A traceback: the job ended by a defect."""
    CANCELLED = 12
    LOG = 13
    """A level in decimals, the logger's name and the text, each on a line of its own."""
    SNAPSHOT = 14
    """A request whose snapshot is to be held; it is not answered."""
    HELD = 15
    """The digests of the snapshots that are held, that of the job last."""
    WHOLE = 16
    """A digest that is held, and a request that tells its snapshot as a whole."""
    STAGE = 17
    """A stage that is over, and its times (`stage_frame`)."""
    NAMED = 18
    """The digest of the request."""


class Standing(IntEnum):
    """How good an answer is: nothing was computed yet, a plan, or a proven one.

    `PARTIAL` is what was found of an answer of planning, behind a plan that is finished.
    """

    NOTHING = 0
    FOUND = 1
    PROVEN = 2
    PARTIAL = 3


#: Kinds that end a job.
LAST: Final = frozenset({Kind.DONE, Kind.REFUSED, Kind.FAILED, Kind.CANCELLED})

HEAD: Final = struct.Struct("!BQ")

#: Bytes of a snapshot's digest.
DIGEST_SIZE: Final = 32


def digests(content: bytes) -> tuple[bytes, ...]:
    """The digests in a `HELD` frame."""
    return tuple(content[i : i + DIGEST_SIZE] for i in range(0, len(content), DIGEST_SIZE))


#: Bytes of content up to which frames are copied to go together.
SMALL: Final = 2**16

_JOB = struct.Struct("!Bddd")

#: In seconds; no machine runs so long.
_LATEST = 1e9


@dataclass(frozen=True, slots=True)
class JobHead:
    """The call of a job, and its times on the machine's monotonic clock, in seconds."""

    call: Call
    arrival: float
    answer_by: float
    deadline: float

    SIZE: ClassVar[int] = _JOB.size

    def pack(self) -> bytes:
        return _JOB.pack(self.call, self.arrival, self.answer_by, self.deadline)

    @classmethod
    def unpack(cls, content: memoryview) -> Self:
        call, *times = _JOB.unpack_from(content)
        return cls(Call(call), *times)


_STAGE = struct.Struct("!Bdd")


def stage_frame(passed: Passed) -> bytes:
    """The content of a frame that tells of a stage."""
    return _STAGE.pack(*passed)


def read_stage(content: bytes) -> Passed:
    """Raises ValueError when it is not a stage, or its times are impossible."""
    try:
        number, begin, end = _STAGE.unpack(content)
    except struct.error as error:
        raise ValueError(str(error)) from error
    if not 0 <= begin <= end < _LATEST:
        raise ValueError(f"no times: {begin} to {end}")
    return Passed(Stage(number), begin, end)


@dataclass(frozen=True, slots=True)
class Frame:
    kind: Kind
    content: bytes


class Arriving:
    """The edge's end of the socket: bytes in pieces, as they arrive, become frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def take(self, piece: bytes) -> Iterator[Frame]:
        """The frames that are whole with this piece. Raises ValueError for one of no kind."""
        rest = self._rest
        rest += piece
        while len(rest) >= HEAD.size:
            kind, size = HEAD.unpack_from(rest)
            end = HEAD.size + size
            if len(rest) < end:
                return
            content = bytes(rest[HEAD.size : end])
            del rest[:end]
            yield Frame(Kind(kind), content)


class Channel:
    """The compute process's end of the socket: it blocks, and may be used by many threads."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._lock = threading.Lock()
        #: Frames that go with the next one.
        self._waiting = bytearray()

    def send(self, kind: Kind, content: bytes = b"") -> None:
        """Raises OSError when the edge is gone."""
        with self._lock:
            # In one step, so that a thread which is interrupted leaves no half of a frame; large
            # ones are answers, and while these are sent nobody interrupts.
            large = len(content) >= SMALL
            frames = self._waiting + HEAD.pack(kind, len(content)) + (b"" if large else content)
            self._waiting = bytearray()
            self._socket.sendall(frames)
            if large:
                self._socket.sendall(content)

    def add(self, kind: Kind, content: bytes) -> None:
        """Sends a frame together with the next one; for small frames that nobody waits for."""
        with self._lock:
            self._waiting += HEAD.pack(kind, len(content)) + content

    def receive(self) -> tuple[Kind, bytearray]:
        """The next frame; raises OSError or EOFError when the edge is gone."""
        kind, size = HEAD.unpack(self._exactly(HEAD.size))
        return Kind(kind), self._exactly(size)

    def _exactly(self, size: int) -> bytearray:
        content = bytearray(size)
        rest = memoryview(content)
        while rest:
            count = self._socket.recv_into(rest)
            if not count:
                raise EOFError
            rest = rest[count:]
        return content
