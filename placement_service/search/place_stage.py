"""Count, place by place, which gangs can lie whole where they prefer to: a bound of topology."""

from __future__ import annotations

from placement_service.bounds.place_rows import PlaceRows
from placement_service.cp_sat.admission_master import AdmissionMaster
from placement_service.cp_sat.solving import span
from placement_service.entities.solution import TierName
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep


def count_places(state: State) -> None:
    """The bound of topology among plans that reach the bounds before it, where that is settled."""
    at = state.first_open
    if not state.packs or state.proven or state.goals[at].tier is not TierName.TOPOLOGY:
        return
    before = state.bounds[:at]
    if state.counted_places == before or state.left <= state.parameters.least_seconds:
        return
    state.counted_places = before
    every = _places(state)
    if not every:
        return
    master = AdmissionMaster(state.counting, state.parameters.model, every)
    for goal, floor, bound in zip(state.goals, state.worth.floors, before, strict=False):
        keep(goal, master, bound if floor is None else floor)
    terms = state.goals[at].terms(master)
    if terms is None or not any(span([term]) for term in terms):
        return
    answer = master.solve(
        terms,
        maximize=False,
        seconds=state.at_most(state.left / 2),
        effort=state.parameters.place_effort,
    )
    if answer.bound is not None:
        state.learn(at, answer.bound)


def _places(state: State) -> list[PlaceRows]:
    """The preferred levels whose places are worth distinguishing."""
    counting, levels = state.counting, state.problem.levels
    preferred = {s.preferred for g in state.problem.pending for s in g.scopes} - {-1}
    found = []
    for level in sorted(preferred):
        if levels[level].count * len(counting.classes) <= state.parameters.place_variables:
            rows = PlaceRows(counting, level)
            if rows.prefer:
                found.append(rows)
    return found
