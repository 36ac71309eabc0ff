"""One gang that waits alone: the best plan, proven by counting.

A scheduler that places gang after gang asks this. Where no other gang can gain or lose anything, a
gang is placed best when it is placed whole, with all extras, in one domain of each of its levels:
no plan can be better. If no domain has room for its minimum, counting only its pods of one class,
the gang waits. Cases in between, rules between pods, and levels of parts are left to the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from placement_service.entities.solution import Solution, TierName
from placement_service.formulation.arrays import Bools, Ints, pods_that_fit
from placement_service.formulation.indices import NO_DOMAIN, NO_LEVEL, DomainIdx, LevelIdx
from placement_service.formulation.objective import (
    report_plan,
    trivial_bounds,
    worth,
    worth_at_home,
)
from placement_service.formulation.plan import Plan, Units, assignments, units_of
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.fragmentation import Fragmentation

#: Domains that are filled to find the one that loses the fewest free nodes.
MOST_TRIED = 12

#: Tiers in which the plan that places nothing has the least value.
_GAINED = frozenset({TierName.ADMITTED, TierName.WAITING, TierName.EXTRA})


def settle(problem: Problem) -> Solution | None:
    """The best plan with its proof; None where counting is not enough."""
    gang = _lone(problem)
    levels = None if gang is None else _levels(gang)
    if gang is None or levels is None:
        return None
    fits = np.stack([_fit(problem, gang, d) for d in range(len(gang.demands))])
    asked = np.array([demand.count for demand in gang.demands])
    domains = _domains(problem, levels)
    room = domains.rooms(fits)
    holds_all: Bools = np.all(room >= asked[:, None], axis=0)
    units = _best(problem, gang, domains, holds_all, fits, asked)
    if units is not None:
        return _solution(problem, {gang.index: units})
    # Preferred levels never keep a gang out.
    required = tuple(level for level in levels if level.required)
    if len(required) < len(levels):
        domains = _domains(problem, required)
        room = domains.rooms(fits)
    most = int(room[0].max(initial=0))
    if len(gang.demands) == 1 and gang.missing <= most < asked[0] and required == levels:
        # As many extras as the roomiest domain takes.
        asked = np.minimum(asked, most)
        units = _best(problem, gang, domains, np.equal(room[0], most), fits, asked)
        return None if units is None else _solution(problem, {gang.index: units}, least=True)
    if not _may_hold_minimum(gang, room).any():
        return _solution(problem, {}, least=True)
    return None


def _lone(problem: Problem) -> Gang | None:
    """The only gang that may get pods, if no rule joins its pods to others or it to other gangs."""
    if problem.rules or not problem.exact or len(problem.pending) != 1:
        return None
    (gang,) = problem.pending
    others = (g for g in problem.gangs if g is not gang)
    if any(g.home or (g.placeable and g.extras) for g in others):
        return None
    joined = gang.base >= 0 or gang.queue_rows or gang.home or gang.runs_in_part
    return None if joined or any(problem.special[d.pod_class] for d in gang.demands) else gang


@dataclass(frozen=True, eq=False)  # no slots: cached_property keeps its value in the instance
class _Domains:
    """Each node's domain [N] of `count`, -1 for nodes that no pod of the gang may use.

    A domain is one of each level that all of the gang should share.
    """

    number: Ints
    count: int

    @cached_property
    def _place(self) -> Ints:
        """As `number`, with a last place for all other nodes."""
        return np.where(self.number < 0, self.count, self.number)

    def room(self, fits: Ints) -> Ints:
        """The sum of what fits on the nodes of each domain."""
        sums = np.bincount(self._place, fits, minlength=self.count + 1)
        return sums[:-1].astype(np.int64)

    def largest(self, fits: Ints) -> Ints:
        """The most that fits on one node of each domain."""
        most = np.zeros(self.count + 1, dtype=np.int64)
        np.maximum.at(most, self._place, fits)
        return most[:-1]

    def rooms(self, fits: Ints) -> Ints:
        """The same for each demand, of fits[D, N]."""
        return np.stack([self.room(row) for row in fits])


class _Shared(NamedTuple):
    """A level of which all of a gang should share a domain, `pin` if that is not -1."""

    level: LevelIdx
    required: bool
    pin: DomainIdx


def _levels(gang: Gang) -> tuple[_Shared, ...] | None:
    """The levels that all of a gang should share; None where parts have others of their own."""
    found: dict[LevelIdx, _Shared] = {}
    everything = frozenset(range(len(gang.demands)))
    scopes = sorted(gang.scopes, key=lambda scope: len(scope.demands), reverse=True)
    for required in (True, False):
        for scope in scopes:
            level = scope.required if required else scope.preferred
            if level == NO_LEVEL:
                continue
            whole = frozenset(scope.demands) == everything
            if scope.running or (not whole and (scope.pin >= 0 or level not in found)):
                return None
            if whole and level not in found:
                found[level] = _Shared(level, required, scope.pin if required else NO_DOMAIN)
    return tuple(found.values())


def _domains(problem: Problem, levels: Iterable[_Shared]) -> _Domains:
    """Domains of which each is one of every level."""
    number, count = np.zeros(problem.node_count, dtype=np.int64), 1
    for k, shared in enumerate(levels):
        level = problem.levels[shared.level]
        domain = level.domain if shared.required else level.place_of
        if shared.pin >= 0:
            domain = np.where(domain == shared.pin, domain, -1)
        if k == 0 and shared.required:
            number, count = domain, level.count
            continue
        both = number * (2 * problem.node_count) + domain
        # Numbered anew, so that they stay small.
        found, place = np.unique(
            np.where((number >= 0) & (domain >= 0), both, -1), return_inverse=True
        )
        outside = int(len(found) > 0 and found[0] < 0)
        number, count = place - outside, len(found) - outside
    return _Domains(number, count)


def _fit(problem: Problem, gang: Gang, demand: int) -> Ints:
    """How many units of a demand each node takes [N]."""
    pod_class = gang.demands[demand].pod_class
    fits = pods_that_fit(problem.free, problem.request[pod_class])
    return np.where(problem.eligible[pod_class], fits, 0)


def _may_hold_minimum(gang: Gang, room: Ints) -> Bools:
    """Which domains have room for each class of pods by itself; others cannot hold the gang."""
    may = np.ones(room.shape[1], dtype=bool)
    for requirement in gang.requirements:
        own = list(requirement.demands)
        may &= room[own].sum(axis=0) >= requirement.missing
        if len(own) == 1 or requirement.missing < requirement.pending:
            continue
        counts = np.array([gang.demands[d].count for d in own])
        may &= (room[own] >= counts[:, None]).all(axis=0)
    return may


def _best(
    problem: Problem, gang: Gang, domains: _Domains, usable: Bools, fits: Ints, asked: Ints
) -> Units | None:
    """These units of each demand in the tried domain that loses the fewest free nodes."""
    best: tuple[int, Units] | None = None
    fragmentation = Fragmentation(problem)
    # The order is exact for one class of pods, except for levels that the gang does not name.
    exact = len(gang.demands) == 1 and len(problem.scope_levels) <= 1
    most = 1 if exact else MOST_TRIED
    for domain in islice(_in_order(problem, gang, domains, usable, fits, asked), most):
        units = _filled(problem, gang, np.flatnonzero(domains.number == domain), asked)
        if units is not None and exact:
            return units
        if units is not None:
            lost = fragmentation.value({gang.index: units})
            if best is None or lost < best[0]:
                best = lost, units
    return None if best is None else best[1]


def _in_order(
    problem: Problem, gang: Gang, domains: _Domains, usable: Bools, every: Ints, asked: Ints
) -> Iterator[int]:
    """Usable domains: those that lose the fewest free nodes to one class of pods, then the
    tightest.
    """
    largest = _largest_first(problem, gang)[0]
    fits = every[largest]
    count, pod_class = int(asked[largest]), gang.demands[largest].pod_class
    if problem.gpus[pod_class]:
        free = problem.whole_free
        used_first = domains.room(np.where(free, 0, fits))
        most = domains.largest(np.where(free, fits, 0))
        left = np.maximum(0, count - used_first)
        cost = -(-left // np.maximum(1, most))
        size = domains.room((problem.node_gpus > 0).astype(np.int64))
        whole = domains.room((free & (problem.node_gpus > 0)).astype(np.int64))
        cost += np.where((size > 0) & (whole == size), size, 0)
    else:
        plain = domains.room(np.where(problem.node_gpus > 0, 0, fits))
        cost = np.maximum(0, count - plain)
    order = np.lexsort((domains.room(fits), cost))
    return iter(order[usable[order]].tolist())


def _largest_first(problem: Problem, gang: Gang) -> list[int]:
    """The demands of a gang, those that are hardest to place first."""
    demands = range(len(gang.demands))
    if len(demands) == 1:
        return [0]
    most = np.maximum(1, problem.free.max(axis=0, initial=1))

    def size(d: int) -> tuple[int, float]:
        pod_class = gang.demands[d].pod_class
        share = (problem.request[pod_class] / most).max(initial=0)
        return int(problem.gpus[pod_class]), float(share)

    return sorted(demands, key=size, reverse=True)


def _filled(problem: Problem, gang: Gang, nodes: Ints, asked: Ints) -> Units | None:
    """These units of each demand on some nodes, the largest first; None if they do not fit."""
    free, whole = problem.free[nodes].copy(), problem.whole_free[nodes].copy()
    with_gpus = problem.node_gpus[nodes] > 0
    found: dict[tuple[int, int], int] = {}
    for d in _largest_first(problem, gang):
        pod_class, left = gang.demands[d].pod_class, int(asked[d])
        request = problem.request[pod_class]
        fits = np.where(problem.eligible[pod_class, nodes], pods_that_fit(free, request), 0)
        # Nodes in use first, the fullest of them first; then as few others as possible.
        last = whole if problem.gpus[pod_class] else with_gpus
        order = np.lexsort((np.where(last, -fits, fits), last))
        order = order[fits[order] > 0]
        before = np.cumsum(fits[order]) - fits[order]
        take = np.minimum(fits[order], left - before)
        order, take = order[take > 0], take[take > 0]
        if int(take.sum()) < left:
            return None
        if len(order) and last[order[-1]]:
            # The last node need not be the largest.
            rest = [n for n in np.flatnonzero(last & (fits >= take[-1])) if n not in order[:-1]]
            order[-1] = min(rest, key=lambda n: (fits[n], n))
        free[order] -= take[:, None] * request
        if problem.gpus[pod_class]:
            whole[order] = False
        found.update({(d, int(nodes[n])): int(k) for n, k in zip(order, take, strict=True)})
    return units_of(found)


def _solution(problem: Problem, plan: Plan, *, least: bool = False) -> Solution | None:
    """The plan if it is proven to be the best. With `least`, no plan gains more than it."""
    mine = worth(problem, plan)
    trivial = trivial_bounds(mine.goals)
    bounds = tuple(
        value if least and goal.tier in _GAINED else bound
        for goal, value, bound in zip(mine.goals, mine.values, trivial, strict=True)
    )
    home = worth_at_home(problem, mine.goals)
    solution = report_plan(
        problem,
        mine,
        bounds,
        home=home,
        phase="counted",
        fewest={},
        best={},
        assigned=assignments(problem, plan),
        mends=problem.mends,
    )
    return replace(solution, final=True) if solution.proven else None
