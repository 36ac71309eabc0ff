"""Filling block after block with whole gangs, then placing what is left, then swapping.

At full load a model of all blocks finds nothing in the time in which this is done: each
block is a small model of its own, and so is what is left of the gangs once most of them
are whole in a block. What comes of it, or the plan there is where that is better, is then
improved a few blocks at a time. It gives plans, never bounds.
"""

from __future__ import annotations

from placement_service.cp_sat.block_room import TooManyPatterns
from placement_service.cp_sat.block_shapes import Class
from placement_service.cp_sat.filled import Filled, Held
from placement_service.cp_sat.part_worth import class_worths
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.search.block_problem import BlockProblem, names_blocks
from placement_service.search.block_swaps import BlockSwaps, settle
from placement_service.search.incumbent import State

#: A hundredth of a GPU is what gangs are weighed in.
_WEIGHTS_PER_GPU = 100


def fill_blocks(state: State) -> None:
    """Better plans, where blocks say enough of the problem."""
    parameters = state.parameters
    if state.proven or state.left <= parameters.least_seconds:
        return
    if state.problem.node_count > parameters.block_nodes:
        return
    mine = BlockProblem(state)
    if not mine.usable:
        return
    state.phase = "blocks"
    try:
        best = mine.encoded()
        found = _fill(mine)
        if found is not None and mine.rank(found) > mine.rank(best):
            mine.take(found)
            best = found
        BlockSwaps(mine, best).run()
    except TooManyPatterns:
        return


def _fill(mine: BlockProblem) -> Filled | None:
    """One block after another, then what is left in all at once."""
    held = _block_after_block(mine)
    if mine.state.left <= mine.parameters.least_seconds:
        return None
    model = mine.model(mine.blocks.order, mine.wanted, held=held, pooled=True)
    return settle(mine, model, effort=mine.parameters.block_rest_effort)


def _block_after_block(mine: BlockProblem) -> Held:
    """Whole gangs by class and block, as valuable as each block holds in its turn."""
    state = mine.state
    held: dict[tuple[int, int], int] = {}
    left = list(mine.wanted)
    weights = _weights(mine)
    for b in mine.blocks.order:
        if state.left <= mine.parameters.least_seconds:
            break
        model = mine.model([b], left, pooled=False)
        found = model.solve(
            [
                (v, w)
                for v, w, c in zip(model.placed, weights, mine.classes, strict=True)
                if names_blocks(c)
            ],
            maximize=True,
            seconds=state.at_most(state.left / 4),
            effort=mine.parameters.block_effort,
        )
        if found is None:
            continue
        for (c, _), n in found.whole.items():
            if names_blocks(mine.classes[c]):
                held[c, b] = n
                left[c] -= n
    return held


def _weights(mine: BlockProblem) -> list[int]:
    """What a gang counts while blocks are filled: what its parts are worth to others, and a
    little more the larger it is and its parts are, as what is large fits nowhere else later."""
    classes, p = mine.classes, mine.parameters
    worths = class_worths(mine.blocks, classes, p.model.master_patterns)
    largest = max(1, *(c.shape.size for c in classes))
    found = []
    for c, worth in zip(classes, worths, strict=True):
        value = mine.problem.gangs[c.gangs[0]].value / UNITS_PER_GPU
        many = 1.02 if sum(n for _, n in c.shape.kinds) > 1 else 1.0
        over = value - worth
        weight = many * worth + min(0.0, over) + 0.3 * max(0.0, over)
        size = p.block_large_gangs * c.shape.size / largest
        part = p.block_large_parts * _part_size(c) / mine.blocks.largest_rack
        found.append(max(1, round(_WEIGHTS_PER_GPU * weight * (1 + size + part))))
    return found


def _part_size(c: Class) -> float:
    """Whole nodes of the part that a node of the gang belongs to, on average."""
    return sum(k.size * k.size * n for k, n in c.shape.kinds) / max(1, c.shape.size)
