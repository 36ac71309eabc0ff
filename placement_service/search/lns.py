"""Improving a plan that is too large to settle at once.

Again and again: take a gang that could do better and a few domains of the
broadest level that matters, set free what lies wholly inside them, and let the
exact model settle just that, all else as it is. What is better is kept.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from placement_service.cp_sat.aggregate_model import Pooled
from placement_service.cp_sat.exact_model import Model, size_of
from placement_service.cp_sat.exact_objective import Goals
from placement_service.cp_sat.part_types import is_plain
from placement_service.cp_sat.solving import Answer, Terms
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.objective import (
    UNITS_PER_DOMAIN,
    Plan,
    Worth,
    gang_domains,
    is_placed,
    pods_of,
    priorities,
    scopes_in_use,
    set_domains,
    sets,
    worth,
)
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.residual_capacity import ResidualCapacity, sums_by_domain
from placement_service.search.incumbent import TOO_LITTLE, State

#: Variables of one neighbourhood, about: more take too long to build.
MAX_VARIABLES = 10_000
#: Deterministic time of one neighbourhood.
EFFORT = 0.4
#: The same when one is tried again, with more kinds of search.
EFFORT_AGAIN = 4.0
POOLED_EFFORT_AGAIN = 1.0
#: Neighbourhoods in a row that were tried twice before: there is nothing left.
STALE = 40
#: Beyond this a goal's weights would overflow; goals of lower priority are left to luck.
MAX_WEIGHT = 1 << 40
#: Gangs left out that a neighbourhood may take in for others worth as much.
SWAPS = 12
#: Domains set free at once: at first, and at most.
FEWEST_DOMAINS, MOST_DOMAINS = 2, 16
#: How the number changes after one was settled in vain, and after one was not settled.
WIDER, NARROWER = 0.25, 0.5
#: Every so many rounds the placed gangs are placed anew in another order.
SHUFFLE_EVERY = 4
#: The same when only topology is left, which neighbourhoods do better.
SHUFFLE_SELDOM = 16
#: Rounds without success after which heavier means are tried, and the share of the time
#: that is left to them at least.
EARLY_ROUNDS = 24
EARLY_SHARE = 0.6
#: Rounds of a deterministic search, which no clock may end.
ROUNDS = 150


class Improver:
    """Settles neighbourhoods, one after another."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.problem = state.problem
        # A fixed seed: the same question takes the same path.
        self.random = random.Random(20261121)
        self.level = _level(self.problem)
        self.rounds = 0
        #: Domains set free at once: more when few are settled, fewer when they are not.
        self.width = float(FEWEST_DOMAINS)
        self.stale = 0
        self.tried: dict[tuple[bytes, tuple[int, ...]], int] = {}
        self.plain = {
            g.index for g in self.problem.gangs if is_plain(state.counting, state.forest, g)
        }
        self.movable = {
            g.index
            for g in self.problem.gangs
            if g.placeable
            and g.pending
            and not any(self.problem.special[d.pod_class] for d in g.demands)
        }

    def run(self) -> None:
        """Until everything is proven, nothing is left to try or the deadline passes."""
        while not self.state.proven and self.state.left > TOO_LITTLE:
            if self.problem.policy.deterministic and self.rounds >= ROUNDS:
                return
            if not self._step():
                return

    def begin(self) -> None:
        """A few rounds with gangs that kinds describe, as long as they help."""
        until = self.state.left * EARLY_SHARE
        last, best = self.rounds, self.state.worth
        while not self.state.proven and self.rounds - last < EARLY_ROUNDS:
            timed = not self.problem.policy.deterministic
            if self.state.left < max(TOO_LITTLE, until if timed else 0):
                return
            if not any(g.index in self.plain for g in self._wanting()) or not self._step():
                return
            if self.state.worth != best:
                last, best = self.rounds, self.state.worth

    def _step(self) -> bool:
        often = SHUFFLE_SELDOM if self.state.extra_is_proven else SHUFFLE_EVERY
        self.rounds += 1
        if self.rounds % often == 0:
            self.shuffle()
            return True
        return self.round()

    def shuffle(self) -> None:
        """Place the gangs that are in the plan from scratch, large before small, roughly."""
        self.state.phase = "improve"
        problem = self.problem
        weight: dict[int, float] = {}
        for g in problem.gangs:
            units = sum((1 + int(problem.gpus[d.pod_class])) * d.count for d in g.demands)
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
        level = self._level_for(target)
        nodes = self._nodes(target, level)
        pooled = target.index in self.plain
        gangs = self._alike(target, nodes) if pooled else self._gangs(target, nodes)
        free = {g.index for g in gangs}
        key = (nodes.tobytes(), tuple(sorted(free)))
        times = self.tried.get(key, 0) + 1
        if times > 2:
            self.stale += 1
            self.width += WIDER
            return self.stale < STALE
        fixed = {i: u for i, u in self.state.plan.items() if i not in free}
        residual = ResidualCapacity(self.problem)
        residual.take_plan(fixed)
        if pooled:
            answer = self._settle_pooled(
                Pooled(self.state.counting, self.state.forest, gangs, nodes, residual.free, fixed),
                worth(self.problem, fixed),
                again=times > 1,
            )
        else:
            goals = Goals(Model(self.state.counting, gangs, nodes, residual.free, fixed))
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
        if better:
            self.stale = 0
            self.tried.clear()
        elif answer.proven:
            self.width += WIDER
        else:
            self.width = max(FEWEST_DOMAINS, self.width - NARROWER)
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
        # Where none could do better by itself, others may be worth as much.
        return apart or [
            problem.gangs[i]
            for i, units in state.plan.items()
            if gang_domains(problem, problem.gangs[i], units)
            > scopes_in_use(problem.gangs[i], units)
        ]

    def _waiting_extras(self, gang: Gang) -> int:
        placed = sum(c for _, _, c in self.state.plan.get(gang.index, ()))
        return gang.missing + gang.extras - placed

    def _level_for(self, target: Gang) -> int:
        """The broadest level that the target names and that has a few domains."""
        named = {i for s in target.scopes for i in (s.required, s.preferred)}
        named |= {target.set_level}
        levels = self.problem.levels
        broad = [i for i in named - {-1} if levels[i].count >= 3 and not levels[i].is_host]
        return min(broad, key=lambda i: levels[i].count, default=self.level)

    def _alike(self, target: Gang, nodes: Ints) -> list[Gang]:
        """The target and the gangs that kinds describe and that lie wholly inside the nodes.

        While gangs are left out, those that wait for room as well.
        """
        inside = np.zeros(self.problem.node_count, dtype=bool)
        inside[nodes] = True
        plan = self.state.plan
        out = [
            g.index
            for g in self.problem.pending
            if g.index not in plan and self.problem.eligible[g.demands[0].pod_class, nodes].any()
        ]
        if self.state.admitted_is_proven:
            # Some of them may take the place of others worth as much.
            swaps = SWAPS if self.random.random() < 0.5 else 0
            out = self.random.sample(out, min(len(out), swaps))
        waiting = set(out)
        return [
            g
            for g in self.problem.gangs
            if g.index == target.index
            or (
                g.index in self.plain
                and (all(inside[n] for _, n, _ in plan[g.index]) if g.index in plan else waiting)
            )
        ]

    def _nodes(self, target: Gang, at: int) -> Ints:
        """Nodes of a few domains: the target's own, roomy ones, random ones."""
        level = self.problem.levels[at]
        count = min(MOST_DOMAINS, int(self.width))
        own = self._own(target, at)
        chosen = set(self.random.sample(sorted(own), min(len(own), count)))
        pod_class = max(
            target.demands, key=lambda d: int(self.problem.gpus[d.pod_class]) * d.count
        ).pod_class
        residual = ResidualCapacity(self.problem)
        residual.take_plan(self.state.plan)
        offers = residual.slots(pod_class, at)
        if target.index not in self.state.plan:
            # What is left in splinters is worth gathering.
            offers = self._left(target, residual, at)
        roomy = [int(d) for d in np.argsort(-offers, kind="stable")[: 2 * count]]
        able = [
            d
            for s in target.scopes
            if s.required == at
            for d in np.flatnonzero(self.state.counting.domains_for(target, s)).tolist()
        ]
        usable = self.problem.eligible[pod_class]
        every = able or np.unique(level.domain[usable & (level.domain >= 0)]).tolist()
        roomy = [d for d in roomy if d in set(every)] or every
        homes = self._homes(target, at, len(own) > 1)
        if homes and chosen.isdisjoint(homes):
            chosen.add(self.random.choice(homes))
        while len(chosen) < min(count + (len(own) > count), level.count):
            pool = roomy if self.random.random() < 0.5 else every
            rest = [d for d in pool if d not in chosen] or [d for d in every if d not in chosen]
            if not rest:
                break
            chosen.add(self.random.choice(rest))
        inside = np.isin(level.domain, sorted(chosen))
        if target.index not in self.state.plan or len(own) == 0:
            # Nodes outside the level may serve what the level does not bind.
            inside |= (level.domain < 0) & self._usable_outside(target)
        return np.flatnonzero(inside)

    def _left(self, target: Gang, residual: ResidualCapacity, at: int) -> Ints:
        """What is free in each domain of the resource that the target needs most of."""
        problem = self.problem
        amounts = sum(
            (problem.request[d.pod_class] * d.count for d in target.demands),
            np.zeros(len(problem.columns), dtype=np.int64),
        )
        total = np.maximum(problem.free.sum(axis=0, dtype=np.float64), 1)
        column = int(np.argmax(amounts / total))
        usable = problem.eligible[[d.pod_class for d in target.demands]].any(axis=0)
        return sums_by_domain(problem, at, np.where(usable, residual.free[:, column], 0))

    def _own(self, target: Gang, at: int) -> set[int]:
        """Domains that the target uses, or its whole set if that is what should be near."""
        plan, domain = self.state.plan, self.problem.levels[at].domain
        mine = [target.index]
        if target.base >= 0 and target.set_level == at:
            mine += [g.index for g in self.problem.gangs if target.base in (g.index, g.base)]
        return {int(domain[n]) for i in mine for _, n, _ in plan.get(i, ())} - {-1}

    def _homes(self, target: Gang, at: int, split: bool) -> list[int]:
        """Domains that could hold a split scope of the target whole, were they empty."""
        counting, count = self.state.counting, self.problem.levels[at].count
        for s in target.scopes:
            if split and s.preferred == at and counting.fewest_places(target, s) == 1:
                return np.flatnonzero(counting.places_for(target, s)[:count]).tolist()
        return []

    def _usable_outside(self, target: Gang) -> Bools:
        pod_classes = sorted(
            {d.pod_class for d in target.demands if not self.problem.gpus[d.pod_class]}
        )
        if not pod_classes:
            return np.zeros(self.problem.node_count, dtype=bool)
        usable: Bools = np.any(self.problem.eligible[pod_classes], axis=0)
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

    def _settle_pooled(self, model: Pooled, fixed: Worth, *, again: bool) -> Answer:
        """The first goal that is not proven; those before it are held, those after count little."""
        state = self.state
        now = state.worth
        order = priorities(self.problem)
        at = next(
            (
                i
                for i, (a, b) in enumerate(zip(now.admitted, state.facts.admitted, strict=True))
                if a < b
            ),
            len(order),
        )
        for i, priority in enumerate(order[:at]):
            model.hold(model.admitted(priority), at_least=now.admitted[i] - fixed.admitted[i])
        goal: Terms
        if at < len(order):
            more = 1 + now.admitted[at] - fixed.admitted[at]
            model.hold(model.admitted(order[at]), at_least=more)
            goal, maximize = self._value(model, order[at:]), True
        elif not state.extra_is_proven:
            model.hold(model.extras, at_least=now.extra - fixed.extra)
            weight = (
                1 + max(0, now.topology - fixed.topology) // UNITS_PER_DOMAIN + len(model.gangs)
            )
            goal = [(v, w * weight) for v, w in model.extras]
            goal += [(v, -(w // UNITS_PER_DOMAIN)) for v, w in model.costs]
            maximize = True
        else:
            model.hold(model.extras, at_least=now.extra - fixed.extra)
            better = now.topology - fixed.topology - 1
            model.hold(model.costs, at_most=better)
            goal, maximize = model.costs, False
        return model.solve(
            goal,
            maximize=maximize,
            hint=state.plan if maximize else None,
            seconds=state.at_most(2.0),
            effort=POOLED_EFFORT_AGAIN if again else EFFORT,
            portfolio=again,
        )

    def _value(self, model: Pooled, order: Sequence[int]) -> Terms:
        """Value, higher priorities far above lower ones, then topology."""
        unit = math.gcd(*(g.value for g in model.gangs)) or 1
        goal: Terms = [(v, -(w // UNITS_PER_DOMAIN)) for v, w in model.costs]
        weight = 1 + 4 * len(model.gangs)
        for priority in reversed(order):
            goal += [(z, v // unit * weight) for z, v in model.admitted(priority)]
            below = sum(g.value // unit for g in model.gangs if g.priority == priority)
            weight = weight * (1 + below)
            if weight > MAX_WEIGHT:
                # Only the highest priority can be told from the rest.
                return [(z, v // unit) for z, v in model.admitted(order[0])]
        return goal

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
            seconds=state.at_most(6.0 if again else 2.0),
            effort=EFFORT_AGAIN if again else EFFORT,
            portfolio=again,
        )

    def _extras(self, gangs: Sequence[Gang]) -> int:
        total = 0
        for g in gangs:
            units = self.state.plan.get(g.index, ())
            for q in g.requirements:
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
