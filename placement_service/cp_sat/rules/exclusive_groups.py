"""Exclusive groups: of all groups at most one is present in a domain."""

from __future__ import annotations

from collections import defaultdict

from placement_service.cp_sat.rules.counts import DomainCounts
from placement_service.cp_sat.solving import Var, presence
from placement_service.formulation.rules.exclusive_groups import ExclusiveGroups


def post(model: DomainCounts, rule: ExclusiveGroups) -> None:
    """Constrain the model to plans under which the rule holds."""
    for here in model.by_domain(rule.level, rule.group > 0).values():
        of_group: defaultdict[int, list[Var]] = defaultdict(list)
        for units, pod_class in here:
            of_group[int(rule.group[pod_class])].append(units)
        if len(of_group) > 1:
            most = model.total_units()
            model.cp.add_at_most_one(presence(model.cp, some, most) for some in of_group.values())
