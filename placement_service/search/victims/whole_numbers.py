"""A goal that is settled in whole numbers in a thread of its own, beside all else.

The solver adds cuts for seconds before it branches at all, and they are what bounds the hard
questions: so the sooner it begins, the more it proves. It cannot be stopped, and so it begins at
once only where the plan is so far from its bound that all else hardly settles the goal in time.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import NamedTuple

from placement_service.cp_sat.linear_model import Solved
from placement_service.cp_sat.victims.model import VictimModel
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.victims.solver_threads import SolverThreads


class WholeNumbers(NamedTuple):
    """A goal that is being settled by a model, with those before it at their bounds."""

    goal: int
    model: VictimModel
    solving: Future[Solved]


def is_far(state: State, i: int) -> bool:
    """Whether the plan is far from the bound of a goal, and whole numbers have time for it."""
    p = state.parameters
    if state.problem.policy.deterministic or state.left < p.victim_whole_seconds:
        return False
    (tier,) = (t for t in state.solution().tiers if t.name is state.goals[i].tier)
    bound = tier.bound
    return bound is not None and abs(bound - tier.value) > p.victim_far * abs(bound)


def begin_whole(
    state: State,
    threads: SolverThreads,
    model: VictimModel,
    terms: Terms[int],
    i: int,
    *,
    far: bool,
) -> WholeNumbers:
    """Begins to settle a goal by a model in which those before it are held. Where the plan is `far`
    from its bound only cuts count, and these come sooner where the model is not prepared, unless
    there is time to end the search tree: then it is smaller.
    """
    p = state.parameters
    question = model.ask_whole(
        terms,
        maximize=not state.goals[i].tier.minimize,
        # What it has proven is lost where it ends too late, and cuts hardly look at the clock.
        seconds=state.left - (p.victim_late if far else 2 * p.victim_end),
        beyond=state.worth.enough[i],
        presolve=not far or state.left >= p.victim_prepared_seconds,
    )
    return WholeNumbers(i, model, threads.begin(question))
