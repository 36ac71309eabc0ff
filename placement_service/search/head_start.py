"""Begins a search before there is a first answer.

The solver process would wait for it, and what comes first needs none: counting, and blocks for all
gangs at once. So both are made meanwhile, and when the first answer comes the search goes on from
there (`State.follow`). Where other things come first, or a clock must decide nothing, only
counting is done; where many running gangs may give way, only prices of their room are found. Where
the first answer is there when counting ends, blocks are left to the search, which reports each
plan. Where it comes while blocks are sought, what was counted is reported at once, and each better
plan, too.
"""

from __future__ import annotations

from collections.abc import Callable

from placement_service.entities.solution import Solution
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.formulation.presolve.fewer_columns import with_fewer_columns
from placement_service.formulation.presolve.hopeless_gangs import without_gangs_counted_late
from placement_service.formulation.presolve.implied_room import without_implied_room
from placement_service.formulation.problem import Problem
from placement_service.search import groundwork
from placement_service.search.aggregate_stage import settle_aggregate
from placement_service.search.alike_nodes import NoPlaces, alike_nodes
from placement_service.search.block_guess.stage import assign
from placement_service.search.blocks.stage import told
from placement_service.search.groundwork import Ahead, Groundwork
from placement_service.search.incumbent import Report, State, never
from placement_service.search.master_stage import count, decode_shared
from placement_service.search.node_stage import nodes_come_first
from placement_service.search.refill.stage import refill_domains


def nobody() -> None:
    """There is no first answer as long as blocks are sought."""


def ignore(solution: Solution) -> None:
    """Nobody hears of it."""


def prepare(
    problem: Problem,
    *,
    deadline: float,
    until: Callable[[], bool] = never,
    asked: Callable[[], Solution | None] = nobody,
    report: Report = ignore,
) -> Groundwork:
    """What the search of a problem finds by itself, of which every plan will be told later.

    It ends early, with less of it, when `until` says so. `asked` gives the first answer once it is
    there; from then on the search is waited for, and hears what is reported.
    """
    problem = without_implied_room(without_gangs_counted_late(problem))
    alike = alike_nodes(problem)
    problem = with_fewer_columns(problem) if alike is None else alike.loose
    ground = groundwork.prepare(problem, deadline=deadline, until=until)
    if ground.counted is not None and _begins_with_blocks(problem) and asked() is None:

        def tell(solution: Solution) -> None:
            report(solution if alike is None else alike.exchanged(solution))

        try:
            ground.ahead = _begun(ground, deadline, until, asked, tell)
        except NoPlaces:
            # The looser question is less loose from now on, and the search begins with that.
            assert alike is not None
            ground = Groundwork(alike.loose)
    ground.alike = alike
    return ground


def _begins_with_blocks(problem: Problem) -> bool:
    """Whether nothing comes before blocks, and how long they take may change the answer."""
    policy = problem.policy
    if policy.deterministic or policy.tolerances or any(g.home for g in problem.gangs):
        return False
    return not nodes_come_first(problem)


def _begun(
    ground: Groundwork,
    deadline: float,
    until: Callable[[], bool],
    asked: Callable[[], Solution | None],
    report: Report,
) -> Ahead | None:
    problem, parameters = ground.problem, ground.parameters
    first: State | None = None
    known: Plan = {}

    def over() -> bool:
        # It is asked all the time.
        nonlocal first, known
        start = asked() if first is None else None
        if start is not None:
            first = State(problem, start, deadline, report, parameters, ground)
            first.learn_all(state.bounds)
        if first is not None and known is not state.plan:
            known = state.plan
            first.accept(known)
        return until()

    nothing = to_solution(problem, {})
    state = State(problem, nothing, deadline, None, parameters, ground, until=over)
    count(state)
    settle_aggregate(state, most=parameters.aggregate_first_variables)
    assigned = not state.proven and decode_shared(state)
    refill_domains(state)
    mine = None if state.proven else told(state, most_nodes=parameters.assign_nodes)
    if mine is not None and not mine.leaves_out:
        assigned = assign(mine) or assigned
    elif not (assigned or state.proven):
        return None
    return Ahead(
        state.plan,
        state.worth,
        state.bounds,
        state.target,
        state.layout,
        assigned,
        state.begun,
        state.refilled,
    )
