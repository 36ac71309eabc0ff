"""Building a plan: gangs one after another, minimums first, extras after."""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from placement_service.entities.deadline import OutOfTime
from placement_service.entities.request import ExtrasPolicy
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import (
    Plan,
    Units,
    has_minimum,
    is_placed,
    may_be_placed,
    may_lie_so,
    oldest_first,
)
from placement_service.formulation.problem import Gang, Problem, UnitsOnNode
from placement_service.formulation.tiers import admitted
from placement_service.heuristic.one_gang.domain_choice import minimum_units
from placement_service.heuristic.one_gang.domain_facts import Topology
from placement_service.heuristic.one_gang.extras import GangExtras, Size, extra_size
from placement_service.heuristic.one_gang.placer import GangPlacer
from placement_service.heuristic.one_gang.regions import Region
from placement_service.heuristic.orders import Order
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.heuristic.slot_layout import Layout

#: So many times its share of the time a gang may take before it is put off.
MANY_SHARES = 10


class Builder:
    """Builds plans gang by gang."""

    def __init__(self, problem: Problem, until: float = float("inf")) -> None:
        self.until = until
        self.problem = problem
        self.topology = Topology(problem)
        #: Of an open gang the units that it had last, and those that are not at home then.
        self._lacking: dict[GangIdx, tuple[Units, Units]] = {}
        goals = list(enumerate(admitted.goals(problem)))
        #: Of each gang that waits the first goal that it counts for.
        self.turn = {
            gang.index: turn
            for turn, goal in reversed(goals)
            for gang in goal.could_gain({}, lambda gang: 0)
        }

    # --- plans ------------------------------------------------------------

    def build(
        self,
        order: Order,
        *,
        start: Plan | None = None,
        first: Iterable[GangIdx] = (),
        layout: Layout | None = None,
        rng: random.Random | None = None,
        until: float = math.inf,
    ) -> Plan:
        """A plan: the valid start, then `first`, then the rest by priority, as far as it comes
        `until` its time is up.

        With a layout, `first` keep to the slots that the layout assigns, drawn by `rng`.

        `order` sorts gangs of one priority (and all of `first`); of equals the oldest
        goes first. A base goes before the gangs based on it.
        """
        residual = ResidualCapacity(self.problem)
        plan: dict[GangIdx, Units] = dict(start or {})
        residual.take_plan(plan)
        chosen = set(first)
        # All gangs that are placed when time is up are whole; the others wait.
        with suppress(OutOfTime), self.ending(until):
            if layout is not None and rng is not None:
                residual.slots_left = layout.slots(rng)
                aimed = [g for g in self.problem.pending if g.index in chosen]
                aimed.sort(key=lambda g: (order(g), oldest_first(g)))
                self._add_all(residual, plan, aimed, layout)
            for gangs, extended in self._turns(order, chosen):
                self._add_all(residual, plan, gangs)
                self.add_extras(residual, plan, extended)
        return plan

    @contextmanager
    def ending(self, until: float) -> Iterator[None]:
        """Within the block nothing is tried past that time: then OutOfTime is raised."""
        before, self.until = self.until, min(self.until, until)
        try:
            yield
        finally:
            self.until = before

    def _turns(self, order: Order, chosen: set[GangIdx]) -> Iterator[tuple[list[Gang], list[Gang]]]:
        """Pending gangs whose minimums are placed, then gangs whose extras are.

        All at once, or priority by priority where extras go with them.
        """
        every = self.problem.gangs
        together = self.problem.policy.extras is not ExtrasPolicy.WITH_PRIORITY
        steps = [None] if together else sorted({g.priority for g in every}, reverse=True)
        for priority in steps:
            mine = [g for g in every if priority in (None, g.priority)]
            pending = [g for g in mine if g.pending and g.placeable]
            first = [g for g in pending if g.index in chosen]
            rest = [g for g in pending if g.index not in chosen]
            first.sort(key=lambda g: (order(g), oldest_first(g)))
            rest.sort(key=lambda g: (self.turn[g.index], order(g), oldest_first(g)))
            yield first + rest, mine

    def _add_all(
        self,
        residual: ResidualCapacity,
        plan: dict[GangIdx, Units],
        gangs: Iterable[Gang],
        layout: Layout | None = None,
    ) -> None:
        """Place gangs in turn. One that takes far more than its share of the time is put off until
        all others were tried, and so is what is based on it.
        """
        waiting = [gang for gang in bases_first(gangs) if gang.index not in plan]
        put_off: dict[GangIdx, Gang] = {}
        end = self.until
        for k, gang in enumerate(waiting):
            if not put_off.keys().isdisjoint(gang.rests_on):
                put_off[gang.index] = gang
                continue
            now = time.monotonic()
            if now > end:
                raise OutOfTime
            if not self.problem.policy.deterministic:
                self.until = min(end, now + MANY_SHARES * (end - now) / (len(waiting) - k))
            try:
                self.add(residual, plan, gang, layout)
            except OutOfTime:
                if self.until == end:
                    raise
                put_off[gang.index] = gang
            finally:
                self.until = end
        for gang in put_off.values():
            self.add(residual, plan, gang, layout)

    def adopt(self, start: Plan) -> Plan:
        """The whole gangs of an earlier plan that still fit as they are."""
        residual = ResidualCapacity(self.problem)
        plan: dict[GangIdx, Units] = {}
        mine = (self.problem.gangs[i] for i in sorted(start))
        for gang in bases_first(sorted(mine, key=lambda g: g.base >= 0)):
            index = gang.index
            units = start[index]
            if gang.placeable and has_minimum(gang, units) and self.base_is_placed(gang, plan):
                mark = residual.mark()
                if residual.queues.allows(gang, units) and self._retake(residual, gang, units):
                    plan[index] = units
                    residual.queues.charge(gang, units)
                else:
                    residual.undo(mark)
        return plan

    def _retake(self, residual: ResidualCapacity, gang: Gang, units: Units) -> bool:
        for scope in gang.scopes:
            if scope.required >= 0:
                domain = self.problem.levels[scope.required].domain
                used = {int(domain[n]) for d, n, _ in units if d in scope.demands}
                used |= {scope.pin} - {-1}
                if len(used) > 1 or -1 in used:
                    return False
        if not any(residual.loads_of(gang.demands[d].pod_class) for d, _, _ in units):
            fits = residual.fits(gang, units)
            if fits:
                residual.take_units(gang, units)
            return fits
        for d, node, count in units:
            pod_class = gang.demands[d].pod_class
            for _ in range(count if self.problem.special[pod_class] else 1):
                step = 1 if self.problem.special[pod_class] else count
                if residual.row(pod_class)[node] < step or not residual.allowed(pod_class)[node]:
                    return False
                residual.take(pod_class, np.array([node]), np.array([step]))
        return residual.rules_hold()

    def base_is_placed(self, gang: Gang, plan: Plan) -> bool:
        """Whether its base allows the gang to be placed."""
        return may_be_placed(self.problem, gang, plan)

    def add(
        self,
        residual: ResidualCapacity,
        plan: dict[GangIdx, Units],
        gang: Gang,
        layout: Layout | None = None,
    ) -> bool:
        """Place the minimum of one gang, or nothing."""
        if not gang.placeable or not self.base_is_placed(gang, plan):
            return False
        units = self.place(residual, gang, near=self._set_places(gang, plan), layout=layout)
        if units is None:
            return False
        plan[gang.index] = units
        residual.queues.charge(gang, units)
        return True

    def _set_places(self, gang: Gang, plan: Plan) -> tuple[int, frozenset[int]]:
        """The level of the gang's set and the places its base uses there."""
        if gang.base < 0 or gang.set_level < 0:
            return -1, frozenset()
        base = self.problem.gangs[gang.base]
        place = self.problem.levels[gang.set_level].place_of
        used = {p for p in base.set_running if p >= 0}
        used.update(int(place[n]) for _, n, _ in plan.get(base.index, ()))
        return gang.set_level, frozenset(used)

    def put_back_home(
        self, residual: ResidualCapacity, plan: dict[GangIdx, Units], gangs: Iterable[GangIdx]
    ) -> None:
        """Brings open gangs of a plan home again, one after another, where there is room and their
        queues allow it. `residual` is what the plan leaves; both are changed.
        """
        for gang in self._that_may_be_home(residual, plan, gangs):
            if not self.base_is_placed(gang, plan):
                continue
            held = plan.get(gang.index, ())
            mark, queues = residual.mark(), residual.queues
            before = queues.left
            queues.charge(gang, held, -1)
            residual.take_units(gang, held, -1)
            if queues.allows(gang, gang.home) and self._retake(residual, gang, gang.home):
                queues.charge(gang, gang.home)
                plan[gang.index] = gang.home
            else:
                residual.undo(mark)
                queues.left = before

    def _that_may_be_home(
        self, residual: ResidualCapacity, plan: Plan, gangs: Iterable[GangIdx]
    ) -> list[Gang]:
        """The gangs for whose pods that left there is room at home; where a gang may move to nodes
        of its own, that is not known before it goes back. Each that comes home leaves others less.
        """
        mine = [self.problem.gangs[i] for i in gangs]
        lacking = [(g, self._lacks(g, plan.get(g.index, ()))) for g in mine if not g.keeps]
        fits = dict(zip((g.index for g, _ in lacking), residual.which_fit(lacking), strict=True))
        return [g for g in mine if fits.get(g.index, True)]

    def _lacks(self, gang: Gang, held: Units) -> Units:
        """The units at home that a gang does not have."""
        if not held:
            return gang.home
        known = self._lacking.get(gang.index)
        if known is None or known[0] is not held:
            known = self._lacking[gang.index] = held, _beyond(gang.home, held)
        return known[1]

    def move(self, residual: ResidualCapacity, plan: dict[GangIdx, Units], gang: Gang) -> bool:
        """Places the pods that left of a gang elsewhere, or else the whole gang. Returns false if
        there is no room; then the gang is no longer in the plan. `residual` is what the plan
        leaves; both are changed.
        """
        mark, queues = residual.mark(), residual.queues.left
        held = plan.get(gang.index, ())
        work = GangExtras(self.topology, residual, gang, self.until)
        work.taken = {(d, n): count for d, n, count in held}
        work.run()
        units = work.units()
        # Pods that wait besides do not stand in for those that ran.
        if has_minimum(gang, units) and may_lie_so(gang, units):
            plan[gang.index] = units
            return True
        residual.undo(mark)
        residual.queues.left = queues
        plan.pop(gang.index, None)
        residual.take_units(gang, held, -1)
        residual.queues.charge(gang, held, -1)
        anew = self.place(residual, gang)
        if anew is None:
            return False
        plan[gang.index] = anew
        residual.queues.charge(gang, anew)
        return True

    # --- one gang ---------------------------------------------------------

    def place(
        self,
        residual: ResidualCapacity,
        gang: Gang,
        *,
        near: tuple[int, frozenset[int]] = (-1, frozenset()),
        within: Ints | None = None,
        layout: Layout | None = None,
    ) -> Units | None:
        """The minimum of a gang as units, taken from what is left; None and unchanged if it fails.

        `near` is a level and places there to try first; `within` restricts to
        some nodes (sorted indices).
        """
        if not residual.queues.allows(gang, minimum_units(gang)):
            return None
        level, places = near
        first: list[Ints] = []
        if level >= 0 and places:
            first.append(np.flatnonzero(np.isin(self.problem.levels[level].place_of, list(places))))
        if gang.previous:
            first.append(np.array(sorted(gang.previous)))
        if gang.home:
            first.append(np.unique([home.node for home in gang.home]))
        if within is not None:
            first = [np.intersect1d(nodes, within) for nodes in first]
        for region in (*map(Region, first), Region(within)):
            mark = residual.mark()
            work = GangPlacer(self.topology, residual, gang, layout, self.until)
            try:
                if work.run(region) and residual.rules_hold():
                    units = work.units()
                    if may_lie_so(gang, units):
                        return units
            except OutOfTime:
                residual.undo(mark)
                raise
            residual.undo(mark)
        return None

    def add_extras(
        self, residual: ResidualCapacity, plan: dict[GangIdx, Units], gangs: Iterable[Gang]
    ) -> None:
        """As many extras as fit: the smallest first, as each counts the same, and of these gangs
        of higher priority. Of one size all look for room near their gangs before any goes farther.
        """
        turns: defaultdict[Size, list[Gang]] = defaultdict(list)
        for gang in sorted(gangs, key=lambda g: (-g.priority, g.index)):
            for size in self._extra_sizes(gang) if gang.placeable else ():
                turns[size].append(gang)
        for size in sorted(turns):
            for near in (True, False):
                for gang in turns[size]:
                    self._extend(residual, plan, gang, size, near=near)

    def _extend(
        self,
        residual: ResidualCapacity,
        plan: dict[GangIdx, Units],
        gang: Gang,
        largest: Size,
        *,
        near: bool,
    ) -> None:
        """Add as many extras of a gang as fit; see `GangExtras.run`."""
        here = sum(count for *_, count in plan.get(gang.index, ()))
        if here >= sum(q.pending for q in gang.requirements):
            return
        if is_placed(gang, plan) and self.base_is_placed(gang, plan):
            work = GangExtras(self.topology, residual, gang, self.until)
            work.taken = {(d, n): c for d, n, c in plan.get(gang.index, ())}
            work.run(near=near, largest=largest)
            if work.taken:
                plan[gang.index] = work.units()

    def _extra_sizes(self, gang: Gang) -> set[Size]:
        """The sizes of its extras."""
        return {
            extra_size(self.problem, s)
            for q in gang.requirements
            if q.pending > q.missing
            for s in gang.pod_classes(q)
        }


def _beyond(home: Units, held: Units) -> Units:
    """The units at home that a gang does not have."""
    there = {(d, n): count for d, n, count in held}
    lacking = (UnitsOnNode(d, n, units - there.get((d, n), 0)) for d, n, units in home)
    return tuple(one for one in lacking if one.units)


def bases_first(gangs: Iterable[Gang]) -> list[Gang]:
    """The same order, but each base before the gangs based on it."""
    gangs = list(gangs)
    later = {g.index for g in gangs}
    waiting: dict[int, list[Gang]] = {}
    result: list[Gang] = []

    def take(gang: Gang) -> None:
        base = next((b for b in gang.rests_on if b in later), None)
        if base is not None:
            waiting.setdefault(base, []).append(gang)
            return
        result.append(gang)
        later.discard(gang.index)
        for follower in waiting.pop(gang.index, ()):
            take(follower)

    for gang in gangs:
        take(gang)
    return result
