"""The joint choice of domains: all waiting gangs at once, where running gangs give way.

Placing one gang after another does not find it: the cheapest domain of one gang may be the only
cheap one of another, and each uses up what victims can spare. The whole victim model finds it late.
So a core of the model is settled first: for each part the domains in which room for it alone costs
least and that of the plan, there and anywhere the nodes that cost least, and all nodes that the
plan uses. What costs least for one gang alone is known from the prices of the first answer. The
core is some hundred nodes of thousands, and is settled in a second, or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.victim_core import Core, fixed_outside
from placement_service.cp_sat.victim_model import VictimModel
from placement_service.cp_sat.waiting_parts import WaitingPart
from placement_service.formulation.arrays import Bools, Ints
from placement_service.formulation.indices import ClassIdx
from placement_service.formulation.plan import home_plan
from placement_service.formulation.problem import Demand, Gang
from placement_service.formulation.tiers.goal import Goal, Terms
from placement_service.heuristic.victim_plan import VictimPlan
from placement_service.heuristic.victim_prices import NodePrices, slots_lacking
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep
from placement_service.search.victim_aim import aim, settled


def choose_domains(state: State) -> bool:
    """Better plans from one core after another, where several gangs wait; returns whether the
    first was settled in its time. Where it is not, other methods are faster.
    """
    p = state.parameters
    if sum(not g.home for g in state.problem.pending) < 2:
        return False
    model = state.ground.victim_model
    cheap = _CheapRoom(state, model)
    domains = p.core_domains
    while domains <= p.most_core_domains and not state.proven and state.left > p.least_seconds:
        known = state.worth
        if _settle(state, model, cheap.core(domains), p.core_seconds * domains):
            domains *= 2
        elif domains == p.core_domains or state.worth == known:
            break
    return domains > p.core_domains


def _settle(state: State, model: VictimModel, core: Core, seconds: float) -> bool:
    """Takes the best plan of a core; returns false if the core is not settled in its time."""
    p, mark = state.parameters, model.mark()
    for goal, reached in zip(state.goals, state.worth.enough[: state.first_open], strict=False):
        keep(goal, model, reached)
    together = _together(state, model)
    found = model.whole(
        together.terms,
        maximize=True,
        seconds=state.at_most(seconds),
        nodes=p.victim_nodes,
        beyond=together.reached,
        fixed=fixed_outside(model, core) | {model.placed[g]: 1.0 for g in settled(state)},
    )
    model.undo(mark)
    if found.values is not None:
        aim(state, model, found.values)
    return found.proven


class _Together(NamedTuple):
    """Some goals as one that is maximised, and what the plan has of it."""

    terms: Terms[int]
    reached: int


def _together(state: State, model: VictimModel) -> _Together:
    """The first open goal and those behind it, each of which counts far less, up to `extra`."""
    goals = list(_open_goals(state, model))
    ranks = list(dict.fromkeys((g.tier, g.priority) for g, _, _ in goals))
    largest = max(g.unit for g, _, _ in goals)
    terms: Counter[int] = Counter()
    reached = 0
    for goal, mine, value in goals:
        # So many reported units of a goal count as one of the goal before it.
        behind = len(ranks) - 1 - ranks.index((goal.tier, goal.priority))
        each = state.parameters.core_rate**behind * (largest // goal.unit)
        sign = -each if goal.tier.minimize else each
        for v, w in mine:
            terms[v] += sign * w
        reached += sign * value
    return _Together(list(terms.items()), reached)


def _open_goals(state: State, model: VictimModel) -> Iterator[tuple[Goal, Terms[int], int]]:
    """The goals that the plan does not reach, their terms, and what it has of them: the first, and
    those behind it up to `extra`; goals that count the same only once.
    """
    known: list[Terms[int]] = []
    for i, goal in enumerate(state.goals):
        if known and goal.tier.minimize:
            # What is evicted is mostly extras, and those are counted.
            return
        terms = goal.terms(model)
        if terms and not state.reaches(i) and terms not in known:
            known.append(terms)
            yield goal, terms, state.worth.enough[i]


class _CheapRoom:
    """Where room for waiting gangs costs least, each alone, while nothing has moved."""

    def __init__(self, state: State, model: VictimModel) -> None:
        self._state, self._model = state, model
        self._now = VictimPlan(state.builder, home_plan(state.problem))
        self._gangs = {g.index: g for g in model.waiting}
        self._prices: dict[tuple[int, int, int, int], NodePrices] = {}

    def core(self, domains: int) -> Core:
        """The core with so many domains for each part."""
        problem, model = self._state.problem, self._model
        nodes = self._in_use()
        anywhere = self._units()
        chosen: dict[int, set[int]] = {}
        for p, part in enumerate(model.parts):
            of_level = problem.levels[part.level].domain
            gang = self._gangs[part.gang]
            chosen[p] = self._used(part)
            for pod_class, units in part.units.items():
                demand = Demand(ClassIdx(pod_class), units, ())
                prices = self._prices_of(gang, demand, part.level)
                chosen[p] |= self._cheapest_domains(demand, part.level, prices, domains)
                for d in chosen[p]:
                    inside = np.flatnonzero(of_level == d)
                    nodes[self._cheapest_nodes(demand, prices, inside)] = True
                if not part.within:
                    anywhere[gang.priority, pod_class] -= units
        everywhere = np.arange(problem.node_count)
        for gang in model.waiting:
            for pod_class in {d.pod_class for d in gang.demands}.intersection(model.asked):
                # Gangs that may take from the same victims are counted together.
                units = anywhere.pop((gang.priority, pod_class), 0)
                demand = Demand(pod_class, units, ())
                if units > 0:
                    prices = self._prices_of(gang, demand, -1)
                    nodes[self._cheapest_nodes(demand, prices, everywhere)] = True
        return Core(nodes, chosen)

    def _in_use(self) -> Bools:
        """Nodes that the plan uses for what comes, and those that moved pods may take at once."""
        found = np.zeros(self._state.problem.node_count, dtype=np.bool_)
        homes = {g.index: {(h.demand, h.node) for h in g.home} for g in self._state.problem.gangs}
        for g, units in self._state.plan.items():
            for d, n, _ in units:
                found[n] |= (d, n) not in homes[g]
        for pod_class in self._model.placed_again:
            found |= self._now.residual.row(pod_class) > 0
        return found

    def _units(self) -> Counter[tuple[int, int]]:
        """Units that wait, by priority and pod class."""
        found: Counter[tuple[int, int]] = Counter()
        for gang in self._model.waiting:
            for demand in gang.demands:
                found[gang.priority, demand.pod_class] += demand.count
        return found

    def _used(self, part: WaitingPart) -> set[int]:
        """The domains of a part in the plan."""
        of_level = self._state.problem.levels[part.level].domain
        units = self._state.plan.get(part.gang, ())
        return {int(of_level[n]) for d, n, _ in units if d in part.demands}

    def _prices_of(self, gang: Gang, demand: Demand, level: int) -> NodePrices:
        key = gang.index, demand.pod_class, demand.count, level
        if key not in self._prices:
            now = self._now
            lacking = 0
            if now.moves:
                lacking = slots_lacking(now.residual, demand, self._model.waiting)
            self._prices[key] = now.prices.of_nodes(now.residual, gang, demand, level, lacking)
        return self._prices[key]

    def _cheapest_domains(
        self, demand: Demand, level: int, prices: NodePrices, most: int
    ) -> set[int]:
        free = self._now.residual.slots(demand.pod_class, level)
        cost = prices.by_domain(self._state.problem.levels[level].domain, free, demand.count)
        order = np.argsort(cost, kind="stable")[:most]
        return set(order[cost[order] < np.inf].tolist())

    def _cheapest_nodes(self, demand: Demand, prices: NodePrices, among: Ints) -> Ints:
        """Some of these nodes, the cheapest, for the units of a demand and some more."""
        free = self._now.residual.row(demand.pod_class)[among]
        cost = np.where(free > 0, 0.0, prices.each[among])
        slots = np.where(free > 0, free, prices.slots[among])
        order = np.argsort(cost, kind="stable")
        order = order[cost[order] < np.inf]
        wanted = demand.count * self._state.parameters.core_room
        return among[order[: 1 + int(np.searchsorted(np.cumsum(slots[order]), wanted))]]
