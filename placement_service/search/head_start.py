"""Begins a search before there is a first answer.

The solver process would wait for it, and what comes first needs none: counting, and blocks for all
gangs at once. So both are made meanwhile, and when the first answer comes the search goes on from
there (`State.follow`). Where other things come first, or a clock must decide nothing, only
counting is done; where many running gangs may give way, only prices of their room are found. Where
the first answer is there when counting ends, blocks are left to the search, which can report them.
"""

from __future__ import annotations

from collections.abc import Callable

from placement_service.formulation.objective import to_solution
from placement_service.formulation.problem import Problem
from placement_service.search import groundwork
from placement_service.search.alike_nodes import alike_nodes
from placement_service.search.assign_stage import assign
from placement_service.search.block_stage import told
from placement_service.search.groundwork import Ahead, Groundwork
from placement_service.search.incumbent import State, never
from placement_service.search.master_stage import count


def prepare(
    problem: Problem,
    *,
    deadline: float,
    until: Callable[[], bool] = never,
    asked: Callable[[], bool] = never,
) -> Groundwork:
    """What the search of a problem finds by itself, of which every plan will be told later.

    It ends early, with less of it, when `until` says so. `asked` says that the search is waited
    for.
    """
    alike = alike_nodes(problem)
    problem = problem if alike is None else alike.loose
    ground = groundwork.prepare(problem, deadline=deadline, until=until)
    ground.alike = alike
    if ground.counted is not None and _begins_with_blocks(problem) and not asked():
        ground.ahead = _begun(ground, deadline, until)
    return ground


def _begins_with_blocks(problem: Problem) -> bool:
    """Whether nothing comes before blocks, and how long they take may change the answer."""
    policy = problem.policy
    return not (policy.deterministic or policy.tolerances or any(g.home for g in problem.gangs))


def _begun(ground: Groundwork, deadline: float, until: Callable[[], bool]) -> Ahead | None:
    nothing = to_solution(ground.problem, {})
    state = State(ground.problem, nothing, deadline, None, ground.parameters, ground, until=until)
    count(state)
    mine = told(state, most_nodes=state.parameters.assign_nodes)
    if mine is None or mine.leaves_out:
        return None
    assigned = assign(mine)
    return Ahead(
        state.plan,
        state.worth,
        state.bounds,
        state.target,
        state.layout,
        assigned,
        state.begun,
    )
