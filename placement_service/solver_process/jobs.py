"""What the server and a solver process say to each other, pickled over a socket.

The server sends a `Job` or a `Task` and then, in a message of its own, a `Head` with the seconds
that are left for it, so that the time to read a large job does not extend the deadline. The problem
of a search may be sent ahead of it, and taken back. What a message is stands in the head, so that
one that cannot be read is answered or not as it should be. The solver process sends `Ready` once,
and for each job any number of `Better` and `Passed`, then either `Done` or `Failed`. A task is
answered with `Returned` or `Failed`.

The messages have a module of their own because a class of the module that runs
as ``__main__`` would be another class on the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from placement_service.entities.solution import Solution
from placement_service.entities.stages import Passed
from placement_service.formulation.problem import Problem


class Kind(Enum):
    """What the message before a `Head` is."""

    #: A `Job` or a `Task`, which is answered.
    ASKED = auto()
    #: The `Problem` of a search that is likely to come. It is not answered.
    EXPECTED = auto()
    #: Nothing: no search follows the last problem that was expected.
    DROPPED = auto()


@dataclass(frozen=True, slots=True)
class Head:
    """Follows each message of the server."""

    kind: Kind
    seconds: float


@dataclass(frozen=True, slots=True)
class Job:
    """A search: a problem, and the answer to start from. Without one it is the
    problem that was expected.
    """

    problem: Problem | None
    start: Solution


@dataclass(frozen=True, slots=True)
class Task:
    """A function, as ``module:function``, that is called with an argument and a deadline."""

    function: str
    argument: object


@dataclass(frozen=True, slots=True)
class Returned:
    """What the function of a task returned."""

    value: object


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is loaded."""


@dataclass(frozen=True, slots=True)
class Better:
    """A better answer, or a better bound for the same one."""

    solution: Solution
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a search, with the engine's last answer."""

    solution: Solution
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine raised; the process is fine."""

    traceback: str
    peak_memory_bytes: int


Message = Ready | Better | Passed | Done | Returned | Failed
