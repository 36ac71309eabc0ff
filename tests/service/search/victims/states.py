"""Searches of questions about evictions, as they are when victims are looked for."""

from __future__ import annotations

import time
from dataclasses import replace

from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.indices import DemandIdx, NodeIdx
from placement_service.formulation.objective import to_solution
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import UnitsOnNode
from placement_service.search.incumbent import State
from placement_service.search.parameters import DEFAULTS
from tests.waiting import LONG

PARAMETERS = replace(DEFAULTS, victim_gangs=1)


def at(*nodes: int) -> tuple[UnitsOnNode, ...]:
    return tuple(UnitsOnNode(DemandIdx(0), NodeIdx(n), 1) for n in nodes)


def state_of(snapshot: Snapshot, policy: Policy, plan: Plan) -> State:
    problem = formulate(snapshot, policy)
    start = to_solution(problem, plan)
    return State(problem, start, time.monotonic() + LONG, lambda _: None, PARAMETERS)
