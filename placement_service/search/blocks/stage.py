"""Filling block after block with whole gangs, then placing what is left, then swapping.

At full load a model of all blocks finds nothing in the same time. Here each block is a small model
of its own, and so are the remaining gangs once most of them are whole in a block. The result, or
the present plan where that is better, is then improved a few blocks at a time. This stage gives
plans, never bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from placement_service.cp_sat.blocks.contents import Filled, Held
from placement_service.cp_sat.blocks.part_worth import class_worths
from placement_service.cp_sat.blocks.parts import Kind
from placement_service.cp_sat.blocks.room import TooManyPatterns
from placement_service.cp_sat.blocks.shapes import Class
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.search.blocks.problem import BlockProblem, names_blocks
from placement_service.search.blocks.swaps import BlockSwaps, settle
from placement_service.search.incumbent import State

#: Gangs are weighed in hundredths of a GPU.
_WEIGHTS_PER_GPU = 100


def fill_blocks(state: State, *, anew: bool) -> None:
    """Better plans, where blocks say enough of the problem; `anew` also one from nothing."""
    mine = told(state)
    if mine is None or mine.blocks.mixed:
        return
    try:
        best, found = mine.encoded(), _fill(mine) if anew else None
        # A plan that lacks less of the target is easier to complete than one full of other gangs.
        if found is not None and (not mine.packs(best) or mine.rank(found) > mine.rank(best)):
            mine.take(found)
            best = found
        BlockSwaps(mine, best).run()
    except TooManyPatterns:
        return


def told(state: State, *, most_nodes: int = 0) -> BlockProblem | None:
    """The problem as blocks; None where they say too little, or there is no time. With more nodes
    than models of blocks are for, or `most_nodes`, too, and with too many pools.
    """
    parameters = state.parameters
    if state.proven or state.left <= parameters.least_seconds:
        return None
    if state.problem.node_count > max(most_nodes, parameters.block_nodes):
        return None
    mine = BlockProblem(state)
    if not mine.usable or len(mine.blocks.pools) > parameters.block_pools:
        return None
    state.phase = "blocks"
    return mine


def _fill(mine: BlockProblem) -> Filled | None:
    """Fills one block after another, where nothing is begun, then places the rest in all blocks
    at once.
    """
    begun = _begun(mine)
    held = _block_after_block(mine) if begun is None else begun.whole
    if mine.state.left <= mine.parameters.least_seconds:
        return begun
    model = mine.model(mine.blocks.order, mine.wanted, held=held, pooled=True)
    found = settle(mine, model, effort=mine.parameters.block_rest_effort, start=begun)
    return begun if found is None else found


def _begun(mine: BlockProblem) -> Filled | None:
    """What is begun; None where gangs that stay do not lie as they do there: it may need their
    nodes.
    """
    plan = mine.state.begun
    if not plan or any(plan.get(g) != units for g, units in mine.fixed.items()):
        return None
    return mine.encoded(plan)


def _block_after_block(mine: BlockProblem) -> Held:
    """Whole gangs by class and block: the most valuable that each block holds in its turn."""
    state = mine.state
    held: dict[tuple[int, int], int] = {}
    left = list(mine.wanted)
    weights = _weights(mine)
    spare = _spare(mine)
    for b in mine.blocks.order:
        if state.left <= mine.parameters.least_seconds:
            break
        model = mine.model([b], left, pooled=False)
        for pools, nodes in spare.items():
            used = model.room.used.items()
            model.hold([(v, k.size) for (k, _, q), v in used if q in pools], at_most=nodes)
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
        for (kind, _, q), n in found.used.items():
            for pools in spare:
                spare[pools] -= kind.size * n * (q in pools)
    return held


def _spare(mine: BlockProblem) -> dict[frozenset[int], int]:
    """Whole nodes of some pools beyond what gangs that name no block need. Those gangs come last,
    and would find the pools that they need full of gangs that take any.
    """
    needs: Counter[frozenset[int]] = Counter()
    for c, wanted in zip(mine.classes, mine.wanted, strict=True):
        for kind, times in () if names_blocks(c) else c.shape.kinds:
            needs[frozenset(kind.pools)] += kind.size * times * wanted
    found = {}
    for pools in needs:
        room = sum(n for (_, q), n in mine.blocks.room.items() if q in pools)
        asked = sum(n for some, n in needs.items() if some <= pools)
        found[pools] = max(0, room - asked)
    return found


def _weights(mine: BlockProblem) -> list[int]:
    """The weight of a gang while blocks are filled: what its parts are worth to others, and a
    little more the harder it is to place later, because it and its parts are large or few pools
    take it.
    """
    classes, p = mine.classes, mine.parameters
    worths = class_worths(mine.blocks, classes, p.model.master_patterns, seconds=mine.state.left)
    largest = max(1, *(c.shape.size for c in classes))
    pools = len({pool for _, pool in mine.blocks.room})
    found = []
    for c, worth in zip(classes, worths, strict=True):
        value = mine.problem.gangs[c.gangs[0]].value / UNITS_PER_GPU
        many = 1.02 if sum(n for _, n in c.shape.kinds) > 1 else 1.0
        over = value - worth
        weight = many * worth + min(0.0, over) + 0.3 * max(0.0, over)
        hard = p.block_large_gangs * c.shape.size / largest
        hard += p.block_large_parts * _mean(c, lambda k: k.size) / mine.blocks.largest_rack
        hard += p.block_few_pools * (1 - _mean(c, lambda k: len(k.pools)) / pools)
        found.append(max(1, round(_WEIGHTS_PER_GPU * weight * (1 + hard))))
    return found


def _mean(c: Class, of: Callable[[Kind], int]) -> float:
    """The average of a value of the kinds of a gang's parts, over its whole nodes."""
    return sum(of(k) * k.size * n for k, n in c.shape.kinds) / max(1, c.shape.size)
