"""Exclusion: of two sides at most one is present in a domain."""

from __future__ import annotations

from placement_service.cp_sat.rules.counts import DomainCounts, counts
from placement_service.cp_sat.solving import presence
from placement_service.formulation.rules.exclusion import Exclusion


def post(model: DomainCounts, rule: Exclusion) -> None:
    """Constrain the model to plans under which the rule holds."""
    left = model.by_domain(rule.level, rule.left)
    right = model.by_domain(rule.level, rule.right)
    for at in left.keys() & right.keys():
        a = presence(model.cp, counts(left[at]), model.total_units())
        b = presence(model.cp, counts(right[at]), model.total_units())
        model.cp.add(a + b <= 1)
