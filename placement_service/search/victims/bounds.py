"""Bounds of who gives way from the linear programs of the simple victim model alone.

They take a tenth of a second where the model is small, and say nearly as much as whole numbers. So
they come first there. Plans of a looser question may break rules, so it is asked for nothing else
where many running gangs may give way.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import hold
from placement_service.search.victims.aim import settled
from placement_service.search.victims.sums import bound_sum


def bound_victims(state: State) -> None:
    """Bounds of all goals, and of all priorities together."""
    if state.proven or state.left <= 0:
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
        bound_goals(state, model, terms)


def bound_goals(state: State, model: VictimModel, terms: Sequence[Terms[int] | None]) -> None:
    """Bounds of one goal after another, each with those before it at their bounds; `terms` are
    those of each goal.
    """
    if not state.problem.exact or any(floor is not None for floor in state.worth.floors):
        return
    mark = model.mark()
    for i, goal in enumerate(state.goals):
        mine = terms[i]
        if mine is None or state.left <= 0:
            break
        if mine and state.first_open <= i:
            if i and mine == terms[i - 1] and goal.tier is state.goals[i - 1].tier:
                # It counts the same.
                state.learn(i, state.bounds[i - 1])
            else:
                maximize = not goal.tier.minimize
                found = model.relaxed(mine, maximize=maximize, seconds=state.left)
                if found.bound is None:
                    break
                state.learn(i, found.bound)
        hold(goal, mine, model, state.bounds[i])
    model.undo(mark)
