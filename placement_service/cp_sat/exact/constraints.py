"""The constraints of the exact model: one function for each rule.

Only rules whose linear form needs them add auxiliary variables: patterns of nodes (`node_packing`),
presence in a domain (`rules`), pods that stay at home (`home_pods`).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from ortools.sat.python import cp_model

from placement_service.cp_sat.exact.home_pods import HomePods
from placement_service.cp_sat.exact.variables import ExactVariables
from placement_service.cp_sat.node_packing import Filling
from placement_service.cp_sat.rules import post, queues
from placement_service.cp_sat.rules.counts import ClassCount
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.eviction.winners import gains
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import oldest_first
from placement_service.formulation.problem import Gang, Scope


def constrain(variables: ExactVariables, home_pods: HomePods) -> Filling:
    """Post all constraints; returns how the nodes are filled. Raises OutOfTime as the variables."""
    _gang_is_all_or_nothing(variables)
    _base_comes_first(variables)
    _gang_runs_in_one_way(variables)
    for g in variables.gangs:
        variables.check_time()
        for i, s in enumerate(g.scopes):
            _scope_is_in_one_domain(variables, g, i, s)
        _inner_scopes_follow(variables, g)
    filling = Filling(
        variables.cp,
        variables.problem,
        variables.pod_classes,
        variables.classes,
        variables.load,
    )
    for rule in variables.problem.rules:
        variables.check_time()
        post(variables, rule)
    _queues_hold(variables)
    home_pods.budgets_hold(variables)
    _victims_go_for_those_with_a_right(variables)
    _counting_rows_hold(variables)
    _equal_gangs_are_ordered(variables)
    return filling


def _gang_is_all_or_nothing(variables: ExactVariables) -> None:
    cp, at_class = variables.cp, variables.at_class
    for g in variables.gangs:
        for q in g.requirements:
            for d in q.demands if len(q.demands) > 1 else ():
                of_demand = list(at_class[g.index, d].values())
                cp.add(cp_model.LinearExpr.sum(of_demand) <= g.demands[d].count)
            units = cp_model.LinearExpr.sum(
                [v for d in q.demands for v in at_class[g.index, d].values()]
            )
            if g.pending and q.missing == q.pending:
                cp.add(units == q.missing * variables.z[g.index])
            elif g.pending:
                cp.add(units >= q.missing * variables.z[g.index])
                cp.add(units <= q.pending * variables.z[g.index])
            else:
                cp.add(units <= q.pending)


def _base_comes_first(variables: ExactVariables) -> None:
    for g in variables.gangs:
        for base in map(variables.placed, g.rests_on):
            if g.pending:
                variables.cp.add(variables.z[g.index] <= base)
            elif base is not True:
                for d, demand in enumerate(g.demands):
                    for v in variables.at_class[g.index, d].values():
                        variables.cp.add(v <= demand.count * base)


def _gang_runs_in_one_way(variables: ExactVariables) -> None:
    """A gang begins anew only where what runs of it has gone."""
    for g in variables.gangs:
        if g.not_with >= 0 and g.pending:
            variables.cp.add(variables.z[g.index] <= 1 - variables.placed(g.not_with))


def _scope_is_in_one_domain(variables: ExactVariables, g: Gang, i: int, s: Scope) -> None:
    cp = variables.cp
    chosen = variables.u.get((g.index, i))
    if chosen is None:
        return
    whole = [q for q in g.requirements if q.missing and set(q.demands) <= set(s.demands)]
    if g.pending and whole:
        cp.add(cp_model.LinearExpr.sum(list(chosen.values())) == variables.z[g.index])
    else:
        cp.add(cp_model.LinearExpr.sum(list(chosen.values())) <= 1)
    domain = variables.problem.levels[s.required].domain
    by_domain: dict[int, dict[int, list[Var]]] = {at: {} for at in chosen}
    for d in s.demands:
        for j, v in variables.at_class[g.index, d].items():
            here = by_domain[int(domain[variables.classes[j].nodes[0]])]
            here.setdefault(d, []).append(v)
    for at, demands in by_domain.items():
        u = chosen[at]
        for d, units in demands.items():
            cp.add(cp_model.LinearExpr.sum(units) <= g.demands[d].count * u)
        for q in whole if g.pending else ():
            least = cp_model.LinearExpr.sum([v for d in q.demands for v in demands.get(d, ())])
            if q.missing == q.pending:
                cp.add(least == q.missing * u)
            else:
                cp.add(least >= q.missing * u)


def _inner_scopes_follow(variables: ExactVariables, g: Gang) -> None:
    """Where levels nest, an inner scope's domain lies in the outer one's."""
    for i, inner in enumerate(g.scopes):
        for k, outer in enumerate(g.scopes):
            if (
                i == k
                or min(inner.required, outer.required) < 0
                or not set(inner.demands) < set(outer.demands)
            ):
                continue
            parent = variables.counting.topology.parent(inner.required, outer.required)
            if parent is None:
                continue
            below: dict[int, list[Var]] = {}
            for at, u in variables.u.get((g.index, i), {}).items():
                below.setdefault(int(parent[at]), []).append(u)
            for up, units in below.items():
                above = variables.u.get((g.index, k), {}).get(up)
                if above is not None:
                    variables.cp.add(cp_model.LinearExpr.sum(units) <= above)


def _queues_hold(variables: ExactVariables) -> None:
    for r, row in enumerate(variables.problem.queue_rows):
        units = [
            ClassCount(v, demand.pod_class)
            for g in variables.gangs
            if r in g.queue_rows
            for d, demand in enumerate(g.demands)
            for v in variables.at_class[g.index, d].values()
        ]
        terms = [(u.units, int(row.weight[u.pod_class])) for u in units]
        queues.post(variables.cp, variables.problem, row, terms, variables.fixed)
        queues.post_excess(variables.cp, variables.problem, row, units, variables.fixed)


def _victims_go_for_those_with_a_right(variables: ExactVariables) -> None:
    """Pods leave only where some gang gets new ones that may take their room, though what comes
    free may serve others: what is below the limit of a queue, say.
    """
    problem, fixed = variables.problem, variables.fixed
    inside = {node for c in variables.classes for node in c.nodes}
    victims: dict[frozenset[GangIdx], list[Gang]] = {}
    for g in variables.gangs:
        if g.index in problem.winners:
            victims.setdefault(problem.winners[g.index], []).append(g)
    for able, mine in victims.items():
        if any(gains(problem.gangs[i], fixed[i]) for i in able & fixed.keys()):
            continue
        new = [
            v
            for g in variables.gangs
            if g.index in able
            for d in {*range(len(g.demands))} - {h.demand for h in g.home}
            for v in variables.at_class[g.index, d].values()
        ]
        one_gains = variables.cp.new_bool_var("")
        variables.cp.add(cp_model.LinearExpr.sum(new) >= one_gains)
        for g in mine:
            for home in g.home:
                if home.node in inside:
                    stay = list(variables.at_class[g.index, home.demand].values())
                    least = home.units * (1 - one_gains)
                    variables.cp.add(cp_model.LinearExpr.sum(stay) >= least)


def _counting_rows_hold(variables: ExactVariables) -> None:
    """Rows of the whole problem are valid cuts when nothing is fixed."""
    if variables.fixed:
        return
    counting, z = variables.counting, variables.z
    for row in counting.rows:
        terms = [
            (z[g], int(w))
            for w, c in zip(row.weight, counting.classes, strict=True)
            for g in c.gangs
            if w and g in z
        ]
        variables.cp.add(dot(terms) <= row.capacity)
    possible = {g for c in counting.classes for g in c.gangs}
    for g, placed in z.items():
        if g not in possible:
            variables.cp.add(placed == 0)


def _equal_gangs_are_ordered(variables: ExactVariables) -> None:
    """Of gangs that differ in name and age alone the oldest are placed first.

    Those that run differ also in the budgets that count their pods and in who may take their room.
    """
    problem = variables.problem
    counted: defaultdict[GangIdx, set[tuple[int, int]]] = defaultdict(set)
    for b, budget in enumerate(problem.budgets):
        for gang, demand in budget.demands:
            counted[gang].add((b, demand))
    alike: dict[object, list[GangIdx]] = {}
    based = {base for g in problem.gangs for base in g.rests_on}
    for g in sorted(variables.gangs, key=oldest_first):
        if (
            g.pending
            and not g.rests_on
            and g.not_with < 0
            and g.index not in based
            and not g.previous
        ):
            key = (
                g.precedence,
                g.priority,
                g.value,
                tuple((d.pod_class, d.count) for d in g.demands),
                g.requirements,
                g.scopes,
                g.queue_rows,
                g.home,
                frozenset(counted[g.index]),
                problem.winners.get(g.index),
            )
            alike.setdefault(key, []).append(g.index)
    for indices in alike.values():
        for a, b in pairwise(indices):
            variables.cp.add(variables.z[a] >= variables.z[b])
