"""The stages that the pipeline calls, and what it tells callers that wait for the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from placement_service.entities.placement import Placement, Reason
from placement_service.entities.progress import Interrupter
from placement_service.entities.request import Policy, Snapshot
from placement_service.entities.solution import Assignment, Solution
from placement_service.formulation.prepared import Prepared
from placement_service.formulation.problem import Problem
from placement_service.judge.judge import Judge
from placement_service.judge.score import Score
from placement_service.solver_process.pool import Found

logger = logging.getLogger(__name__)


class FirstAnswer(Protocol):
    """As `first_answer.first_answer`."""

    def __call__(
        self, problem: Problem, previous: tuple[Assignment, ...], /, *, deadline: float
    ) -> Solution: ...


class Explain(Protocol):
    """The reasons of each gang in the snapshot's order, as many as time allows."""

    def __call__(
        self,
        snapshot: Snapshot,
        problem: Problem,
        solution: Solution,
        score: Score,
        /,
        *,
        asked: Snapshot,
        deadline: float,
    ) -> Sequence[Sequence[Reason]]: ...


class Search(Protocol):
    """As `pool.SolverPool.search`."""

    def __call__(
        self,
        problem: Problem,
        start: Solution,
        /,
        *,
        deadline: float,
        interrupter: Interrupter,
        report: Callable[[Solution], None],
    ) -> Found: ...


class Expecting(Protocol):
    """As `pool.SolverPool.expecting`."""

    def __call__(
        self, problem: Problem, /, *, deadline: float, interrupter: Interrupter
    ) -> AbstractContextManager[None]: ...


def tell_nobody(
    problem: Problem, /, *, deadline: float, interrupter: Interrupter
) -> AbstractContextManager[None]:
    """Tells nobody of a problem: for callers without a solver, or with many small questions."""
    return nullcontext()


class AskSolver(Protocol):
    """As `pool.SolverPool.call`: None when there is no answer in time."""

    def __call__(
        self, function: str, argument: object, /, *, deadline: float, interrupter: Interrupter
    ) -> object | None: ...


def ask_nobody(
    function: str, argument: object, /, *, deadline: float, interrupter: Interrupter
) -> None:
    """Answers nothing: for callers that have no solver besides the search."""


class Offer(Protocol):
    """Takes the best verified answer so far, for the edge to send if the computation is late.

    Each is complete but for explanations; the next one replaces it.
    """

    def __call__(self, placement: Placement, /) -> None: ...


def keep_none(placement: Placement, /) -> None:
    """Takes no answer before the last, for callers that wait as long as it takes."""


class ReportDefect(Protocol):
    """Reports a defect of the service; returns the name of the saved request."""

    def __call__(self, what: str, detail: str, /) -> str: ...


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages that the pipeline calls."""

    formulate: Callable[[Snapshot, Policy, Prepared], Problem]
    first_answer: FirstAnswer
    search: Search
    judge: Callable[[Snapshot, Policy], Judge]
    explain: Explain
    call: AskSolver = ask_nobody
    expecting: Expecting = tell_nobody
    #: Name and version of what computes the answer.
    engine: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Times on the clock of `place`, in seconds.

    `answer_by` is when the answer must leave. After `deadline` nobody reads it.
    """

    arrival: float
    answer_by: float
    deadline: float = float("inf")


def log_defect(what: str, detail: str, /) -> str:
    """Only logs, for callers that save nothing."""
    logger.error("%s: %s", what, detail)
    return ""
