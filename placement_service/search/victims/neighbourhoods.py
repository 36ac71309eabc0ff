"""Neighbourhoods of the victim model: a few domains are open, the rest is as in the plan.

Which gangs give way in one block hardly depends on another one, so a few blocks at a time are
settled in a small part of the time that all take. More of them are opened at once when that no
longer helps, and fewer when it takes too long.

The solution of the linear program says where the plan may be wrong: where both agree, most good
plans do, too. So what differs is open alone at first, and where the model is sharp, beside every
choice of domains.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

import numpy as np

from placement_service.cp_sat.linear_model import Question, Solved
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.regions import TINY, Regions
from placement_service.formulation.arrays import Floats
from placement_service.formulation.plan import Plan
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import hold
from placement_service.search.victims.regions import Shortfalls
from placement_service.search.victims.solver_threads import SolverThreads


class Asked(NamedTuple):
    """A neighbourhood that is being settled."""

    question: Question
    #: How many domains are open.
    domains: int


class Neighbourhoods:
    """Better plans for one goal after another. `aim` makes the plan that a solution describes."""

    def __init__(
        self,
        state: State,
        model: VictimModel,
        regions: Regions,
        terms: Sequence[Terms[int] | None],
        rng: random.Random,
        aim: Callable[[Floats], None],
        *,
        leads: bool = False,
    ) -> None:
        """`terms` are those of each goal. With `leads` the linear programs of the model are good
        enough to follow all the time.
        """
        self._state = state
        self._model, self._terms = model, terms
        self._aim = aim
        self._regions = regions
        self._random = rng
        self._leads = leads
        self._most = int(self._regions.count * state.parameters.victim_domains)
        #: The goal that is improved, and what its linear program has.
        self._goal = -1
        self._relaxed: Floats | None = None
        #: By how much domains of plans have less of it than they could.
        self._shortfalls: Shortfalls | None = None
        #: Whether what the linear program has otherwise is open alone next.
        self._alone = False
        #: Domains opened at once, and how often in turn that brought nothing.
        self._width, self._failed = 0.0, 0
        #: The last goal for which they brought nothing more, and the plan that stayed.
        self._in_vain: tuple[int, Plan] | None = None
        #: The present plan, and the domains that were opened in it at once.
        self._opened: tuple[Plan, list[frozenset[int]]] = state.plan, []

    def turn_to(
        self, i: int, relaxed: Floats | None = None, shortfalls: Shortfalls | None = None
    ) -> None:
        """Turns to the i-th goal of the plan, with those before it as good as they are. `relaxed`
        is a solution of the linear program for that goal; `shortfalls` say by how much domains of
        plans have less of it than they could.
        """
        self._failed = 0
        same = relaxed is self._relaxed and shortfalls is self._shortfalls
        if i == self._goal and same:
            return
        self._goal, self._relaxed, self._alone = i, relaxed, relaxed is not None
        self._shortfalls, self._opened = shortfalls, (self._state.plan, [])
        self._width = float(self._fewest)

    @property
    def _follows(self) -> bool:
        return self._leads and self._relaxed is not None

    @property
    def _fewest(self) -> int:
        p = self._state.parameters
        return p.fewest_led_domains if self._follows else p.fewest_domains

    @property
    def goes_on(self) -> bool:
        """Whether there is another one."""
        p = self._state.parameters
        return (
            self._most >= p.fewest_domains
            and self._failed < p.victim_in_vain
            and not self.ended_in_vain(self._goal)
        )

    def ended_in_vain(self, i: int) -> bool:
        """Whether they brought nothing more for the i-th goal of the present plan."""
        return self._in_vain == (i, self._state.plan)

    def ask(self) -> Asked:
        """The next one, as a question."""
        state, model, p, i = self._state, self._model, self._state.parameters, self._goal
        relaxed = self._relaxed if self._follows or self._alone else None
        domains: Sequence[int] = ()
        if not self._alone:
            domains = self._choose(min(self._most, int(self._width)))
        self._alone = False
        mark = model.mark()
        for k, enough in enumerate(state.worth.enough[:i]):
            hold(state.goals[k], self._terms[k], model, enough)
        question = model.ask_whole(
            self._terms[i] or [],
            maximize=not state.goals[i].tier.minimize,
            # Solvers look at the clock late, and their plan is still to be made.
            seconds=state.at_most(min(p.victim_seconds, state.left - p.victim_end)),
            nodes=p.victim_nodes,
            beyond=state.worth.enough[i],
            fixed=self._regions.fixed(state.plan, domains, relaxed),
        )
        model.undo(mark)
        return Asked(question, len(domains))

    def _choose(self, width: int) -> Sequence[int]:
        """So many domains, those in which the plan falls short by much rather than others. Some
        that were opened in the same plan before are as good as never chosen again.
        """
        state, count = self._state, self._regions.count
        if self._opened[0] is not state.plan:
            self._opened = state.plan, []
        opened, weights = self._opened[1], np.full(count, 1.0)
        if self._shortfalls:
            shortfalls = self._shortfalls(state.plan)
            weights = shortfalls / max(shortfalls.sum(), TINY) + state.parameters.victim_chance
        for _ in range(state.parameters.victim_choices):
            # The least of variables with these rates are a sample with these weights (Efraimidis
            # and Spirakis, "Weighted random sampling with a reservoir", 2006).
            drawn = [(self._random.expovariate(w), d) for d, w in enumerate(weights.tolist())]
            chosen = frozenset(d for _, d in sorted(drawn)[:width])
            if not any(chosen <= others for others in opened):
                break
        opened.append(chosen)
        return sorted(chosen)

    def take(self, asked: Asked, found: Solved) -> None:
        """Makes the plan that was found, and opens more or fewer domains the next time."""
        state, p = self._state, self._state.parameters
        before = state.worth
        if found.values is not None:
            self._aim(found.values)
        if state.worth.rank > before.rank:
            self._failed = 0
        elif asked.domains:
            self._failed += 1
            wider = p.led_wider if self._follows else p.wider
            width = self._width + wider if found.proven else self._width - p.narrower
            self._width = max(self._fewest, width)
        if self._failed == p.victim_in_vain:
            self._in_vain = self._goal, state.plan


def improve(
    state: State,
    i: int,
    kinds: Sequence[Neighbourhoods],
    threads: SolverThreads,
    share: float,
    until: Future[Solved] | None = None,
) -> None:
    """Improves the i-th goal of the plan in this share of the time, or until something else is
    solved, by neighbourhoods of these kinds in turn, as many at once as threads are idle.

    Another one may have a better plan meanwhile: then what is found is taken if it is better still.
    """
    least = max(state.left - state.at_most(state.left * share), 2 * state.parameters.victim_end)
    repeatable = state.problem.policy.deterministic
    turns = 0
    while repeatable or not (until and until.done()):
        while (
            threads.idle
            and (able := [kind for kind in kinds if kind.goes_on])
            and not state.reaches(i)
            and state.left > least
            and not (repeatable and threads.owed)
        ):
            kind, turns = able[turns % len(able)], turns + 1
            asked = kind.ask()
            threads.begin(asked.question, partial(kind.take, asked))
        if not threads.owed:
            return
        threads.take(None if repeatable else until)
