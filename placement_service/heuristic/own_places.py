"""Places of gangs that have nodes of their own, before all others are placed."""

from __future__ import annotations

from collections.abc import Iterable

from placement_service.formulation.indices import GangIdx
from placement_service.formulation.plan import Plan, Units
from placement_service.formulation.problem import Gang
from placement_service.heuristic.orders import orders
from placement_service.heuristic.plan_builder import Builder
from placement_service.heuristic.residual_capacity import ResidualCapacity


def own_places(builder: Builder, gangs: Iterable[GangIdx]) -> Plan:
    """Those of the gangs, the hardest first, that lie at least in part on nodes that others hardly
    want. Gangs in sets, and those of which pods run, are left out: where they lie depends on more.
    """
    problem, own = builder.problem, builder.topology.own_nodes
    bases = {gang.base for gang in problem.gangs}
    able = [
        gang
        for gang in (problem.gangs[i] for i in gangs)
        if gang.base < 0 and gang.index not in bases and not gang.runs
        if any(own(d.pod_class) is not None for d in gang.demands)
    ]
    hardest_first = orders(problem).hardest_first
    residual = ResidualCapacity(problem)
    plan: dict[GangIdx, Units] = {}
    for gang in sorted(able, key=lambda gang: (hardest_first(gang), gang.index)):
        mark, queues = residual.mark(), residual.queues.left
        builder.add(residual, plan, gang)
        if not _uses_own(builder, gang, plan.get(gang.index, ())):
            residual.undo(mark)
            residual.queues.left = queues
            plan.pop(gang.index, None)
    return plan


def _uses_own(builder: Builder, gang: Gang, units: Units) -> bool:
    for demand, node, _ in units:
        own = builder.topology.own_nodes(gang.demands[demand].pod_class)
        if own is not None and (own == node).any():
            return True
    return False
