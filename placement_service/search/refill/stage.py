"""Fewer domains where many pods share nodes: gangs fill domain after domain, all together.

The same pods stay placed. All domains are filled anew, then some at a time, mostly those that share
a gang.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from placement_service.bounds.ways_to_count import ways_to_count
from placement_service.entities.solution import TierName
from placement_service.formulation.indices import ClassIdx, GangIdx, LevelIdx
from placement_service.formulation.plan import Plan, units_of
from placement_service.formulation.problem import Gang
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN, sets
from placement_service.heuristic.one_gang.regions import Region
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.incumbent import State
from placement_service.search.master_stage import shared
from placement_service.search.refill.domain_filling import (
    Content,
    Counted,
    DomainFilling,
    Part,
    domains_of,
)

#: The share of steps to one more domain that lead to all domains of a gang that is split.
GUIDED = 0.7

#: The time that a plan takes, as a multiple of finding out what is held where.
WRITING = 10.0


def refill_domains(state: State) -> None:
    """A better plan, where whole gangs are found that use up domains; it gives no bounds."""
    p = state.parameters
    if state.proven or not state.packs or state.left <= p.least_seconds:
        return
    if shared(state.problem) < p.shared_nodes:
        return
    level, gangs = _movable(state)
    if gangs:
        state.phase = "refill"
        _Refill(state, level, gangs).run()
        state.refilled = True


def _movable(state: State) -> tuple[LevelIdx, dict[GangIdx, Gang]]:
    """The level of which most gangs of the plan prefer one domain, and these gangs: those of which
    that is all that is said of where they lie.
    """
    problem = state.problem
    in_sets = {g.index for members in sets(problem).values() for g in members}
    found: defaultdict[LevelIdx, dict[GangIdx, Gang]] = defaultdict(dict)
    for i, units in state.plan.items():
        gang = problem.gangs[i]
        if i in in_sets or gang.home or len(gang.scopes) != 1:
            continue
        (scope,) = gang.scopes
        if (
            scope.preferred >= 0
            and scope.required < 0
            and not scope.running
            and len(scope.demands) == len(gang.demands)
            and not any(problem.special[d.pod_class] for d in gang.demands)
            and all(problem.levels[scope.preferred].domain[n] >= 0 for _, n, _ in units)
        ):
            found[scope.preferred][i] = gang
    return max(found.items(), key=lambda one: len(one[1]), default=(LevelIdx(-1), {}))


class _Refill:
    """What each domain holds of the gangs that may be moved (`_held`); all else stays."""

    def __init__(self, state: State, level: LevelIdx, gangs: Mapping[GangIdx, Gang]) -> None:
        begin = time.monotonic()
        self.state, self.problem = state, state.problem
        self._level, self._gangs = level, gangs
        self._domain = state.problem.levels[level].domain
        self._fixed: Plan = {i: units for i, units in state.plan.items() if i not in gangs}
        count = state.problem.levels[level].count
        self._held: dict[int, Content] = {d: Counter() for d in range(count)}
        for i in gangs:
            for demand, node, n in state.plan[i]:
                self._held[int(self._domain[node])][Part(i, demand)] += n
        seed = state.parameters.seed
        self._filling = DomainFilling(self._counted(), _together(self._held), seed=seed)
        self._random = random.Random(seed)
        #: The seconds that a plan takes.
        self._writing = WRITING * (time.monotonic() - begin)

    def run(self) -> None:
        """All domains anew, where that was not done before, and then some at a time."""
        if self._filling.usable and (self.state.refilled or self._fill_all()):
            self._fill_some()

    def _counted(self) -> Counted:
        """What units count, and what domains have beside all that stays."""
        residual = ResidualCapacity(self.problem)
        residual.take_plan(self._fixed)
        free, gangs = np.array(residual.free), tuple(self._gangs.values())
        ways = ways_to_count(
            replace(self.problem, free=free, gangs=gangs), self.state.parameters.counting
        )
        inside = self._domain >= 0
        room = np.zeros((len(self._held), len(ways.units)), dtype=np.int64)
        np.add.at(room, self._domain[inside], ways.room[:, inside].T)
        units = {
            Part(i, d): ways.units[:, demand.pod_class]
            for i, gang in self._gangs.items()
            for d, demand in enumerate(gang.demands)
        }
        return Counted(units, room)

    def _fill_all(self) -> bool:
        """Fills all domains anew a few times; false where nodes do not hold what counts say."""
        content, domains = _together(self._held), sorted(self._held)
        found = self._held
        for _ in range(self.state.parameters.refill_attempts):
            other = self._filling.fill(domains, content, until=self._is_over)
            if other is not None and domains_of(other) < domains_of(found):
                found = other
        return found is self._held or self._take(found)

    def _is_over(self) -> bool:
        """Whether there is only time for a plan left."""
        return self.state.left <= self._writing

    def _fill_some(self) -> None:
        """Fills some domains again at a time, as long as that helps."""
        p, state = self.state.parameters, self.state
        until = state.left - state.at_most(state.left * p.refill_share)
        now, in_vain = dict(self._held), 0
        to_save = self._most_to_save()
        while to_save > 0 and in_vain < p.refill_in_vain and state.left > max(until, self._writing):
            before = {d: now[d] for d in self._some(now)}
            found = self._filling.fill(sorted(before), _together(before), until=self._is_over)
            gain = -1 if found is None else domains_of(before) - domains_of(found)
            in_vain = 0 if gain > 0 else in_vain + 1
            if found is not None and gain >= 0:
                # Where it costs the same, other gangs lie together.
                now.update(found)
                to_save -= gain
        if domains_of(now) < domains_of(self._held):
            self._take(now)

    def _most_to_save(self) -> int:
        """How many domains no bound says are needed."""
        state = self.state
        both = zip(state.goals, state.worth.values, state.bounds, strict=True)
        return sum(
            (value - bound) // UNITS_PER_DOMAIN
            for goal, value, bound in both
            if goal.tier is TierName.TOPOLOGY
        )

    def _some(self, held: Mapping[int, Content]) -> set[int]:
        """A few domains, mostly such as share a gang."""
        of_gang: defaultdict[GangIdx, set[int]] = defaultdict(set)
        for d, content in held.items():
            for part in content:
                of_gang[part.gang].add(d)
        split = [domains for domains in of_gang.values() if len(domains) > 1]
        count = min(len(held), self._random.randint(*self.state.parameters.refill_domains))
        chosen: set[int] = set()
        while len(chosen) < count:
            if split and self._random.random() < GUIDED:
                chosen |= self._random.choice(split)
            else:
                chosen.add(self._random.randrange(len(held)))
        return chosen

    def _take(self, held: dict[int, Content]) -> bool:
        """Takes the plan in which domains hold this, the largest pods first; false where nodes do
        not hold it, or it is no better.
        """
        begin = time.monotonic()
        problem, topology = self.problem, self.state.builder.topology
        residual = ResidualCapacity(problem)
        residual.take_plan(self._fixed)
        spots: defaultdict[GangIdx, Counter[tuple[int, int]]] = defaultdict(Counter)
        inside = partial(topology.inside, self._level)

        def pod_class(part: Part) -> ClassIdx:
            return self._gangs[part.gang].demands[part.demand].pod_class

        def size(part: Part) -> tuple[int, ...]:
            mine = pod_class(part)
            return int(problem.gpus[mine]), *problem.request[mine].tolist()

        parts = [(size(p), p, d, n) for d, content in held.items() for p, n in content.items()]
        for _, part, domain, n in sorted(parts, reverse=True):
            region = Region(inside(domain), self._level, domain)
            chosen = topology.choice.best(residual, pod_class(part), region, n)
            if chosen.counts.sum() < n:
                return False
            residual.take(pod_class(part), chosen.nodes, chosen.counts)
            for node, count in zip(chosen.nodes.tolist(), chosen.counts.tolist(), strict=True):
                spots[part.gang][part.demand, node] += count
        self._held = held
        units = {i: units_of(mine) for i, mine in spots.items()}
        better = self.state.accept({**self._fixed, **units})
        self._writing = 2 * (time.monotonic() - begin)
        return better


def _together(held: Mapping[int, Content]) -> Content:
    """What some domains hold together."""
    found: Content = Counter()
    for content in held.values():
        found.update(content)
    return found
