"""A solver that finds nothing."""

from __future__ import annotations

from placement_service.entities.solution import Solution
from placement_service.formulation.problem import Problem


class Idle:
    """A solver that finds nothing better than it was told."""

    def search(self, problem: Problem, start: Solution, /, *, deadline: float) -> Solution:
        return start

    def call(self, function: str, argument: object, /, *, deadline: float) -> object | None:
        return None
