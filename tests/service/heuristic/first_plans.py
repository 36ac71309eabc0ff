"""First answers in names."""

from __future__ import annotations

from placement_service.entities.request import Policy, Snapshot
from placement_service.formulation.formulate import formulate
from placement_service.formulation.named_plan import NamedPlan, name_plan
from placement_service.formulation.prepare import prepare
from placement_service.heuristic.first_answer import first_answer
from placement_service.judge.verify import verify


def first_plan(question: Snapshot, policy: Policy) -> NamedPlan:
    """The first answer in names; it keeps every rule."""
    prepared = prepare(question, policy)
    solution = first_answer(formulate(question, policy, prepared))
    plan = name_plan(question, policy, prepared, solution.assignments)
    assert not verify(question, policy, *plan)
    return plan


def evicted(plan: NamedPlan) -> list[str]:
    """Short names of the gangs that lose pods, one for each pod."""
    return sorted(e.gang.rsplit("/", 1)[1] for e in plan.evictions)
