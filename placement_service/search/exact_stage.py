"""The descent of the exact model, over the whole problem or over one gang alone."""

from __future__ import annotations

import time

import numpy as np

from placement_service.cp_sat.exact.model import ExactModel, size_of
from placement_service.cp_sat.exact.objective import Goals
from placement_service.cp_sat.solving import Var
from placement_service.cp_sat.subproblem import Subproblem
from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang
from placement_service.formulation.tiers.goal import Terms
from placement_service.formulation.tiers.topology import gang_domains
from placement_service.heuristic.orders import orders
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.incumbent import State
from placement_service.search.lexicographic import descend


def settle_exact(state: State) -> None:
    """Better plans and better bounds of all goals, where the problem is small."""
    if state.left <= 0:
        return
    problem, p = state.problem, state.parameters
    gangs = [g for g in problem.gangs if g.placeable and (g.pending or g.extras)]
    everywhere = np.arange(problem.node_count)
    polish = any(
        value and not goal.tier.provable
        for goal, value in zip(state.goals, state.worth.values, strict=True)
    )
    if not gangs or (state.proven and not polish):
        return
    size = size_of(problem, gangs, everywhere)
    if size > (p.exact_polish_variables if state.proven else p.exact_variables):
        return
    state.phase = "exact"
    # What takes half of the time to build is not solved in the other half.
    until = time.monotonic() + state.at_most(state.left / 2)
    try:
        exact = ExactModel(
            state.counting,
            Subproblem(gangs, everywhere, problem.free, {}),
            parameters=p.model,
            until=until,
        )
    except OutOfTime:
        return
    model = Goals(exact)

    def settle(i: int, terms: Terms[Var]) -> int | None:
        tier = state.goals[i].tier
        if not tier.provable:
            if size <= p.exact_polish_variables:
                _best(state, model, i, terms, p.exact_polish_effort, tries=1)
            return state.worth.values[i]
        if not state.reaches(i):
            bound = _best(state, model, i, terms, p.exact_effort)
            if not tier.minimize:
                _place_anew(state)
            if bound is not None:
                state.learn(i, bound)
        return state.worth.enough[i] if state.reaches(i) else None

    descend(state.goals, model, settle)


def _best(
    state: State, model: Goals, i: int, terms: Terms[Var], effort: float, tries: int = 2
) -> int | None:
    """Settle one goal: take a better plan, return the proven bound."""
    p = state.parameters
    maximize = not state.goals[i].tier.minimize
    bounds: list[int] = []
    for portfolio, share in ((False, effort), (True, p.exact_hard_effort))[:tries]:
        if state.left <= 0:
            break
        # A goal that is not settled leaves half of the time to the neighbourhoods.
        answer = model.solve(
            terms,
            maximize=maximize,
            hint=state.plan,
            seconds=state.at_most(state.left / 2),
            effort=share,
            portfolio=portfolio,
        )
        if answer.plan is not None:
            state.accept(_with_needless_at_home(state, _without_new_beginnings(state, answer.plan)))
            state.accept(_with_needless_at_home(state, answer.plan))
            state.accept(answer.plan)
        if answer.bound is not None:
            bounds.append(answer.bound)
        if answer.proven or model.model.size > p.exact_portfolio_variables:
            break
    return (min if maximize else max)(bounds, default=None)


def _without_new_beginnings(state: State, plan: Plan) -> Plan:
    """The plan without gangs that begin anew: to the model they count as much as what ran of them,
    which can hardly come home beside them.
    """
    gangs = state.problem.gangs
    return {index: units for index, units in plan.items() if not gangs[index].begins_anew}


def _with_needless_at_home(state: State, plan: Plan) -> Plan:
    """The plan with victims at home whose room no gang took: later goals decide who goes."""
    problem = state.problem
    gone = [g for g in problem.gangs if g.home and plan.get(g.index, ()) != g.home]
    if not gone:
        return plan
    residual, changed = ResidualCapacity(problem), dict(plan)
    residual.take_plan(plan)
    gone.sort(key=lambda g: (-g.priority, -g.value, g.index))
    state.builder.put_back_home(residual, changed, [g.index for g in gone])
    return changed


def _place_anew(state: State) -> None:
    """Places the gangs of the plan anew: the solution of one goal is arbitrary in the goals after
    it.
    """
    for order in orders(state.problem):
        if state.left > 0:
            state.accept(state.builder.build(order, first=state.plan, until=state.deadline))


def measure_fewest(state: State) -> None:
    """The fewest domains that each placed gang could use, alone on the snapshot.

    Known at once where the counting bound is reached, by the plan or by placing the gang first,
    else by the exact model of the gang alone, as far as time and size allow.
    """
    if state.left <= 0 and not state.ground.is_counting:
        return
    problem = state.problem
    empty = ResidualCapacity(problem)
    known: dict[object, int | None] = {}
    # A bound of a stricter problem is not one of the request.
    for index, units in state.plan.items() if problem.exact else ():
        gang = problem.gangs[index]
        if not gang.pending or all(s.preferred < 0 for s in gang.scopes):
            continue
        fewest: int | None = state.counting.fewest(gang)
        if gang_domains(problem, gang, units) != fewest:
            alike = state.counting.first_alike(gang), gang.rests_on, gang.home
            if alike not in known:
                if state.left <= 0:
                    continue
                alone = _lies_in(state, empty, gang) == fewest
                known[alike] = fewest if alone else _fewest_alone(state, gang, units)
            fewest = known[alike]
        if fewest is not None:
            state.fewest[index] = fewest


def _lies_in(state: State, empty: ResidualCapacity, gang: Gang) -> int | None:
    """How many domains a gang uses that is placed before all others; None if it is not."""
    mark = empty.mark()
    units = state.builder.place(empty, gang)
    empty.undo(mark)
    return None if units is None else gang_domains(state.problem, gang, units)


def _fewest_alone(state: State, gang: Gang, units: Units) -> int | None:
    """The fewest domains of a gang by the exact model, where it is small; None if not known."""
    problem, p = state.problem, state.parameters
    everywhere = np.arange(problem.node_count)
    if size_of(problem, [gang], everywhere) > p.exact_polish_variables:
        return None
    alone = Goals(
        ExactModel(
            state.counting,
            Subproblem([gang], everywhere, problem.free, {}),
            gang.rests_on,
            p.model,
        )
    )
    alone.hold([(a.placed, 1) for a in alone.admissions()], at_least=1)
    alone.hold(alone.extra_units(None), at_most=0)
    answer = alone.solve(
        alone.domains,
        maximize=False,
        hint={gang.index: units},
        seconds=state.left,
        effort=p.alone_effort,
    )
    if answer.proven and answer.plan is not None:
        return gang_domains(problem, gang, answer.plan[gang.index])
    return None
