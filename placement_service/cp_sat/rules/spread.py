"""Topology spread: a floor below all counted domains, and a skew above it where carriers are."""

from __future__ import annotations

import numpy as np
from ortools.sat.python import cp_model

from placement_service.cp_sat.rules.counts import DomainCounts, counts
from placement_service.cp_sat.solving import presence
from placement_service.formulation.rules.spread import Spread


def post(model: DomainCounts, rule: Spread) -> None:
    """Constrain the model to plans under which the rule holds."""
    counted = model.by_domain(rule.level, rule.counted)
    most = int(rule.base.max(initial=0)) + model.total_units()

    def count(at: int) -> cp_model.LinearExpr:
        here = cp_model.LinearExpr.sum(counts(counted.get(at, ())))
        return cp_model.LinearExpr.affine(here, 1, int(rule.base[at]))

    floor = model.cp.new_int_var(0, most, "")
    if rule.floor_is_zero:
        model.cp.add(floor == 0)
    for at in np.flatnonzero(rule.eligible).tolist():
        model.cp.add(floor <= count(at))
    for at, units in model.by_domain(rule.level, rule.carriers).items():
        there = presence(model.cp, counts(units), model.total_units())
        model.cp.add(count(at) - floor <= rule.max_skew).only_enforce_if(there)
