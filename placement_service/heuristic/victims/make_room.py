"""Making room for gangs that wait: which running gangs give way, domain by domain.

Waiting gangs that fit without victims come first, the most important ones before others: each goes
where it fits best. For each other gang, nodes are cleared one after another in each domain that
could hold it, the cheapest for the room that it gives first, until the gang fits. Then every victim
stays whose room is not needed after all. The domain whose victims cost least is chosen. Extras of a
gang are evicted before the whole gang. With moves every victim has to fit elsewhere; a gang that
does not stays, and the domain is tried again without it. Where too few nodes are free for all that
wait, a pod that moves to one of these frees none, so it costs as much as to free another.

A domain that costs little for one gang may be the only cheap one for another. So beforehand each
gang of the narrowest domains gets a domain in mind, so that the sum of the estimated costs is
least, and other gangs keep away from domains that several would take. With moves `joint_room` comes
first, which does more.

Afterwards gangs that went whole come home where that costs less: those in their place go elsewhere.

Only gangs that may be evicted for the waiting one leave for it. What room it may use is not checked
here: room of others does not fit it (see `formulation.eviction.running_gangs`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.arrays import Ints
from placement_service.formulation.eviction.disruption_budgets import budgets_hold
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Demand, Gang
from placement_service.heuristic.orders import TurnOrder, narrowest_first
from placement_service.heuristic.pace import MOST_BEHIND, NoTimeForAll, Pace
from placement_service.heuristic.plan_builder import Builder, bases_first
from placement_service.heuristic.victims.clearing import Clearing
from placement_service.heuristic.victims.domain_assignment import least_assignment
from placement_service.heuristic.victims.plan import Cost, VictimPlan
from placement_service.heuristic.victims.prices import Floats, NodePrices, slots_lacking

#: Domains tried for one gang, those first whose victims should cost least. Without moves, which
#: take longer, more are tried until so many in turn were no better.
MOST_DOMAINS = 3

#: Up to so many gangs of the narrowest level, each gets a domain in mind before their turns.
MOST_MEANT = 64

#: How much more room is made each time the expected room was not enough.
MORE = 1.5

#: How often a domain is tried again without the gangs for which there is no room elsewhere.
MOST_TRIES = 4

#: So many victims, the dearest, are tried to be spared before there is a first answer.
MOST_SPARED = 18

#: How often victims are spared at most once their waiting gangs keep their domains.
MOST_ROUNDS = 3


class _Priced(NamedTuple):
    """A plan, what it costs, and in which gangs it differs from the plan before."""

    cost: Cost
    plan: Plan
    changed: frozenset[GangIdx]


class _Need(NamedTuple):
    """What decides where a gang fits, the narrowest level that holds it whole, and the domain of it
    where the gang runs already, -1 for none.
    """

    demand: Demand
    level: int
    pin: int


def make_room(
    builder: Builder, plan: Plan, order: TurnOrder, *, until: float, all_of_them: bool = False
) -> Plan:
    """The plan with gangs that wait placed in the room of victims, as far as time allows, those
    first that `order` says. With moves the placed gangs are then placed once more, each beside all
    the others.

    Raises NoTimeForAll where it is about `all_of_them`, and most would find none.
    """
    waiting = [g for g in builder.problem.pending if not g.home and g.index not in plan]
    if not waiting:
        return plan
    search = _Search(builder, plan)
    waiting.sort(key=order)
    waiting = bases_first(waiting)
    try:
        search.make_room_for(waiting, until, all_of_them=all_of_them)
        if search.now.moves:
            search.place_again(waiting, until)
        else:
            search.spare_victims(waiting, until, most=MOST_SPARED)
    except OutOfTime:
        # The plan found so far is whole.
        pass
    return search.best


def place_again(builder: Builder, plan: Plan, order: TurnOrder, *, until: float) -> Plan:
    """The plan with each placed gang that waited placed once more, beside all the others, where
    that is better; with moves.
    """
    placed = [g for g in builder.problem.pending if not g.home and g.index in plan]
    search = _Search(builder, plan)
    with contextlib.suppress(OutOfTime):
        search.place_again(bases_first(sorted(placed, key=order)), until)
    return search.best


def spare_victims(builder: Builder, plan: Plan, *, until: float) -> Plan:
    """A plan that loses less to the same waiting gangs, if there is one nearby; without moves."""
    placed = [g for g in builder.problem.pending if not g.home and g.index in plan]
    placed = bases_first(sorted(placed, key=narrowest_first(builder.problem)))
    search = _Search(builder, plan)
    try:
        for anew in (True, *[False] * MOST_ROUNDS):
            before = search.best
            search.spare_victims(placed, until, anew=anew)
            if search.best is before and not anew:
                break
    except OutOfTime:
        # The plan found so far is whole.
        pass
    return search.best


class _Search:
    """The best plan so far, and the plan that is changed."""

    def __init__(self, builder: Builder, plan: Plan) -> None:
        self.builder = builder
        self.problem = builder.problem
        self.now = VictimPlan(builder, plan)
        #: The plan to use when time is over.
        self.best = plan
        #: Gangs for which there is no room elsewhere.
        self._stuck: set[GangIdx] = set()
        #: Gangs that are not to go.
        self._spared: set[GangIdx] = set()
        self._needs: dict[GangIdx, _Need] = {}
        #: The domain that is meant for each gang while it waits.
        self._meant: dict[GangIdx, int] = {}
        #: What gangs ask for that found no room since victims left the last time.
        self._hopeless: set[object] = set()
        #: When no other domain is tried for a gang that has found one.
        self._soon = math.inf

    def make_room_for(
        self, gangs: Sequence[Gang], until: float, *, all_of_them: bool = False
    ) -> None:
        """Places gangs, each in the domain where that costs least, if victims are enough."""
        if not self.now.moves:
            # With moves gangs are placed once more anyway, and that does better.
            self._choose_domains([g for g in gangs if not g.begins_anew])
        pace = Pace(len(gangs), until, self.problem.policy)
        for k, gang in enumerate(gangs):
            behind = pace.behind(len(gangs) - k)
            if all_of_them and behind > MOST_BEHIND:
                raise NoTimeForAll
            self._soon = pace.share(len(gangs) - k) if behind > 1 else math.inf
            if gang.index in self._meant:
                # A domain is kept for it.
                self._hopeless.clear()
            if self.builder.base_is_placed(gang, self.now.plan):
                found = self._found(gang, until)
                if found is not None:
                    self.now.move_to(found.plan, found.changed)
                    self.best = found.plan
            if self._meant.pop(gang.index, None) is not None:
                self._hopeless.clear()

    def _found(self, gang: Gang, until: float) -> _Priced | None:
        """The plan with a gang that waits, where that costs least; None where there is no room."""
        alike = _alike(gang)
        if alike in self._hopeless:
            return None
        found = self._beside(gang) or self._in_the_room_of_others(gang, until)
        if found is None:
            self._hopeless.add(alike)
        elif len(found.changed) > 1:
            # Victims mostly leave more room than it takes.
            self._hopeless.clear()
        return found

    def place_again(self, gangs: Iterable[Gang], until: float) -> None:
        """Place gangs once more, each beside all the others, where that is better."""
        now = self.now
        for gang in gangs:
            if time.monotonic() > until:
                break
            before, cost, placed = now.plan, now.cost(now.plan, ()), gang.index in now.plan
            if not placed and not self.builder.base_is_placed(gang, before):
                continue
            if placed:
                now.move_to({i: u for i, u in before.items() if i != gang.index}, [gang.index])
                if not now.go_home():
                    now.move_to(before)
                    continue
                found = self._beside(gang) or self._in_the_room_of_others(gang, until)
            else:
                found = self._found(gang, until)
            if found is not None and (not placed or found.cost < cost):
                if placed:
                    self._hopeless.clear()
                now.move_to(found.plan, found.changed)
                self.best = found.plan
            else:
                now.move_to(before)

    def spare_victims(
        self,
        gangs: Sequence[Gang],
        until: float,
        *,
        anew: bool = False,
        most: int | None = None,
    ) -> None:
        """Brings gangs home that went whole, the dearest first and of these `most` at most, where
        that costs less: the gangs in their place use other nodes of their domain instead, or with
        `anew` another domain.
        """
        now = self.now
        for index in now.dearest(i for i in now.away if i not in now.plan)[:most]:
            if time.monotonic() > until:
                break
            if index in now.plan:
                # It came home with another one.
                continue
            before, cost = now.plan, now.cost(now.plan, ())
            if (
                self._spare(self.problem.gangs[index], gangs, until, anew=anew)
                and now.cost(now.plan, ()) < cost
            ):
                self.best = now.plan
            else:
                now.move_to(before)

    def _spare(self, victim: Gang, gangs: Sequence[Gang], until: float, *, anew: bool) -> bool:
        """Brings a gang home, and the gangs in its place elsewhere in their domains."""
        now = self.now
        nodes = {home.node for home in victim.home}
        there = [g for g in gangs if any(n in nodes for _, n, _ in now.plan.get(g.index, ()))]
        units = {g.index: now.plan[g.index] for g in there}
        now.move_to({i: u for i, u in now.plan.items() if i not in units}, units)
        if not now.go_home([victim.index]):
            return False
        self._stuck = self._spared = {victim.index}
        for gang in there:
            level = self._need(gang).level
            inside = np.arange(self.problem.node_count)
            if level >= 0:
                domain = int(self.problem.levels[level].domain[units[gang.index][0].node])
                inside = self.builder.topology.inside(level, domain)
            if not self.builder.base_is_placed(gang, now.plan):
                return False
            found = self._within(gang, inside, self._prices(gang, within=inside))
            if found is None and anew and level >= 0:
                now.go_home()
                found = self._in_the_room_of_others(gang, until)
            if found is None:
                return False
            now.move_to(found.plan, found.changed)
        now.go_home()
        return True

    # --- where ----------------------------------------------------------------

    def _need(self, gang: Gang) -> _Need:
        if gang.index not in self._needs:
            problem = self.problem
            main = max(
                gang.demands, key=lambda d: (int(problem.gpus[d.pod_class]) * d.count, d.count)
            )
            whole = (
                (s.required, s.pin)
                for s in gang.scopes
                if s.required >= 0 and len(s.demands) == len(gang.demands)
            )
            narrow = max(whole, key=lambda one: problem.levels[one[0]].count, default=(-1, -1))
            self._needs[gang.index] = _Need(main, *narrow)
        return self._needs[gang.index]

    def _choose_domains(self, gangs: Sequence[Gang]) -> None:
        """Chooses a domain for each gang of the narrowest level, where there are enough domains."""
        counts = {
            lv: self.problem.levels[lv].count for g in gangs if (lv := self._need(g).level) >= 0
        }
        level = max(counts, key=lambda lv: counts[lv], default=-1)
        mine = [g for g in gangs if level >= 0 and self._need(g).level == level]
        if not 1 < len(mine) <= min(MOST_MEANT, counts[level]):
            return
        estimates = np.array([self._estimate(g, self._prices(g)) for g in mine])
        chosen = least_assignment(estimates)
        for gang, domain in zip(mine, chosen.column, strict=True):
            if domain in chosen.wanted:
                self._meant[gang.index] = domain

    def _prices(self, gang: Gang, within: Ints | None = None) -> NodePrices:
        need = self._need(gang)
        lacking = 0
        if self.now.moves:
            waiting = (g for g in self.problem.pending if g.index not in self.now.plan)
            lacking = slots_lacking(self.now.residual, need.demand, waiting)
        return self.now.prices.of_nodes(
            self.now.residual, gang, need.demand, need.level, lacking, within=within
        )

    def _estimate(self, gang: Gang, prices: NodePrices) -> Floats:
        """The estimated cost of room for a gang in each domain of its level."""
        demand, level, pin = self._need(gang)
        now = self.now.residual.slots(demand.pod_class, level)
        estimate = prices.by_domain(self.problem.levels[level].domain, now, demand.count)
        if pin >= 0:
            # It has no choice.
            estimate[np.arange(len(estimate)) != pin] = np.inf
        return estimate

    def _beside(self, gang: Gang) -> _Priced | None:
        """The plan with a gang that needs no victims; None where there is no room."""
        now = self.now
        nodes, of_others = None, self._of_others(gang)
        if of_others:
            level = self.problem.levels[self._need(gang).level]
            nodes = np.flatnonzero(~np.isin(level.domain, list(of_others)))
        mark = now.residual.mark()
        units = self.builder.place(now.residual, gang, within=nodes)
        now.residual.undo(mark)
        if units is None:
            return None
        plan = {**now.plan, gang.index: units}
        return _Priced(now.cost(now.plan, ()), plan, frozenset([gang.index]))

    def _in_the_room_of_others(self, gang: Gang, until: float) -> _Priced | None:
        """The plan with a gang where that costs least; None where no victims make enough room."""
        best: _Priced | None = None
        prices = self._prices(gang)
        self._stuck = set(self._spared)
        left = MOST_DOMAINS
        for nodes in self._domains(gang, prices):
            if not left or time.monotonic() > (until if best is None else min(until, self._soon)):
                break
            left -= 1
            found = self._within(gang, nodes, prices)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
                left = left if self.now.moves else MOST_DOMAINS
        return best

    def _domains(self, gang: Gang, prices: NodePrices) -> Iterator[Ints]:
        """Nodes of the domains that may hold the whole gang, the cheapest first; else all."""
        level = self._need(gang).level
        if level < 0:
            yield np.arange(self.problem.node_count)
            return
        estimate = self._estimate(gang, prices)
        meant = self._meant.get(gang.index, -1)
        of_others = self._of_others(gang)
        able = np.flatnonzero(estimate < np.inf)
        able = able[np.argsort(estimate[able], kind="stable")]
        open_ones = [d for d in able.tolist() if d not in of_others and d != meant]
        first = [meant] if meant >= 0 and estimate[meant] < np.inf else []
        for domain in (*first, *open_ones):
            yield self.builder.topology.inside(level, domain)

    def _of_others(self, gang: Gang) -> set[int]:
        """Domains of the level of a gang that are meant for others."""
        level = self._need(gang).level
        return {
            d for g, d in self._meant.items() if g != gang.index and self._needs[g].level == level
        }

    def _within(self, gang: Gang, nodes: Ints, prices: NodePrices) -> _Priced | None:
        """The plan with a gang on some nodes, and what that costs."""
        residual = self.now.residual
        for _ in range(MOST_TRIES if self.now.moves else 1):
            mark, queues = residual.mark(), residual.queues.left
            stuck = len(self._stuck)
            try:
                found = self._cleared(gang, nodes, prices)
            finally:
                residual.undo(mark)
                residual.queues.left = queues
            if found is not None:
                return found if budgets_hold(self.problem, found.plan) else None
            if len(self._stuck) == stuck:
                return None
        return None

    def _cleared(self, gang: Gang, nodes: Ints, prices: NodePrices) -> _Priced | None:
        """The plan with a gang on some nodes that others leave; the residual is changed."""
        now, needed = self.now, self._need(gang).demand
        lacking: float = needed.count - int(now.residual.row(needed.pod_class)[nodes].sum())
        clearing = Clearing(now, gang, needed, nodes, prices, self._stuck)
        clearing.make_room_in_queues()
        while True:
            # Where there is room already no gang need go.
            done = lacking > 0 and clearing.clear(lacking)
            units = self.builder.place(now.residual, gang, within=nodes)
            if units is not None:
                break
            if done:
                return None
            lacking = max(lacking, 1) * MORE
        plan = {**now.plan, **clearing.left, gang.index: units}
        for index, stays in clearing.left.items():
            if not stays:
                del plan[index]
        goers = now.dearest(clearing.left)
        now.residual.queues.charge(gang, units)
        if now.moves:
            if not self._run_elsewhere(plan, goers):
                return None
        else:
            self.builder.put_back_home(now.residual, plan, goers)
            if any(b in plan for i in goers if i not in plan for b in now.based.get(i, ())):
                # A placed gang needs its base.
                return None
        changed = frozenset([gang.index, *clearing.left])
        return _Priced(now.cost(plan, clearing.left), plan, changed)

    def _run_elsewhere(self, plan: dict[GangIdx, Units], goers: Sequence[GangIdx]) -> bool:
        """Brings gangs that leave home again, or elsewhere; returns whether all have a place."""
        gangs, residual = self.problem.gangs, self.now.residual
        self.builder.put_back_home(residual, plan, goers)
        for index in sorted(goers, key=lambda i: (-len(gangs[i].scopes), -gangs[i].value, i)):
            if plan.get(index, ()) != gangs[index].home and not self.builder.move(
                residual, plan, gangs[index]
            ):
                self._stuck.add(index)
                return False
        return True


def _alike(gang: Gang) -> object:
    """What decides whether there is room for a gang, or victims for it: where there are none, there
    are none for others like it, as long as no victims leave.
    """
    return gang.asks, gang.priority, gang.queue_rows, gang.guarantee
