"""Which pods use which reservations of a node: variables for each, and rows for what is left."""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from placement_service.cp_sat.rules.counts import DomainCounts, counts
from placement_service.cp_sat.solving import Var, dot
from placement_service.formulation.rules.reserved_room import ReservedRoom
from placement_service.formulation.tiers.goal import Terms


def post(model: DomainCounts, rule: ReservedRoom) -> None:
    """Constrain the model to plans under which the rule holds."""
    cp = model.cp
    every = np.arange(len(rule.rows[0].take))
    there = [
        counts(model.by_domain(rule.level, every == owner).get(rule.at, ()))
        for owner in rule.owners
    ]
    #: Of each owner, its pods and, with the weight -1, those of them that use a reservation.
    without: list[Terms[Var]] = [[(pods, 1) for pods in some] for some in there]
    load: list[Terms[Var]] = []
    for row in rule.rows:
        take = np.asarray(row.take)
        units = model.by_domain(rule.level, take > 0).get(rule.at, ())
        load.append([(u.units, int(take[u.pod_class])) for u in units])
    taken_at_all = [
        # Where more may be held than there is, that matters only once pods take some of it.
        _taken_at_all(model.cp, terms) if sum(row.held) > row.limit else None
        for row, terms in zip(rule.rows, load, strict=True)
    ]
    limits = [row.limit for row in rule.rows]
    for r, kind in enumerate(rule.kinds):
        most = 1 if kind.single else model.total_units()
        users = [(o, cp.new_int_var(0, most, "")) for o in kind.owners if there[o]]
        for owner, used in users:
            without[owner].append((used, -1))
        if kind.single:
            cp.add(dot([(used, 1) for _, used in users]) <= 1)
        for f, row in enumerate(rule.rows):
            held = row.held[r]
            taken = [(used, rule.asks(owner)[f]) for owner, used in users]
            if row.capped[r]:
                cp.add(dot(taken) <= held)
            if kind.ends:
                limits[f] -= held
                load[f] += [(used, row.had[r][owner] - held) for owner, used in users]
            elif held:
                rest = cp.new_int_var(0, held, "")
                cp.add(dot([(rest, 1), *taken]) >= held)
                load[f].append((rest, 1))
    for pods, insists in zip(without, rule.insist, strict=True):
        cp.add(dot(pods) == 0 if insists else dot(pods) >= 0)
    for terms, limit, some in zip(load, limits, taken_at_all, strict=True):
        fits = cp.add(dot(terms) <= limit)
        if some is not None:
            fits.only_enforce_if(some)


def _taken_at_all(cp: cp_model.CpModel, terms: Terms[Var]) -> Var:
    """Whether any of some pods are there."""
    taken: Var = cp.new_bool_var("")
    for pods, _ in terms:
        cp.add(pods == 0).only_enforce_if(taken.negated())
    return taken
