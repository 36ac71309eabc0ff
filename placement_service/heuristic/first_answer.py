"""The first answer: fast, complete and valid by itself.

It knows neither bounds nor the solver. Every later stage starts from it and may only improve it. A
few orders of the gangs are tried and the best plan is kept.
"""

from __future__ import annotations

import time
from dataclasses import replace
from operator import is_

from placement_service.entities.solution import Assignment, Solution
from placement_service.formulation.eviction.disruption_budgets import budgets_hold
from placement_service.formulation.indices import NO_LEVEL
from placement_service.formulation.objective import to_solution, worth
from placement_service.formulation.plan import (
    Plan,
    from_solution,
    home_plan,
    is_placed,
    oldest_first,
)
from placement_service.formulation.presolve.fewer_columns import with_fewer_columns
from placement_service.formulation.presolve.hopeless_gangs import without_gangs_counted_late
from placement_service.formulation.presolve.implied_room import without_implied_room
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers import goals
from placement_service.formulation.tiers.goal import Goal
from placement_service.heuristic.lone_gang import settle
from placement_service.heuristic.orders import (
    Order,
    TurnOrder,
    narrowest_first,
    orders,
    widest_first,
)
from placement_service.heuristic.pace import NoTimeForAll
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.victims.joint_room import joint_room
from placement_service.heuristic.victims.make_room import make_room, place_again

#: Seconds that the first answer may take even when none are left.
LEAST_SECONDS = 0.1

#: Nodes times gangs up to which the first answer tries a second order. Beyond,
#: the solver's own orders are the better use of the time.
TWO_ORDERS = 2_000_000

#: The same for plans in which other domains are chosen.
MORE_ORDERS = 200_000


def first_answer(
    problem: Problem,
    previous: tuple[Assignment, ...] = (),
    *,
    deadline: float = float("inf"),
    minimums_only: bool = False,
) -> Solution:
    """The best of a few greedy plans, and of the previous one where it still fits.

    Where one gang waits and counting is enough, it is the best possible plan.

    It begins with the gangs in turn, the oldest first: that is what any scheduler does, and gangs
    that come late mostly find no room, so hardly anything is lost where time is short.

    Where running gangs may give way, all stay at first, and then make room for one gang after
    another in two orders, of a small question in three; where they may be moved, before that for
    several at once.

    Gangs that are not placed by `deadline` (in `time.monotonic` seconds) wait; but a short time is
    always taken. After half of the time the second order is not begun, unless no clock may decide.
    With `minimums_only` any plan that places all gangs is good enough.
    """
    settled = settle(problem)
    if settled is not None:
        return settled
    # Bounds are not looked for, and the fewer columns there are the sooner it is known what fits.
    problem = replace(without_gangs_counted_late(problem), relaxation=None)
    problem = with_fewer_columns(without_implied_room(problem))
    plans = _Plans(problem, until=deadline, minimums_only=minimums_only)
    plans.place(previous)
    if plans.home:
        plans.make_room()
    return to_solution(problem, plans.best, plans.goals)


class _Plans:
    """The best greedy plan so far. `half` is when half of the time until `until` is over."""

    best: Plan

    def __init__(self, problem: Problem, *, until: float, minimums_only: bool) -> None:
        now = time.monotonic()
        self.problem = problem
        self.until = until
        self.half = until if problem.policy.deterministic else now + (until - now) / 2
        self.builder = Builder(problem)
        self.builder.until = max(until, now + LEAST_SECONDS)
        self.home = home_plan(problem)
        self.goals = goals(problem)
        self._minimums_only = minimums_only
        self._hardest_first = orders(problem).hardest_first
        self._is_small = problem.node_count * len(problem.pending) <= MORE_ORDERS

    def place(self, previous: tuple[Assignment, ...]) -> None:
        """Gangs one after another in several orders; nobody gives way."""
        problem, builder, hardest_first = self.problem, self.builder, self._hardest_first
        # No answer may be worse than the oldest first, so that comes before all else.
        self.best = builder.build(oldest_first, start=self.home)
        if previous and not self.home and not self._is_enough:
            kept = builder.adopt(_earlier_plan(problem, previous))
            # Of equal plans the one that changes less.
            self.best = self._better(builder.build(hardest_first, start=kept), self.best)
        if len(problem.pending) <= 1 or is_large(problem):
            return
        # The hardest first mostly admits more.
        for order in (hardest_first, _own_nodes_first(builder, hardest_first)):
            if order is not None and not self._is_enough and time.monotonic() <= self.half:
                self.best = self._better(self.best, builder.build(order, start=self.home))
        if self._is_small and not self._is_enough:
            self.best = _with_more_pods(
                builder, hardest_first, self.home, self.best, soon=self.half
            )

    def make_room(self) -> None:
        """Running gangs give way: from what runs now in several orders, then from the best plan."""
        builder = self.builder
        # The gang with least choice first.
        narrowest = narrowest_first(self.problem)

        def in_turn(gang: Gang) -> tuple[int, ...]:
            return (builder.turn[gang.index], *narrowest(gang))

        self._make_room_from_home(narrowest, in_turn)
        if _has_all(self.problem, self.best) or time.monotonic() >= self.until:
            return
        opened = make_room(builder, self.best, in_turn, until=self.until)
        if opened is not self.best:
            plan = builder.build(self._hardest_first, start=opened)
            if budgets_hold(self.problem, plan):
                self.best = self._better(self.best, plan)

    def _make_room_from_home(self, narrowest: TurnOrder, in_turn: TurnOrder) -> None:
        """Room for all that wait, where nothing has moved yet, in one order after another."""
        problem, builder = self.problem, self.builder
        several_move = _several_move(problem)
        # Without moves those that come first by the goals may lose their room to others.
        turns = [narrowest, widest_first(problem) if several_move else in_turn]
        if several_move:
            # What counts most is who finds free nodes, so all are placed at once.
            together = _jointly(builder, narrowest, soon=self.half, until=self.until)
            self.best = self._better(self.best, together)
        elif _asks_for_more(problem):
            turns.reverse()
        if self._is_small:
            # Of equals any scheduler takes the oldest.
            turns.append(lambda gang: (builder.turn[gang.index], *oldest_first(gang)))
        waits, begin_by = not _has_all(problem, self.best), builder.until
        for order in turns:
            if not waits or time.monotonic() > begin_by:
                break
            # Where there is not time for all, those come first that the goals name first.
            all_of_them = order is narrowest and not several_move and order is not turns[-1]
            try:
                found = _with_victims(
                    builder, self.home, order, until=self.until, all_of_them=all_of_them
                )
            except NoTimeForAll:
                continue
            self.best, begin_by = self._better(self.best, found), self.half
            waits = not self._is_enough and (several_move or not _has_all(problem, self.best))

    @property
    def _is_enough(self) -> bool:
        """Whether no better plan is asked for than the best so far."""
        placed = (is_placed(gang, self.best) for gang in self.problem.pending)
        return self._minimums_only and all(placed)

    def _better(self, one: Plan, other: Plan | None) -> Plan:
        """The better of two plans; of equals the one that is named first."""
        return _better(self.problem, self.goals, one, other)


def _own_nodes_first(builder: Builder, order: Order) -> Order | None:
    """The same order, but gangs first with nodes that others hardly want: reservations are of no
    use where others have filled the rest of a domain. None where no gang has any.
    """
    own = builder.topology.own_nodes
    mine = {
        gang.index
        for gang in builder.problem.pending
        if any(own(d.pod_class) is not None for d in gang.demands)
    }
    return (lambda gang: (gang.index not in mine, order(gang))) if mine else None


def _with_victims(
    builder: Builder, home: Plan, order: TurnOrder, *, until: float, all_of_them: bool
) -> Plan | None:
    """Room for all waiting gangs, where nothing has moved yet."""
    opened = make_room(builder, home, order, until=until, all_of_them=all_of_them)
    return _filled(builder, opened)


def _jointly(builder: Builder, order: TurnOrder, *, soon: float, until: float) -> Plan | None:
    """Room for gangs of one kind at once, if it is found `soon`, and then for the others."""
    begun = joint_room(builder, until=soon)
    if begun is None:
        return None
    opened = make_room(builder, begun, order, until=until)
    opened = place_again(builder, opened, order, until=until)
    return _filled(builder, opened)


def _filled(builder: Builder, opened: Plan) -> Plan | None:
    """A plan with all else that fits; None where too many pods of a budget would move."""
    plan = builder.build(orders(builder.problem).required_first, start=opened)
    return plan if budgets_hold(builder.problem, plan) else None


def _has_all(problem: Problem, plan: Plan) -> bool:
    """Whether nobody waits any longer."""
    return all(is_placed(g, plan) for g in problem.pending if not (g.home or g.begins_anew))


def _with_more_pods(builder: Builder, order: Order, home: Plan, best: Plan, *, soon: float) -> Plan:
    """The best of some plans more, while pods wait: extras find no room any more in tight domains
    that were chosen for minimums, and pods that keep together leave less to others.
    """
    problem = builder.problem
    for change in (_with_extras_at_once, _without_preferred_levels):
        other = change(problem)
        if _has_every_pod(problem, best) or time.monotonic() > soon:
            break
        if other is not problem:
            begun = Builder(other, builder.until).build(order, start=home)
            found = builder.build(order, start=begun)
            best = _better(problem, goals(problem), best, found)
    return best


def _with_extras_at_once(problem: Problem) -> Problem:
    """The problem in which gangs come with all extras or not; the same where there are none."""
    gangs = tuple(
        replace(g, requirements=tuple(q._replace(missing=q.pending) for q in g.requirements))
        if not (g.home or g.begins_anew) and any(q.pending > q.missing for q in g.requirements)
        else g
        for g in problem.gangs
    )
    return problem if all(map(is_, gangs, problem.gangs)) else replace(problem, gangs=gangs)


def _has_every_pod(problem: Problem, best: Plan) -> bool:
    """Whether all gangs run with all extras."""
    return all(
        sum(u.units for u in best.get(g.index, ())) >= sum(q.pending for q in g.requirements)
        for g in problem.pending
        if not (g.home or g.begins_anew)
    )


def _without_preferred_levels(problem: Problem) -> Problem:
    """The problem without them; the same where gangs prefer none."""
    gangs = tuple(
        replace(g, scopes=tuple(s._replace(preferred=NO_LEVEL) for s in g.scopes))
        if any(s.preferred >= 0 for s in g.scopes)
        else g
        for g in problem.gangs
    )
    alike = all(map(is_, gangs, problem.gangs))
    return problem if alike else replace(problem, gangs=gangs)


def _better(problem: Problem, every: tuple[Goal, ...], best: Plan, plan: Plan | None) -> Plan:
    """The other plan if it is better than the best so far."""
    return (
        best if plan is None else max(best, plan, key=lambda p: worth(problem, p, every=every).rank)
    )


def _asks_for_more(problem: Problem) -> bool:
    """Whether those that wait ask for more GPUs than there are if all go that may."""
    waiting = (d for g in problem.pending if not g.home for d in g.demands)
    asked = sum(int(problem.gpus[d.pod_class]) * d.count for d in waiting)
    return asked > int(problem.node_gpus_free.sum())


def _several_move(problem: Problem) -> bool:
    """Whether running gangs may be moved, for several that wait."""
    return any(g.keeps for g in problem.gangs) and sum(not g.home for g in problem.pending) > 1


def is_large(problem: Problem) -> bool:
    """Whether the first answer tries one order only."""
    return problem.node_count * len(problem.pending) > TWO_ORDERS


def _earlier_plan(problem: Problem, previous: tuple[Assignment, ...]) -> Plan:
    """An earlier answer as a plan, without bundles whose pods are on different nodes."""
    plan = from_solution(problem, Solution(previous, ()))
    return {i: tuple(u for u in units if u[2]) for i, units in plan.items()}
