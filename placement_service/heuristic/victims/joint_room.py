"""Room for several gangs at once, where running gangs may move.

Placing one gang after another does not find it: each takes free nodes and cheap domains that others
need more. So domains are chosen for all gangs together whose pods take slots of one kind, nodes
that no pod shares with another of its class (`joint_domains`), by exact costs (`cleared_slots`).
Then the nodes of all of them are cleared at once, and who has left finds another place.

Costs of domains are of each by itself. Where a gang would give up more than it can spare in several
of them together, some of these have to do without, and where one finds no other place, it stays;
then domains are chosen again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.entities.deadline import OutOfTime, check_time
from placement_service.formulation.arrays import Ints, fit
from placement_service.formulation.indices import ClassIdx, GangIdx
from placement_service.formulation.plan import Plan, Units, home_plan
from placement_service.formulation.problem import Demand, Gang, Problem
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims.cleared_slots import ClearedSlots
from placement_service.heuristic.victims.joint_domains import Claim, JointDomains
from placement_service.heuristic.victims.plan import VictimPlan
from placement_service.heuristic.victims.prices import A_POD, slots_lacking

#: How often domains are chosen again.
MOST_TRIES = 8


class _Question(NamedTuple):
    """Gangs that wait for slots of a pod class: in one domain of a narrow level, of a broad one
    (-1 where no gang asks for it), and anywhere.
    """

    pod_class: ClassIdx
    narrow: int
    broad: int
    gangs: Mapping[GangIdx, Gang]
    claims: Sequence[Claim]
    anywhere: int


def joint_room(builder: Builder, *, until: float) -> Plan | None:
    """A plan with room for all waiting gangs of one kind, where several need one domain each; None
    where there are no such gangs, or none was found in time.
    """
    question = _question(builder.problem)
    if question is None:
        return None
    try:
        return _Search(builder, question, until).plan()
    except OutOfTime:
        return None


def _question(problem: Problem) -> _Question | None:
    """The gangs that ask for most slots of one kind."""
    kinds: defaultdict[ClassIdx, dict[GangIdx, int]] = defaultdict(dict)
    for gang in problem.pending:
        classes, level = {d.pod_class for d in gang.demands}, _level(gang)
        begun = gang.runs or gang.base >= 0 or not gang.placeable
        if not begun and level is not None and len(classes) == 1:
            kinds[classes.pop()][gang.index] = level
    sizes = {g.index: sum(q.missing for q in g.requirements) for g in problem.pending}
    large = [s for s in kinds if _is_large(problem, s)]
    if not large:
        return None
    pod_class = max(large, key=lambda s: (sum(sizes[g] for g in kinds[s]), -s))
    level_of = kinds[pod_class]
    asked = {level for level in level_of.values() if level >= 0}
    levels_asked = sorted(asked, key=lambda i: problem.levels[i].count)
    claiming = sum(level >= 0 for level in level_of.values())
    if claiming < 2 or len(levels_asked) > 2:
        return None
    narrow, broad = levels_asked[-1], levels_asked[0] if len(asked) == 2 else -1
    claims = [Claim(g, sizes[g], lv == broad) for g, lv in level_of.items() if lv >= 0]
    anywhere = sum(sizes[g] for g, lv in level_of.items() if lv < 0)
    gangs = {g: problem.gangs[g] for g in level_of}
    return _Question(pod_class, narrow, broad, gangs, claims, anywhere)


def _level(gang: Gang) -> int | None:
    """The level of which all of a gang requires one domain, -1 for none; None where its pods
    require several.
    """
    required = [scope for scope in gang.scopes if scope.required >= 0]
    levels = {scope.required for scope in required}
    whole = all(len(scope.demands) == len(gang.demands) for scope in required)
    return max(levels, default=-1) if whole and len(levels) < 2 else None


def _is_large(problem: Problem, pod_class: ClassIdx) -> bool:
    """Whether no node has room for two units, even when all that moves has gone."""
    fits = fit(problem.free, problem.request[pod_class])
    return not bool((problem.eligible[pod_class] & (fits > 1)).any())


class _Search:
    """Chooses domains until all that leave them find another place."""

    def __init__(self, builder: Builder, question: _Question, until: float) -> None:
        self._builder, self._problem = builder, builder.problem
        self._until = until
        self._question = question
        self._standing = VictimPlan(builder, home_plan(builder.problem))
        self._domain = self._problem.levels[question.narrow].domain
        self._price = self._last_price()
        #: Running gangs that move to other domains, with what they need there.
        self._movers: dict[GangIdx, Claim] = {}
        self._slots = ClearedSlots(
            self._standing, question.pod_class, self._domain, max(self._price, 1.0)
        )

    def _last_price(self) -> float:
        """What the last of the slots costs that are needed, in pods."""
        wanted = self._question.anywhere + sum(c.slots for c in self._question.claims)
        needed = Demand(self._question.pod_class, wanted, ())
        gang = next(iter(self._question.gangs.values()))
        residual = self._standing.residual
        lacking = slots_lacking(residual, needed, self._question.gangs.values())
        prices = self._standing.prices.of_nodes(residual, gang, needed, -1)
        return prices.last_of(lacking) / A_POD if lacking > 0 else 0.0

    def plan(self) -> Plan | None:
        """The plan that moves fewest pods, as far as this finds it."""
        parents = self._parents()
        if parents is None:
            return None
        for _ in range(MOST_TRIES):
            choice = self._choose(parents)
            if choice is None:
                return None
            nodes, domains = choice
            if self._moves_others(nodes) or self._shares(nodes):
                continue
            plan, stuck = self._cleared(nodes, domains)
            if not stuck:
                return plan
            self._stay(stuck)
        return None

    def _parents(self) -> Ints | None:
        """The broad domain of each narrow one; None where some are in several, or none is."""
        count = self._problem.levels[self._question.narrow].count
        if not count:
            return None
        if self._question.broad < 0:
            return np.arange(count)
        around = self._problem.levels[self._question.broad].domain
        # Those that are in none are alone.
        parents = np.arange(count) + self._problem.levels[self._question.broad].count
        inside = (self._domain >= 0) & (around >= 0)
        parents[self._domain[inside]] = around[inside]
        nested = parents[self._domain[inside]] == around[inside]
        return parents if bool(nested.all()) else None

    def _choose(self, parents: Ints) -> tuple[list[int], Mapping[GangIdx, int]] | None:
        """The nodes to clear, and the domain of each gang."""
        question = self._question
        costs = []
        for domain in range(self._problem.levels[question.narrow].count):
            check_time(self._until)
            costs.append([one.cost for one in self._slots.of(domain)])
        claims = [*question.claims, *self._movers.values()]
        claimed = sum(claim.slots for claim in claims)
        most = claimed + 2 * question.anywhere
        joint = JointDomains(costs, parents, self._price, most)
        domains = joint.choose(claims, until=self._until)
        left = question.anywhere
        while domains is not None:
            given = joint.slots(left)
            if given is None:
                return None
            nodes = [n for d, count in given.items() for n in self._slots.of(d)[count].nodes]
            # Pods that move may need slots, too.
            lacking = claimed + question.anywhere + self._again(nodes) - len(nodes)
            if lacking <= 0:
                return nodes, domains
            left += lacking
        return None

    def _moves_others(self, nodes: Sequence[int]) -> bool:
        """Has running gangs claim slots that would have to be together elsewhere; returns whether
        there are any.
        """
        lost = self._slots.lost(nodes)
        # The room of some is not needed after all.
        self._stay([index for index in self._movers if index not in lost])
        found = False
        for index, counts in lost.items():
            gang = self._problem.gangs[index]
            if (
                index not in self._movers
                and self._goes_whole(index, counts)
                and self._slots.is_bound(gang)
            ):
                found = True
                self._move(gang)
        return found

    def _move(self, gang: Gang) -> None:
        """Has a running gang claim slots elsewhere; where they cannot be told, it stays."""
        level = _level(gang)
        alike = all(self._slots.takes[demand.pod_class] == 1 for demand in gang.demands)
        if alike and level in (self._question.narrow, self._question.broad):
            slots = sum(home.units for home in gang.home)
            self._movers[gang.index] = Claim(gang.index, slots, level == self._question.broad)
            self._slots.leave(gang.index)
        else:
            self._stay([gang.index])

    def _stay(self, gangs: Iterable[GangIdx]) -> None:
        for index in gangs:
            self._movers.pop(index, None)
            self._slots.keep(index)

    def _goes_whole(self, index: GangIdx, lost: Sequence[int]) -> bool:
        return any(n > most for n, most in zip(lost, self._slots.spare(index), strict=True))

    def _again(self, nodes: Sequence[int]) -> int:
        """Slots that pods need which leave some nodes."""
        needed, inside = 0, set(nodes)
        for index, lost in self._slots.lost(nodes).items():
            gang, whole = self._problem.gangs[index], self._goes_whole(index, lost)
            if index in self._movers:
                continue
            for home in gang.home:
                if whole or home.node in inside:
                    takes = int(self._slots.takes[gang.demands[home.demand].pod_class])
                    needed += home.units * takes
        return needed

    def _shares(self, nodes: Sequence[int]) -> bool:
        """Divides what gangs can spare among domains that use too much of it together; returns
        whether there are any.
        """
        inside: defaultdict[int, list[int]] = defaultdict(list)
        for n in nodes:
            inside[int(self._domain[n])].append(n)
        lost = {d: self._slots.lost(mine) for d, mine in inside.items()}
        together: Counter[tuple[GangIdx, int]] = Counter()
        for mine in lost.values():
            for index, counts in mine.items():
                if not self._goes_whole(index, counts):
                    together.update({(index, q): count for q, count in enumerate(counts)})
        over = {i for (i, q), count in together.items() if count > self._slots.spare(i)[q]}
        for index in sorted(over):
            left = list(self._slots.spare(index))
            for d in sorted(d for d in lost if index in lost[d]):
                counts = lost[d][index]
                if self._goes_whole(index, counts):
                    continue
                self._slots.limit(d, index, tuple(left))
                if all(count <= most for count, most in zip(counts, left, strict=True)):
                    left = [most - count for count, most in zip(counts, left, strict=True)]
        return bool(over)

    def _cleared(
        self, nodes: Sequence[int], domains: Mapping[GangIdx, int]
    ) -> tuple[Plan, set[GangIdx]]:
        """The plan with gangs on nodes that are cleared; and those that find no other place."""
        residual = self._standing.residual
        mark, queues = residual.mark(), residual.queues.left
        try:
            return self._placed(nodes, domains)
        finally:
            residual.undo(mark)
            residual.queues.left = queues

    def _placed(
        self, nodes: Sequence[int], domains: Mapping[GangIdx, int]
    ) -> tuple[Plan, set[GangIdx]]:
        problem, builder, question = self._problem, self._builder, self._question
        residual, plan = self._standing.residual, dict(self._standing.plan)
        goers = self._release(plan, set(nodes))
        cleared = np.zeros(problem.node_count, dtype=np.bool_)
        cleared[list(nodes)] = True
        broad = {claim.gang: claim.broad for claim in (*question.claims, *self._movers.values())}
        # Those of narrow domains first, those without any last.
        for gang in sorted(
            (*question.gangs.values(), *(problem.gangs[g] for g in self._movers)),
            key=lambda g: (g.index not in domains, broad.get(g.index, False), g.index),
        ):
            within = cleared
            if gang.index in domains:
                level = question.broad if broad[gang.index] else question.narrow
                within = cleared & (problem.levels[level].domain == domains[gang.index])
            units = builder.place(residual, gang, within=np.flatnonzero(within))
            if units is not None:
                plan[gang.index] = units
                residual.queues.charge(gang, units)
                cleared[[unit.node for unit in units]] = False
        builder.put_back_home(residual, plan, self._standing.dearest(goers))
        stuck = set()
        gangs = problem.gangs
        for index in sorted(goers, key=lambda i: (-len(gangs[i].scopes), -gangs[i].value, i)):
            is_home = plan.get(index, ()) == gangs[index].home
            if not is_home and not builder.move(residual, plan, gangs[index]):
                stuck.add(index)
        return plan, stuck

    def _release(self, plan: dict[GangIdx, Units], nodes: set[int]) -> list[GangIdx]:
        """Takes gangs away from nodes; returns which."""
        standing, lost = self._standing, self._slots.lost(nodes)
        for index, counts in lost.items():
            before = plan[index]
            stays = () if self._goes_whole(index, counts) else before
            stays = tuple(unit for unit in stays if unit.node not in nodes)
            standing.release(index, before, stays)
            standing.residual.queues.charge(self._problem.gangs[index], before, -1)
            standing.residual.queues.charge(self._problem.gangs[index], stays)
            plan[index] = stays
            if not stays:
                del plan[index]
        return list(lost)
