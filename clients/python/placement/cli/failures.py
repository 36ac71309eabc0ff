"""How a command ends without an answer: a status and what is wrong, line by line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TextIO

from placement.cli.words import printable


class Status(IntEnum):
    """Exit statuses."""

    OK = 0
    WRONG_INPUT = 2
    NO_ANSWER = 3
    INTERRUPTED = 130


class Failure(Exception):
    """Ends the command with `status`; `problems` are printed for the user."""

    def __init__(self, status: Status, problems: Iterable[object]) -> None:
        self.status = status
        self.problems = tuple(map(str, problems))
        # Both, so that it can be sent to another machine.
        super().__init__(status, self.problems)

    def __str__(self) -> str:
        return "; ".join(self.problems)


def wrong_input(*problems: object) -> Failure:
    """The input or the arguments are wrong."""
    return Failure(Status.WRONG_INPUT, problems)


def no_answer(*problems: object) -> Failure:
    """The service, or the cluster, could not answer."""
    return Failure(Status.NO_ANSWER, problems)


def complain(problems: Iterable[object]) -> None:
    """Tell on standard error."""
    with complaining():
        for problem in problems:
            print(f"placementctl: {printable(str(problem))}", file=sys.stderr)


@contextmanager
def complaining() -> Iterator[None]:
    """Writes to standard error. Where that cannot be, the status still tells how it ended."""
    try:
        yield
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Nothing more leaves by a stream that failed. Python flushes it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def warn(warnings: Iterable[object]) -> None:
    """Tell on standard error what was skipped or not understood."""
    complain(f"warning: {warning}" for warning in warnings)
