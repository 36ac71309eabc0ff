"""Blocks for all gangs of the target at once, then one model of what is left.

A guess says which gang lies whole in which block. The model of all blocks with these gangs where
they are assigns racks, and places split gangs and gangs that name no block. That is far less work
than to fill block after block, and no block takes what another one needs. It gives plans, never
bounds.
"""

from __future__ import annotations

import numpy as np

from placement_service.cp_sat.block_contents import Filled
from placement_service.cp_sat.block_room import too_many_patterns
from placement_service.search.block_guess import BlockGuess
from placement_service.search.block_problem import BlockProblem
from placement_service.search.block_stage import told
from placement_service.search.block_swaps import settle
from placement_service.search.incumbent import State
from placement_service.search.place_stage import confirm_places


def assign_blocks(state: State) -> bool:
    """Takes a better plan, if it finds one; returns whether it reaches the bounds of all goals
    before topology. Sets are left to other stages: the place of a gang in a set depends on the
    others.
    """
    mine = told(state)
    if mine is None or any(c.base >= 0 for c in mine.classes):
        return False
    guess, packs, p = BlockGuess(mine), False, mine.parameters
    if too_many_patterns(mine.blocks, guess.rows.kinds, p.model.master_patterns):
        return False
    for _ in range(p.assign_attempts):
        found = _filled(mine, guess)
        if found is None:
            break
        mine.take(found)
        confirm_places(state)
        # Small pods may find no room where the counts say that there is some.
        packs = packs or (mine.packs(found) and state.packs)
        # What names no block may find no room where it could; another guess costs little then.
        if state.proven or (guess.torn and not packs):
            break
    return packs


def _filled(mine: BlockProblem, guess: BlockGuess) -> Filled | None:
    """All blocks with the gangs of the target; None where no guess fits."""
    whole = guess.whole()
    if whole is None or mine.state.left <= mine.parameters.least_seconds:
        return None
    order = mine.blocks.order
    held = {(c, order[b]): int(whole[c, b]) for c, b in np.argwhere(whole).tolist()}
    model = mine.model(order, mine.wanted, held=held, pooled=True)
    return settle(mine, model, effort=mine.parameters.block_rest_effort)
