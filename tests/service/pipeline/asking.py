"""Asks the pipeline, with stages of which some are replaced.

Problem, greedy answer, verifier and score are the real ones; the search is a function in this
process, because a process of its own is tested in `test_pool`, and the real engine in
`tests/service/formulation/rules`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from placement_service.entities.request import (
    Request,
)
from placement_service.entities.solution import (
    Solution,
)
from placement_service.explain.gang_reasons import explain
from placement_service.formulation.formulate import formulate
from placement_service.formulation.problem import Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.judge import Judge
from placement_service.pipeline.place import place
from placement_service.pipeline.stages import Budget, Stages
from placement_service.solver_process.pool import Found
from tests.service.questions import request
from tests.waiting import LONG

Report = Callable[[Solution], None]


def nothing_found(problem: Problem, start: Solution, /, **_: Any) -> Found:
    return Found(start)


def ending_with(engine: Callable[..., Solution]) -> Callable[..., Found]:
    """A search that is one of the engines for the solver process, run here."""

    def search(problem: Problem, start: Solution, /, *, report: Report, **_: Any) -> Found:
        late = time.monotonic() + LONG
        return Found(engine(problem, start, deadline=late, report=report))

    return search


def greedy(problem: Problem, previous: object, /, *, deadline: float) -> Solution:
    """A first answer that a search may better, though one gang alone needs none."""
    return replace(first_answer(problem), final=False)


def stages(search: Callable[..., Found] = nothing_found, **others: Any) -> Stages:
    usual = Stages(
        formulate=formulate,
        first_answer=greedy,
        search=search,
        judge=Judge,
        explain=explain,
        engine="test 1",
    )
    return replace(usual, **others)


class Defects(list[str]):
    """Takes note of defects."""

    def __call__(self, what: str, detail: str, /) -> str:
        self.append(what)
        return "dump.json"


def budget(seconds: float = LONG, deadline: float = float("inf")) -> Budget:
    now = time.monotonic()
    return Budget(now, now + seconds, now + deadline)


def ask(question: Request | None = None, /, **arguments: Any) -> Any:
    arguments.setdefault("budget", budget())
    arguments.setdefault("stages", stages())
    return place(question or request(), **arguments)


def nodes_of(placement: Any) -> set[str]:
    return {b.node for b in placement.bindings}
