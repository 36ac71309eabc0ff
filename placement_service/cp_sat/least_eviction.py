"""The fewest running pods that have to go so that one gang fits.

    z[v]      how often a leaver goes: once for a whole gang, more often for extras
    x[d, n]   units of a demand of the gang on a node, at most what fits once everybody is gone
    y[s, k]   the domain of a required scope
    sum_d request[d] x[d, n] <= free[n] + sum_v freed[v, n] z[v]    for each node and resource
    sum_{n in k} x[d, n]     <= units of d * y[s, k]                sum_k y[s, k] = 1
    minimise sum_v pods[v] z[v]

Rules between pods are left out: with them more may have to go, never less.
"""

from __future__ import annotations

import time

import numpy as np
from ortools.sat.python import cp_model

from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.arrays import Ints, fit
from placement_service.formulation.planning_questions import EvictionAnswer, EvictionQuestion


def least_eviction(question: EvictionQuestion, *, deadline: float) -> EvictionAnswer:
    """The answer by `deadline`, in `time.monotonic` seconds."""
    model = _Model(question)
    if not model.is_possible:
        return EvictionAnswer(None, 1 << 40)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_time_in_seconds = max(0.05, deadline - time.monotonic())
    status = solver.solve(model.cp)
    if status == cp_model.INFEASIBLE:
        return EvictionAnswer(None, 1 << 40)
    bound = max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return EvictionAnswer(None, bound)
    return EvictionAnswer(tuple(int(solver.value(z)) for z in model.leaving), bound)


class _Model:
    def __init__(self, question: EvictionQuestion) -> None:
        self.question = question
        self.cp = cp_model.CpModel()
        self.leaving = [self.cp.new_int_var(0, one.most, "") for one in question.leavers]
        self.is_possible = True
        self._most = self._most_units()
        #: The most units of each demand that anybody needs [D].
        self._needed = [
            max((count for demands, count in question.needs if d in demands), default=0)
            for d in range(len(question.request))
        ]
        self._leave_out_small_domains()
        for of, units in question.needs:
            if sum(int(np.minimum(self._most[d], units).sum()) for d in of) < units:
                self.is_possible = False
                return
        self._make_room()
        for i, leaver in enumerate(question.leavers):
            if leaver.part_of >= 0:
                # Who is gone whole has no extras left.
                whole = self.leaving[leaver.part_of]
                self.cp.add(self.leaving[i] <= leaver.most * (1 - whole))
        for limit in question.limits:
            self.cp.add(dot([(self.leaving[i], pods) for i, pods in limit.leavers]) <= limit.most)
        for times in question.forbidden:
            self._forbid(times)
        pods = [(z, v.pods) for z, v in zip(self.leaving, question.leavers, strict=True)]
        self.cp.minimize(dot(pods))

    def _most_units(self) -> Ints:
        """Units of each demand that a node could hold with everybody gone [D, N]."""
        question = self.question
        free = question.free.copy()
        for leaver in question.leavers:
            for node, row in leaver.frees:
                free[node] += leaver.most * question.amounts[row]
        most = np.array([fit(free, request) for request in question.request])
        return np.where(question.eligible, np.maximum(most, 0), 0)

    def _leave_out_small_domains(self) -> None:
        """Nothing goes where a scope cannot fit whole even with everybody gone."""
        question = self.question
        for demands, domain in question.scopes:
            count = int(domain.max(initial=-1)) + 1
            able = np.ones(count, dtype=bool)
            for of, units in question.needs:
                if set(of) <= set(demands):
                    there = domain >= 0
                    sums = sum(np.bincount(domain[there], self._most[d][there], count) for d in of)
                    able &= sums >= units
            for d in demands:
                self._most[d] = np.where(
                    (domain >= 0) & able[np.maximum(domain, 0)] if count else False,
                    self._most[d],
                    0,
                )

    def _make_room(self) -> None:
        question, cp = self.question, self.cp
        units: dict[tuple[int, int], Var] = {}
        for d, row in enumerate(self._most):
            for n in np.flatnonzero(row).tolist():
                units[d, n] = cp.new_int_var(0, min(int(row[n]), self._needed[d]), "")
        for of, count in question.needs:
            cp.add(cp_model.LinearExpr.sum([v for (d, _), v in units.items() if d in of]) == count)
        for demands, domain in question.scopes:
            places = sorted({int(domain[n]) for d, n in units if d in demands})
            chosen = {place: cp.new_bool_var("") for place in places}
            cp.add_exactly_one(chosen.values())
            for d in demands:
                by_place: dict[int, list[Var]] = {}
                for (e, n), v in units.items():
                    if e == d:
                        by_place.setdefault(int(domain[n]), []).append(v)
                for place, there in by_place.items():
                    cp.add(cp_model.LinearExpr.sum(there) <= self._needed[d] * chosen[place])
        freed: dict[int, list[tuple[int, int]]] = {}
        for i, leaver in enumerate(question.leavers):
            for node, row in leaver.frees:
                freed.setdefault(node, []).append((i, row))
        on_node: dict[int, list[tuple[int, Var]]] = {}
        for (d, n), v in units.items():
            on_node.setdefault(n, []).append((d, v))
        for n, mine in on_node.items():
            for r in range(question.free.shape[1]):
                terms = [(v, int(question.request[d, r])) for d, v in mine]
                terms = [(v, k) for v, k in terms if k]
                if not terms:
                    continue
                scale = int(np.gcd.reduce([k for _, k in terms]))
                room = [
                    (self.leaving[i], -int(question.amounts[row, r]))
                    for i, row in freed.get(n, ())
                    if question.amounts[row, r]
                ]
                whole = int(question.free[n, r])
                if all(k % scale == 0 for _, k in room):
                    # Smaller numbers, same rule: what is left over serves nobody.
                    terms = [(v, k // scale) for v, k in terms]
                    room = [(v, k // scale) for v, k in room]
                    whole //= scale
                cp.add(dot(terms + room) <= whole)

    def _forbid(self, times: tuple[int, ...]) -> None:
        """More pods, or others, must go than this set, which is known not to be enough."""
        cp = self.cp
        more: list[Var] = []
        for z, k, leaver in zip(self.leaving, times, self.question.leavers, strict=True):
            if k < leaver.most:
                is_more = cp.new_bool_var("")
                cp.add(z >= k + 1).only_enforce_if(is_more)
                more.append(is_more)
        cp.add_bool_or(more)
