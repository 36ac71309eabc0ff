"""The constraints of the aggregate model; only the patterns of nodes add variables of their own.

A domain must hold at least what opened inside it: for every domain D and kind,
the parts in D >= those that the wholes opened in D consist of; for every pod class,
the load in D >= the units of what opened in D. As domains form a forest, that
is enough to disaggregate everything (serve the narrowest domains first).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ortools.sat.python import cp_model

from placement_service.bounds.counting import Counting
from placement_service.cp_sat.aggregate.domain_forest import ROOT
from placement_service.cp_sat.aggregate.tally import PartsAt, UnitsOfOne
from placement_service.cp_sat.aggregate.variables import AggregateVariables, LargePart, Located
from placement_service.cp_sat.node_packing import Filling
from placement_service.cp_sat.rules import queues
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.tiers.goal import Terms


def constrain(variables: AggregateVariables, counting: Counting) -> Filling:
    """Post all constraints; returns how the nodes are filled. Raises OutOfTime as the variables."""
    _gangs_that_run_stay(variables)
    _sets_come_whole(variables)
    _asks_are_met(variables)
    _parts_open_where_demanded(variables)
    variables.check_time()
    filling = Filling(
        variables.cp,
        variables.problem,
        variables.pod_classes,
        variables.classes,
        {key: [v] for key, v in variables.tally.load.items()},
    )
    _units_lie_on_nodes(variables)
    for row, terms in zip(variables.problem.queue_rows, variables.taken, strict=True):
        queues.post(variables.cp, variables.problem, row, terms, variables.kinds.fixed)
    _counting_rows_hold(variables, counting)
    return filling


def _sum(variables: Iterable[Var]) -> cp_model.LinearExpr:
    return cp_model.LinearExpr.sum(list(variables))


def _gangs_that_run_stay(variables: AggregateVariables) -> None:
    for g, group in enumerate(variables.kinds.groups):
        if group.keep:
            variables.cp.add(variables.tally.gangs[g] == len(group.gangs))


def _sets_come_whole(variables: AggregateVariables) -> None:
    """Scaled gangs follow their base; sets that have all gangs are whole, or cost one more."""
    cp, z, singles = variables.cp, variables.tally.gangs, variables.singles
    for f, family in enumerate(variables.kinds.families):
        if f in variables.tally.sets:
            whole = variables.tally.sets[f]
            cp.add(whole <= z[family.base])
            for at, times in family.scaled.items():
                cp.add(times * whole <= z[at])
        if f in variables.split_sets:
            whole = variables.tally.sets[f]
            size = sum(family.scaled.values())
            scaled: Terms[Var] = []
            for at, times in family.scaled.items():
                scaled += [(z[at], 1), (whole, -times)]
            bases = [(z[family.base], size - 1), (whole, 1 - size)]
            cp.add(dot([(variables.split_sets[f], 1), *bases]) >= dot(scaled))
        for at, times in family.scaled.items():
            cp.add(dot(singles[at]) <= times * dot(singles[family.base]))


def _asks_are_met(variables: AggregateVariables) -> None:
    cp = variables.cp
    for ask, times, choices in variables.asked:
        variables.check_time()
        for i, (_, cap) in enumerate(ask.pod_classes):
            cp.add(choices[i] <= min(cap, ask.most) * dot(times))
        total = _sum(choices.values())
        if ask.least:
            cp.add(total >= ask.least * dot(times))
        if len(choices) > 1:
            cp.add(total <= ask.most * dot(times))


def _parts_open_where_demanded(variables: AggregateVariables) -> None:
    cp = variables.cp
    for parts in variables.parts.values():
        variables.check_time()
        if not parts.large:
            _covers(variables, parts.supply, parts.demand, exact=True)
            continue
        there = [large.part.there for large in parts.large]
        for a, b in pairwise(there):
            cp.add(a >= b)
        cp.add(_sum(there) == dot([(d.var, d.times) for d in parts.demand]))
        for large in parts.large:
            _large_part_is_whole(variables, large)


def _large_part_is_whole(variables: AggregateVariables, large: LargePart) -> None:
    cp, part, spots = variables.cp, large.part, large.spots
    kind = variables.kinds.kinds[part.kind]
    content = kind.whole
    assert content is not None

    def lies_in_used(counts: Sequence[tuple[int, Var]]) -> None:
        for v, x in counts:
            used = part.uses[v] if v != ROOT else part.there
            cp.add(x <= variables.upper[x.index] * used)

    for i, ask in enumerate(content.asks):
        every: list[Var] = []
        for choice, (_, cap) in enumerate(ask.pod_classes):
            mine = [
                (v, x) for v in spots if (x := part.units.get(UnitsOfOne(v, i, choice))) is not None
            ]
            lies_in_used(mine)
            cp.add(_sum(x for _, x in mine) <= cap * part.there)
            every += [x for _, x in mine]
        cp.add(_sum(every) >= ask.least * part.there)
        cp.add(_sum(every) <= ask.most * part.there)
    for child, times in content.kinds:
        mine = [(v, x) for v in spots if (x := part.parts.get(PartsAt(child, v))) is not None]
        lies_in_used(mine)
        cp.add(_sum(x for _, x in mine) == times * part.there)
    used = _sum(part.uses.values())
    # What lies on nodes in no domain uses none.
    cp.add(used >= (0 if ROOT in spots else max(1, kind.least)) * part.there)
    cp.add(large.beyond >= used - part.there)
    if kind.least > 1:
        cp.add(large.beyond >= (kind.least - 1) * part.there)


def _units_lie_on_nodes(variables: AggregateVariables) -> None:
    loads: dict[int, list[tuple[int, Var]]] = {}
    for (k, j), v in variables.tally.load.items():
        loads.setdefault(variables.pod_classes[k], []).append((j, v))
    for pod_class, demand in variables.units.items():
        supply = [Located(variables.paths[j][-1], v, 1) for j, v in loads.get(pod_class, ())]
        _covers(variables, supply, demand, exact=False)


def _covers(
    variables: AggregateVariables,
    supply: Sequence[Located],
    demand: Sequence[Located],
    *,
    exact: bool,
) -> None:
    """Every domain holds what is demanded in it; where `exact`, nothing is left over."""
    cp, above = variables.cp, variables.forest.above
    where = {d.vertex for d in demand} | {ROOT}
    have: dict[int, list[Var]] = {v: [] for v in where}
    need: dict[int, Terms[Var]] = {v: [] for v in where}
    for s in supply:
        for up in above[s.vertex]:
            if up in where:
                have[up].append(s.var)
    for d in demand:
        for up in above[d.vertex]:
            if up in where:
                need[up].append((d.var, d.times))
    for v in where:
        variables.check_time()
        if exact and v == ROOT:
            cp.add(_sum(have[v]) == dot(need[v]))
        else:
            cp.add(_sum(have[v]) >= dot(need[v]))


def _counting_rows_hold(variables: AggregateVariables, counting: Counting) -> None:
    """Rows of the whole problem are valid cuts when nothing is fixed."""
    if variables.kinds.fixed:
        return
    group_of = {i: g for g, group in enumerate(variables.kinds.groups) for i in group.gangs}
    for row in counting.rows:
        weights: dict[int, int] = {}
        for w, c in zip(row.weight.tolist(), counting.classes, strict=True):
            for g in {group_of[i] for i in c.gangs if i in group_of}:
                weights[g] = min(w, weights.get(g, w))
        terms = [(variables.tally.gangs[g], w) for g, w in weights.items() if w]
        variables.cp.add(dot(terms) <= row.capacity)
