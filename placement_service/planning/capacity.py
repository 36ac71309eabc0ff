"""How many copies of a gang fit, and how many domains have to be added so that all gangs fit.

The bound comes from counting, and from the admission master where counting leaves a gap; the
value from a plan: greedy, and by a search where that leaves a gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, cast

import numpy as np

from placement_service.bounds.added_domains import AddedDomains, most_copies
from placement_service.bounds.added_nodes import NEVER
from placement_service.bounds.counting import Counting
from placement_service.entities.naming.pod_assignment import count_pods
from placement_service.entities.planning import Bounded
from placement_service.entities.request import Binding, PodGang, Policy, Snapshot
from placement_service.entities.solution import Assignment, Solution
from placement_service.formulation.arrays import MOST_REPEATED
from placement_service.formulation.formulate import formulate
from placement_service.formulation.plan import from_solution, is_placed
from placement_service.formulation.planning_questions import CopiesQuestion, DomainsQuestion
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.first_answer import first_answer
from placement_service.heuristic.one_gang.domain_choice import minimum_units
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.planning import changes
from placement_service.planning.levels import finer, levels_of
from placement_service.planning.named_counts import NamedCounts, as_plan, in_snapshot
from placement_service.planning.remedy_case import Solver
from placement_service.planning.trial_snapshot import earlier_plan, for_fitting

_COPIES: Final = "placement_service.cp_sat.planning.copies_and_domains:most_copies"
_DOMAINS: Final = "placement_service.cp_sat.planning.copies_and_domains:fewest_domains"

#: Most copies that are counted.
MOST_COPIES: Final = MOST_REPEATED

#: Up to so many copies, as separate gangs, a solver is asked for a better bound.
_MOST_SEARCHED: Final = 1_000

#: Seconds below which no search is worth starting, and the part of the rest that one gets.
_SHORTEST: Final = 0.1
_SHARE: Final = 0.5

#: The name of the gang that is copied.
_SUFFIX: Final = "-copy"


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """A cluster with a plan that stays. `snapshot` is without gangs that the plan leaves out."""

    snapshot: Snapshot
    policy: Policy
    earlier: NamedCounts
    placed: frozenset[str]
    solver: Solver
    deadline: float

    @staticmethod
    def after(
        snapshot: Snapshot,
        policy: Policy,
        bindings: Sequence[Binding],
        placed: Collection[str],
        solver: Solver,
        deadline: float,
    ) -> Cluster:
        """The cluster after a plan without evictions."""
        kept = changes.only(snapshot, placed)
        policy = for_fitting(policy)
        earlier = earlier_plan(kept, policy, count_pods(kept, bindings))
        return Cluster(kept, policy, earlier, frozenset(placed), solver, deadline)


class Known(NamedTuple):
    """Copies that fit, and the proven most."""

    value: int
    bound: int


def copies(
    cluster: Cluster,
    model: PodGang,
    *,
    exhaustive: bool = True,
    report: Callable[[Bounded], None] = lambda known: None,
) -> Bounded:
    """The most copies of a gang beside all that is placed.

    A gang that waits is its own first copy; for one that runs, also in part, further copies are
    counted. Unless `exhaustive` no search is made. `report` is told of each better value and bound.
    """
    if model.base_gang and model.base_gang not in cluster.placed:
        return Bounded(0, 0)
    runs = any(group.running_count for group in model.groups)
    first = int(model.is_pending and not runs and model.name in cluster.placed)
    known = Bounded(first, None)
    for value, bound in _further_copies(cluster, changes.pending_copy(model, _SUFFIX), exhaustive):
        known = Bounded(value + first, bound + first)
        report(known)
    return known


def _further_copies(cluster: Cluster, copy: PodGang, exhaustive: bool) -> Iterator[Known]:
    """Values and bounds, each better than the last."""
    snapshot = replace(cluster.snapshot, gangs=(*cluster.snapshot.gangs, copy))
    problem = formulate(snapshot, cluster.policy, repeated=True)
    value = _placed_greedily(cluster, snapshot, problem)
    loosest = problem.loosest
    if loosest is None:
        yield Known(value, MOST_COPIES)
        return
    alike = loosest.gangs[problem.gangs[-1].index]
    bound = most_copies(Counting(Topology(loosest)), alike, MOST_COPIES)
    yield Known(value, max(value, bound))
    if not exhaustive or value >= bound or bound > _MOST_SEARCHED:
        return
    bound = max(value, min(bound, _master_bound(cluster, copy, bound)))
    yield Known(value, bound)
    last = not _are_spread(snapshot)
    for count in range(value + 1, bound + 1):
        if time.monotonic() + _SHORTEST >= cluster.deadline:
            return
        fits = _all_fit(cluster, _with_copies(cluster, copy, count))
        if fits is None:
            return
        if fits:
            value = count
            yield Known(value, bound)
        elif last:
            break
    yield Known(value, value)


def _are_spread(snapshot: Snapshot) -> bool:
    """Whether pods that wait are spread over domains: then one copy more may fit where fewer do
    not, and fewer where there is a further domain.
    """
    return any(
        one.template.spread_constraints
        for gang in snapshot.gangs
        for group in gang.groups
        for one in group.pod_sets
        if one.pods
    )


def _placed_greedily(cluster: Cluster, snapshot: Snapshot, problem: Problem) -> int:
    """How many copies fit, one after another, into what the plan leaves."""
    residual = ResidualCapacity(problem)
    residual.take_plan(as_plan(snapshot, problem, cluster.earlier))
    builder = Builder(problem)
    copy = problem.gangs[-1]
    count = 0
    while copy.placeable and count < MOST_COPIES and time.monotonic() < cluster.deadline:
        if builder.place(residual, copy) is None:
            break
        residual.queues.charge(copy, minimum_units(copy))
        count += 1
    return count


def _with_copies(cluster: Cluster, copy: PodGang, count: int) -> Snapshot:
    more = (changes.pending_copy(copy, f"-{number}") for number in range(count))
    return replace(cluster.snapshot, gangs=(*cluster.snapshot.gangs, *more))


def _master_bound(cluster: Cluster, copy: PodGang, count: int) -> int:
    """What the admission master says of at most so many copies."""
    loosest = formulate(_with_copies(cluster, copy, count), cluster.policy).loosest
    if loosest is None:
        return count
    there = len(cluster.snapshot.gangs)
    question = CopiesQuestion(loosest, frozenset(range(there, there + count)))
    found = cluster.solver.call(_COPIES, question, deadline=cluster.deadline)
    return count if found is None else cast("int", found)


def _all_fit(cluster: Cluster, snapshot: Snapshot) -> bool | None:
    """Whether copies, behind all other gangs, fit beside those that are placed; None: not known.

    Of a gang that runs in part, and has no pods that wait, nothing else is asked.
    """
    problem = formulate(snapshot, cluster.policy)
    there = len(cluster.snapshot.gangs)
    wanted = [
        g
        for g in problem.gangs
        if g.index >= there or snapshot.gangs[g.index].name in cluster.placed
    ]
    start = in_snapshot(snapshot, cluster.earlier)
    found, proven = _searched(problem, start, wanted, cluster.solver, cluster.deadline)
    if _places(problem, found, wanted):
        return True
    return False if proven else None


class _Searched(NamedTuple):
    """A plan, and whether it is proven that no plan admits more."""

    plan: Solution
    is_proven: bool


def _searched(
    problem: Problem,
    start: Sequence[Assignment],
    wanted: Sequence[Gang],
    solver: Solver,
    deadline: float,
) -> _Searched:
    """The best plan that a first answer, if it places the wanted gangs, or a search finds."""
    now = time.monotonic()
    until = now + _SHARE * (deadline - now)
    first = first_answer(problem, tuple(start), deadline=until, minimums_only=True)
    if _places(problem, first, wanted) or until - time.monotonic() < _SHORTEST:
        return _Searched(first, False)
    found = solver.search(problem, first, deadline=until)
    return _Searched(found, found.tiers[0].proven)


def _places(problem: Problem, solution: Solution, wanted: Sequence[Gang]) -> bool:
    plan = from_solution(problem, solution)
    return all(is_placed(gang, plan) for gang in wanted)


# --- domains that are missing -------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """The fewest domains to add so that all gangs are placed.

    `snapshot` is the cluster with them and `solution` a plan in it; None where no number was
    found to be enough.
    """

    domains: Bounded
    snapshot: Snapshot | None = None
    solution: Solution | None = None


class Domains:
    """Domains of a level that can be added to a snapshot. Raises KeyError for an unknown one."""

    def __init__(
        self, snapshot: Snapshot, level: str, like: str = "", levels: Sequence[str] = ()
    ) -> None:
        self.snapshot = snapshot
        self.level = level
        values = snapshot.columns.label(level)
        there = {value for value in values if value is not None}
        self.like = like or _largest(snapshot, values)
        if self.like not in there:
            raise KeyError(self.like)
        self._inner = finer(snapshot, level, levels_of(snapshot, (*levels, level)))

    def added(self, count: int, snapshot: Snapshot | None = None) -> Snapshot:
        """The snapshot (or another of the same nodes) with some domains added."""
        base = self.snapshot if snapshot is None else snapshot
        return changes.with_domains(base, self.level, self.like, count, self._inner)


def missing(
    domains: Domains,
    policy: Policy,
    *,
    solver: Solver,
    deadline: float,
    report: Callable[[Bounded], None] = lambda known: None,
) -> Missing:
    """The fewest domains, with the proven bound, of which `report` is told as it rises."""
    policy = for_fitting(policy)
    bound = _least(domains, policy, solver, deadline)
    if bound >= NEVER:
        return Missing(Bounded(None, None, impossible=True))
    count, most = bound, max(bound, _most_needed(domains.snapshot))
    report(Bounded(None, bound))
    while time.monotonic() + _SHORTEST < deadline:
        snapshot = domains.added(count)
        problem = formulate(snapshot, policy)
        found, proven = _searched(problem, (), problem.gangs, solver, deadline)
        if _places(problem, found, problem.gangs):
            return Missing(Bounded(count, bound), snapshot, found)
        if proven and count == most:
            sure = count == bound or not _are_spread(snapshot)
            return Missing(Bounded(None, None if sure else bound, impossible=sure))
        if proven and count == bound:
            bound += 1
            report(Bounded(None, bound))
        # Far from a proof, a value is worth more than every number in between.
        count = min(most, count + (1 if count < bound + 3 else max(1, count // 8)))
    return Missing(Bounded(None, bound))


def _most_needed(snapshot: Snapshot) -> int:
    """More domains never help: each pod is in one, and empty ones count only where a spread
    constraint asks for a number of domains.
    """
    missing = sum(group.missing for gang in snapshot.gangs for group in gang.groups)
    spread = (
        constraint.min_domains
        for gang in snapshot.gangs
        for group in gang.groups
        for pod_set in group.pod_sets
        for constraint in pod_set.template.spread_constraints
    )
    return max(missing, *spread, 0)


def _least(domains: Domains, policy: Policy, solver: Solver, deadline: float) -> int:
    """The least number that is needed; `NEVER` when no number is enough."""
    problem = formulate(domains.added(1), policy).loosest
    if problem is None:
        return 0
    if any(g.pending and not g.placeable for g in problem.gangs):
        return NEVER
    first = len(domains.snapshot.columns)
    least = AddedDomains(Counting(Topology(problem)), first).least()
    if not least or least >= NEVER:
        return least
    question = DomainsQuestion(problem, first)
    found = solver.call(_DOMAINS, question, deadline=deadline)
    return least if found is None else max(least, cast("int", found))


def _largest(snapshot: Snapshot, values: Sequence[str | None]) -> str:
    """The domain with the most to allocate, of equal ones the first by name; "" for none."""
    columns = snapshot.columns
    gpus = columns.allocatable.numbers(lambda r: sum(n for k, n in r.items() if "/" in k))
    cpus = columns.allocatable.numbers(lambda r: r.get("cpu", 0))
    names = sorted({value for value in values if value is not None})
    if not names:
        return ""
    number = {name: i for i, name in enumerate(names)}
    of = np.array([-1 if v is None else number[v] for v in values])
    sizes = [np.bincount(of[of >= 0], column[of >= 0], len(names)) for column in (gpus, cpus)]
    return names[max(range(len(names)), key=lambda i: (sizes[0][i], sizes[1][i], -i))]


# --- with 0, 1, 2, ... more -------------------------------------------------------------


class Row(NamedTuple):
    """The most copies of each gang with so many further domains."""

    domains: int
    copies: Sequence[Bounded]


def frontier(
    cluster: Cluster,
    domains: Domains,
    gangs: Sequence[PodGang],
    most: int,
    *,
    report: Callable[[Sequence[Row]], None] = lambda rows: None,
) -> list[Row]:
    """For each number of further domains the most copies of each gang, without the others.

    `report` is told the rows so far.
    """
    rows: list[Row] = []
    every = replace(cluster.snapshot, gangs=(*cluster.snapshot.gangs, *gangs))
    grows = not _are_spread(every)
    for count in range(most + 1):
        if count and time.monotonic() >= cluster.deadline:
            break
        wider = replace(cluster, snapshot=domains.added(count, cluster.snapshot))
        row = []
        for gang in gangs:
            if rows and time.monotonic() >= cluster.deadline:
                # A row is reported only when it is complete.
                return rows
            row.append(copies(wider, gang, exhaustive=False))
        rows.append(Row(count, row))
        if grows:
            _carry_over(rows)
        report(rows)
    _close_gaps(cluster, domains, gangs, rows, report, grows=grows)
    return rows


def _close_gaps(
    cluster: Cluster,
    domains: Domains,
    gangs: Sequence[PodGang],
    rows: list[Row],
    report: Callable[[Sequence[Row]], None],
    *,
    grows: bool,
) -> None:
    """Search where counting left a gap, as long as there is time, each for an equal part of it."""
    open_cells = [
        (i, j)
        for i, row in enumerate(rows)
        for j, amount in enumerate(row.copies)
        if amount.value != amount.bound
    ]
    for done, (i, j) in enumerate(open_cells):
        now = time.monotonic()
        until = now + (cluster.deadline - now) / (len(open_cells) - done)
        if until - now < _SHORTEST:
            return
        snapshot = domains.added(rows[i].domains, cluster.snapshot)
        found = copies(replace(cluster, snapshot=snapshot, deadline=until), gangs[j])
        row = list(rows[i].copies)
        row[j] = found
        rows[i] = Row(rows[i].domains, row)
        if grows:
            _carry_over(rows)
        report(rows)


def _carry_over(rows: list[Row]) -> None:
    """What fits with fewer domains fits with more."""
    for i in range(1, len(rows)):
        kept = [
            replace(more, value=max(more.value or 0, less.value or 0))
            for less, more in zip(rows[i - 1].copies, rows[i].copies, strict=True)
        ]
        rows[i] = Row(rows[i].domains, kept)
