"""Required levels: all pods of a packing scope are in one domain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from placement_service.judge.plan import Plan


def required_levels_hold_scopes_together(plan: Plan) -> Iterator[str]:
    """All pods of a scope, running ones too, are in one domain of its required level."""
    question = plan.outcome.question
    new = np.array([gang.new > 0 for gang in plan.outcome.gangs], dtype=bool)
    judged = np.array([new[gang] for gang, _ in question.scopes], dtype=bool)
    level_of = [scope.required_level for _, scope in question.scopes]
    broken: list[int] = []
    for level in sorted(set(level_of) - {""}):
        scopes = judged & np.array([own == level for own in level_of], dtype=bool)
        uses = plan.outcome.scopes.uses(level, scopes)
        several = np.flatnonzero(uses.counts(len(scopes)) > 1)
        broken += {*several.tolist(), *uses.scope[uses.domain >= len(uses.values)].tolist()}
    for s in sorted(broken):
        gang, scope = question.scopes[s]
        level = scope.required_level
        name = plan.snapshot.gangs[gang].name
        where = f"gang {name}: scope {scope.name} requires one {level}"
        number, values = question.domains.of(level)
        used = set()
        rows = np.unique(plan.outcome.scopes.node[plan.outcome.scopes.scope == s])
        for node, row in sorted(zip(question.node_names(rows), rows.tolist(), strict=True)):
            if row < len(number) and number[row] >= 0:
                used.add(values[int(number[row])])
            else:
                yield f"{where} but has pods on node {node}, which is in none"
        if len(used) > 1:
            yield f"{where} but uses {len(used)}: {', '.join(sorted(used))}"
