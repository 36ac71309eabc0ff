"""Fills blocks of unlike racks with whole gangs, by configurations of the racks of each alone.

At first a gang counts mostly what its parts are worth in the whole cluster, by the duals of a
linear program over all racks, so that the first blocks do not take what later ones need. Then one
block after another is filled again, the last first, with what the goals before topology lack. Where
too little is placed in the end, the last blocks are filled again together, and gangs there may be
split. This gives plans, never bounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.configurations.columns import Domains
from placement_service.cp_sat.configurations.gang_columns import Elsewhere, GangColumns, Limit
from placement_service.cp_sat.configurations.lp import Column, Floats, linear_rows
from placement_service.cp_sat.configurations.master import ConfigurationMaster, Filling
from placement_service.cp_sat.solving import Var, hold
from placement_service.entities.solution import TierName
from placement_service.formulation.arrays import Ints
from placement_service.formulation.indices import DemandIdx, GangIdx, NodeIdx
from placement_service.formulation.problem import UnitsOnNode
from placement_service.formulation.tiers.goal import Goal, Terms
from placement_service.heuristic.orders import orders
from placement_service.search.blocks.problem import broadest_level
from placement_service.search.configurations.plan import Realisation
from placement_service.search.incumbent import State

#: What has to stay of each goal weighs so much in the whole cluster, and the largest gang in one
#: block: finer weights would take longer, and say no more.
GOAL_WEIGHT = 10**9
FLOOR_WEIGHT = 10**6
GANG_WEIGHT = 1_000

#: The weight of goals of which enough is placed, where the others weigh one.
REACHED = 0.02

#: Goals of who is admitted do not ask where.
SOMEWHERE = (UnitsOnNode(DemandIdx(0), NodeIdx(0), 1),)


@dataclass(frozen=True, slots=True, eq=False)
class _Content:
    """`placed[B, C]` gangs of each class in each block, the oldest; what lies in the domains."""

    placed: Ints
    domains: Domains

    def beside(self, blocks: Sequence[int]) -> Ints:
        """How many gangs of each class lie in all other blocks [C]."""
        found: Ints = self.placed.sum(axis=0) - self.placed[list(blocks)].sum(axis=0)
        return found


class _Filled(NamedTuple):
    """What was filled, and whether that was all blocks."""

    content: _Content
    complete: bool


class _Weights(NamedTuple):
    """What gangs of each class count in a block [C], and prices of the kinds of parts [K]."""

    gangs: Ints
    prices: Floats


class _Wanted(NamedTuple):
    """A goal before topology, its terms in a model of all gangs, and how much of it has to stay."""

    goal: Goal
    terms: Terms[Var]
    floor: int


class UnlikeFilling:
    """Fills blocks, each the domains that lie in it. The master holds all goals before topology."""

    def __init__(
        self, state: State, master: ConfigurationMaster, blocks: Sequence[Sequence[int]]
    ) -> None:
        self.state, self.master, self.blocks = state, master, blocks
        self.found = master.configurations
        self.classes = state.counting.classes
        self.there: Ints = np.array([len(c.gangs) for c in self.classes], dtype=np.int64)
        #: All gangs where nothing is held.
        self.open = ConfigurationMaster(self.found, state.parameters.model)
        self.wanted = self._wanted(self.open)
        self._content = self._count_content()
        #: Columns of blocks that were filled before.
        self._columns: dict[int, Sequence[Column]] = {}

    def _wanted(self, master: ConfigurationMaster) -> list[_Wanted]:
        state, found = self.state, list[_Wanted]()
        both = zip(state.goals, state.worth.floors, state.worth.enough, strict=True)
        for goal, floor, enough in both:
            if goal.tier is TierName.TOPOLOGY:
                break
            terms = goal.terms(master)
            if terms and not goal.tier.minimize:
                found.append(_Wanted(goal, terms, enough if floor is None else floor))
        return found

    def _count_content(self) -> Ints:
        """What a gang of each class counts, each way [C, K]."""
        counting = self.state.counting
        total = np.zeros((len(self.classes), len(counting.units)), dtype=np.int64)
        for i, c in enumerate(self.classes):
            for content, times in c.parts[0]:
                total[i] += counting.weigh(content) * times
        return total

    def run(self, *, tries: bool) -> None:
        """Fills all blocks; takes a plan that is better than the one there was. Where it only
        `tries` it ends as soon as too much is lacking, and fills no blocks together, so that
        another search has the time.
        """
        state, p = self.state, self.state.parameters
        begin = time.monotonic()
        most = begin + state.at_most(state.left * p.unlike_share)
        end = begin + state.at_most(state.left * p.unlike_end)
        weights = self._weigh(begin + state.at_most(state.left * p.unlike_share / 4))
        content, complete = self._fill_one_by_one(weights, most)
        if not complete or (tries and self._rank(content) < -p.unlike_hopeless):
            # Blocks that are filled well, and greedily what is left, may be the best so far.
            if tries:
                self._take(content)
            return
        content = self._fill_again(content, weights.prices, end if tries else most)
        if (self._take(content) and state.packs) or tries:
            return
        for last in p.unlike_again:
            left = end - time.monotonic()
            if last <= len(self.blocks) and left > p.least_seconds:
                blocks = range(len(self.blocks) - last, len(self.blocks))
                whole = self._aim(content, blocks, weights.prices, left / 2, must=True)
                if whole is not None and self._take(whole) and state.packs:
                    return

    # --- by what parts are worth ------------------------------------------------------

    def _weigh(self, deadline: float) -> _Weights:
        """In a measure in which the largest gang has the largest weight."""
        cp, columns = self.master.cp, self.master.columns
        terms = _together([(w, 1.0) for w in self._wanted(self.master)], GOAL_WEIGHT)
        columns.bound(
            [(cp.get_int_var_from_proto_index(v), w) for v, w in terms.items()],
            maximize=True,
            deadline=deadline,
        )
        duals = columns.lp.center
        assert duals is not None
        own = np.zeros(len(cp.proto.variables))
        own[list(terms)] = list(terms.values())
        for row, dual in zip(linear_rows(cp), duals.rows.tolist(), strict=True):
            if dual:
                for v, w in row.weights:
                    own[v] -= dual * w
        counts = own[[a.placed.index for a in self.master.admissions()]]
        parts = self.found.parts @ duals.kinds
        more = counts - parts
        surplus = self.state.parameters.unlike_surplus
        raw = parts + np.minimum(more, 0) + surplus * np.maximum(more, 0)
        scale = GANG_WEIGHT / max(float(raw.max(initial=0)), 1e-9)
        return _Weights(np.rint(raw * scale).astype(np.int64), duals.kinds * scale)

    def _fill_one_by_one(self, weights: _Weights, end: float) -> _Filled:
        """All blocks; not completely where that would take too long, so that others have time."""
        p, blocks = self.state.parameters, len(self.blocks)
        content = _Content(np.zeros((blocks, len(self.classes)), dtype=np.int64), {})
        begin = time.monotonic()
        for b in range(blocks):
            left = end - time.monotonic()
            if left < (1 - b / blocks) * (end - begin) / p.unlike_patience:
                return _Filled(content, complete=False)
            share = min(1.0, p.unlike_patience / (blocks - b))
            filled = self._fill(content, b, weights, share * left)
            if filled is None:
                return _Filled(content, complete=False)
            content = filled
        return _Filled(content, complete=True)

    def _fill(
        self, content: _Content, block: int, weights: _Weights, seconds: float
    ) -> _Content | None:
        left = np.where(weights.gangs > 0, self.there - content.placed.sum(axis=0), 0)
        domains = self.blocks[block]
        limits = self._tightest(domains, left)
        parameters = self.state.parameters.model
        model = GangColumns(self.found, domains, left, limits, weights.prices, parameters)
        terms = [(v, int(weights.gangs[c])) for c, v in model.gangs.items()]
        return self._solve(model, terms, content, [block], seconds)

    # --- by what goals lack -------------------------------------------------------------

    def _fill_again(self, content: _Content, prices: Floats, end: float) -> _Content:
        """One block after another, as long as goals lack something and that helps."""
        rank, vain, b = self._rank(content), 0, len(self.blocks)
        while rank < 0 and vain < len(self.blocks):
            left = end - time.monotonic()
            if left <= self.state.parameters.least_seconds:
                break
            b = (b or len(self.blocks)) - 1
            filled = self._aim(content, [b], prices, left)
            vain += 1
            if filled is not None and self._rank(filled) > rank:
                content, rank, vain = filled, self._rank(filled), 0
        return content

    def _aim(
        self,
        content: _Content,
        blocks: Sequence[int],
        prices: Floats,
        seconds: float,
        *,
        must: bool = False,
    ) -> _Content | None:
        """Some blocks together anew, with more of the goals that lack something; if it `must`, with
        all that has to stay.
        """
        beside, cp = content.beside(blocks), self.open.cp.clone()
        weighed = []
        for wanted, value in zip(self.wanted, self._values(content), strict=True):
            reached = value >= wanted.floor
            if reached or must:
                hold(cp, wanted.terms, wanted.floor, None)
            weighed.append((wanted, REACHED if reached and not must else 1.0))
        left, domains = self.there - beside, [d for b in blocks for d in self.blocks[b]]
        admitted = [a.placed for a in self.open.admissions()]
        model = GangColumns(
            self.found,
            domains,
            left,
            self._tightest(domains, left),
            prices,
            self.state.parameters.model,
            Elsewhere(cp, admitted, beside),
        )
        variable = model.cp.get_int_var_from_proto_index
        terms = [(variable(v), w) for v, w in _together(weighed, FLOOR_WEIGHT).items()]
        return self._solve(model, terms, content, blocks, seconds)

    def _values(self, content: _Content) -> list[int]:
        plan = dict.fromkeys(self._gangs(content), SOMEWHERE)
        return [wanted.goal.value(plan) for wanted in self.wanted]

    def _rank(self, content: _Content) -> float:
        """What goals lack of what has to stay, as a share of it; larger is better, 0 is enough."""
        both = zip(self._values(content), self.wanted, strict=True)
        return -sum(max(0, w.floor - value) / max(1, w.floor) for value, w in both)

    # --- both -----------------------------------------------------------------------------

    def _tightest(self, domains: Sequence[int], left: Ints) -> Iterator[Limit]:
        """Rows for all that gangs consist of, also small pods: those that are shortest of room."""
        counting = self.state.counting
        nodes = np.concatenate([counting.topology.inside(self.found.level, d) for d in domains])
        place = self.state.problem.levels[broadest_level(self.state)].place_of
        room = counting.room[:, np.isin(place, place[nodes])].sum(axis=1)
        asked = left @ self._content / np.maximum(room, 1)
        for k in np.argsort(-asked, kind="stable")[: self.state.parameters.unlike_rows].tolist():
            yield Limit(self._content[:, k], int(room[k]))

    def _solve(
        self,
        model: GangColumns,
        terms: Terms[Var],
        content: _Content,
        blocks: Sequence[int],
        seconds: float,
    ) -> _Content | None:
        """All columns count: what a block holds is far from what fractions of gangs would."""
        now, alone = time.monotonic(), blocks[0] if len(blocks) == 1 else -1
        for column in self._columns.get(alone, ()):
            model.lp.add(column)
        bound = model.bound(terms, maximize=True, deadline=now + seconds * 3 / 4)
        left, slack = now + seconds - time.monotonic(), abs(bound) + 1
        if model.fill(terms, bound, maximize=True, seconds=left, slack=slack) is None:
            return None
        if alone >= 0:
            self._columns[alone] = model.lp.columns
        placed = content.placed.copy()
        placed[list(blocks)] = 0
        placed[blocks[0]] = model.placed(len(self.classes))
        mine = {d for b in blocks for d in self.blocks[b]}
        others = {d: kinds for d, kinds in content.domains.items() if d not in mine}
        return _Content(placed, others | {d: dict(kinds) for d, kinds in model.domains.items()})

    def _gangs(self, content: _Content) -> tuple[GangIdx, ...]:
        both = zip(self.classes, content.placed.sum(axis=0).tolist(), strict=True)
        return tuple(g for c, n in both for g in c.gangs[:n])

    def _take(self, content: _Content) -> bool:
        """Takes the plan if it is better, with or without what fits beside the blocks."""
        state = self.state
        plan = Realisation(self.found).plan(
            Filling(self._gangs(content), content.domains),
            seconds=state.at_most(state.left / 4),
            effort=state.parameters.configuration_assignment_effort,
        )
        whole = state.accept(plan)
        order = orders(state.problem).required_first
        return state.accept(state.builder.build(order, start=plan, until=state.deadline)) or whole


def _together(weighed: Sequence[tuple[_Wanted, float]], weight: int) -> Mapping[int, int]:
    """The sum of goals by variable, in which what has to stay of each weighs as much."""
    found: dict[int, int] = {}
    for wanted, share in weighed:
        measure = share * weight / max(1, abs(wanted.floor))
        for v, w in wanted.terms:
            found[v.index] = found.get(v.index, 0) + round(w * measure)
    return found
