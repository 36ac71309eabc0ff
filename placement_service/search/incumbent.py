"""What the search knows so far: the best plan and what is proven of it.

Better plans and better facts are reported at once; whoever listens may stop
listening at any time. Values come from plans alone and facts from relaxations
alone, so neither can undo the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.domain_forest import Forest
from placement_service.entities.solution import Limit, Solution
from placement_service.formulation.objective import (
    Bounds,
    Plan,
    Worth,
    from_solution,
    to_solution,
    trivial_bounds,
    worth,
)
from placement_service.formulation.problem import Problem
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.slot_layout import Layout

#: Seconds with which nothing worth while can be begun.
TOO_LITTLE = 0.05

Report = Callable[[Solution], None]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is proven. Later fields hold for plans that reach the earlier ones."""

    admitted: tuple[int, ...]
    extra: int
    topology: int


class State:
    """The best plan and the best facts so far; `target` are gangs worth aiming at.

    `layout` says how their parts may fill the domains, None when nothing does.
    """

    def __init__(self, problem: Problem, start: Solution, deadline: float, report: Report) -> None:
        self.problem = problem
        self.deadline = deadline
        self.builder = Builder(problem)
        self.plan: Plan = from_solution(problem, start)
        self.worth: Worth = worth(problem, self.plan)
        trivial = trivial_bounds(problem)
        self.all_extras, self._most = trivial.extra, trivial.admitted
        self.facts = Facts(self._most, self.all_extras, 0)
        self._counting: Counting | None = None
        self._forest: Forest | None = None
        self.target: tuple[int, ...] = ()
        self.layout: Layout | None = None
        self.fewest: dict[int, int] = {}
        self.phase = "bound"
        self._report = report

    @property
    def counting(self) -> Counting:
        """Rows of the problem, counted when first asked for."""
        if self._counting is None:
            self._counting = Counting(self.builder.topology)
        return self._counting

    @property
    def forest(self) -> Forest:
        """The domains of the problem as a forest, grown when first asked for."""
        if self._forest is None:
            self._forest = Forest(self.problem)
        return self._forest

    @property
    def left(self) -> float:
        """Seconds to the deadline."""
        return self.deadline - time.monotonic()

    def at_most(self, seconds: float) -> float:
        """Seconds for one step that may take so many.

        Where the answer must be repeatable no clock but the deadline ends a step, for then
        the answer says that it was cut short.
        """
        return self.left if self.problem.policy.deterministic else min(self.left, seconds)

    @property
    def admitted_is_proven(self) -> bool:
        return self.worth.admitted == self.facts.admitted

    @property
    def extra_is_proven(self) -> bool:
        return self.admitted_is_proven and self.worth.extra >= self.facts.extra

    @property
    def proven(self) -> bool:
        return self.extra_is_proven and self.worth.topology <= self.facts.topology

    def solution(self, *, final: bool = False) -> Solution:
        """What is known, in the terms of the caller."""
        bounds = Bounds(
            self.facts.admitted,
            self.facts.extra if self.admitted_is_proven else self.all_extras,
            self.facts.topology if self.extra_is_proven else 0,
        )
        result = to_solution(self.problem, self.plan, bounds, phase=self.phase, fewest=self.fewest)
        if final and not result.proven:
            # The last steps are not begun when there is hardly any time left.
            out_of_time = self.left < TOO_LITTLE
            result = replace(result, limit=Limit.TIME if out_of_time else Limit.EFFORT)
        return result

    def accept(self, plan: Plan) -> bool:
        """Take a plan if it is better than the one we have."""
        value = worth(self.problem, plan)
        if value.rank <= self.worth.rank:
            return False
        # Tuples compare by priority. A plan above a bound means a wrong bound.
        assert value.admitted <= self.facts.admitted, "a plan beats a proven bound"
        self.plan, self.worth = plan, value
        self._report(self.solution())
        return True

    def with_admitted(self, i: int, bound: int) -> Facts:
        """The facts with a lower bound of the i-th priority.

        All that was proven of later tiers took the old bound for granted: less
        in one tier may leave room for more in those below.
        """
        admitted = (*self.facts.admitted[:i], bound, *self._most[i + 1 :])
        return Facts(admitted, self.all_extras, 0)

    def learn(self, facts: Facts) -> None:
        """Take better facts."""
        if facts != self.facts:
            self.facts = facts
            self._report(self.solution())
