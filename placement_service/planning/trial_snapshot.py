"""A changed snapshot: whether a gang fits beside a plan, and whether it ever could. A trial places
the gang into what the plan leaves, as a first answer does: if that works there is a plan. Counting
over all gangs that are to be placed may prove that it is impossible. For all other cases only a
search can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from placement_service.bounds.counting import Counting
from placement_service.bounds.shortages import Offers, lacks, queues_allow
from placement_service.entities.eviction import EvictionPolicy
from placement_service.entities.request import ExtrasPolicy, Policy, Snapshot
from placement_service.entities.solution import Assignment, Solution
from placement_service.formulation.arrays import Ints
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import Plan, Units, from_solution, is_placed
from placement_service.formulation.problem import Gang, Problem, UnitsOnNode
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.planning.named_counts import NamedCounts, as_plan, by_name


def for_fitting(policy: Policy) -> Policy:
    """The policy of a question about what fits: nobody gives way, minimums come before all extras,
    and no goal may be missed for later ones.
    """
    return replace(
        policy,
        eviction=EvictionPolicy.NONE,
        tolerances=(),
        extras=ExtrasPolicy.AFTER_MINIMUMS,
    )


def earlier_plan(
    snapshot: Snapshot, policy: Policy, assignments: Sequence[Assignment]
) -> NamedCounts:
    """The minimums that a plan places, without extras, which come after all minimums."""
    return minimums(snapshot, formulate(snapshot, policy), assignments)


def minimums(
    snapshot: Snapshot, problem: Problem, assignments: Sequence[Assignment]
) -> NamedCounts:
    """The same where the problem of the snapshot is at hand."""
    plan = from_solution(problem, Solution(tuple(assignments), ()))
    least = {
        index: _minimum(problem.gangs[index], units)
        for index, units in plan.items()
        if problem.gangs[index].pending
    }
    return by_name(snapshot, problem, least)


def _minimum(gang: Gang, units: Units) -> Units:
    """Without what goes beyond the minimum."""
    first = {d: r.demands[0] for r in gang.requirements for d in r.demands}
    left = {r.demands[0]: r.missing for r in gang.requirements}
    kept = []
    for d, node, count in units:
        taken = min(count, left[first[d]])
        left[first[d]] -= taken
        if taken:
            kept.append(UnitsOnNode(d, node, taken))
    return tuple(kept)


class Trial:
    """A snapshot with a plan on it, and a gang that the plan does not place."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        gang: str,
        earlier: NamedCounts,
        problem: Problem | None = None,
    ) -> None:
        """`problem` is that of the snapshot, where it is at hand."""
        self.snapshot = snapshot
        self.problem = formulate(snapshot, policy) if problem is None else problem
        #: Added nodes come after the others, so nodes of the plan keep their places.
        self.plan: Plan = as_plan(snapshot, self.problem, earlier)
        self.gang = self.problem.gangs[[one.name for one in snapshot.gangs].index(gang)]
        self._builder = Builder(self.problem)
        self.residual = ResidualCapacity(self.problem)
        self.residual.take_plan(self.plan)

    def place(self, *, gang: Gang | None = None, within: Ints | None = None) -> NamedCounts | None:
        """The plan with the gang (and its base) beside it, None where none was found.

        `gang` replaces what it asks for, if given; `within` are sorted nodes.
        """
        wanted = self.gang if gang is None else gang
        mark, left = self.residual.mark(), self.residual.queues.left
        plan = dict(self.plan)
        try:
            for one in (*(self.problem.gangs[i] for i in wanted.rests_on), wanted):
                if is_placed(one, plan):
                    continue
                units = None
                if one.placeable:
                    units = self._builder.place(self.residual, one, within=within)
                if units is None:
                    return None
                plan[one.index] = units
                self.residual.queues.charge(one, units)
            return by_name(self.snapshot, self.problem, plan)
        finally:
            self.residual.undo(mark)
            self.residual.queues.left = left

    @cached_property
    def _loosest(self) -> Problem | None:
        return self.problem.loosest

    @cached_property
    def _counting(self) -> Counting:
        assert self._loosest is not None
        return Counting(Topology(self._loosest))

    @cached_property
    def _offers(self) -> Offers:
        return Offers(self._counting, self._counting.room)

    def is_refuted(self, *, gang: Gang | None = None) -> bool:
        """Whether counting shows that not all gangs of the plan can be placed beside the gang.

        `gang` replaces what the gang asks for, if given.
        """
        counted = self._loosest
        if counted is None or (gang is not None and counted is not self.problem):
            # What it asks for is not in words of the looser question.
            return False
        gang = counted.gangs[self.gang.index] if gang is None else gang
        if not gang.placeable:
            return True
        bases = [counted.gangs[i] for i in gang.rests_on]
        if not all(self._counting.fits_alone(one) for one in (gang, *bases) if one.pending):
            return True
        others = {*self.plan, *gang.rests_on} - {gang.index}
        everyone = [*(g for g in counted.pending if g.index in others), gang]
        return not queues_allow(self._counting, everyone) or any(
            True for _ in lacks(self._counting, everyone, self._offers)
        )
