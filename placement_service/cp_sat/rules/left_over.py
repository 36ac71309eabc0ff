"""What the user of an allocate-once reservation leaves over is free once that pod is there."""

from __future__ import annotations

import numpy as np

from placement_service.cp_sat.rules.counts import DomainCounts, counts
from placement_service.cp_sat.solving import dot
from placement_service.formulation.rules.left_over import LeftOver


def post(model: DomainCounts, rule: LeftOver) -> None:
    """Constrain the model to plans under which the rule holds."""
    used = []
    for owners, times in zip(rule.owners, rule.times, strict=True):
        of_group = model.cp.new_int_var(0, times, "")
        there = counts(model.by_domain(rule.level, owners).get(rule.at, ()))
        model.cp.add(sum(there) >= of_group)
        used.append(of_group)
    for row in rule.rows:
        take = np.asarray(row.take)
        units = model.by_domain(rule.level, take > 0).get(rule.at, ())
        held = sum(amount * times for amount, times in zip(row.held, rule.times, strict=True))
        freed = dot(list(zip(used, row.held, strict=True)))
        asked = dot([(u.units, int(take[u.pod_class])) for u in units])
        model.cp.add(asked + held <= row.limit + freed)
