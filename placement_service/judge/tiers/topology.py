"""Topology: preferred domains too many, sets that are split, and pods away from previous nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from placement_service.entities.nodes import Bools
from placement_service.entities.request import PodGang, Policy
from placement_service.judge.outcome import Outcome
from placement_service.judge.scopes import Scopes, scopes_by_level
from placement_service.judge.tiers.count import Count, Counts

#: One domain too many, in the thousandths that the tier counts in.
DOMAIN = 1000

#: One new pod away from the nodes that its gang used before, in thousandths.
AWAY = 1


def count(outcome: Outcome, policy: Policy) -> Counts:
    """In thousandths of a domain."""
    question, scopes = outcome.question, outcome.scopes
    # A moved pod costs nothing where it goes: it ran before.
    counts = np.array([gang.placed and gang.has_bound for gang in outcome.gangs], dtype=bool)
    total = 0
    for level, mine in scopes_by_level(question.scopes, required=False).items():
        those = np.zeros(len(question.scopes), dtype=bool)
        those[[s for s in mine if counts[question.scopes[s].gang]]] = True
        used = scopes.uses(level, those).counts(len(those))
        total += int(np.maximum(used - 1, 0).sum()) * DOMAIN
    total += _away(outcome, counts) * AWAY
    return (Count(total + sum(_set_splits(outcome, scopes)) * DOMAIN),)


def _away(outcome: Outcome, counts: Bools) -> int:
    """New pods of some gangs that are on none of the nodes that their gang used before.

    Only where some of those nodes still exist.
    """
    question, total = outcome.question, 0
    rows = question.nodes.row_of
    gang_of_new = question.gang_of_group[question.group_of_set[outcome.set_of_new]]
    for g, gang in enumerate(outcome.snapshot.gangs):
        previous = [rows[n] for n in gang.previous_nodes if n in rows] if counts[g] else []
        if previous:
            mine = outcome.node_of_new[(gang_of_new == g) & (outcome.binding_of_new >= 0)]
            total += int(np.count_nonzero(~np.isin(mine, previous)))
    return total


def _set_splits(outcome: Outcome, scopes: Scopes) -> Iterator[int]:
    """For each base with placed scaled gangs: how many domains too many the whole set uses."""
    bases = {gang.gang.name: g for g, gang in enumerate(outcome.gangs)}
    scaled: defaultdict[int, list[int]] = defaultdict(list)
    for g, gang in enumerate(outcome.gangs):
        if gang.gang.base_gang in bases and gang.placed:
            scaled[bases[gang.gang.base_gang]].append(g)
    for base, followers in scaled.items():
        level = _set_level(outcome.gangs[base].gang)
        members = [base, *followers] if outcome.gangs[base].placed else followers
        if level and any(outcome.gangs[g].has_bound for g in members):
            groups = np.flatnonzero(np.isin(outcome.question.gang_of_group, members))
            nodes = scopes.nodes_of_groups(groups)
            yield max(0, scopes.count_domains(nodes, level) - 1)


def _set_level(base: PodGang) -> str:
    """The level at which a base gang and the gangs based on it belong together.

    It is the required level, else the preferred level, of the first packing
    scope that covers the whole base and has one; empty when none does.
    """
    everything = {group.name for group in base.groups}
    whole = [scope for scope in base.packing_scopes if everything <= set(scope.groups)]
    levels = (*(s.required_level for s in whole), *(s.preferred_level for s in whole))
    return next((level for level in levels if level), "")
