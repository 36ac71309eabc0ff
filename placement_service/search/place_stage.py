"""Count, place by place, which gangs can lie whole where they prefer to: a bound of topology."""

from __future__ import annotations

import time
from typing import NamedTuple

from placement_service.bounds.place_rows import PlaceRows
from placement_service.cp_sat.admission.master import AdmissionMaster, Torn
from placement_service.cp_sat.solving import Answer, Var, span
from placement_service.entities.solution import TierName
from placement_service.formulation.tiers.goal import Terms
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import keep

#: The time that a model takes, as a multiple of counting its rows.
BUILDING = 3.0


def count_places(state: State) -> None:
    """The bound of topology among plans that reach the bounds before it, where that is settled."""
    at = state.first_open
    before = state.bounds[:at]
    if not _is_open(state) or state.counted_places == before:
        return
    state.counted_places = before
    # What gangs of several places use takes longer to settle and is seldom more: `confirm_places`
    # counts it once there is a plan that may be the best.
    master = _master(state, at, wide=False, each=True)
    terms = state.goals[at].terms(master) if master else None
    if not master or terms is None or not any(span([term]) for term in terms):
        return
    answer = master.solve(
        terms,
        maximize=False,
        seconds=state.at_most(state.left / 2),
        effort=state.parameters.place_effort,
    )
    if answer.bound is not None:
        state.learn(at, answer.bound)


class _Question(NamedTuple):
    """A master with places of one level, and what is to be least: the terms of the `goal`-th goal,
    topology.
    """

    master: AdmissionMaster
    terms: Terms[Var]
    goal: int


def least_torn(
    state: State, level: int, *, wide: bool = False, longer: bool = False
) -> Torn | None:
    """The gangs that are torn at least in a plan of the best goals before topology, by counting
    each place of a level by itself. What it admits is the target from then on. None where that is
    not settled soon; it takes `longer`, and then few will do.
    """
    asked, p = _question(state, level, wide=wide), state.parameters
    if asked is None:
        return None
    master, at = asked.master, asked.goal
    # With the gangs of the target alone it takes a third of the time, and mostly no others that are
    # worth as much do with fewer domains.
    with master.admitting(state.target):
        effort = p.place_torn_long_effort if longer else p.place_torn_brief_effort
        answer = _fewest(state, asked, effort=effort, direct=True)
    if answer.value is None or not (answer.proven or longer):
        return None
    torn = master.torn
    if answer.proven and answer.value > state.bounds[at]:
        master.hold(asked.terms, at_most=answer.value - 1)
        fewer = _fewest(state, asked, effort=p.place_torn_effort, direct=True)
        if fewer.value is not None:
            torn = master.torn
            state.target, state.layout = master.gangs, master.layout
        elif fewer.proven:
            state.learn(at, answer.value)
        if fewer.bound is not None:
            state.learn(at, fewer.bound)
    return torn


def wide_places(state: State, level: int) -> Torn | None:
    """The places of a level that gangs need which none of them can hold, as if no other gang had to
    lie whole. That is settled soon also where it takes long to say which others can. None where
    counting knows of no such gang.
    """
    if not (state.bounds[state.topology] and state.ground.places(level).beyond):
        return None
    asked = _question(state, level, wide=True, alone=True)
    if asked is None:
        return None
    # There is more to prepare than where no gang is wide, and places that a relaxation names are
    # rarely those beside which all others find a block.
    effort = state.parameters.place_torn_effort
    answer = _fewest(state, asked, effort=effort, direct=False)
    if answer.bound is not None:
        state.learn(asked.goal, answer.bound)
    if not answer.proven or answer.value is None:
        return None
    return Torn(places=asked.master.torn.places)


def _question(state: State, level: int, *, wide: bool, alone: bool = False) -> _Question | None:
    """How many domains are used at least, by places of a level; see `AdmissionMaster`. None where
    that takes long, or nothing depends on them.
    """
    at, p = state.topology, state.parameters
    if state.left <= p.least_seconds or len(state.counting.units) > p.place_torn_ways:
        return None
    master = _master(state, at, wide=wide, each=False, only=level, alone=alone)
    terms = state.goals[at].terms(master) if master else None
    if not master or terms is None or not any(span([term]) for term in terms):
        return None
    if wide and not master.counts_wide:
        return None
    return _Question(master, terms, at)


def _fewest(state: State, asked: _Question, *, effort: float, direct: bool) -> Answer:
    return asked.master.solve(
        asked.terms,
        maximize=False,
        seconds=state.at_most(state.left / 4),
        effort=effort,
        direct=direct,
        near=direct,
        by_lp=direct,
    )


def confirm_places(state: State) -> None:
    """The bound of topology where counting soon shows that no plan is better than this one. That is
    easier to show than the value of the best one.
    """
    at = state.first_open
    master = _master(state, at, wide=True, each=True) if _is_open(state) else None
    terms = state.goals[at].terms(master) if master else None
    if not master or terms is None or not any(span([term]) for term in terms):
        return
    reached = state.worth.enough[at]
    master.hold(terms, at_most=reached - 1)
    better = master.solve(
        [],
        maximize=False,
        seconds=state.at_most(state.left / 2),
        effort=state.parameters.place_brief_effort,
        direct=True,
    )
    if better.proven and better.value is None:
        state.learn(at, reached)


def _is_open(state: State) -> bool:
    """Whether topology is the first goal that is not proven."""
    if state.left <= state.parameters.least_seconds:
        return False
    return state.open_tier is TierName.TOPOLOGY


def _master(
    state: State,
    at: int,
    *,
    wide: bool,
    each: bool,
    only: int | None = None,
    alone: bool = False,
) -> AdmissionMaster | None:
    """The master with places of the levels that gangs prefer, or of one `only`, held at all goals
    before `at`.
    """
    begin = time.monotonic()
    places = [rows for rows in _places(state) if only in (None, rows.level)]
    if not places or state.left <= BUILDING * (time.monotonic() - begin):
        return None
    model = state.parameters.model
    master = AdmissionMaster(state.counting, model, places, wide=wide, each=each, alone=alone)
    before = zip(state.goals, state.worth.floors, state.bounds, strict=True)
    for goal, floor, bound in list(before)[:at]:
        keep(goal, master, bound if floor is None else floor)
    return master


def _places(state: State) -> list[PlaceRows]:
    """The preferred levels whose places are worth distinguishing."""
    counting, levels = state.counting, state.problem.levels
    preferred = {s.preferred for g in state.problem.pending for s in g.scopes} - {-1}
    found = []
    for level in sorted(preferred):
        if levels[level].count * len(counting.classes) <= state.parameters.place_variables:
            rows = state.ground.places(level)
            if (rows.prefer and rows.rows) or rows.beyond:
                found.append(rows)
    return found
