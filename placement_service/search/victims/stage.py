"""Which gangs give way to which: bounds and plans where running gangs may be disturbed, from the
victim model (`descent`).

Where the simple model does not settle a goal in its time, the sharp one goes on. Where both are
large the linear program of the sharp one takes seconds: it is solved in a thread of its own while
the simple one is asked.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.deadline import OutOfTime
from placement_service.heuristic.victims.make_room import spare_victims
from placement_service.search.groundwork import many_may_give_way
from placement_service.search.incumbent import State
from placement_service.search.victims.aim import accept_filled, settled
from placement_service.search.victims.core import Cores, several_wait
from placement_service.search.victims.descent import Descent
from placement_service.search.victims.solver_threads import SolverThreads


def settle_victims(state: State) -> None:
    """Better plans and better bounds, where many running gangs may give way."""
    many = many_may_give_way(state.problem, state.parameters)
    if not many or state.proven or state.left <= 0:
        return
    state.phase = "victims"
    # A model is not finished when its time is up.
    with suppress(OutOfTime), SolverThreads(state.parameters.victim_threads) as threads:
        _settle(state, threads)
        while threads.owed:
            threads.take()


def _settle(state: State, threads: SolverThreads) -> None:
    p, rng = state.parameters, random.Random(state.parameters.seed)
    share, moves = p.victim_solve_share, any(g.keeps for g in state.problem.gangs)
    cores = Cores(state, threads)
    cores.begin()
    first = Descent(state, threads, rng, _model(state, large_only=True))
    large = first.model.size > p.victim_variables
    if not large:
        # That takes a moment, and cores may take all the time.
        first.bound_goals()
    threads.take()
    sharp: Descent | None = None
    if large and several_wait(state) and not (moves or state.proven):
        model = first.model.sharpened(until=state.deadline)
        sharp = Descent(state, threads, rng, model, sharp=True, beside=first)
        # More cores would take longer than neighbourhoods of both models.
        sharp.begin()
    else:
        cores.settle()
        first.bound_sum()
    until = sharp.begun.solving if sharp and sharp.begun else None
    if moves:
        first.run(share)
    else:
        first.run(p.victim_first_share, patient=True, until=until)
    first.bound_sum()
    if not (moves or cores.first_settled or state.proven) and state.left > 0:
        end = time.monotonic() + state.at_most(state.left * p.victim_spare_share)
        accept_filled(state, spare_victims(state.builder, state.plan, until=end))
    if first.model.leaves_out and not (sharp or state.proven) and state.left > 0:
        Descent(state, threads, rng, _model(state)).run(share)
    if not state.proven and state.left > 0:
        if sharp is None:
            model = _model(state, sharp=True)
            sharp = Descent(state, threads, rng, model, sharp=True, beside=first)
        sharp.run(share)
        if not (moves or sharp.says_more or state.proven) and state.left > 0:
            first.run(share)


def _model(state: State, *, large_only: bool = False, sharp: bool = False) -> VictimModel:
    return VictimModel(
        state.problem,
        settled(state),
        state.parameters.model,
        large_only=large_only,
        sharp=sharp,
        until=state.deadline,
    )
