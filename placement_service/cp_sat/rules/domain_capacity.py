"""Domain capacity: a knapsack row for each domain."""

from __future__ import annotations

import numpy as np

from placement_service.cp_sat.rules.counts import DomainCounts
from placement_service.cp_sat.solving import dot
from placement_service.formulation.rules.domain_capacity import DomainCapacity


def post(model: DomainCounts, rule: DomainCapacity) -> None:
    """Constrain the model to plans under which the rule holds."""
    weights = np.asarray(rule.weight)
    for units in model.by_domain(rule.level, weights > 0).values():
        model.cp.add(dot([(u.units, int(weights[u.pod_class])) for u in units]) <= rule.capacity)
