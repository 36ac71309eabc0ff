"""The descent of the aggregate model without domains: units on nodes, wherever the nodes lie.

Where nodes are unlike and hold several units each, what fits depends on nodes more than on domains.
Without domains the model is small even where the whole problem is large. It is asked only where no
gang needs a domain: elsewhere it would give no plans, and hardly ever tighter bounds than counting.
Its plans may use more domains than necessary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from placement_service.bounds.ways_to_count import usable_nodes
from placement_service.cp_sat.aggregate.domain_forest import Forest
from placement_service.cp_sat.aggregate.model import AggregateModel
from placement_service.cp_sat.aggregate.variables import TooManyVariables
from placement_service.cp_sat.solving import Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import OutOfTime
from placement_service.entities.solution import TierName
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend


def nodes_come_first(problem: Problem) -> bool:
    """Whether no gang needs a domain, and nodes hold several pods of sizes that are no multiples of
    each other. Then hardly any node can be filled at will, and what fits blocks by the numbers of
    pods mostly fits no nodes.
    """
    gangs = [g for g in problem.gangs if g.placeable and g.pending]
    if not _may_be_anywhere(problem, gangs):
        return False
    sizes = sorted({int(problem.gpus[d.pod_class]) for g in gangs for d in g.demands} - {0})
    beside = [n for n in sizes if n + sizes[0] <= problem.node_gpus_free.max(initial=0)]
    return any(larger % smaller for smaller, larger in pairwise(beside))


def settle_nodes(state: State, *, most_named: float = 1.0) -> bool:
    """Bounds and plans of the goals before topology, where no gang needs one domain and no more
    than this share of the gangs names any. Returns whether it settled who gets room.
    """
    problem, p = state.problem, state.parameters
    gangs = [g for g in problem.gangs if g.placeable and g.pending]
    if state.packs or any(g.home for g in gangs):
        return False
    named = sum(bool(g.scopes) for g in gangs)
    if named > most_named * len(gangs) or not _may_be_anywhere(problem, gangs):
        return False
    trees = state.counting.topology
    if any(trees.tree(g) is None for g in gangs):
        return False
    forest = Forest(problem, levels=())
    if state.left <= 0 or _size(problem) > p.node_variables:
        return False
    everywhere, most = np.arange(problem.node_count), p.node_variables
    try:
        model = AggregateModel(
            state.counting,
            forest,
            Subproblem(gangs, everywhere, problem.free, {}),
            p.model,
            most,
            state.deadline,
        )
    except (TooManyVariables, OutOfTime):
        return False
    if model.size > most or not model.kinds.exact:
        return False
    others = any(g.extras for g in problem.gangs if g.placeable and not g.pending)
    state.phase = "nodes"

    def settle(i: int, terms: Terms[Var]) -> int | None:
        goal = state.goals[i]
        if goal.tier.minimize or (goal.tier is TierName.EXTRA and others) or state.left <= 0:
            return None
        if not state.reaches(i):
            answer = model.solve(
                terms,
                maximize=True,
                hint=state.plan,
                seconds=state.at_most(state.left / 4),
                effort=p.node_effort,
            )
            if answer.plan is not None:
                state.accept(answer.plan)
            if answer.bound is not None:
                state.learn(i, answer.bound)
        return state.worth.enough[i] if state.reaches(i) else None

    descend(state.goals, model, settle)
    return state.packs


def _may_be_anywhere(problem: Problem, gangs: Sequence[Gang]) -> bool:
    """Whether no gang needs a domain, and no rule across nodes says where pods lie."""
    required = any(s.required >= 0 for g in gangs for s in g.scopes)
    return not required and not any(problem.special[d.pod_class] for g in gangs for d in g.demands)


def _size(problem: Problem) -> int:
    """About how many variables the model would have: pod classes on nodes that differ."""
    usable = list(usable_nodes(problem).values())
    if not usable:
        return 0
    fits = np.array(usable)
    some = np.flatnonzero(fits.any(axis=0))
    rows = np.concatenate([fits[:, some].T, problem.free[some]], axis=1)
    _, first = np.unique(rows, axis=0, return_index=True)
    return int(fits[:, some[first]].sum())
