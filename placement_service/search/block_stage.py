"""Filling block after block with whole gangs, then placing what is left, then swapping.

At full load a model of all blocks finds nothing in the time in which this is done: each block is a
small model of its own, and so are the remaining gangs once most gangs are whole in a block. Two
blocks at a time are then opened again, as long as some gang is in more domains than it need be. It
gives plans, never bounds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from placement_service.cp_sat.block_decoding import BlockDecoding
from placement_service.cp_sat.block_filling import BlockFilling, Filled, TooManyPatterns
from placement_service.cp_sat.block_shapes import Blocks, Class
from placement_service.cp_sat.part_worth import class_worths
from placement_service.cp_sat.solving import Var
from placement_service.entities.solution import TierName
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import UnitsOnNode
from placement_service.formulation.tiers.goal import Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.heuristic.orders import orders
from placement_service.search.incumbent import State

#: Gangs wholly in a block, by class and block.
Held = dict[tuple[int, int], int]


def fill_blocks(state: State) -> None:
    """Better plans, where blocks say enough of the problem."""
    parameters = state.parameters
    if state.proven or state.left <= parameters.least_seconds:
        return
    if state.problem.node_count > parameters.block_nodes:
        return
    stage = _Stage(state)
    if stage.usable:
        state.phase = "blocks"
        try:
            stage.run()
        except TooManyPatterns:
            return


class _Stage:
    def __init__(self, state: State) -> None:
        self.state, self.problem, self.parameters = state, state.problem, state.parameters
        self.random = random.Random(state.parameters.seed)
        level = broadest_level(state)
        told = Blocks(state.counting, level, {})
        self.usable = told.usable
        if not told.usable:
            return
        plan = state.plan
        mine = {g.index for g in self.problem.pending if told.shape(g) is not None}
        # The base of a gang that stays where it is has to run.
        mine -= {g.base for g in self.problem.gangs if g.index in plan and g.index not in mine}
        self.fixed = {i: u for i, u in plan.items() if i not in mine}
        self.blocks = Blocks(state.counting, level, self.fixed) if self.fixed else told
        gangs = [self.problem.gangs[i] for i in sorted(mine)]
        self.classes: list[Class] = self.blocks.classes(gangs) if self.blocks.usable else []
        self.wanted = self._wanted()
        self.values = [self._value(c) for c in self.classes]
        self.usable = any(_names_blocks(c) for c in self.classes)
        self.topology = next(
            i for i, goal in enumerate(state.goals) if goal.tier is TierName.TOPOLOGY
        )

    def run(self) -> None:
        found = self._rest(self._block_after_block())
        if found is not None:
            self._take(found)
            self._swap(found)

    def _wanted(self) -> list[int]:
        """How many gangs of each class the target has, or the plan."""
        chosen = set(self.state.target or self.state.plan)
        return [sum(i in chosen for i in c.gangs) for c in self.classes]

    def _value(self, mine: Class) -> int:
        value = self.problem.gangs[mine.gangs[0]].value
        return max(_EXTRA, value * _GPU // UNITS_PER_GPU)

    def _model(
        self,
        blocks: Sequence[int],
        limits: Sequence[int],
        held: Held,
        *,
        pooled: bool,
        rest: Filled | None = None,
    ) -> BlockFilling:
        most = self.parameters.model.master_patterns
        return BlockFilling(
            self.blocks,
            self.classes,
            limits,
            blocks,
            held=held,
            pooled=pooled,
            most_patterns=most,
            rest=rest,
        )

    def _block_after_block(self) -> Held:
        """Whole gangs by class and block: each block in turn takes the most valuable ones that it
        holds."""
        held: Held = {}
        left = list(self.wanted)
        weights = self._weights()
        for b in self.blocks.order:
            if self.state.left <= self.parameters.least_seconds:
                break
            model = self._model([b], left, {}, pooled=False)
            terms = [
                (v, w)
                for v, w, mine in zip(model.placed, weights, self.classes, strict=True)
                if _names_blocks(mine)
            ]
            found = model.solve(
                terms,
                maximize=True,
                seconds=self.state.at_most(self.state.left / 4),
                effort=self.parameters.block_effort,
            )
            if found is None:
                continue
            for (c, _), n in found.whole.items():
                if _names_blocks(self.classes[c]):
                    held[c, b] = n
                    left[c] -= n
        return held

    def _weights(self) -> list[int]:
        """What a gang counts while blocks are filled: what its parts are worth to others."""
        worths = class_worths(self.blocks, self.classes, self.parameters.model.master_patterns)
        found = []
        for mine, value, worth in zip(self.classes, self.values, worths, strict=True):
            # Gangs of several parts fit nowhere else once little is left.
            many = 1.02 if sum(n for _, n in mine.shape.kinds) > 1 else 1.0
            over = value / _GPU - worth
            found.append(round(_GPU * (many * worth + min(0.0, over) + 0.3 * max(0.0, over))))
        return [max(1, w) for w in found]

    def _rest(self, held: Held) -> Filled | None:
        """All at once, with whole gangs where they are."""
        model = self._model(self.blocks.order, self.wanted, held, pooled=True)
        return self._solve(model, None)

    def _solve(self, model: BlockFilling, start: Filled | None, full: int = -1) -> Filled | None:
        """Most gangs, then most extras, then fewest domains, about; then most in one block."""
        state, p = self.state, self.parameters
        terms: Terms[Var] = [
            (v, w * _DOMAIN) for v, w in zip(model.placed, self.values, strict=True)
        ]
        terms += [(v, w * _EXTRA * _DOMAIN) for v, w in model.extra_units(None)]
        terms += [(v, -w * _DOMAIN // UNITS_PER_DOMAIN) for v, w in model.topology_cost()]
        terms += [(v, kind.size) for (kind, b, _), v in model.used.items() if b == full]
        if start is not None:
            model.hint(start)
        return model.solve(
            terms,
            maximize=True,
            seconds=state.at_most(state.left / 4),
            effort=p.block_rest_effort if start is None else p.block_swap_effort,
        )

    def _take(self, found: Filled) -> None:
        """Decode, add what found no room, and keep what is better."""
        state = self.state
        plan = BlockDecoding(self.blocks, self.classes, found).plan()
        order = orders(self.problem)[0]
        state.accept(state.builder.build(order, start=plan, first=state.target))

    def _swap(self, best: Filled) -> None:
        """A few blocks at a time anew, the rest as it is."""
        state, p = self.state, self.parameters
        stale = 0
        order = self.blocks.order
        while not state.proven and stale < p.block_swaps_in_vain and len(order) > 1:
            if state.left <= p.least_seconds:
                return
            chosen = self._choose(best, p.block_fewest + stale // p.block_wider_after)
            rest = best.only({b for b in order if b not in chosen})
            model = self._model(chosen, self.wanted, {}, pooled=True, rest=rest)
            found = self._solve(model, best, chosen[-1])
            stale += 1
            if found is not None:
                found = found.beside(rest)
                before, after = self._rank(best), self._rank(found)
                if after > before:
                    stale = 0
                    self._take(found)
                if after >= before:
                    best = found

    def _rank(self, found: Filled) -> tuple[int, ...]:
        """What it is worth in the goals up to topology, larger is better."""
        classes, state = self.classes, self.state
        placed = [
            found.split.get(c, 0)
            + sum(p.cls == c for p in found.large)
            + sum(n for (k, _), n in found.whole.items() if k == c)
            + sum(n for (k, _), n in found.away.items() if k == c)
            for c in range(len(classes))
        ]
        plan: Plan = {
            i: _SOMEWHERE for c, n in zip(classes, placed, strict=True) for i in c.gangs[:n]
        }
        extras = Counter({c: 0 for c in range(len(classes))})
        for (c, _, _), n in found.extras.items():
            extras[c] += n
        for part in found.large:
            extras[part.cls] += sum(part.extras.values())
        cost = sum(found.away.values())
        cost += sum(n * (classes[c].shape.splits or 0) for c, n in found.split.items())
        cost += sum(len({b for _, b in part.parts}) - 1 for part in found.large)
        rank: list[int] = []
        for goal, floor in zip(state.goals[: self.topology + 1], state.worth.floors, strict=False):
            if goal.tier is TierName.TOPOLOGY:
                value = -cost
            elif goal.tier is TierName.EXTRA:
                value = sum(
                    n
                    for c, n in extras.items()
                    if goal.priority in (None, self.problem.gangs[classes[c].gangs[0]].priority)
                )
            else:
                value = goal.value(plan)
            rank.append(value if floor is None else min(value, floor))
        return tuple(rank)

    def _choose(self, best: Filled, count: int) -> list[int]:
        """Blocks: one with room left or with parts of gangs that are not whole, and others.

        What is left is gathered in all but the last.
        """
        blocks = self.blocks.order
        room = dict.fromkeys(blocks, 1)
        for (b, _), n in self.blocks.room.items():
            room[b] += n
        for (kind, b, _), n in best.used.items():
            room[b] -= kind.size * n
        torn = [b for part in best.large for b in {b for _, b in part.parts}]
        torn += [b for _, b in best.away] + [b for kind, b in best.loose if kind.size > 1]
        if torn and self.random.random() < 0.5:
            first = self.random.choice(torn)
        else:
            (first,) = self.random.choices(blocks, [room[b] for b in blocks])
        others = [b for b in blocks if b != first]
        return [first, *self.random.sample(others, min(count - 1, len(others)))]


#: Stands for the units of a gang that is placed.
_SOMEWHERE: Units = (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)

#: What a GPU of a gang and an extra pod count in domains, and a domain in whole nodes.
_GPU, _EXTRA, _DOMAIN = 100, 20, 500


def _names_blocks(mine: Class) -> bool:
    """Whether it matters to a gang what lies in one block."""
    return mine.shape.splits != 0 or mine.base >= 0


def broadest_level(state: State) -> int:
    """The broadest level that scopes or sets name and that has a few domains at least."""
    problem = state.problem
    named = {i for i in problem.scope_levels} | {g.set_level for g in problem.gangs}
    able = [i for i in named - {-1} if not problem.levels[i].is_host]
    broad = [i for i in able if problem.levels[i].count >= 2]
    return min(broad, key=lambda i: (problem.levels[i].count, i), default=-1)
