"""Bounds of who gives way in a looser question, from linear programs alone.

Plans of a looser question may break rules, so where many running gangs may give way it is not
worth the time to look for them: the linear programs of the simple victim model take a tenth of a
second, and say nearly as much.
"""

from __future__ import annotations

from contextlib import suppress

from placement_service.cp_sat.linear_model import OutOfTime
from placement_service.cp_sat.victim_model import VictimModel
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import hold
from placement_service.search.victim_aim import settled
from placement_service.search.victim_sums import bound_sum


def many_may_give_way(state: State) -> bool:
    """Whether so many running gangs may that they have a model of their own."""
    return sum(bool(g.home) for g in state.problem.gangs) >= state.parameters.victim_gangs


def bound_victims(state: State) -> None:
    """Bounds of one goal after another, each with those before it at their bounds, and of all
    priorities together.
    """
    if state.proven or state.left <= 0 or any(f is not None for f in state.worth.floors):
        return
    with suppress(OutOfTime):
        model = VictimModel(
            state.problem,
            frozenset(settled(state)),
            state.parameters.model,
            large_only=True,
            until=state.deadline,
        )
        terms = [g.terms(model) if g.tier.provable else None for g in state.goals]
        bound_sum(state, model, terms)
        for i, goal in enumerate(state.goals):
            mine = terms[i]
            if mine is None or state.left <= 0:
                break
            if mine and state.first_open <= i:
                maximize = not goal.tier.minimize
                found = model.relaxed(mine, maximize=maximize, seconds=state.left)
                if found.bound is None:
                    break
                state.learn(i, found.bound)
            hold(goal, mine, model, state.bounds[i])
