"""Whole gangs for one block of unlike racks after another, where some goals may be spent for it.

Which gangs a block gets is settled by configurations of its racks alone. A gang counts mostly what
its parts are worth in the whole cluster, by the duals of a linear program over all racks, so that
the first blocks do not take what later ones need. Where too little is placed in the end, the last
blocks are filled again together, and gangs there may be split. This gives plans, never bounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.bounds.configurations import Configurations
from placement_service.cp_sat.configuration_lp import Floats, linear_rows
from placement_service.cp_sat.configuration_master import ConfigurationMaster, Filling
from placement_service.cp_sat.gang_columns import Elsewhere, GangColumns, Limit
from placement_service.cp_sat.solving import Var
from placement_service.entities.solution import TierName
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.tiers.goal import Terms
from placement_service.heuristic.orders import orders
from placement_service.search.block_problem import broadest_level
from placement_service.search.configuration_plan import Realisation
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep

#: The weight of each goal that is to be reached, and the largest of a gang in one block: finer ones
#: would take longer, and say no more.
GOAL_WEIGHT = 10**9
GANG_WEIGHT = 1_000


def fill_unlike_blocks(state: State) -> bool:
    """Looks for a plan with whole gangs only, or nearly; returns whether it is better."""
    floors = state.worth.floors
    if state.open_tier is not TierName.TOPOLOGY or all(floor is None for floor in floors):
        return False
    if state.left <= state.parameters.least_seconds:
        return False
    found = state.configurations
    if found is None or not found.unlike:
        return False
    blocks = _blocks(state, found)
    if len(blocks) < 2 or not _all_wait(state):
        return False
    state.phase = "fill"
    return UnlikeBlocks(state, found, blocks).run()


def _blocks(state: State, found: Configurations) -> list[tuple[int, ...]]:
    """The domains of each block, the smallest block first; none where they do not nest."""
    level = broadest_level(state)
    inside = state.counting.topology.parent(found.level, level) if level >= 0 else None
    if inside is None or level == found.level:
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
    return [tuple(domains[b]) for b in sorted(domains, key=lambda b: (nodes[b], b))]


def _all_wait(state: State) -> bool:
    """Whether all gangs that count wait, and may be placed one by one."""
    gangs = state.problem.gangs
    counted = {g for c in state.counting.classes for g in c.gangs}
    return counted.issuperset(state.plan) and not any(gangs[g].home for g in counted)


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """What lies in the blocks so far; `placed[C]` gangs of each class, the oldest."""

    placed: Ints
    domains: dict[int, dict[int, int]]


class _Weights(NamedTuple):
    """What gangs of each class count in a block [C], and prices of the kinds of parts [K]."""

    gangs: Ints
    prices: Floats


class UnlikeBlocks:
    """Fills blocks, each the domains that lie in it."""

    def __init__(
        self, state: State, found: Configurations, blocks: Sequence[Sequence[int]]
    ) -> None:
        self.state, self.found, self.blocks = state, found, blocks
        self.classes = state.counting.classes
        self.there: Ints = np.array([len(c.gangs) for c in self.classes], dtype=np.int64)
        self.master = ConfigurationMaster(found, state.parameters.model)
        self.admitted = [a.placed for a in self.master.admissions()]
        self.terms = self._hold_goals()
        self._content = self._count_content()

    def _hold_goals(self) -> Terms[Var]:
        """Holds all goals before topology; returns what they count, each in its own measure."""
        state, weight_of = self.state, dict[int, int]()
        both = zip(state.goals, state.worth.floors, state.worth.enough, strict=True)
        for goal, floor, enough in both:
            if goal.tier is TierName.TOPOLOGY:
                break
            mine = goal.terms(self.master)
            if mine and not goal.tier.minimize:
                keep(goal, self.master, enough if floor is None else floor)
                measure = GOAL_WEIGHT / max(1, abs(enough))
                for v, w in mine:
                    weight_of[v.index] = weight_of.get(v.index, 0) + round(w * measure)
        variable = self.master.cp.get_int_var_from_proto_index
        return [(variable(i), w) for i, w in weight_of.items()]

    def _count_content(self) -> Ints:
        """What a gang of each class counts, each way [C, K]."""
        counting = self.state.counting
        total = np.zeros((len(self.classes), len(counting.units)), dtype=np.int64)
        for i, c in enumerate(self.classes):
            for content, times in c.parts[0]:
                total[i] += counting.weigh(content) * times
        return total

    def run(self) -> bool:
        """Fills all blocks; returns whether the plan is better than the one there was."""
        state, p = self.state, self.state.parameters
        columns, begin = self.master.columns, time.monotonic()
        end = begin + state.at_most(state.left * p.unlike_end)
        late = begin + state.at_most(state.left * p.unlike_share / 4)
        columns.bound(self.terms, maximize=True, deadline=late)
        weights, prices = self._weights()
        steps = [_Begun(np.zeros_like(self.there), {})]
        for i, block in enumerate(self.blocks):
            share = p.unlike_share / (len(self.blocks) - i)
            step = self._fill(block, steps[-1], weights, prices, state.at_most(state.left * share))
            if step is None:
                return False
            steps.append(step)
        if self._take(steps[-1]):
            return True
        for again in p.unlike_again:
            left = end - time.monotonic()
            if again < len(steps) and left > p.least_seconds:
                whole = self._fill_together(steps[-1 - again], again, prices, left)
                if whole is not None and self._take(whole):
                    return True
        return False

    def _weights(self) -> _Weights:
        """In a measure in which the largest gang has the largest weight."""
        duals = self.master.columns.lp.center
        assert duals is not None
        own = np.zeros(len(self.master.cp.proto.variables))
        for variable, weight in self.terms:
            own[variable.index] += weight
        for row, dual in zip(linear_rows(self.master.cp), duals.rows.tolist(), strict=True):
            if dual:
                for v, w in row.weights:
                    own[v] -= dual * w
        counts = own[[z.index for z in self.admitted]]
        parts = self.found.parts @ duals.kinds
        more = counts - parts
        surplus = self.state.parameters.unlike_surplus
        raw = parts + np.minimum(more, 0) + surplus * np.maximum(more, 0)
        scale = GANG_WEIGHT / max(float(raw.max(initial=0)), 1e-9)
        return _Weights(np.rint(raw * scale).astype(np.int64), duals.kinds * scale)

    # --- one block ------------------------------------------------------------------

    def _fill(
        self, block: Sequence[int], begun: _Begun, weights: Ints, prices: Floats, seconds: float
    ) -> _Begun | None:
        left = np.where(weights > 0, self.there - begun.placed, 0)
        limits = self._tightest(block, left)
        model = GangColumns(self.found, block, left, limits, prices, self.state.parameters.model)
        terms = [(v, int(weights[c])) for c, v in model.gangs.items()]
        return self._solve(model, terms, begun, seconds)

    def _tightest(self, domains: Sequence[int], left: Ints) -> Iterator[Limit]:
        """Rows for all that gangs consist of, also small pods: those that are shortest of room."""
        counting = self.state.counting
        nodes = np.concatenate([counting.topology.inside(self.found.level, d) for d in domains])
        place = self.state.problem.levels[broadest_level(self.state)].place_of
        room = counting.room[:, np.isin(place, place[nodes])].sum(axis=1)
        asked = left @ self._content / np.maximum(room, 1)
        for k in np.argsort(-asked, kind="stable")[: self.state.parameters.unlike_rows].tolist():
            yield Limit(self._content[:, k], int(room[k]))

    @staticmethod
    def _solve(
        model: GangColumns, terms: Terms[Var], begun: _Begun, seconds: float
    ) -> _Begun | None:
        """All columns count: what a block holds is far from what fractions of gangs would."""
        now = time.monotonic()
        bound = model.bound(terms, maximize=True, deadline=now + seconds / 2)
        left, slack = now + seconds - time.monotonic(), abs(bound) + 1
        if model.fill(terms, bound, maximize=True, seconds=left, slack=slack) is None:
            return None
        inside = {d: dict(kinds) for d, kinds in model.domains.items()}
        return _Begun(begun.placed + model.placed(len(begun.placed)), begun.domains | inside)

    # --- the last blocks together ---------------------------------------------------

    def _fill_together(
        self, begun: _Begun, again: int, prices: Floats, seconds: float
    ) -> _Begun | None:
        """The last blocks anew, so that all goals before topology are reached."""
        state, left = self.state, self.there - begun.placed
        domains = [d for block in self.blocks[-again:] for d in block]
        model = GangColumns(
            self.found,
            domains,
            left,
            self._tightest(domains, left),
            prices,
            state.parameters.model,
            Elsewhere(self.master.cp, self.admitted, begun.placed),
        )
        return self._solve(model, self.terms, begun, seconds / 2)

    def _take(self, begun: _Begun) -> bool:
        state = self.state
        gangs: list[GangIdx] = []
        for c, n in zip(self.classes, begun.placed.tolist(), strict=True):
            gangs += c.gangs[:n]
        plan = Realisation(self.found).plan(
            Filling(tuple(gangs), begun.domains),
            seconds=state.at_most(state.left / 4),
            effort=state.parameters.configuration_assignment_effort,
        )
        return state.accept(state.builder.build(orders(state.problem)[0], start=plan))
