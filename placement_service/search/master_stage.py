"""Count what any plan can admit, and place the gangs that the count names."""

from __future__ import annotations

import random
import time
from functools import partial

import numpy as np

from placement_service.bounds.near_rows import NearRows
from placement_service.entities.solution import TierName
from placement_service.formulation.plan import is_placed
from placement_service.formulation.problem import Problem
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.heuristic.first_answer import is_large
from placement_service.heuristic.orders import orders
from placement_service.search.counted_goals import count_goals, count_most
from placement_service.search.incumbent import State


def counting_seconds(state: State) -> float:
    """About how long counting takes at least: where many gangs run, each of their pods is a pod
    class. None where the same request must take the same path.
    """
    problem, p = state.problem, state.parameters
    if problem.policy.deterministic:
        return 0.0
    rows = 0.0 if state.ground.is_counting else p.counting_seconds * problem.node_count
    return problem.class_count * (rows + p.master_seconds)


def count(state: State) -> None:
    """Bounds of all goals by rows, patterns and the least that each gang needs, if there is time
    for that.
    """
    if time.monotonic() > state.deadline:
        return
    counted = state.ground.counted if state.is_fresh else None
    if counted is None and state.deadline - time.monotonic() < counting_seconds(state):
        return
    counting = state.counting
    if state.packs and _everybody_counts(state):
        # No gang is left out, so there is nothing to choose.
        domains = sum(c.beyond * len(c.gangs) for c in counting.classes)
        state.target = tuple(g for c in counting.classes for g in c.gangs)
        state.learn(state.topology, domains * UNITS_PER_DOMAIN)
        if state.proven or not any(NearRows(counting).rows()):
            return
    if counted is None:
        if state.deadline - time.monotonic() < counting_seconds(state):
            # Rows may have taken longer.
            return
        most = state.at_most(state.left * state.parameters.counting_share)
        counted = count_goals(
            counting,
            state.goals,
            state.bounds,
            state.parameters,
            floors=state.worth.floors,
            seconds=max(state.parameters.least_seconds, state.at_most(state.left / 2)),
            deadline=min(state.deadline, time.monotonic() + most),
        )
        assert counted is not None
    state.target, state.layout = counted.target, counted.layout
    state.learn_all(counted.bounds)


def count_tiers(state: State) -> None:
    """Bounds of tiers for plans that may be anything in the goals before: while one of several
    goals of who is admitted is open, bounds of the others say nothing.
    """
    who = sum(goal.tier is TierName.ADMITTED for goal in state.goals)
    if state.left <= counting_seconds(state):
        return
    if who > 1 and not (state.packs or TierName.WAITING in state.most):
        seconds = max(state.parameters.least_seconds, state.at_most(state.left / 10))
        counting, parameters = state.counting, state.parameters
        end = state.deadline
        most = count_most(counting, state.goals, parameters, seconds=seconds, deadline=end)
        state.learn_most(most)


def _everybody_counts(state: State) -> bool:
    """Whether every plan that reaches the bounds places all gangs, as the plan does.

    Not where bounds are known to leave gangs out, or gangs may be given up for later tiers.
    """
    gangs, plan = state.problem.gangs, state.plan
    if not all(is_placed(gangs[g], plan) for c in state.counting.classes for g in c.gangs):
        return False
    who = (TierName.ADMITTED, TierName.WAITING)
    floors = zip(state.goals, state.worth.floors, strict=True)
    return all(floor is None for goal, floor in floors if goal.tier in who)


def decode_shared(state: State) -> bool:
    """Places the target, the largest pods first, where many pods share nodes: blocks are counted in
    whole nodes, and say little of what finds room there. Returns whether all found room.
    """
    if state.left <= 0 or shared(state.problem) < state.parameters.shared_nodes:
        return False
    if not state.packs:
        state.phase = "decode"
        rng = random.Random(state.parameters.seed)
        order = orders(state.problem).largest_pods_first
        state.accept(state.builder.build(order, first=state.target, rng=rng, until=state.deadline))
    return state.packs


def shared(problem: Problem) -> float:
    """The share of all GPUs asked for that is for pods of which a node holds two."""
    asked = np.zeros(problem.class_count, dtype=np.int64)
    for gang in problem.pending:
        for d in gang.demands:
            asked[d.pod_class] += d.count * problem.gpus[d.pod_class]
    small = 2 * problem.gpus <= problem.node_gpus_free.max(initial=0)
    return float(asked[small].sum() / max(1, asked.sum()))


def decode(state: State, *, first: bool) -> None:
    """Places the target greedily, hardest first: in the first order, or in a few others. The others
    are for gangs that found no room: they hardly change where gangs lie.
    """
    if state.left <= 0:
        return
    state.phase = "decode"
    rng = random.Random(state.parameters.seed)
    build = partial(state.builder.build, until=state.deadline)
    every = orders(state.problem)
    large = is_large(state.problem)
    if large and _admits_enough(state):
        return
    if first and large:
        # Each pass takes long. A pass that may place the target comes before slots, and before the
        # order that the first answer had no time for.
        for order in every:
            if state.left > 0 and not _admits_enough(state):
                state.accept(build(order, first=state.target, rng=rng))
        if state.left > 0 and not _admits_enough(state):
            state.accept(build(every.hardest_first))
        return
    for order in every[:1] if first else every[1:]:
        for layout in (None, state.layout) if state.layout else (None,):
            if state.left <= 0 or (state.proven if first else state.packs):
                return
            if large and _admits_enough(state):
                return
            if layout and state.packs:
                # Slots help to place gangs; they do nothing for topology.
                continue
            state.accept(build(order, first=state.target, layout=layout, rng=rng))


def _admits_enough(state: State) -> bool:
    """Whether what is admitted is at its bound: of the rest neighbourhoods of a large question find
    more in the time of one pass."""
    return state.open_tier is not TierName.ADMITTED
