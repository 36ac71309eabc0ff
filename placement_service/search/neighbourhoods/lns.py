"""Improving a plan that is too large to settle at once.

Again and again: take a gang that could do better and a few domains of the
broadest level that matters, free what lies wholly inside them, and let a model settle only that,
with all else fixed. Better plans are kept.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.aggregate.model import AggregateModel
from placement_service.cp_sat.aggregate.part_types import is_plain
from placement_service.cp_sat.exact.model import ExactModel, size_of
from placement_service.cp_sat.exact.objective import Goals
from placement_service.cp_sat.solving import Answer, Var, span
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.levels import sums_by_domain
from placement_service.formulation.objective import Worth, worth
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Goal, Terms
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep
from placement_service.search.neighbourhoods.changed_places import ChangedPlaces
from placement_service.search.neighbourhoods.widths import Widths


class _Neighbourhood(NamedTuple):
    """Gangs that are free to lie on some nodes, domains of a level; `plain` ones are described by
    part types.
    """

    level: int
    nodes: Ints
    gangs: list[Gang]
    plain: bool


class Improver:
    """Settles neighbourhoods, one after another."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.problem, self.parameters = state.problem, state.parameters
        # A fixed seed: the same question takes the same path.
        self.random = random.Random(state.parameters.seed)
        self.level = _level(self.problem)
        self.rounds = 0
        self.widths = Widths(state.parameters)
        self.stale = 0
        #: Rounds in a row that did nothing for the first open goal.
        self.in_vain = 0
        self._places = ChangedPlaces(state, self.random)
        #: Whether there is no neighbourhood left to try.
        self._spent = False
        self.tried: dict[tuple[int, bytes, tuple[int, ...]], int] = {}
        self.movable = {
            g.index
            for g in self.problem.gangs
            if g.placeable
            and g.pending
            and not any(self.problem.special[d.pod_class] for d in g.demands)
        }

    @cached_property
    def plain(self) -> set[GangIdx]:
        """The gangs that part types describe; asked for only when something is left to improve."""
        counting, forest = self.state.counting, self.state.forest
        return {g.index for g in self.problem.gangs if is_plain(counting, forest, g)}

    def run(self) -> None:
        """Until everything is proven, nothing is left to try or the deadline passes."""
        self._spent = False
        while not self.state.proven and self.state.left > self.parameters.least_seconds:
            if self.problem.policy.deterministic and self.rounds >= self.parameters.rounds:
                return
            if not self._step():
                return

    def begin(self) -> None:
        """Runs a few rounds with gangs that kinds describe, as long as they help."""
        until = self.state.left * self.parameters.early_share
        last, best = self.rounds, self.state.worth
        while not self.state.proven and self.rounds - last < self.parameters.early_rounds:
            timed = not self.problem.policy.deterministic
            if self.state.left < max(self.parameters.least_seconds, until if timed else 0):
                return
            if (
                not any(g.index in self.plain for g in self._wanting(self.state.first_open))
                or not self._step()
            ):
                return
            if self.state.worth != best:
                last, best = self.rounds, self.state.worth

    def _step(self) -> bool:
        self.rounds += 1
        outside = [] if self._places.is_over() else self._waiting_outside()
        if outside and (self._spent or self.random.random() < self.parameters.places_share):
            if self._places.try_one(outside):
                # Neighbourhoods are others now.
                self._spent = False
                self.stale = 0
                self.tried.clear()
            return True
        self._spent = self._spent or not self.round()
        return bool(outside) or not self._spent

    def round(self) -> bool:
        """One neighbourhood; false when there is none to try."""
        aim = self._aim()
        if aim is None or self.level < 0:
            return False
        self.state.phase = "improve"
        at, wanting = aim
        first = self.state.first_open
        some = self._neighbourhood(at, self.random.choice(wanting))
        key = (at, some.nodes.tobytes(), tuple(sorted(g.index for g in some.gangs)))
        times = self.tried.get(key, 0) + 1
        if times > 2:
            self.stale += 1
            self.widths.settled(some.level, None)
            return self.stale < self.parameters.neighbourhood_stale
        free = {g.index for g in some.gangs}
        fixed = {i: u for i, u in self.state.plan.items() if i not in free}
        try:
            model = self._model(some, fixed)
        except OutOfTime:
            return False
        answer = self._settle(model, worth(self.problem, fixed), at, again=times > 1)
        # A settled neighbourhood is not tried again.
        self.tried[key] = 2 if answer.proven else times
        better = answer.plan is not None and self._take({**fixed, **answer.plan})
        if at == first:
            self.in_vain = 0 if better else self.in_vain + 1
        if better:
            self.stale = 0
            self.tried.clear()
            self.widths.improved(some.level)
        elif answer.proven:
            size = model.size if isinstance(model, AggregateModel) else None
            self.widths.settled(some.level, size)
        else:
            self.widths.unsettled(some.level)
        return True

    def _take(self, plan: Plan) -> bool:
        """Takes a plan if it is better, also with gangs that now fit, and extras."""
        state = self.state
        better = state.accept(plan)
        if not state.packs:
            filled = state.builder.build(lambda g: -g.value, start=plan, until=state.deadline)
            better = state.accept(filled) or better
        return better

    # --- what to free -----------------------------------------------------------

    def _aim(self) -> tuple[int, list[Gang]] | None:
        """The goal to improve and the gangs that could gain, None when there are none.

        The first goal that is not proven; once the value of gangs is, every other time a later one,
        so that a goal without a proof does not keep those behind it from improving.
        """
        aims = self._open_goals()
        stuck = self.in_vain >= self.parameters.neighbourhood_in_vain
        if stuck and self.random.random() < 0.5:
            self.random.shuffle(aims)
        for at in aims:
            wanting = [g for g in self._wanting(at) if g.index in self.movable]
            if wanting:
                return at, wanting
        return None

    def _open_goals(self) -> list[int]:
        """Goals that are not proven. Those behind the first have only the trivial bound."""
        state = self.state
        reached = zip(state.goals, state.worth.enough, state.bounds, strict=True)
        return [
            i
            for i, (goal, value, bound) in enumerate(reached)
            if i >= state.first_open and goal.tier.provable and value != bound
        ]

    def _waiting_outside(self) -> list[Gang]:
        """Gangs that wait and that neighbourhoods leave out, of the first goal that has any."""
        inside = self.movable | self.state.plan.keys()
        for at in self._open_goals():
            found = [g for g in self._wanting(at) if g.placeable and g.index not in inside]
            if found:
                return found
        return []

    def _wanting(self, at: int) -> list[Gang]:
        """Gangs that could do better in one goal."""
        state = self.state
        goal = state.goals[at]
        found = goal.could_gain(state.plan, state.counting.fewest)
        out = [g for g in found if g.pending and g.index not in state.plan]
        if not out:
            return found
        possible = {i for c in state.counting.classes for i in c.gangs}
        return [g for g in out if g.index in state.target] or [
            g for g in out if g.index in possible
        ]

    def _neighbourhood(self, at: int, target: Gang) -> _Neighbourhood:
        """Domains and gangs in which a gang could do better in one goal."""
        level = self._level_for(target, at)
        nodes = self._nodes(target, level)
        plain = target.index in self.plain
        gangs = self._alike(target, nodes) if plain else self._gangs(target, nodes)
        return _Neighbourhood(level, nodes, gangs, plain)

    def _level_for(self, target: Gang, at: int) -> int:
        """The broadest level that the target names and that has a few domains. To find room for it,
        one whose neighbourhoods are settled in time, if there is any.
        """
        named = {i for s in target.scopes for i in (s.required, s.preferred)}
        named |= {target.set_level}
        levels = self.problem.levels
        broad = [i for i in named - {-1} if levels[i].count >= 3 and not levels[i].is_host]
        if not self.state.goals[at].tier.minimize:
            broad = [i for i in broad if not self.widths.is_too_broad(i)] or broad
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
        if target.index in plan:
            # Some of them may take the place of others of the same value.
            swaps = self.parameters.neighbourhood_swaps if self.random.random() < 0.5 else 0
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
        count = self.widths.domains(at)
        own = self._own(target, at)
        chosen = set(self.random.sample(sorted(own), min(len(own), count)))
        pod_class = max(
            target.demands, key=lambda d: int(self.problem.gpus[d.pod_class]) * d.count
        ).pod_class
        residual = ResidualCapacity(self.problem)
        residual.take_plan(self.state.plan)
        offers = residual.slots(pod_class, at)
        if target.index not in self.state.plan and self.problem.columns:
            # Small pieces of free room are worth gathering.
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
            # Nodes outside the level may serve pods that the level does not bind.
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
        return sums_by_domain(problem.levels[at], np.where(usable, residual.free[:, column], 0))

    def _own(self, target: Gang, at: int) -> set[int]:
        """Domains that the target uses, or its whole set if that is what should be near."""
        plan, domain = self.state.plan, self.problem.levels[at].domain
        mine = [target.index]
        if target.base >= 0 and target.set_level == at:
            mine += [g.index for g in self.problem.gangs if target.base in (g.index, g.base)]
        return {int(domain[n]) for i in mine for _, n, _ in plan.get(i, ())} - {-1}

    def _homes(self, target: Gang, at: int, split: bool) -> list[int]:
        """Domains that could hold a split scope of the target whole if they were empty."""
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
        based = {base for g in self.problem.gangs if g.index in plan for base in g.rests_on}
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
        room = self.parameters.neighbourhood_variables - per_demand * len(target.demands)
        for g in able:
            room -= per_demand * len(g.demands)
            if room < 0:
                break
            chosen.append(g)
        return sorted(chosen, key=lambda g: g.index)

    # --- what to do with it -----------------------------------------------------

    def _model(self, some: _Neighbourhood, fixed: Plan) -> AggregateModel | Goals:
        """What may lie where, beside all that is fixed. Raises OutOfTime."""
        residual = ResidualCapacity(self.problem)
        residual.take_plan(fixed)
        state = self.state
        model, counting, until = state.parameters.model, state.counting, state.deadline
        part = Subproblem(some.gangs, some.nodes, residual.free, fixed)
        if some.plain:
            return AggregateModel(counting, state.forest, part, model, until=until)
        return Goals(ExactModel(counting, part, parameters=model, until=until))

    def _settle(
        self, model: AggregateModel | Goals, fixed: Worth, at: int, *, again: bool
    ) -> Answer:
        """One goal and, with less weight, those after it; those before are held.

        Of the aggregate model only plans that are better in this goal count. With more effort where
        it is tried `again`.
        """
        p, better = self.parameters, isinstance(model, AggregateModel)
        more = p.neighbourhood_aggregate_effort_again if better else p.neighbourhood_effort_again
        state = self.state
        inside = [a - b for a, b in zip(state.worth.enough, fixed.values, strict=True)]
        for i, goal in enumerate(state.goals[:at]):
            keep(goal, model, inside[i])
        minimize = state.goals[at].tier.minimize
        step = (-1 if minimize else 1) if better else 0
        keep(state.goals[at], model, inside[at] + step)
        terms = self._weighted(model, state.goals[at:])
        # A plan that is not good enough is no hint.
        hint = None if better and minimize else state.plan
        return model.solve(
            terms,
            maximize=True,
            hint=hint,
            seconds=state.at_most(6.0 if again and not better else 2.0),
            effort=more if again else p.neighbourhood_effort,
            portfolio=again,
        )

    def _weighted(self, model: AggregateModel | Goals, goals: Sequence[Goal]) -> Terms[Var]:
        """Goals as one that is maximised, the earlier far above the later, as far as weights go."""
        p = self.state.parameters
        parts: list[tuple[Terms[Var], int]] = []
        product = 1
        for goal in goals:
            terms = goal.terms(model)
            if terms is None or not goal.tier.provable:
                break
            unit = math.gcd(*(w for _, w in terms)) or 1
            most = span(terms) // unit
            if goal.tier.minimize:
                domains = p.neighbourhood_domains_per_gang * len(model.gangs) * goal.unit // unit
                most = min(most, domains)
            product *= 1 + most
            if parts and product > p.neighbourhood_weight:
                break
            sign = -1 if goal.tier.minimize else 1
            parts.append(([(v, sign * w // unit) for v, w in terms], 1 + most))
        weighted: Terms[Var] = []
        weight = 1
        for terms, levels in reversed(parts):
            weighted += [(v, w * weight) for v, w in terms]
            weight *= levels
        return weighted


def _level(problem: Problem) -> int:
    """The broadest level that scopes name and that has a few domains at least."""
    named = [i for i in problem.scope_levels if not problem.levels[i].is_host]
    broad = [i for i in named if problem.levels[i].count >= 3]
    return min(broad, key=lambda i: problem.levels[i].count, default=-1)
