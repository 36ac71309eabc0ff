"""A gang that waits, what has to hold for a remedy, and how that is decided in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, Protocol

from placement_service.entities.request import PodGang, Policy, Snapshot
from placement_service.entities.solution import SAME, Solution, TierName
from placement_service.formulation.formulate import formulate
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan, from_solution, is_placed
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.planning.named_counts import NamedCounts, as_plan, by_name
from placement_service.planning.trial_snapshot import Trial, for_fitting

#: Seconds below which no search is worth starting.
_SHORTEST = 0.1

#: The part of the time that is left that one search gets.
_SHARE = 0.5


class Fit(Enum):
    """Whether gangs fit together, or a change is enough for that."""

    YES = "yes"
    PERHAPS = "a plan places them; that no better one leaves some of them out is not known"
    NO = "no, which is proven"
    UNKNOWN = "not known"

    @property
    def found(self) -> bool:
        """Whether there is a plan."""
        return self in (Fit.YES, Fit.PERHAPS)


class Answer(NamedTuple):
    """Whether gangs fit together, and if so how."""

    fit: Fit
    plan: NamedCounts | None = None


class Solver(Protocol):
    """What asks a solver process: a search from a first answer, or one of its functions."""

    def search(
        self,
        problem: Problem,
        start: Solution,
        /,
        *,
        deadline: float,
    ) -> Solution:
        """As `solver_process.pool.SolverPool.search`, without reports."""

    def call(self, function: str, argument: object, /, *, deadline: float) -> object | None:
        """As `solver_process.pool.SolverPool.call`."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """`whole` is all that waits, `wanted` what has to be placed together: the gang, its base
    and what the plan places. `snapshot` is `whole` without others, or with them where it is
    `helped`: where these may let it in (see `helping_gangs`). `levels`: coarse first.
    `deadline` is in `time.monotonic` seconds.
    """

    whole: Snapshot
    snapshot: Snapshot
    policy: Policy
    gang: PodGang
    wanted: frozenset[str]
    helped: bool
    earlier: NamedCounts
    levels: Sequence[str]
    solver: Solver
    deadline: float
    here: Trial
    """The snapshot as it is."""

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.monotonic()

    def within(self, share: float) -> Case:
        """The case with a part of the time that is left."""
        return replace(self, deadline=time.monotonic() + max(0.0, share * self.left))

    def others(self, problem: Problem) -> Sequence[Gang]:
        """The other gangs of a problem, with the gangs of the snapshot, that have to fit, too."""
        names = self.wanted - {self.gang.name}
        return [g for g in problem.pending if self.snapshot.gangs[g.index].name in names]

    def trial(self, snapshot: Snapshot) -> Trial:
        """The case on a changed snapshot."""
        return Trial(snapshot, self.policy, self.gang.name, self.earlier)

    def fit(self, trial: Trial) -> Answer:
        """Whether all `wanted` gangs fit together in a trial's snapshot."""
        plan = trial.place()
        if plan is not None:
            return Answer(Fit.YES, plan)
        if trial.is_refuted():
            return Answer(Fit.NO)
        if self._seconds < _SHORTEST:
            return Answer(Fit.UNKNOWN)
        return self._searched(trial.problem, trial.plan, self.wanted, trial.snapshot)

    def settled(
        self,
        change: Callable[[Snapshot], Snapshot],
        plan: NamedCounts | None = None,
        gone: Collection[str] = (),
    ) -> Fit:
        """Whether a change is enough: the best plan for all waiting gangs places the `wanted` ones.

        `plan` places them in the changed snapshot, if that is known; `gone` are not there.
        """
        if plan is None:
            fit, plan = self.fit(self.trial(change(self.snapshot)))
            if plan is None:
                return fit
        whole = change(self.whole)
        rivals = any(_waits(gang) for gang in whole.gangs if gang.name not in self.wanted)
        if not rivals and self.policy == for_fitting(self.policy):
            return Fit.YES
        if self._seconds < _SHORTEST:
            return Fit.PERHAPS
        problem = formulate(whole, self.policy)
        start = as_plan(whole, problem, plan)
        wanted = self.wanted.difference(gone)
        fit, after = self._searched(problem, start, wanted, whole)
        if after is None or not fit.found or self._seconds < _SHORTEST:
            return fit
        return self._chosen(problem, wanted, whole, Answer(fit, after))

    @property
    def _seconds(self) -> float:
        """The seconds that one search gets."""
        return _SHARE * self.left

    def _searched(
        self, problem: Problem, plan: Plan, wanted: Collection[str], snapshot: Snapshot
    ) -> Answer:
        """Whether the best plan places the `wanted` gangs, and the best plan that was found. It is
        YES only where no plan is better. A better one that leaves a gang out is no proof that the
        best one does so.
        """
        deadline = time.monotonic() + self._seconds
        found = self.solver.search(problem, to_solution(problem, plan), deadline=deadline)
        proven = _is_proven(found)
        if not proven:
            # Another plan may be better; the search has seen far more plans than this trial.
            found = first_answer(problem, found.assignments, deadline=deadline)
        after = from_solution(problem, found)
        if _places(problem, after, wanted, snapshot):
            fit = Fit.YES if proven else Fit.PERHAPS
            return Answer(fit, by_name(snapshot, problem, after))
        return Answer(Fit.NO if proven else Fit.UNKNOWN)

    def _chosen(
        self, problem: Problem, wanted: Collection[str], snapshot: Snapshot, known: Answer
    ) -> Fit:
        """Whether a search that knows no plan places the `wanted` gangs, too: of plans that are
        equally good it may take one that leaves some of them out.
        """
        deadline = time.monotonic() + self._seconds
        first = first_answer(problem, deadline=deadline)
        found = self.solver.search(problem, first, deadline=deadline)
        if _places(problem, from_solution(problem, found), wanted, snapshot):
            return known.fit
        # A worse plan, for which the time was too short, says nothing about the best ones.
        best = to_solution(problem, as_plan(snapshot, problem, known.plan or {}))
        return Fit.NO if self.policy.tolerances or _is_as_good(found, best) else Fit.PERHAPS


def _waits(gang: PodGang) -> bool:
    """Whether it could get pods of its minimum; what was evicted has none that wait."""
    return gang.is_pending and any(group.pending_count for group in gang.groups)


def _places(problem: Problem, plan: Plan, wanted: Collection[str], snapshot: Snapshot) -> bool:
    """Whether a plan of the snapshot places all of these gangs."""
    return all(
        is_placed(arrays, plan)
        for gang, arrays in zip(snapshot.gangs, problem.gangs, strict=True)
        if gang.name in wanted
    )


def _is_as_good(one: Solution, other: Solution) -> bool:
    """Whether a plan is not worse than another in what can be proven."""
    for mine, theirs in zip(one.tiers, other.tiers, strict=True):
        if mine.name.provable and abs(mine.value - theirs.value) >= SAME:
            return (mine.value < theirs.value) == mine.name.minimize
    return True


def _is_proven(found: Solution) -> bool:
    """Whether no plan admits more."""
    return all(tier.proven for tier in found.tiers if tier.name is TierName.ADMITTED)
