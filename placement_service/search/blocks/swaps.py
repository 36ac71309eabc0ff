"""Fills a few blocks at a time anew and leaves the rest, as long as that helps."""

from __future__ import annotations

import random

from placement_service.cp_sat.blocks.contents import Filled
from placement_service.cp_sat.blocks.filling import BlockFilling
from placement_service.cp_sat.solving import Var
from placement_service.formulation.gang_value import UNITS_PER_GPU
from placement_service.formulation.tiers.goal import Terms
from placement_service.formulation.tiers.topology import UNITS_PER_DOMAIN
from placement_service.search.blocks.problem import BlockProblem
from placement_service.search.lexicographic import keep
from placement_service.search.place_stage import count_places

#: The value of a GPU of a gang and of an extra pod in domains, and of a domain in whole nodes.
_GPU, _EXTRA, _DOMAIN = 100, 20, 500


def settle(
    mine: BlockProblem,
    model: BlockFilling,
    *,
    effort: float,
    start: Filled | None = None,
    full: int = -1,
) -> Filled | None:
    """Approximately: most gangs, then most extras, then fewest domains; then most in the block
    `full`.
    """
    values = (mine.problem.gangs[c.gangs[0]].value for c in mine.classes)
    terms: Terms[Var] = [
        (v, max(_EXTRA, value * _GPU // UNITS_PER_GPU) * _DOMAIN)
        for v, value in zip(model.placed, values, strict=True)
    ]
    terms += [(v, w * _EXTRA * _DOMAIN) for v, w in model.extra_units(None)]
    return _solve(mine, model, terms, effort, start, full)


class BlockSwaps:
    """Improves filled blocks, a few at a time.

    While gangs are left out it aims at the target. Once all goals before topology are at
    their bounds they are held there, and gangs that are left out may take the place of others.
    """

    def __init__(self, mine: BlockProblem, best: Filled) -> None:
        self.mine, self.best = mine, best
        self.state, self.parameters = mine.state, mine.parameters
        self.random = random.Random(self.parameters.seed)
        self.rank, self.packs = mine.rank(best), mine.packs(best)

    def run(self) -> None:
        """Runs until everything is proven, time is up, or a number of rounds or a share of the time
        had no success.
        """
        p, order = self.parameters, self.mine.blocks.order
        stale, others = 0, self._time_for_others()
        while not self.state.proven and len(order) > 1:
            # Gangs that find no room now may do so when others are placed before them.
            most = p.block_swaps_in_vain if self.packs else p.block_fillings_in_vain
            if stale >= most or self.state.left <= max(others, p.least_seconds):
                return
            if stale == p.block_swaps_uncounted:
                # If it does not get better it may be the best possible.
                count_places(self.state)
            wider = p.block_swaps_wider_after if self.packs else p.block_fillings_wider_after
            found = self._swap(p.block_fewest + stale // wider)
            stale += 1
            if found is not None:
                rank = self.mine.rank(found)
                if rank > self.rank:
                    self.mine.take(found)
                    stale, others = 0, self._time_for_others()
                if rank >= self.rank:
                    self.best, self.rank, self.packs = found, rank, self.mine.packs(found)

    def _time_for_others(self) -> float:
        """The seconds that are left when swaps have been without success for long."""
        left = self.state.left
        return left - self.state.at_most(left * self.parameters.block_swaps_share)

    def _swap(self, count: int) -> Filled | None:
        """The content of all blocks with some of them filled anew."""
        mine, effort = self.mine, self.parameters.block_swap_effort
        chosen = self._choose(count)
        rest = self.best.only({b for b in mine.blocks.order if b not in chosen})
        if self.packs:
            model = mine.model(chosen, self._limits(), pooled=True, rest=rest)
            for i, goal in enumerate(self.state.goals[: mine.topology]):
                keep(goal, model, self.state.bounds[i] - mine.outside[i])
            found = _solve(mine, model, [], effort, self.best, chosen[-1])
        else:
            placed = self.best.placed(len(mine.classes))
            limits = [max(*both) for both in zip(mine.wanted, placed, strict=True)]
            model = mine.model(chosen, limits, pooled=True, rest=rest)
            found = settle(mine, model, effort=effort, start=self.best, full=chosen[-1])
        return None if found is None else found.beside(rest)

    def _limits(self) -> list[int]:
        """How many gangs of each class there may be: those placed, and all of some classes. With
        all gangs that are left out models would be large, and hardly any of these is needed.
        """
        placed = self.best.placed(len(self.mine.classes))
        everybody = self.mine.everybody
        more = [c for c, n in enumerate(everybody) if n > placed[c]]
        some = min(len(more), self.parameters.block_newcomers)
        for c in self.random.sample(more, some):
            placed[c] = everybody[c]
        return placed

    def _choose(self, count: int) -> list[int]:
        """Chooses blocks: one with room left or with parts of split gangs, and others. Free room is
        gathered in all but the last.
        """
        best, blocks = self.best, self.mine.blocks.order
        room = dict.fromkeys(blocks, 1)
        for (b, _), n in self.mine.blocks.room.items():
            room[b] += n
        for (kind, b, _), n in best.used.items():
            room[b] -= kind.size * n
        torn = [sorted({b for _, b in part.parts}) for part in best.large]
        torn += [[b] for _, b in best.away]
        torn += [[b] for kind, b in best.loose if kind.size > 1]
        chosen: list[int] = []
        if torn and self.random.random() < (0.8 if self.packs else 0.5):
            mine = self.random.choice(torn)
            chosen = self.random.sample(mine, min(len(mine), count))
        else:
            chosen = self.random.choices(blocks, [room[b] for b in blocks])
        others = [b for b in blocks if b not in chosen]
        more = max(0, min(count - len(chosen), len(others)))
        return chosen + self.random.sample(others, more)


def _solve(
    mine: BlockProblem,
    model: BlockFilling,
    terms: Terms[Var],
    effort: float,
    start: Filled | None,
    full: int,
) -> Filled | None:
    state = mine.state
    terms += [(v, -w * _DOMAIN // UNITS_PER_DOMAIN) for v, w in model.topology_cost()]
    terms += [(v, kind.size) for (kind, b, _), v in model.room.used.items() if b == full]
    if start is not None:
        model.hint(start)
    return model.solve(terms, maximize=True, seconds=state.at_most(state.left / 4), effort=effort)
