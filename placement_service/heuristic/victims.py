"""Making room for gangs that wait: which running gangs give way, domain by domain.

For each gang that waits, the most important first: in each domain that could hold it, take
victims one after another, the cheapest for the room that they leave there first, until the
gang fits; then give back every victim whose room is not needed after all. The domain whose
victims cost least wins. Extras of a gang are asked before the whole gang.

Who may use whose room needs no thought here: room that a gang may not use does not fit it
(see `formulation.running_gangs`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.disruption_budgets import budgets_hold
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity

#: Domains tried for one gang, those with most room first.
MOST_DOMAINS = 24


class Victim(NamedTuple):
    """A gang that gives way with some of its pods: `keeps` is what stays, `pods` go."""

    gang: int
    keeps: Units
    pods: int
    is_whole: bool


class Cost(NamedTuple):
    """What victims cost, in the order of the tiers: value by priority, extras, pods."""

    value: tuple[tuple[int, int], ...]
    extras: int
    pods: int


def make_room(builder: Builder, plan: Plan, *, until: float) -> Plan:
    """The plan with gangs that wait placed in the room of victims, as far as time allows."""
    best: Plan = plan
    waiting = [g for g in builder.problem.pending if not g.home and g.index not in best]
    for gang in sorted(waiting, key=lambda g: (-g.priority, g.index)):
        if time.monotonic() > until:
            break
        found = _Search(builder, best, gang, until).run()
        if found is not None:
            best = found
    return best


class _Search:
    """Room for one gang."""

    def __init__(self, builder: Builder, plan: Plan, gang: Gang, until: float) -> None:
        self.builder = builder
        self.problem: Problem = builder.problem
        self.plan = plan
        self.gang = gang
        self._until = until

    def run(self) -> Plan | None:
        """The best plan with the gang, None where no victims are enough."""
        best: tuple[Cost, Plan] | None = None
        for nodes in self._domains():
            if time.monotonic() > self._until:
                break
            found = self._within(nodes)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        return None if best is None else best[1]

    def _domains(self) -> Iterator[Ints | None]:
        """Nodes of the domains that may hold the whole gang; None for everywhere."""
        whole = [
            s.required
            for s in self.gang.scopes
            if s.required >= 0 and len(s.demands) == len(self.gang.demands)
        ]
        if not whole:
            yield None
            return
        level = max(whole, key=lambda i: self.problem.levels[i].count)
        needed = max(self.gang.demands, key=lambda d: d.count)
        room = ResidualCapacity(self.problem).slots(needed.pod_class, level)
        for domain in np.argsort(-room, kind="stable")[:MOST_DOMAINS].tolist():
            if room[domain] >= needed.count:
                yield self.builder.topology.inside(level, domain)

    def _within(self, nodes: Ints | None) -> tuple[Cost, Plan] | None:
        victims = self._victims(nodes)
        if not self._fits(victims, nodes):
            return None
        few, many = 0, len(victims)
        while few < many:
            middle = (few + many) // 2
            if self._fits(victims[:middle], nodes):
                many = middle
            else:
                few = middle + 1
        taken = victims[:few]
        plan = self._placed(taken, nodes)
        if plan is None:
            return None
        plan = self.builder.put_back_home(plan, [v.gang for v in reversed(taken)])
        return (self._cost(plan), plan) if budgets_hold(self.problem, plan) else None

    def _victims(self, nodes: Ints | None) -> list[Victim]:
        """All that could give way inside the nodes, the cheapest room first."""
        inside = np.ones(self.problem.node_count, dtype=bool)
        if nodes is not None:
            inside[:] = False
            inside[nodes] = True
        ranked: list[tuple[tuple[float, ...], Victim]] = []
        for index, units in self.plan.items():
            gang = self.problem.gangs[index]
            here = sum(c for _, n, c in units if inside[n])
            if not gang.home or not here:
                continue
            extras = _without_extras(gang, units, inside)
            if extras is not None:
                ranked.append(((0.0, 1.0, float(index)), extras))
            if gang.priority > self.gang.priority:
                continue
            pods = _count(units)
            whole = Victim(index, (), pods, True)
            ranked.append(((1.0 + _rank(self.problem, gang), pods / here, float(index)), whole))
        return [victim for _, victim in sorted(ranked, key=lambda r: r[0])]

    def _fits(self, victims: Sequence[Victim], nodes: Ints | None) -> bool:
        return self._placed(victims, nodes) is not None

    def _placed(self, victims: Sequence[Victim], nodes: Ints | None) -> Plan | None:
        plan = dict(self.plan)
        for victim in victims:
            if victim.keeps:
                plan[victim.gang] = victim.keeps
            else:
                plan.pop(victim.gang, None)
        residual = ResidualCapacity(self.problem)
        residual.take_plan(plan)
        units = self.builder.place(residual, self.gang, within=nodes)
        if units is None:
            return None
        plan[self.gang.index] = units
        return plan

    def _cost(self, plan: Plan) -> Cost:
        value: dict[int, int] = {}
        extras = pods = 0
        for index, units in self.plan.items():
            gang = self.problem.gangs[index]
            lost = _count(units) - _count(plan.get(index, ()))
            if not gang.home or not lost:
                continue
            pods += lost
            if index in plan:
                extras += lost
            else:
                value[-gang.priority] = value.get(-gang.priority, 0) + gang.value
        return Cost(tuple(sorted(value.items())), extras, pods)


def _rank(problem: Problem, gang: Gang) -> int:
    """Lower priorities give way first."""
    return sorted({g.priority for g in problem.gangs if g.home}).index(gang.priority)


def _without_extras(gang: Gang, units: Units, inside: Bools) -> Victim | None:
    """The gang without its extras inside some nodes, None when it has none there."""
    left = list(units)
    gone = 0
    for requirement in gang.requirements:
        surplus = _count(u for u in units if u[0] in requirement.demands) - requirement.missing
        for i, (demand, node, count) in enumerate(left):
            if surplus > 0 and demand in requirement.demands and inside[node]:
                take = min(surplus, count)
                left[i] = (demand, node, count - take)
                surplus -= take
                gone += take
    keeps = tuple(u for u in left if u[2])
    return Victim(gang.index, keeps, gone, False) if gone and keeps else None


def _count(units: Iterable[tuple[int, int, int]]) -> int:
    return sum(count for _, _, count in units)
