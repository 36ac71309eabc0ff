"""Bounds of how much fits, by the admission master with one more variable.

Both are relaxations: no plan has more copies, and none gets by with fewer domains.
"""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from ortools.sat.python import cp_model

from placement_service.bounds.added_nodes import NEVER
from placement_service.bounds.counting import Counting
from placement_service.cp_sat.admission.master import AdmissionMaster
from placement_service.cp_sat.admission.patterns import maximal_patterns, part_size, whole_units
from placement_service.cp_sat.parameters import MODEL_DEFAULTS
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints
from placement_service.formulation.planning_questions import CopiesQuestion, DomainsQuestion
from placement_service.heuristic.one_gang.domain_facts import Topology

#: CP-SAT's deterministic time for one bound.
_EFFORT = 2.0


def most_copies(question: CopiesQuestion, *, deadline: float) -> int | None:
    """The most of the copies that run while all other pending gangs do; None if it is not known."""
    master = AdmissionMaster(Counting(Topology(question.problem)))
    admitted = [(one.placed, one.gangs) for one in master.admissions()]
    for z, gangs in admitted:
        master.hold([(z, 1)], at_least=len(set(gangs) - question.copies))
    mine = [(z, 1) for z, gangs in admitted if question.copies.intersection(gangs)]
    if not mine:
        return 0
    answer = master.solve(mine, maximize=True, seconds=_seconds(deadline), effort=_EFFORT)
    if answer.bound is None:
        return 0 if answer.proven else None
    others = sum(len(set(g) - question.copies) for _, g in admitted if question.copies & set(g))
    return max(0, answer.bound - others)


def fewest_domains(question: DomainsQuestion, *, deadline: float) -> int:
    """The least number of further domains, by patterns, for parts that must share one; 0 where
    patterns say nothing.
    """
    counting = Counting(Topology(question.problem))
    whole = whole_units(counting)
    if whole is None:
        return 0
    return max(_for_level(question, counting, i, whole, deadline) for i in counting.levels)


def _for_level(
    question: DomainsQuestion,
    counting: Counting,
    level: int,
    whole: tuple[Ints, Ints],
    deadline: float,
) -> int:
    """The same for parts that share a domain of one level.

    Each domain follows one of the maximal patterns of what its nodes hold; a further domain
    brings its own.
    """
    if level < 0:
        return 0
    units, fits = whole
    demand: Counter[int] = Counter()
    for gang in question.problem.pending:
        for content, times in counting.parts(gang, level):
            demand[part_size(content, units)] += times
    sizes = sorted((size for size in demand if size > 1), reverse=True)
    place = question.problem.levels[level].place_of
    old, new = place[: question.first], place[question.first :]
    if not sizes or np.isin(new, old).any():
        # Where a further domain only makes an old one larger, patterns would change.
        return 0
    room = np.bincount(place, fits).astype(np.int64)
    there = Counter(room[np.unique(old)].tolist())
    brings = Counter(room[np.unique(new)].tolist())
    model = cp_model.CpModel()
    more = model.new_int_var(0, sum(demand.values()), "")
    supply: dict[int, list[tuple[Var, int]]] = {size: [] for size in sizes}
    for capacity in sorted(there.keys() | brings.keys()):
        patterns = maximal_patterns(sizes, capacity, MODEL_DEFAULTS.master_patterns)
        if len(patterns) > MODEL_DEFAULTS.master_patterns:
            return 0
        most = there[capacity] + brings[capacity] * sum(demand.values())
        uses = [model.new_int_var(0, most, "") for _ in patterns]
        model.add(cp_model.LinearExpr.sum(uses) <= there[capacity] + brings[capacity] * more)
        for use, pattern in zip(uses, patterns, strict=True):
            for size, count in zip(sizes, pattern, strict=True):
                if count:
                    supply[size].append((use, count))
    for size in sizes:
        model.add(dot(supply[size]) >= demand[size])
    model.minimize(more)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = _seconds(deadline)
    solver.parameters.max_deterministic_time = _EFFORT
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return NEVER
    return max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))


def _seconds(deadline: float) -> float:
    return max(0.05, deadline - time.monotonic())
