"""Required pod affinity: carriers go where anchors or running matches are, otherwise all into one
domain.
"""

from __future__ import annotations

from ortools.sat.python import cp_model

from placement_service.cp_sat.rules.counts import DomainCounts, counts
from placement_service.cp_sat.solving import Var, presence
from placement_service.formulation.rules.affinity import Affinity


def post(model: DomainCounts, rule: Affinity) -> None:
    """Constrain the model to plans under which the rule holds."""
    cp = model.cp
    carriers = model.by_domain(rule.level, rule.carriers)
    anchors = model.by_domain(rule.level, rule.anchors)
    without_match = model.by_domain(rule.level, rule.carriers & ~rule.self_matching)
    every = [v for here in anchors.values() for v in counts(here)]
    #: Whether no anchor is placed: carriers that match themselves are then the first ones.
    first = cp.new_bool_var("")
    cp.add(cp_model.LinearExpr.sum(every) == 0).only_enforce_if(first)
    solos: list[Var] = []
    total = model.total_units()
    for at, units in carriers.items():
        if rule.running[at]:
            continue
        there = presence(model.cp, counts(units), total)
        near = cp_model.LinearExpr.sum(counts(anchors.get(at, ())))
        if rule.running.any():
            cp.add(near >= there)
            continue
        solo = cp.new_bool_var("")
        solos.append(solo)
        cp.add(near + solo >= there)
        cp.add_implication(solo, first)
        alone = counts(without_match.get(at, ()))
        cp.add(cp_model.LinearExpr.sum(alone) == 0).only_enforce_if(solo)
    cp.add(cp_model.LinearExpr.sum(solos) <= 1)
