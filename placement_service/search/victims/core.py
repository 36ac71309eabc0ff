"""The joint choice of domains: all waiting gangs at once, where running gangs give way.

Placing one gang after another does not find it: the cheapest domain of one gang may be the only
cheap one of another, and each uses up what victims can spare. The whole victim model finds it late.
So a core of the model is settled first: for each part the domains in which room for it alone costs
least and that of the plan, there and anywhere the nodes that cost least, and all nodes that the
plan uses (`cheap_room`). The core is some hundred nodes of thousands, and is settled in a second,
or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.formulation.tiers.goal import Goal, Terms
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep
from placement_service.search.victims.aim import aim, settled
from placement_service.search.victims.solver_threads import SolverThreads


def several_wait(state: State) -> bool:
    """Whether several gangs wait that do not run yet."""
    return sum(not g.home for g in state.problem.pending) > 1


class Cores:
    """Better plans from one core after another, where several gangs wait."""

    def __init__(self, state: State, threads: SolverThreads) -> None:
        self._state, self._threads = state, threads
        self._domains = state.parameters.core_domains
        #: Whether there is no other one, or it is not worth its time.
        self._ended = not several_wait(state)
        #: Whether the first was settled in its time. Where it is not, other methods are faster.
        self.first_settled = False

    def begin(self) -> None:
        """Begins to settle the next core, if there is one."""
        state, p = self._state, self._state.parameters
        if self._domains > p.most_core_domains or state.proven or state.left <= p.least_seconds:
            self._ended = True
        if self._ended:
            return
        model = VictimModel(
            state.problem,
            tuple(settled(state)),
            p.model,
            large_only=True,
            core=state.ground.cheap_room.core(self._domains, state.plan),
            until=state.deadline,
        )
        for goal, reached in zip(state.goals, state.worth.enough[: state.first_open], strict=False):
            keep(goal, model, reached)
        together = _together(state, model)
        if together is None:
            # It has no part in any open goal.
            self._ended = True
            return
        question = model.ask_whole(
            together.terms,
            maximize=True,
            seconds=state.at_most(p.core_seconds * self._domains),
            nodes=p.victim_nodes,
            beyond=together.reached,
        )
        self._threads.begin(question, partial(self._take, model))

    def _take(self, model: VictimModel, found: Solved) -> None:
        """Takes the best plan of the core that was begun."""
        state = self._state
        known, first = state.worth, self._domains == state.parameters.core_domains
        if found.values is not None:
            aim(state, model, found.values)
        self.first_settled |= first and found.proven
        if found.proven:
            self._domains *= 2
        elif first or state.worth == known:
            self._ended = True

    def settle(self) -> None:
        """Settles one after another, as long as that helps."""
        while not self._ended:
            self.begin()
            self._threads.take()


class _Together(NamedTuple):
    """Some goals as one that is maximised, and what the plan has of it."""

    terms: Terms[int]
    reached: int


def _together(state: State, model: VictimModel) -> _Together | None:
    """The first open goal and those behind it, each of which counts far less, up to `extra`; None
    where the model has no part in any of them.
    """
    goals = list(_open_goals(state, model))
    if not goals:
        return None
    ranks = list(dict.fromkeys((g.tier, g.priority) for g, _, _ in goals))
    largest = max(g.unit for g, _, _ in goals)
    terms: Counter[int] = Counter()
    reached = 0
    for goal, mine, value in goals:
        # So many reported units of a goal count as one of the goal before it.
        behind = len(ranks) - 1 - ranks.index((goal.tier, goal.priority))
        each = state.parameters.core_rate**behind * (largest // goal.unit)
        sign = -each if goal.tier.minimize else each
        for v, w in mine:
            terms[v] += sign * w
        reached += sign * value
    return _Together(list(terms.items()), reached)


def _open_goals(state: State, model: VictimModel) -> Iterator[tuple[Goal, Terms[int], int]]:
    """The goals that the plan does not reach, their terms, and what it has of them: the first, and
    those behind it up to `extra`; goals that count the same only once.
    """
    known: list[Terms[int]] = []
    for i, goal in enumerate(state.goals):
        if known and goal.tier.minimize:
            # What is evicted is mostly extras, and those are counted.
            return
        terms = goal.terms(model)
        if terms and not state.reaches(i) and terms not in known:
            known.append(terms)
            yield goal, terms, state.worth.enough[i]
