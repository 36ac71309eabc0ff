"""The plan that a solution of the victim model means, and the gangs that no good plan evicts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from placement_service.cp_sat.victims.model import VictimModel
from placement_service.cp_sat.victims.target import target_of
from placement_service.entities.deadline import OutOfTime
from placement_service.formulation.arrays import Floats
from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units, has_minimum
from placement_service.formulation.tiers.admitted import Admitted
from placement_service.heuristic.orders import narrowest_first, orders
from placement_service.heuristic.plan_builder import bases_first
from placement_service.heuristic.residual_capacity import ResidualCapacity
from placement_service.search.incumbent import State


def aim(state: State, model: VictimModel, values: Floats) -> None:
    """Makes the plan that a solution describes, and takes it if it is better."""
    with suppress(OutOfTime), state.builder.ending(state.deadline):
        accept_filled(state, _aimed(state, model, values))


def _aimed(state: State, model: VictimModel, values: Floats) -> Plan:
    """The plan that a solution describes. Raises OutOfTime."""
    target = target_of(model, values)
    problem, builder, hardest = state.problem, state.builder, narrowest_first(state.problem)
    gangs = problem.gangs
    plan: dict[GangIdx, Units] = {}
    for gang in bases_first(gangs[g] for g, units in target.staying.items() if units):
        units = target.staying[gang.index]
        # The model does not know of which requirement the pods are that stay.
        if (model.moves or has_minimum(gang, units)) and builder.base_is_placed(gang, plan):
            plan[gang.index] = units
    residual = ResidualCapacity(problem)
    residual.take_plan(plan)
    for gang in bases_first(sorted((gangs[g] for g in target.places), key=hardest)):
        if not builder.base_is_placed(gang, plan):
            continue
        if gang.index in plan:
            # Only extras of it move.
            builder.move(residual, plan, gang)
            continue
        nodes = target.places[gang.index]
        found = builder.place(residual, gang, within=nodes)
        if found is None:
            found = builder.place(residual, gang)
        if found is not None:
            plan[gang.index] = found
            residual.queues.charge(gang, found)
    left = [g for g in problem.gangs if g.home and plan.get(g.index, ()) != g.home]
    left.sort(key=lambda g: (-g.priority, -g.value, g.index))
    builder.put_back_home(residual, plan, [g.index for g in left])
    if model.moves:
        left.sort(key=hardest)
        for gang in (g for g in left if plan.get(g.index, ()) != g.home):
            builder.move(residual, plan, gang)
    return plan


def accept_filled(state: State, plan: Plan) -> None:
    """Takes a plan, with all else that fits, if it is better."""
    state.accept(
        state.builder.build(orders(state.problem).required_first, start=plan, until=state.deadline)
    )


def settled(state: State) -> Iterator[GangIdx]:
    """Running gangs without which no plan is as good: this one leaves out less than they count."""
    gangs = state.problem.gangs
    if any(floor is not None for floor in state.worth.floors) or any(g.keeps for g in gangs):
        return
    for goal, value in list(zip(state.goals, state.worth.values, strict=True))[
        : state.first_open + 1
    ]:
        if isinstance(goal, Admitted):
            left_out = goal.trivial_bound() - value
            yield from (
                g
                for g in goal.gangs
                # Where it begins anew it counts as much.
                if gangs[g].home and gangs[g].not_with < 0 and gangs[g].value > left_out
            )
