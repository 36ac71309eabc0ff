"""A problem as blocks: classes of gangs, models of some blocks, and their value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from placement_service.cp_sat.blocks.contents import Filled, Held
from placement_service.cp_sat.blocks.decoding import BlockDecoding
from placement_service.cp_sat.blocks.encoding import BlockEncoding
from placement_service.cp_sat.blocks.filling import BlockFilling
from placement_service.cp_sat.blocks.shapes import Blocks, Class
from placement_service.entities.solution import TierName
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.objective import worth
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import UnitsOnNode
from placement_service.heuristic.orders import orders
from placement_service.heuristic.own_places import own_places
from placement_service.search.incumbent import State

#: Stands for the units of a gang that is placed.
_SOMEWHERE: Units = (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)


class BlockProblem:
    """Gangs that blocks describe; all others stay where the plan has them, and some gangs where
    they are `held`. `usable` is false where blocks say nothing, or where it matters to no gang
    whether it is in one block.
    """

    def __init__(self, state: State, held: Plan | None = None) -> None:
        self.state, self.problem, self.parameters = state, state.problem, state.parameters
        level = broadest_level(state)
        told = Blocks(state.counting, level, {})
        self.usable = told.usable
        if not told.usable:
            return
        plan = state.plan
        mine = {g.index for g in self.problem.pending if told.shape(g) is not None}
        #: Whether some gangs that could get room are not described.
        self.leaves_out = any(g.placeable and g.index not in mine for g in self.problem.pending)
        # A gang that stays where it is needs its base.
        mine -= {g.base for g in self.problem.gangs if g.index in plan and g.index not in mine}
        self.fixed = {**{i: u for i, u in plan.items() if i not in mine}, **(held or {})}
        mine -= self.fixed.keys()
        self.blocks = Blocks(state.counting, level, self.fixed) if self.fixed else told
        gangs = [self.problem.gangs[i] for i in sorted(mine)]
        self.classes: list[Class] = self.blocks.classes(gangs) if self.blocks.usable else []
        self.usable = any(names_blocks(c) for c in self.classes)
        #: The value of gangs that stay, by goal.
        self.outside = worth(self.problem, self.fixed).values
        self.topology = state.topology

    def beside_own_places(self) -> BlockProblem | None:
        """The same where gangs with nodes of their own lie there already, if this leaves half of
        the pools at most: with fewer of them blocks are found far sooner.
        """
        held = own_places(self.state.builder, self.state.target)
        if not held or self.fixed:
            return None
        found = BlockProblem(self.state, held)
        simpler = found.usable and 2 * len(found.blocks.pools) <= len(self.blocks.pools)
        return found if simpler else None

    @property
    def varied(self) -> bool:
        """Whether some block has whole nodes of several pools."""
        room = self.blocks.room
        return len({b for b, _ in room}) < len(room)

    @property
    def wanted(self) -> list[int]:
        """How many gangs of each class the target has, or the plan."""
        chosen = set(self.state.target or self.state.plan)
        return [sum(i in chosen for i in c.gangs) for c in self.classes]

    @property
    def everybody(self) -> list[int]:
        """How many gangs there are of each class."""
        return [len(c.gangs) for c in self.classes]

    def model(
        self,
        blocks: Sequence[int],
        limits: Sequence[int],
        *,
        held: Held | None = None,
        pooled: bool,
        rest: Filled | None = None,
    ) -> BlockFilling:
        """A model of some blocks; see `BlockFilling`."""
        most = self.parameters.model.master_patterns
        return BlockFilling(
            self.blocks,
            self.classes,
            limits,
            blocks,
            held=held or {},
            pooled=pooled,
            most_patterns=most,
            rest=rest,
        )

    def encoded(self, plan: Plan | None = None) -> Filled:
        """A plan as counts; without one, the plan there is."""
        chosen = self.state.plan if plan is None else plan
        return BlockEncoding(self.blocks, self.classes).filled(chosen)

    def decoded(self, found: Filled) -> Plan:
        """Counts as a plan."""
        return BlockDecoding(self.blocks, self.classes, found).plan()

    def take(self, found: Filled) -> None:
        """Decodes the counts, adds gangs that found no room, and keeps what is better."""
        state = self.state
        plan = self.decoded(found)
        if state.accept(plan) and state.packs:
            return
        order = orders(self.problem).required_first
        state.accept(
            state.builder.build(order, start=plan, first=state.target, until=state.deadline)
        )

    def packs(self, found: Filled) -> bool:
        """Whether all goals before topology are at their bounds."""
        goals, bounds = self.state.goals[: self.topology], self.state.bounds
        return all(
            reached == (-bound if goal.tier.minimize else bound)
            for goal, bound, reached in zip(goals, bounds, self.rank(found), strict=False)
        )

    def rank(self, found: Filled) -> tuple[int, ...]:
        """What it is worth in the goals up to topology, larger is better; as in `Worth.rank`."""
        classes, state = self.classes, self.state
        placed = found.placed(len(classes))
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
        goals = zip(state.goals, state.worth.floors, self.outside, strict=True)
        for goal, floor, outside in list(goals)[: self.topology + 1]:
            if goal.tier is TierName.TOPOLOGY:
                value = outside + cost * goal.unit
            elif goal.tier is TierName.EXTRA:
                value = outside + sum(
                    n
                    for c, n in extras.items()
                    if goal.priority in (None, self.problem.gangs[classes[c].gangs[0]].priority)
                )
            else:
                value = outside + goal.value(plan)
            if floor is not None:
                value = max(value, floor) if goal.tier.minimize else min(value, floor)
            rank.append(-value if goal.tier.minimize else value)
        return tuple(rank)


def names_blocks(mine: Class) -> bool:
    """Whether it matters to a gang that it is in one block."""
    return mine.shape.splits != 0 or mine.base >= 0


def broadest_level(state: State) -> int:
    """The broadest level that scopes or sets name and that has a few domains at least."""
    problem = state.problem
    named = {i for i in problem.scope_levels} | {g.set_level for g in problem.gangs}
    able = [i for i in named - {-1} if not problem.levels[i].is_host]
    broad = [i for i in able if problem.levels[i].count >= 2]
    return min(broad, key=lambda i: (problem.levels[i].count, i), default=-1)
