"""An engine whose module prepares searches: the phase of its answer says what it was given."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from placement_service.entities.solution import Solution
from placement_service.formulation.problem import Problem

#: A problem with so many nodes cannot be prepared; of so many it takes until it is told to stop,
#: or the search is waited for.
UNLUCKY_NODES: Final = 2
ENDLESS_NODES: Final = 4


def prepare(
    problem: Problem,
    *,
    deadline: float,
    until: Callable[[], bool],
    asked: Callable[[], Solution | None],
    report: Callable[[Solution], None],
) -> str:
    if problem.node_count == UNLUCKY_NODES:
        raise ZeroDivisionError("a defect of what prepares")
    start = None
    while problem.node_count == ENDLESS_NODES and start is None and not until():
        time.sleep(0.01)
        start = asked()
    if start is not None:
        report(replace(start, phase="told"))
    return f"prepared {problem.node_count} nodes"


def search(
    problem: Problem,
    start: Solution,
    *,
    deadline: float,
    report: Callable[[Solution], None],
    prepared: str = "nothing prepared",
) -> Solution:
    return replace(start, phase=f"{prepared}, asked {problem.node_count}")
