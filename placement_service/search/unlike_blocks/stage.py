"""Whole gangs for one block of unlike racks after another, where some goals may be spent for it.

How much of these goals has to stay follows from what is reached where their best is found first.
Where all goals before topology may be spent it follows from their bounds as well, which linear
programs say at once: then nobody looks for the best of any of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.configurations.master import ConfigurationMaster
from placement_service.entities.solution import TierName
from placement_service.search.blocks.problem import broadest_level
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep
from placement_service.search.master_stage import count
from placement_service.search.unlike_blocks.filling import UnlikeFilling


def fill_unlike_blocks(state: State) -> bool:
    """Looks for a plan with whole gangs only, or nearly; returns whether it is better."""
    floors, before = state.worth.floors, state.plan
    if state.open_tier is not TierName.TOPOLOGY or state.filled == floors:
        return False
    if all(floor is None for floor in floors) or state.left <= state.parameters.least_seconds:
        return False
    found = state.configurations
    blocks = _blocks(state, found) if found is not None else []
    if found is not None and blocks:
        with state.ground.configuration_master() as master:
            for i in range(state.topology):
                _hold(state, master, i)
            _fill(state, master, blocks, tries=False)
    return state.plan is not before


def spend_at_once(state: State, shares: Mapping[TierName, float]) -> bool:
    """Spends these shares of tiers on whole gangs before the best of any tier is found; returns
    whether the plan has as much as has to stay.

    If it has not, bounds and floors of the state are of no use for another search.
    """
    found = state.configurations
    blocks = _blocks(state, found) if found is not None else []
    if found is None or not blocks:
        return False
    # What is counted now takes for granted that nothing is spent.
    state.known_goals = 1 + next(i for i, goal in enumerate(state.goals) if goal.tier in shares)
    count(state)
    if state.open_tier is not TierName.ADMITTED or state.left <= state.parameters.least_seconds:
        return False
    with state.ground.configuration_master() as master:
        if _bound_floors(state, master, shares):
            state.known_goals = len(state.goals)
            _fill(state, master, blocks, tries=True)
            return state.packs
    return False


def _fill(
    state: State, master: ConfigurationMaster, blocks: Sequence[Sequence[int]], *, tries: bool
) -> None:
    state.phase = "fill"
    state.filled = state.worth.floors
    UnlikeFilling(state, master, blocks).run(tries=tries)


def _bound_floors(
    state: State, master: ConfigurationMaster, shares: Mapping[TierName, float]
) -> bool:
    """Floors of all goals before topology by their bounds; false where some of them has to be
    reached that is not, or a tier has several goals: who is best there depends on each other.
    """
    for i, goal in enumerate(state.goals[: state.topology]):
        share = shares.get(goal.tier, 0.0)
        if share or not state.reaches(i):
            terms = goal.terms(master)
            alone = sum(other.tier is goal.tier for other in state.goals) == 1
            if not share or not terms or not alone or goal.tier.minimize:
                return False
            seconds = state.left * state.parameters.configuration_bound_share
            late = time.monotonic() + state.at_most(seconds)
            state.learn(i, master.columns.bound(terms, maximize=True, deadline=late))
            state.tolerate(goal.tier, share, bounded=True)
        _hold(state, master, i)
    return True


def _hold(state: State, master: ConfigurationMaster, i: int) -> None:
    """Holds what has to stay of the i-th goal."""
    goal, floor = state.goals[i], state.worth.floors[i]
    if not goal.tier.minimize:
        keep(goal, master, state.worth.enough[i] if floor is None else floor)


def _blocks(state: State, found: Configurations) -> list[tuple[int, ...]]:
    """The domains of each block, the smallest block first; none where they do not nest, where racks
    are not unlike, or gangs cannot be placed one by one.
    """
    level = broadest_level(state)
    inside = state.counting.topology.parent(found.level, level) if level >= 0 else None
    if inside is None or level == found.level or not found.unlike or not _all_wait(state):
        return []
    domains: dict[int, list[int]] = {}
    nodes: dict[int, int] = {}
    for signature in found.signatures:
        for d in signature.domains:
            if d >= len(inside):
                # A node without the label.
                return []
            domains.setdefault(int(inside[d]), []).append(d)
            nodes[int(inside[d])] = nodes.get(int(inside[d]), 0) + sum(signature.nodes)
    if len(domains) < 2:
        return []
    return [tuple(domains[b]) for b in sorted(domains, key=lambda b: (nodes[b], b))]


def _all_wait(state: State) -> bool:
    """Whether all gangs that count wait, and may be placed one by one."""
    gangs = state.problem.gangs
    counted = {g for c in state.counting.classes for g in c.gangs}
    return counted.issuperset(state.plan) and not any(gangs[g].home for g in counted)
