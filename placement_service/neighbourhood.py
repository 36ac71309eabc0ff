"""Improving a plan that is too large to settle at once.

Again and again: take a gang that could do better and a few domains of the
broadest level that matters, set free what lies wholly inside them, and let the
exact model settle just that, all else as it is. What is better is kept.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from placement_service.goals import Goals
from placement_service.model import Answer, Model, Terms, size_of
from placement_service.plan import (
    UNITS_PER_DOMAIN,
    Plan,
    gang_domains,
    is_placed,
    pods_of,
    priorities,
    scopes_in_use,
    set_domains,
    sets,
)
from placement_service.problem import Bools, Gang, Ints, Problem
from placement_service.room import Room
from placement_service.state import TOO_LITTLE, State

#: Variables of one neighbourhood, about: more take too long to build.
MAX_VARIABLES = 10_000
#: Deterministic time of one neighbourhood.
EFFORT = 0.4
#: The same when one is tried again, with more kinds of search.
EFFORT_AGAIN = 4.0
#: Neighbourhoods in a row that were tried twice before: there is nothing left.
STALE = 40
#: Domains set free at once: at first, and at most.
FEWEST_DOMAINS, MOST_DOMAINS = 2, 6
#: Every so many rounds the placed gangs are placed anew in another order.
SHUFFLE_EVERY = 4
#: Rounds of a deterministic search, which no clock may end.
ROUNDS = 150


def improve(state: State) -> None:
    """Settle neighbourhoods until everything is proven or the deadline passes."""
    search = _Search(state)
    rounds = 0
    while not state.proven and state.left > TOO_LITTLE:
        if state.problem.policy.deterministic and rounds >= ROUNDS:
            return
        if rounds % SHUFFLE_EVERY == 0:
            search.shuffle()
        elif not search.round():
            return
        rounds += 1


class _Search:
    def __init__(self, state: State) -> None:
        self.state = state
        self.problem = state.problem
        # A fixed seed: the same question takes the same path.
        self.random = random.Random(20261121)
        self.level = _level(self.problem)
        self.fails = 0
        self.stale = 0
        self.tried: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self.movable = {
            g.index
            for g in self.problem.gangs
            if g.placeable
            and g.pending
            and not any(self.problem.special[d.shape] for d in g.demands)
        }

    def shuffle(self) -> None:
        """Place the gangs that are in the plan from scratch, large before small, roughly."""
        self.state.phase = "improve"
        problem = self.problem
        weight: dict[int, float] = {}
        for g in problem.gangs:
            units = sum((1 + int(problem.gpus[d.shape])) * d.count for d in g.demands)
            weight[g.index] = units * self.random.uniform(0.5, 2.0)
        build = self.state.builder.build
        self.state.accept(build(lambda g: -weight[g.index], first=self.state.plan))

    def round(self) -> bool:
        """One neighbourhood; false when there is none to try."""
        wanting = [g for g in self._wanting() if g.index in self.movable]
        if not wanting or self.level < 0:
            return False
        self.state.phase = "improve"
        target = self.random.choice(wanting)
        nodes = self._nodes(target)
        gangs = self._gangs(target, nodes)
        free = {g.index for g in gangs}
        key = (nodes.tobytes(), tuple(sorted(free)))
        times = self.tried.get(key, 0) + 1
        if times > 2:
            self.stale += 1
            self.fails += 1
            return self.stale < STALE
        fixed = {i: u for i, u in self.state.plan.items() if i not in free}
        room = Room(self.problem)
        room.take_plan(fixed)
        goals = Goals(Model(self.state.counting, gangs, nodes, room.free, fixed))
        answer = self._settle(goals, gangs, again=times > 1)
        plan = answer.plan
        # What is settled needs no second look.
        self.tried[key] = 2 if answer.proven else times
        better = False
        if plan is not None:
            merged = {**fixed, **plan}
            better = self.state.accept(merged)
            if not self.state.extra_is_proven:
                better = self.state.accept(self._fill(merged)) or better
        self.fails += 1
        if better:
            self.fails = self.stale = 0
            self.tried.clear()
        return True

    # --- what to free -----------------------------------------------------------

    def _wanting(self) -> list[Gang]:
        """Gangs that could do better in the first tier that is not proven."""
        state, problem = self.state, self.problem
        if not state.admitted_is_proven:
            at = next(
                i
                for i, (have, bound) in enumerate(
                    zip(state.worth.admitted, state.facts.admitted, strict=True)
                )
                if have < bound
            )
            priority = priorities(problem)[at]
            out = [
                g for g in problem.pending if g.priority == priority and g.index not in state.plan
            ]
            aimed = [g for g in out if g.index in state.target]
            possible = {i for c in state.counting.classes for i in c.gangs}
            return aimed or [g for g in out if g.index in possible]
        if not state.extra_is_proven:
            return [
                g
                for g in problem.gangs
                if g.extras and is_placed(g, state.plan) and self._waiting_extras(g)
            ]
        apart = [
            g
            for i, units in state.plan.items()
            for g in (problem.gangs[i],)
            if gang_domains(problem, g, units)
            > max(state.counting.fewest(g), scopes_in_use(g, units))
        ]
        for members in sets(problem).values():
            if set_domains(problem, members, state.plan):
                apart += [g for g in members[1:] if g.index in state.plan]
        return apart

    def _waiting_extras(self, gang: Gang) -> int:
        placed = sum(c for _, _, c in self.state.plan.get(gang.index, ()))
        return gang.missing + gang.extras - placed

    def _nodes(self, target: Gang) -> Ints:
        """Nodes of a few domains: the target's own, roomy ones, random ones."""
        level = self.problem.levels[self.level]
        count = min(MOST_DOMAINS, FEWEST_DOMAINS + self.fails // 4)
        own = {int(level.domain[n]) for _, n, _ in self.state.plan.get(target.index, ())} - {-1}
        chosen = set(self.random.sample(sorted(own), min(len(own), count)))
        shape = max(target.demands, key=lambda d: int(self.problem.gpus[d.shape]) * d.count).shape
        room = Room(self.problem)
        room.take_plan(self.state.plan)
        slots = room.slots(shape, self.level)
        roomy = [int(d) for d in np.argsort(-slots, kind="stable")[: 2 * count]]
        able = [
            d
            for s in target.scopes
            if s.required == self.level
            for d in np.flatnonzero(self.state.counting.domains_for(target, s)).tolist()
        ]
        every = able or list(range(level.count))
        roomy = [d for d in roomy if d in set(every)] or every
        while len(chosen) < min(count + (len(own) > count), level.count):
            pool = roomy if self.random.random() < 0.5 else every
            rest = [d for d in pool if d not in chosen] or [
                d for d in range(level.count) if d not in chosen
            ]
            chosen.add(self.random.choice(rest))
        inside = np.isin(level.domain, sorted(chosen))
        if target.index not in self.state.plan or len(own) == 0:
            # Nodes outside the level may serve what the level does not bind.
            inside |= (level.domain < 0) & self._usable_outside(target)
        return np.flatnonzero(inside)

    def _usable_outside(self, target: Gang) -> Bools:
        shapes = sorted({d.shape for d in target.demands if not self.problem.gpus[d.shape]})
        if not shapes:
            return np.zeros(self.problem.node_count, dtype=bool)
        usable: Bools = np.any(self.problem.eligible[shapes], axis=0)
        return usable

    def _gangs(self, target: Gang, nodes: Ints) -> list[Gang]:
        """The target and gangs wholly inside the nodes, as many as a model can take."""
        inside = np.zeros(self.problem.node_count, dtype=bool)
        inside[nodes] = True
        plan = self.state.plan
        based = {g.base for g in self.problem.gangs if g.index in plan}
        able = [
            self.problem.gangs[i]
            for i, units in plan.items()
            if i in self.movable
            and i != target.index
            and i not in based
            and all(inside[n] for _, n, _ in units)
        ]
        self.random.shuffle(able)
        chosen = [target]
        per_demand = max(1, size_of(self.problem, [target], nodes) // len(target.demands))
        room = MAX_VARIABLES - per_demand * len(target.demands)
        for g in able:
            room -= per_demand * len(g.demands)
            if room < 0:
                break
            chosen.append(g)
        return sorted(chosen, key=lambda g: g.index)

    # --- what to do with it -----------------------------------------------------

    def _settle(self, goals: Goals, gangs: Sequence[Gang], *, again: bool) -> Answer:
        state = self.state
        for priority in priorities(self.problem):
            terms = goals.admitted(priority)
            if terms:
                now = sum(
                    g.value for g in gangs if g.priority == priority and g.index in state.plan
                )
                goals.model.hold(terms, at_least=now)
        extras = goals.extras()
        if extras:
            goals.model.hold(extras, at_least=self._extras(gangs))
        goal: Terms
        if not state.admitted_is_proven:
            weight = self._most_topology(gangs)
            goal = [(z, v * weight) for p in priorities(self.problem) for z, v in goals.admitted(p)]
            goal += [(v, -w) for v, w in goals.topology]
            maximize = True
        elif not state.extra_is_proven:
            weight = self._most_topology(gangs)
            goal = [(v, w * weight) for v, w in extras] + [(v, -w) for v, w in goals.topology]
            maximize = True
        else:
            goal, maximize = goals.topology, False
        return goals.model.solve(
            goal,
            maximize=maximize,
            hint=state.plan,
            seconds=min(state.left, 6.0 if again else 2.0),
            effort=EFFORT_AGAIN if again else EFFORT,
            portfolio=again,
        )

    def _extras(self, gangs: Sequence[Gang]) -> int:
        total = 0
        for g in gangs:
            units = self.state.plan.get(g.index, ())
            for q in g.quotas:
                total += max(0, sum(c for d, _, c in units if d in q.demands) - q.missing)
        return total

    def _most_topology(self, gangs: Sequence[Gang]) -> int:
        """More than any topology cost of the gangs."""
        pods = sum(d.count * pods_of(g, i) for g in gangs for i, d in enumerate(g.demands))
        scopes = 2 + sum(len(g.scopes) for g in gangs)
        return 1 + pods * scopes * UNITS_PER_DOMAIN

    def _fill(self, plan: Plan) -> Plan:
        """Add gangs that now fit, and extras."""
        return self.state.builder.build(lambda g: -g.value, start=plan)


def _level(problem: Problem) -> int:
    """The broadest level that scopes name and that has a few domains at least."""
    named = [i for i in problem.scope_levels if not problem.levels[i].is_host]
    broad = [i for i in named if problem.levels[i].count >= 3]
    return min(broad, key=lambda i: problem.levels[i].count, default=-1)
