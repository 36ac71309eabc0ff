"""What the search needs of a problem whatever the plan is.

All of it is found when first asked for. A solver process that gets the problem before the first
answer finds it meanwhile (see `prepare`), so that the search itself begins later in its work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from placement_service.bounds.configurations import Configurations, configurations
from placement_service.bounds.counting import Counting
from placement_service.bounds.place_rows import PlaceRows
from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.cp_sat.configurations.lp import Column
from placement_service.cp_sat.configurations.master import ConfigurationMaster
from placement_service.cp_sat.victims.coming_units import coming_units
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.objective import Bounds, Worth, trivial_bounds
from placement_service.formulation.plan import Plan, home_plan
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers import goals
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.slot_layout import Layout
from placement_service.search.alike_nodes import AlikeNodes
from placement_service.search.cheap_room import CheapRoom
from placement_service.search.counted_goals import CountedGoals, count_goals
from placement_service.search.parameters import DEFAULTS, SearchParameters


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """What a search knows that began before the first answer: the best of its plans and what it is
    worth, bounds of all goals, its `target` and `layout`, whether blocks were found for it
    (`assigned`), and else for which of it (`begun`), and whether domains were filled anew
    (`refilled`).
    """

    plan: Plan
    worth: Worth
    bounds: Bounds
    target: tuple[GangIdx, ...]
    layout: Layout | None
    assigned: bool
    begun: Plan
    refilled: bool


class Groundwork:
    """Facts, rows and bounds of a problem; `counted` are the bounds of a question of which nothing
    is known yet, None until `count` was called. `ahead` is where a search began without a first
    answer, None where it did not. `alike` says that the problem is a looser one.
    """

    def __init__(self, problem: Problem, parameters: SearchParameters = DEFAULTS) -> None:
        self.problem, self.parameters = problem, parameters
        self.builder = Builder(problem)
        self.counted: CountedGoals | None = None
        self.ahead: Ahead | None = None
        self.alike: AlikeNodes | None = None
        self._places: dict[int, PlaceRows] = {}
        self._columns: Sequence[Column] = ()

    @cached_property
    def counting(self) -> Counting:
        """Rows of the problem."""
        return Counting(self.builder.topology, self.parameters.counting)

    @property
    def is_counting(self) -> bool:
        """Whether its rows are there: to make them takes a while."""
        return "counting" in vars(self)

    def places(self, level: int) -> PlaceRows:
        """Rows of the places of a level."""
        if level not in self._places:
            self._places[level] = PlaceRows(self.counting, level)
        return self._places[level]

    @cached_property
    def configurations(self) -> Configurations | None:
        """What domains with most parts hold; None where nothing tells it."""
        return configurations(self.counting, self.parameters.configurations)

    @contextmanager
    def configuration_master(self) -> Iterator[ConfigurationMaster]:
        """A master that knows the columns of those before: another search often needs the same.
        There must be configurations.
        """
        assert self.configurations is not None
        master = ConfigurationMaster(self.configurations, self.parameters.model, self._columns)
        yield master
        self._columns = master.columns.lp.columns

    @cached_property
    def forest(self) -> Forest:
        """The domains of the problem as a forest."""
        return Forest(self.problem)

    @cached_property
    def cheap_room(self) -> CheapRoom:
        """Where room costs least; where running gangs move, small units count for nothing."""
        p = self.parameters
        moved = p.model.moved_units
        coming = coming_units(self.problem, moved_units=moved, large_only=True)
        return CheapRoom(self.builder, coming, p.core_room)

    def count(self, seconds: float, deadline: float, until: Callable[[], bool]) -> None:
        """Count what all goals can be at most, in about so many seconds for each of them, as long
        as there is time for it and nobody says to stop.
        """
        every = goals(self.problem)
        self.counted = count_goals(
            self.counting,
            every,
            trivial_bounds(every),
            self.parameters,
            seconds=seconds,
            deadline=deadline,
            until=until,
        )


def many_may_give_way(problem: Problem, parameters: SearchParameters) -> bool:
    """Whether so many running gangs may that they have a model of their own."""
    return sum(bool(g.home) for g in problem.gangs) >= parameters.victim_gangs


def prepare(
    problem: Problem, *, deadline: float, until: Callable[[], bool] = lambda: False
) -> Groundwork:
    """The groundwork of a problem, of which every plan will be told later.

    It ends early, with less of it, when `until` says so.
    """
    ground = Groundwork(problem)
    if many_may_give_way(problem, ground.parameters):
        # The first core of the victim model comes first, and needs none of the rest.
        if not until():
            ground.cheap_room.core(ground.parameters.core_domains, home_plan(problem))
        return ground
    # Where the answer must be repeatable only the deadline ends a step.
    timed = not problem.policy.deterministic
    share, most = (0.5, ground.parameters.counting_share) if timed else (1.0, 1.0)

    def left() -> float:
        return deadline - time.monotonic()

    steps: tuple[Callable[[], object], ...] = (
        lambda: ground.counting.classes,
        lambda: ground.counting.rows,
        lambda: ground.count(left() * share, deadline - left() * (1 - most), until),
    )
    for step in steps:
        if until() or time.monotonic() > deadline:
            break
        step()
    return ground
