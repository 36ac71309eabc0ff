"""All blocks at once: an outline of who lies whole where, then every block by its racks.

Where hardly any room is left over, a few blocks at a time find the last exchange late. A model
of all blocks that only rounds what racks hold is small enough to look for a plan that reaches
every bound. What it puts into a block mostly fits there; blocks where it does not are opened
again.
"""

from __future__ import annotations

import random

from placement_service.cp_sat.block_contents import Filled, Held
from placement_service.cp_sat.block_filling import BlockFilling
from placement_service.search.block_problem import BlockProblem, names_blocks
from placement_service.search.lexicographic import keep
from placement_service.search.place_stage import count_places


def from_outline(mine: BlockProblem, rng: random.Random) -> Filled | None:
    """What reaches all bounds up to topology, None where none is found.

    Where there is none it may be the bound that is not good enough.
    """
    state = mine.state
    before = state.bounds
    found = _try(mine, rng)
    if found is None:
        count_places(state)
        if state.bounds != before and not state.proven:
            found = _try(mine, rng)
    return found


def _try(mine: BlockProblem, rng: random.Random) -> Filled | None:
    model = mine.model(mine.blocks.order, mine.wanted, pooled=True, rough=True)
    outline = _reach_all(mine, model, mine.parameters.block_outline_effort)
    if outline is None:
        return None
    sure = {b for b in mine.blocks.order if _fits(mine, outline, b)}
    for _ in range(mine.parameters.block_outline_tries):
        held = _held(mine, outline, sure)
        model = mine.model(mine.blocks.order, mine.wanted, held=held, pooled=True)
        found = _reach_all(mine, model, mine.parameters.block_swap_effort)
        if found is not None or not sure:
            return found
        sure.remove(rng.choice(sorted(sure)))
    return None


def _reach_all(mine: BlockProblem, model: BlockFilling, effort: float) -> Filled | None:
    """Anything that is as good as the bounds of all goals up to topology."""
    state = mine.state
    for i, goal in enumerate(state.goals[: mine.topology + 1]):
        keep(goal, model, state.bounds[i] - mine.outside[i])
    return model.solve([], maximize=True, seconds=state.at_most(state.left / 4), effort=effort)


def _held(mine: BlockProblem, outline: Filled, blocks: set[int]) -> Held:
    """The gangs of an outline that care what lies in one block, and lie whole in some."""
    return {
        (c, b): n
        for (c, b), n in outline.whole.items()
        if b in blocks and names_blocks(mine.classes[c])
    }


def _fits(mine: BlockProblem, outline: Filled, block: int) -> bool:
    """Whether the racks of a block hold what an outline has whole in it."""
    held = _held(mine, outline, {block})
    limits = [held.get((c, block), 0) for c in range(len(mine.classes))]
    model = mine.model([block], limits, held=held, pooled=False)
    effort = mine.parameters.block_effort
    seconds = mine.state.at_most(mine.state.left / 4)
    return model.solve([], maximize=True, seconds=seconds, effort=effort) is not None
