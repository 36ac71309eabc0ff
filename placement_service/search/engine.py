"""The search: from the first answer to a proven one, getting better all the time.

1. Count: rows and the master bound what any plan can admit, and name a target.
2. Decode: place the target greedily, in a few orders.
3. Settle: the pooled model, which counts alike parts of gangs together, settles
   tier after tier where it is small enough; where it is very small a second time,
   after finding out which parts fit into which domains together.
4. Improve: both models settle neighbourhoods, one after another.
5. Decide: on small problems, when that no longer helps, the exact model settles
   tier after tier, with every rule; then neighbourhoods go on.

Bounds come from relaxations alone and values from plans alone, so no stage can
undo what an earlier one has shown. Every better plan and every better bound is
reported at once; whoever listens may stop listening at any time.

Each solve is limited by CP-SAT's deterministic time, so that the same request
takes the same path; the deadline only cuts the path short.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from placement_service.cp_sat.admission_master import solve_master
from placement_service.cp_sat.exact_model import Model, size_of
from placement_service.cp_sat.exact_objective import Goals
from placement_service.cp_sat.solving import Terms
from placement_service.entities.solution import Solution
from placement_service.formulation.objective import UNITS_PER_DOMAIN, gang_domains, priorities
from placement_service.formulation.problem import Gang, Problem
from placement_service.heuristic.plan_builder import Order
from placement_service.search.incumbent import Facts, Report, State
from placement_service.search.lexicographic import settle
from placement_service.search.lns import Improver

#: Variables up to which the exact model is tried on the whole problem, and up
#: to which it also polishes the fragmentation tier, which has no proof to win.
MAX_EXACT_VARIABLES = 60_000
MAX_POLISH_VARIABLES = 6_000
#: Variables up to which a hard goal is worth a second try with more kinds of search.
MAX_PORTFOLIO_VARIABLES = 5_000
#: Deterministic time of the solves.
MASTER_EFFORT = 2.0
EXACT_EFFORT = 5.0
HARD_EFFORT = 40.0
POLISH_EFFORT = 0.5
ALONE_EFFORT = 0.5


def search(problem: Problem, start: Solution, *, deadline: float, report: Report) -> Solution:
    """The best plan found and the best bounds proven by `deadline`.

    `deadline` is in `time.monotonic` seconds. The result is never worse than
    `start`, and nothing better was ever reported.
    """
    state = State(problem, start, deadline, report)
    # Something is known at once: nobody can do better than everybody.
    report(state.solution())
    count(state)
    decode(state)
    settle(state)
    settle(state, thorough=True)
    improver = Improver(state)
    improver.begin()
    decide(state)
    improver.run()
    measure_fewest(state)
    return state.solution(final=True)


# --- 1. count -------------------------------------------------------------------


def count(state: State) -> None:
    """Bounds of all tiers by rows, patterns and the least that each gang needs."""
    problem = state.problem
    counting = state.counting
    wishes = [counting.least_beyond(problem.gangs[c.gangs[0]]) for c in counting.classes]
    most = dict.fromkeys(priorities(problem), 0)
    for c in counting.classes:
        most[c.priority] += c.value * len(c.gangs)
    if state.worth.admitted == tuple(most.values()) and state.worth.extra == state.all_extras:
        # Nobody is left out, so there is nothing to choose.
        domains = sum(w * len(c.gangs) for w, c in zip(wishes, counting.classes, strict=True))
        state.target = tuple(g for c in counting.classes for g in c.gangs)
        state.learn(Facts(state.worth.admitted, state.all_extras, domains * UNITS_PER_DOMAIN))
        return
    target = solve_master(
        counting, wishes, seconds=max(0.05, state.at_most(state.left / 2)), effort=MASTER_EFFORT
    )
    running = sum(g.extras for g in problem.gangs if g.placeable and not g.pending)
    state.target, state.layout = target.gangs, target.layout
    state.learn(
        Facts(
            target.bounds,
            min(state.all_extras, target.extra + running),
            target.domains * UNITS_PER_DOMAIN,
        )
    )


# --- 2. decode ------------------------------------------------------------------


def decode(state: State) -> None:
    """Place the target greedily, hardest first, in a few orders."""
    state.phase = "decode"
    # A fixed seed: the same question takes the same path.
    deal = random.Random(20261121)
    build = state.builder.build
    for order in _orders(state.problem):
        for layout in (None, state.layout) if state.layout else (None,):
            if state.proven or state.left <= 0:
                return
            if layout and state.extra_is_proven:
                # Slots bring gangs in; they do nothing for topology.
                continue
            state.accept(build(order, first=state.target, layout=layout, deal=deal))


def _orders(problem: Problem) -> tuple[Order, ...]:
    def units(gang: Gang, demands: Sequence[int]) -> int:
        return sum(
            int(problem.gpus[gang.demands[d].pod_class]) * gang.demands[d].count for d in demands
        )

    size = {g.index: units(g, range(len(g.demands))) for g in problem.gangs}
    hardest = {
        g.index: max((units(g, s.demands) for s in g.scopes if s.required >= 0), default=0)
        for g in problem.gangs
    }
    bound = {
        g.index: any(s.required >= 0 and len(s.demands) == len(g.demands) for s in g.scopes)
        for g in problem.gangs
    }
    return (
        lambda g: (not bound[g.index], -size[g.index]),
        lambda g: -size[g.index],
        lambda g: (-hardest[g.index], -size[g.index]),
        lambda g: (-len(g.scopes), -size[g.index]),
    )


# --- 5. decide ------------------------------------------------------------------


def decide(state: State) -> None:
    """Settle the tiers one by one with the exact model of everything."""
    problem = state.problem
    gangs = [g for g in problem.gangs if g.placeable and (g.pending or g.extras)]
    everywhere = np.arange(problem.node_count)
    polish = state.worth.fragmentation > 0
    size = size_of(problem, gangs, everywhere)
    most = MAX_POLISH_VARIABLES if state.proven else MAX_EXACT_VARIABLES
    if not gangs or (state.proven and not polish) or size > most or state.left <= 0:
        return
    state.phase = "exact"
    goals = Goals(Model(state.counting, gangs, everywhere, problem.free, {}))
    decided = _decide_admitted(state, goals) and _decide_extras(state, goals)
    if decided and _decide_topology(state, goals) and size <= MAX_POLISH_VARIABLES:
        _solve(state, goals, goals.fragmentation, maximize=False, effort=POLISH_EFFORT)


def _solve(
    state: State, goals: Goals, terms: Terms, *, maximize: bool, effort: float = EXACT_EFFORT
) -> int | None:
    """Settle one goal: take a better plan, return the proven bound."""
    if state.left <= 0:
        return None
    bounds: list[int] = []
    # A goal that does not settle leaves half of the time to the neighbourhoods.
    for portfolio, share in ((False, effort), (True, HARD_EFFORT)):
        answer = goals.model.solve(
            terms,
            maximize=maximize,
            hint=state.plan,
            seconds=state.at_most(state.left / 2),
            effort=share,
            portfolio=portfolio,
        )
        if answer.plan is not None:
            state.accept(answer.plan)
        if answer.bound is not None:
            bounds.append(answer.bound)
        hard = goals.model.size <= MAX_PORTFOLIO_VARIABLES and effort != POLISH_EFFORT
        if answer.proven or not hard or state.left <= 0:
            break
    return (min if maximize else max)(bounds, default=None)


def _decide_admitted(state: State, goals: Goals) -> bool:
    for i, priority in enumerate(priorities(state.problem)):
        terms = goals.admitted(priority)
        if state.worth.admitted[i] != state.facts.admitted[i]:
            bound = _solve(state, goals, terms, maximize=True)
            _tidy(state)
            if bound is not None and bound < state.facts.admitted[i]:
                state.learn(state.with_admitted(i, bound))
            if state.worth.admitted[i] != state.facts.admitted[i]:
                return False
        if terms:
            goals.model.hold(terms, at_least=state.worth.admitted[i])
    return True


def _tidy(state: State) -> None:
    """Place the gangs of the plan anew: a settled tier cares nothing for those below."""
    for order in _orders(state.problem):
        if state.left > 0:
            state.accept(state.builder.build(order, first=state.plan))


def _decide_extras(state: State, goals: Goals) -> bool:
    terms = goals.extras()
    if not state.extra_is_proven:
        bound = _solve(state, goals, terms, maximize=True)
        _tidy(state)
        if bound is not None and bound < state.facts.extra:
            # What was proven of the topology took more extras for granted.
            state.learn(replace(state.facts, extra=bound, topology=0))
        if not state.extra_is_proven:
            return False
    if terms:
        goals.model.hold(terms, at_least=state.worth.extra)
    return True


def _decide_topology(state: State, goals: Goals) -> bool:
    if not state.proven:
        bound = _solve(state, goals, goals.topology, maximize=False)
        if bound is not None and bound > state.facts.topology:
            state.learn(replace(state.facts, topology=bound))
        if not state.proven:
            return False
    if goals.topology:
        goals.model.hold(goals.topology, at_most=state.worth.topology)
    return True


# --- scores ---------------------------------------------------------------------


def measure_fewest(state: State) -> None:
    """The fewest domains that each placed gang could use, alone on the snapshot.

    Known at once where the counting bound is reached, else by the exact model
    of the gang alone, as far as time and size allow.
    """
    everywhere = np.arange(state.problem.node_count)
    for index, units in state.plan.items():
        gang = state.problem.gangs[index]
        if not gang.pending or all(s.preferred < 0 for s in gang.scopes):
            continue
        used = gang_domains(state.problem, gang, units)
        if used == state.counting.fewest(gang):
            state.fewest[index] = used
        elif size_of(state.problem, [gang], everywhere) <= MAX_POLISH_VARIABLES and state.left > 0:
            alone = Goals(
                Model(state.counting, [gang], everywhere, state.problem.free, {}, {gang.base})
            )
            alone.model.hold(alone.admitted(gang.priority), at_least=gang.value)
            alone.model.hold(alone.extras(), at_most=0)
            answer = alone.model.solve(
                alone.domains,
                maximize=False,
                hint={index: units},
                seconds=state.left,
                effort=ALONE_EFFORT,
            )
            if answer.proven and answer.plan is not None:
                state.fewest[index] = gang_domains(state.problem, gang, answer.plan[index])
